"""Aggregate functions of a state node: the state of a task's records, and the final value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine, failure, types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.nodes import operator
from spark_jobs.nodes.aggregate import accumulators, groups, numbers, partial
from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.state import fitting
from spark_jobs.nodes.state.assignments import END, AssignedValue, Tables, files_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.cxl import typed
    from spark_jobs.nodes.state.step import Assignment, StateStep


class Total(Tables):
    """Groups of an aggregate: one for the run, or one for each file."""

    def __init__(self, step: StateStep, assignment: Assignment, by: Sequence[str], context: operator.Context) -> None:
        super().__init__()
        program: typed.AggregateProgram = assignment.value  # type: ignore[assignment]
        row = Schema(tuple(Column(name, types.STRING, step.name) for name in by))
        self._assignment = assignment
        self._by = tuple(by)
        self._step = AggregateStep(step.name, self._by, program, row, row)
        self._grouping = partial.Grouping(self._step, context)
        self._numeric = numbers.arguments(self._step)

    def failures(self, columns: Mapping[str, pa.Array]) -> Sequence[engine.RowFailure]:
        """The records whose argument is not a number, if a function requires numbers."""
        return numbers.failures(self._step, self._numeric, columns)

    def refuse(self, columns: Mapping[str, Any]) -> None:
        """Check a single record. Raises `Failure`."""
        for name, function in self._numeric.items():
            numbers.check(self._step.name, function, columns.get(name), name)

    def add(self, batch: batches.Batch, files: Mapping[str, pa.Array], columns: Mapping[str, pa.Array]) -> None:
        """Group the records of a batch."""
        grouping = self._grouping
        given = dict(zip(grouping.keys, (files[name] for name in self._by), strict=True))
        arguments = {name: columns[name] for call in self._step.program.calls for name in call.arguments}
        known = batch.origin.identify(batch, pa.array(np.arange(batch.count)))
        origin = dict(zip(grouping.origin, (*known, batch.branches), strict=False))
        states = [
            state
            for keeper in grouping.state_accumulators
            for state in keeper.first([arguments[name] for name in keeper.call.arguments], batch.count)
        ]
        self.merge(
            groups.reduce(grouping.keys, {**given, **origin, order.AT: batch.places}, grouping.extra_columns, states)
        )

    def one(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge states. Rows of a group must be in record order, whatever their merge paths."""
        return self._grouping.merge(sorted(tables, key=lambda table: table.column(order.AT)[0].as_py()))

    def values(self, given: operator.Operator) -> Iterator[AssignedValue]:
        """The result of each group. A group that fails becomes one dead letter, and sets nothing."""
        for table in self.tables():
            yield from self._results(table, given)

    def _results(self, table: pa.Table, given: operator.Operator) -> Iterator[AssignedValue]:
        grouping, count = self._grouping, table.num_rows
        states = {name: partial.array(table, name) for name in table.schema.names}
        results, overflows = accumulators.results_of(grouping.accumulators, states, count)
        data = pa.RecordBatch.from_pydict(results | {name: states[name] for name in grouping.origin})
        batch = batches.Batch(data, pa.array(np.arange(count)), batches.GroupOrigin(0), at=states[order.AT])
        files = files_of(table, grouping.keys)
        good = np.flatnonzero(overflows == "")
        over = [
            engine.RowFailure(int(row), failure.Failure(f"state {given.step.name}: {overflows[row]}"))
            for row in np.flatnonzero(overflows != "")
        ]
        rest = batch.take(pa.array(good))
        outcome = given.run(operator.compiled(self._step.program.after), rest, engine.EvaluationContext())
        kept = np.arange(len(good)) if outcome.rows is None else outcome.rows.to_numpy()
        failing = [engine.RowFailure(int(good[item.row]), item.failure) for item in outcome.failures]
        value, wrong = fitting.cast_column(
            given.step.name,
            self._assignment,
            outcome.emits[self._assignment.path],
            fitting.given_type(self._assignment),
        )
        failing += [engine.RowFailure(int(good[kept[item.row]]), item.failure) for item in wrong]
        broken = {int(kept[item.row]) for item in wrong}
        self._refuse(given, batch, [*over, *failing])
        found = values.from_arrow(value, self._assignment.type)
        for row, each in zip(kept.tolist(), found, strict=True):
            if row not in broken:
                yield AssignedValue(files[int(good[row])], END, each)

    @staticmethod
    def _refuse(given: operator.Operator, batch: batches.Batch, failing: list[engine.RowFailure]) -> None:
        given.count_replaced(0, len(failing))
        failures = [
            engine.RowFailure(item.row, failure.restated(item.failure, item.failure.detail, failure.Category.AGGREGATE))
            for item in failing
        ]
        given.fail(batch, sorted(failures, key=lambda item: item.row))
