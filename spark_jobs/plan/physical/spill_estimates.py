"""Estimates how much a run may spill from the sizes of its inputs, for `explain` and for warnings before a run.

A stage that groups, sorts or joins is assumed to spill all records of its sources. This estimate is high: it ignores
compression, unused columns, and the memory limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.plan.physical import edges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.nodes.terms.shape import Arrival
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import Plan

#: From this part of the cap on, W331 warns; in percent.
WARNING_PERCENT = 80


@dataclass(frozen=True)
class Stage:
    """A node that may keep records on disk; `bytes` None when that is not known before a run.

    The runs of a sorted output are no spilled data: they lie beside it, and no cap counts them.
    """

    name: str
    title: str
    bytes: int | None
    is_spilled: bool = True


@dataclass(frozen=True)
class Estimate:
    """The stages of a plan that may spill, in topological order."""

    stages: tuple[Stage, ...]

    @property
    def total(self) -> int:
        """The bytes of all stages that are known: several may be alive at once."""
        return sum(stage.bytes or 0 for stage in self.stages)

    @property
    def any_unknown(self) -> bool:
        """True if the total leaves a stage out."""
        return any(stage.bytes is None for stage in self.stages)

    def headroom(self, cap: int | None) -> Headroom | None:
        """The headroom under a cap; None without a cap, or if no spilling is expected."""
        spilled = sum(stage.bytes or 0 for stage in self.stages if stage.is_spilled)
        return Headroom(spilled, cap) if cap is not None and spilled else None


@dataclass(frozen=True)
class Headroom:
    """An estimate beside the cap, in bytes."""

    estimated: int
    cap: int

    @property
    def free(self) -> int:
        """The bytes of the cap that are left."""
        return max(self.cap - self.estimated, 0)

    @property
    def percent(self) -> float:
        """The used part of the cap, in percent."""
        return 100 * self.estimated / max(self.cap, 1)

    @property
    def is_short(self) -> bool:
        """True if the estimate comes near the cap."""
        return self.estimated * 100 >= self.cap * WARNING_PERCENT


def stages(plan: Plan) -> dict[str, Arrival]:
    """The nodes where records wait to meet or to be sorted, in topological order, with how they come there."""
    waiting = {edge.consumer: edge.arrival for edge in edges.edges(plan) if edge.arrival.stage}
    return {planned.name: waiting[planned.name] for planned in plan.nodes if planned.name in waiting}


def title(name: str, arrival: Arrival) -> str:
    """A stage as `explain` names it."""
    return f"[{arrival.stage}] {name}"


def volumes(plan: Plan, sources: Mapping[str, Discovered]) -> dict[str, int | None]:
    """The bytes of the files that each node's records come from; None if that is not known before a run."""
    found: dict[str, int | None] = {}
    for planned in plan.nodes:
        if planned.is_source:
            found[planned.name] = sources[planned.name].bytes if planned.name in sources else None
        else:
            given = [found[edge.node] for edge in planned.inputs]
            known = [volume for volume in given if volume is not None]
            found[planned.name] = sum(known) if len(known) == len(given) else None
    return found


def estimate(plan: Plan, sources: Mapping[str, Discovered]) -> Estimate:
    """Estimate the spilling of a plan's stages from the sizes of its sources' files."""
    sizes = volumes(plan, sources)
    # Nothing to read is nothing to foresee.
    return Estimate(
        tuple(
            Stage(name, title(name, arrival), sizes[name] or None, is_spilled=arrival.passage.spills)
            for name, arrival in stages(plan).items()
        )
    )
