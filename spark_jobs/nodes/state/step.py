"""The bound state node: assignments to variables of one scope."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.cxl import typed
from spark_jobs.nodes import node
from spark_jobs.nodes.state import folds
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.terms.needs import Values
from spark_jobs.nodes.terms.properties import MemberProperties

if TYPE_CHECKING:
    from spark_jobs.cxl import types

#: The values of `scope:`.
PIPELINE, SOURCE, RECORD = "pipeline", "source", "record"


@dataclass(frozen=True)
class Assignment:
    """A variable by its path (`pipeline.cutoff`), its declared type and the program of its value.

    An aggregate program has a value after the last record. Any other program has one for each record.
    """

    path: str
    type: types.Type
    value: typed.Program | typed.AggregateProgram

    @property
    def by_record(self) -> typed.Program:
        """The program that is evaluated for each record."""
        return self.value.before if isinstance(self.value, typed.AggregateProgram) else self.value

    @cached_property
    def fold(self) -> folds.Fold | None:
        """The fold that computes the value, if the program reads the variable's earlier value and has a fold."""
        return folds.of(self) if self.path in self.by_record.system else None

    @property
    def is_total(self) -> bool:
        """True if it is set once, after the last record."""
        return isinstance(self.value, typed.AggregateProgram)


@dataclass(frozen=True)
class StateStep(node.Step):
    """A state node, bound.

    Args:
        scope: the scope of its variables.
        assignments: its assignments, in order.
        is_init: it runs before everything else.
        is_unfolded: a pass has shown that folds cannot compute its values.
    """

    kind: ClassVar[str] = "state"

    scope: str
    assignments: tuple[Assignment, ...]
    is_init: bool = False
    is_unfolded: bool = False

    @property
    def member_properties(self) -> MemberProperties:
        return MemberProperties(sets=tuple(assignment.path for assignment in self.assignments))

    @cached_property
    def folded(self) -> tuple[folds.Fold | None, ...]:
        """The folds among the assignments: for variables that are set once, and that no other assignment reads."""
        if self.scope == RECORD or self.is_unfolded:
            return (None,) * len(self.assignments)
        read = Counter(path for each in self.assignments for path in each.by_record.system)
        written = Counter(self.member_properties.sets)
        return tuple(each.fold if read[each.path] == written[each.path] == 1 else None for each in self.assignments)

    @property
    def is_running(self) -> bool:
        """True if a record's values depend on values set by earlier records, and no fold computes them."""
        if self.scope == RECORD:
            return False
        running = {each.path for each in self.assignments if not each.is_total}
        fresh: set[str] = set()
        for each, fold in zip(self.assignments, self.folded, strict=True):
            program = each.by_record if fold is None else fold.program
            if program.system & running - fresh:
                return True
            if not each.is_total:
                fresh.add(each.path)
        return False

    def unfolded(self) -> StateStep:
        return replace(self, is_unfolded=True)

    @property
    def module(self) -> str:
        """The module of the operators: a node whose records depend on one another has its own."""
        return "running" if self.is_running else "run"

    def partitions(self, sizes: shape.Sizes) -> int:
        """One; several if records depend on one another only within a file."""
        return sizes.partitions(self.name) if self.is_running and self.scope == SOURCE else 1

    def phases(self, partitions: int) -> tuple[shape.Phase, ...]:
        """Records pass, and tasks send their values to one task; or all records are shuffled into record order."""
        if self.scope == RECORD:
            return (shape.LocalPhase(self),)
        kind, provides = shape.ExchangeKind.HASH, Values(self.name)
        if not self.is_running:
            stop = shape.ExchangeSpec(kind, shape.Role.FINAL, "values", "values", "to one task", provides=provides)
            return (shape.LocalPhase(self, side_output=stop),)
        by = "shuffled by file" if self.scope == SOURCE else "to one task"
        why = "records meet in their order: the node reads what it has set for earlier ones"
        meet = shape.ExchangeSpec(kind, shape.Role.FINAL, "in order", "records", by, provides=provides)
        arrival = shape.Arrival(shape.Passage.SHUFFLED, why, "state")
        return (shape.ShufflePhase(self, partitions, arrival, "departure", (meet, shape.restored_order("record"))),)
