"""What a state node is when it runs: assignments to variables of one scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.nodes import node

if TYPE_CHECKING:
    from spark_jobs.cxl import typed, types


@dataclass(frozen=True)
class Assignment:
    """A variable by its path (`pipeline.cutoff`), its declared type and the program of its value.

    An aggregate program gives the value when all records were seen; any other one gives a value for each.
    """

    path: str
    type: types.Type
    value: typed.Program | typed.AggregateProgram


@dataclass(frozen=True)
class StateStep(node.Step):
    """A state node, bound; `is_init` nodes run before everything else."""

    kind: ClassVar[str] = "state"

    scope: str
    assignments: tuple[Assignment, ...]
    is_init: bool = False

    @property
    def sets(self) -> tuple[str, ...]:
        """Those of the assignments."""
        return tuple(assignment.path for assignment in self.assignments)
