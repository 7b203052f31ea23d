"""How many partitions the records of a node are spread over: from sizes, never from cores."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.combine.step import CombineStep
from spark_jobs.plan import plan as plans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.execute.run.inputs import Inputs

#: For tests and tuning: what a partition of an exchange gets, in bytes of input. Results never depend on it.
PARTITION_BYTES_VARIABLE = "CLINKER_PARTITION_BYTES"
_MOST_PARTITIONS = 512


@dataclass(frozen=True)
class Sizes:
    """What is known of sizes when a job is planned.

    Args:
        plan: the plan.
        inputs: the files.
        memory_share: bytes that each task may hold.
        written: the bytes of what earlier jobs wrote down, by box.
    """

    plan: plans.Plan
    inputs: Inputs
    memory_share: int
    written: Mapping[str, int]

    def partitions(self, name: str) -> int:
        """How many partitions a node's records are spread over."""
        match self.plan.by_name[name].step:
            case AggregateStep(group_by=()):
                return 1
            case AggregateStep() as step:
                return self._share(self._bytes_before(name, len(step.input) + 1))
            case CombineStep() as step:
                return self._of_combine(name, step)
            case _:
                return self._share(self.inputs.bytes_of(self._sources_of(name)))

    def _of_combine(self, name: str, step: CombineStep) -> int:
        """One where each task can have the whole build side, as far as its size is known."""
        if not step.is_keyed:
            return 1
        planned = self.plan.by_name[name]
        first = next(edge for edge in planned.inputs if edge.qualifier == step.builds[0])
        build = self.inputs.bytes_of(self._sources_of(first.node))
        known = self.written.get(step.build_box(first.qualifier), build)
        fits = min(2 * self._unit, self.memory_share // 2)
        wanted = self._share(max(build, self.inputs.bytes_of(self._sources_of(name))))
        if min(build, known) <= fits:
            return wanted if step.wants_shuffle else 1
        return max(wanted, build // fits + 1)

    def _bytes_before(self, name: str, columns: int) -> int:
        """About how many bytes of its sources a node needs that reads some of their columns."""
        sources = self._sources_of(name)
        everything = max(sum(len(self.inputs.steps[source].columns) for source in sources), 1)
        return int(self.inputs.bytes_of(sources) * min(1.0, columns / everything))

    def _share(self, size: int) -> int:
        """How many partitions of the usual size there are in some bytes."""
        return max(1, min(size // self._unit, _MOST_PARTITIONS))

    @property
    def _unit(self) -> int:
        """The usual size of a partition, in bytes of input."""
        wanted = int(os.environ.get(PARTITION_BYTES_VARIABLE, plans.PARTITION_BYTES))
        return plans.partition_bytes(self.plan.memory_limit_bytes, wanted)

    def _sources_of(self, name: str) -> list[str]:
        """The sources whose records reach a node."""
        found, waiting = set(), [name]
        while waiting:
            planned = self.plan.by_name[waiting.pop()]
            if planned.kind == "source":
                found.add(planned.name)
            waiting += [edge.node for edge in planned.inputs]
        return sorted(found)
