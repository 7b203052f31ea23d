"""The operators of a state node: they evaluate its assignments in order and keep the last value of each.

`State` pushes the records on. If a node reads the values, `Last` and `Total` buffer the task's values of each
assignment, and a single task (`Final`) computes the values of the run from them. If an assignment fails for a record,
the record still makes the assignments before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from spark_jobs.cxl import engine
from spark_jobs.nodes import final_values, operator
from spark_jobs.nodes.records import batches, columns
from spark_jobs.nodes.state import fitting, folds
from spark_jobs.nodes.state.assignments import FILE, VALUE, AssignmentState, Folded, Last, Values
from spark_jobs.nodes.state.step import RECORD, SOURCE
from spark_jobs.nodes.state.sums import Summed
from spark_jobs.nodes.state.totals import Total
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.nodes.state.step import Assignment, StateStep
    from spark_jobs.nodes.terms.needs import Need

#: The key in a table's schema metadata for the number of its assignment.
_ABOUT = b"assignment"
#: The paths of the values that identify files.
FILE_PATHS = ("source.name", "source.path")


def assignment_states(step: StateStep, context: operator.Context) -> list[AssignmentState]:
    """The state of each assignment."""
    by_file = FILE if step.scope == SOURCE else ()
    made: list[AssignmentState] = []
    for each, fold in zip(step.assignments, step.folded, strict=True):
        if each.is_total:
            made.append(Total(step, each, by_file, context))
        elif fold is not None and fold.how is folds.How.SUMMED:
            made.append(Summed(each, fold, by_file))
        elif fold is None or fold.how is folds.How.CARRIED:
            made.append(Last(each, by_file))
        else:
            made.append(Folded(each, fold, by_file))
    return made


def files_of(given: Any, batch: batches.Batch) -> dict[str, pa.Array]:
    """The file of each record; empty if a node's values are not per file."""
    if given.step.scope != SOURCE:
        return {}
    known = batch.origin.source_values(batch)
    return {name: batches.repeated(known[path], batch.count) for name, path in zip(FILE, FILE_PATHS, strict=True)}


@dataclass
class State(operator.Operator):
    """Evaluates the assignments of each record and pushes the record."""

    step: StateStep
    #: The exchange for the values; None if no node reads them.
    exchange: int | None = None

    def open(self) -> None:
        pairs = zip(self.step.assignments, self.step.folded, strict=True)
        self.programs = [fold.program if fold else each.by_record for each, fold in pairs]
        self.compiled = [operator.compiled(program) for program in self.programs]
        self.state = engine.EvaluationContext()
        self.states = assignment_states(self.step, self.context)
        #: The values that the batch's records have assigned so far.
        self.fresh: dict[str, pa.Array] = {}

    def process(self, batch: batches.Batch, port: int) -> None:
        """Evaluate the assignments in order. A failing record makes none after the one that failed."""
        batch = self.take(batch)
        self.fresh = {}
        for number, assignment in enumerate(self.step.assignments):
            batch = self._assign(batch, number, assignment)
        if self.step.scope == RECORD:
            added = {columns.value(path): values for path, values in self.fresh.items()}
            batch = replace(batch, data=batches.overlay(batch.data, added))
        self.push(batch)

    def system_values(self, batch: batches.Batch) -> dict[str, Any]:
        """The system values of a batch, including values that its records have set in this node."""
        return super().system_values(batch) | self.fresh

    def _assign(self, batch: batches.Batch, number: int, assignment: Assignment) -> batches.Batch:
        result = self.run(self.compiled[number], batch, self.state)
        batch = self._without(batch, result.failures, result.rows)
        given = dict(result.emits)
        if assignment.is_total:
            given = {name: batch.data.column(name) for name in batch.data.schema.names} | given
            wrong = self.states[number].failures(given)
        else:
            kind = dict(self.programs[number].emits)[assignment.path]
            fold = self.step.folded[number]
            # A term may have more digits than the sum.
            is_added = fold is not None and fold.how is folds.How.SUMMED
            wanted = fitting.without_precision(assignment) if is_added else assignment
            given[VALUE], wrong = fitting.cast_column(self.step.name, wanted, given.pop(assignment.path), kind)
        if wrong:
            good = batches.indices_except(batch.count, [item.row for item in wrong])
            batch = self._without(batch, wrong, good)
            given = {name: column.take(good) for name, column in given.items()}
        if self.step.folded[number] is None and not assignment.is_total:
            self.fresh[assignment.path] = given[VALUE]
        if self.exchange is not None and batch.count:
            self._keep(number, batch, given)
        return batch

    def _keep(self, number: int, batch: batches.Batch, given: dict[str, pa.Array]) -> None:
        """Add the evaluated values of records that count."""
        if self.step.folded[number] is not None:
            matters = pc.fill_null(given.pop(folds.WHEN), False) if folds.WHEN in given else given[VALUE].is_valid()
            rows = pc.indices_nonzero(matters)
            if len(rows) < batch.count:
                batch, given = batch.take(rows), {name: column.take(rows) for name, column in given.items()}
        if batch.count:
            self.states[number].add(batch, files_of(self, batch), given)

    def _without(self, batch: batches.Batch, failing: Any, rows: pa.Array | None) -> batches.Batch:
        """The records that did not fail, with the values that they have set."""
        self.fail(batch, failing)
        if rows is None:
            return batch
        self.fresh = {path: column.take(rows) for path, column in self.fresh.items()}
        return batch.take(rows)

    def finish(self) -> None:
        """Send the values that this task's records have set."""
        if self.exchange is None:
            return
        for number, kept in enumerate(self.states):
            for table in kept.tables():
                tagged = table.replace_schema_metadata({_ABOUT: str(number).encode()})
                self.context.exchanges.send(self.exchange, 0, 0, tagged)


@dataclass
class Final(operator.Operator):
    """Merges the states of all tasks, and materializes the values of the run."""

    step: StateStep
    provides: Need | None = None

    def open(self) -> None:
        self.states = assignment_states(self.step, self.context)

    def receive(self, table: pa.Table) -> None:
        """Merge the state of one task."""
        self.states[int((table.schema.metadata or {})[_ABOUT])].merge(table)

    def finish(self) -> None:
        """Write the final values.

        If a variable has several assignments, the one made last wins. A total wins over all others.
        """
        write_values(self, self.states, Values())


def write_values(given: Any, kept: list[AssignmentState], found: Values) -> None:
    """Add the values of assignments to the values found so far, if a node reads them.

    If a total fails, it becomes a dead letter and sets nothing.
    """
    for number, each in enumerate(kept):
        for value in each.values(given):
            found.add(number, given.step.assignments[number].path, value)
    if given.provides is not None:
        final_values.write(given.context, given.step.name, found.by_file())


#: The operators of a state node by their roles.
OPERATORS = {shape.Role.WHOLE: State, shape.Role.FINAL: Final}
