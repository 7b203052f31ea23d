"""Numbers of partitions for the records of nodes. They follow from sizes, never from cores."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.formats import splits
from spark_jobs.plan import plan as plans
from spark_jobs.plan.physical import sizes, upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.nodes.terms.needs import Need, Rows

#: For tests and tuning: the bytes of input in a partition of an exchange. Results never depend on it.
PARTITION_BYTES_VARIABLE = "CLINKER_PARTITION_BYTES"
#: A task can have a payload for each partition at hand, of so many bytes: smaller ones would cost more than they carry.
_PAYLOAD_BYTES = 16 << 10
#: The records of a need leave this part of a task's share (one in so many) to the records that look them up.
_LEFT = 4
#: So many are well under any limit.
_ALWAYS_ALLOWED = 512


@dataclass(frozen=True)
class Written:
    """The size of what an earlier job materialized."""

    bytes: int
    records: int


@dataclass(frozen=True)
class Sizes:
    """The sizes that are known when a job is planned; steps ask for them (see `shape.Sizes`).

    Args:
        plan: the plan.
        inputs: the files.
        memory_share: bytes that each task may hold.
        written: the sizes of records that earlier jobs materialized.
        materializes_sources: whether the records of all sources are materialized as they are read.
    """

    plan: plans.Plan
    inputs: Inputs
    memory_share: int
    written: Mapping[Need, Written]
    materializes_sources: bool = False

    def of(self, name: str) -> int:
        """The number of partitions that a node's records are spread over."""
        return upstream.step(self.plan.by_name[name]).partitions(self)

    @property
    def materialized_sources(self) -> frozenset[str]:
        """The sources with a large file that one task has to read: others go on with its records; or all sources."""
        if self.materializes_sources:
            return frozenset(self.plan.sources)
        found: dict[str, list[int]] = {}
        for name, place in self.inputs.splits:
            if place.file_plan.is_whole and place.limit is None:
                found.setdefault(name, []).append(place.bytes)
        return frozenset(
            name for name, known in found.items() if sizes.is_worth_spreading(max(known), known, self._unit)
        )

    def partitions(self, node: str, columns: int | None = None, growth: int = 1) -> int:
        """The number of partitions that a node's records deserve; see `shape.Sizes`."""
        sources = self._sources_of(node)
        size = self.inputs.bytes_of(sources) * growth
        if columns is not None:
            everything = max(sum(len(self.inputs.steps[source].columns) for source in sources), 1)
            size = int(size * min(1.0, columns / everything))
        return self._share(size)

    def materialized_partitions(self, rows: Rows, growth: int = 1, row_bytes: int = 0) -> int:
        """The number of partitions in which materialized records fit into tasks, if their size is known."""
        planned = self.plan.by_name[rows.node]
        edge = next(edge for edge, written in upstream.inputs(planned) if written == rows)
        size = self.inputs.bytes_of(self._sources_of(edge.node)) * growth
        fits = min(2 * self._unit, self.memory_share // 2)
        known = self.written.get(rows, Written(size, 0))
        room = self.memory_share - self.memory_share // _LEFT
        is_small = min(size, known.bytes) <= fits and known.bytes + known.records * row_bytes <= room
        return 1 if is_small or size <= fits else size // fits + 1

    @property
    def range_bytes(self) -> int:
        """The usual size of a materialized range: a task has all of it at hand, to put it into order."""
        return min(self._unit, max(self.memory_share // 4, 1 << 20))

    def _share(self, size: int) -> int:
        """The number of partitions of the usual size for some bytes, limited by what tasks can send to."""
        most = max(_ALWAYS_ALLOWED, self.memory_share // _PAYLOAD_BYTES)
        return max(1, min(size // splits.fair_bytes(size, self._unit), most))

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
            if planned.is_source:  # what its records refer to does not go on through it
                found.add(planned.name)
            else:
                waiting += [edge.node for edge in planned.inputs]
        return sorted(found)
