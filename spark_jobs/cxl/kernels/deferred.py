"""Runs the interpreter on rows that kernels leave to it, and merges its records into the batch's result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine, failure_columns, tracing, tree_walk, typed, types, values
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.interpreter import interpreter
from spark_jobs.cxl.interpreter.interpreter import Stop

if TYPE_CHECKING:
    from spark_jobs.cxl.interpreter.expressions import Row
    from spark_jobs.cxl.kernels.frames import Clock


@dataclass
class Entry:
    """A deferred row: its position in the batch, its state, and the number of the next statement."""

    position: int
    row: Row
    following: int


class Finished:
    """The results of the deferred rows: failures, and records as columns with the positions of their input rows."""

    def __init__(self, program: typed.Program) -> None:
        self.rows: list[int] = []
        self.failures: list[engine.RowFailure] = []
        #: Failures that kernels know without the interpreter.
        self.rejected: list[failure_columns.Failures] = []
        self.filtered = 0
        self.duplicates = 0
        self._emits = program.emits
        self._metas = program.metas
        self._fields: dict[str, list[Any]] = {name: [] for name, _ in program.emits}
        self._entries: dict[str, list[Any]] = {key: [] for key, _ in program.metas}
        #: For fields that some record lacks: by name, the numbers of these records.
        self._missing: dict[str, list[int]] = {}

    def add(self, position: int, fields: dict[str, Any], metas: dict[str, Any]) -> None:
        """Note a record of the row at a position."""
        if len(fields) < len(self._fields):
            for name in self._fields.keys() - fields.keys():
                self._missing.setdefault(name, []).append(len(self.rows))
        self.rows.append(position)
        for name, items in self._fields.items():
            items.append(fields.get(name))
        for key, items in self._entries.items():
            items.append(metas.get(key))

    def all_failures(self) -> list[engine.RowFailure] | failure_columns.Failures:
        """The failing rows, ascending."""
        if not self.rejected:
            return self.failures
        return failure_columns.concatenated([failure_columns.of(self.failures), *self.rejected])

    def merged_into(self, result: engine.BatchResult) -> engine.BatchResult:
        """The kernels' result with the interpreter's records put between by row."""
        assert result.rows is not None
        native = len(result.rows)
        positions = pa.concat_arrays([result.rows, pa.array(self.rows, pa.int64())])
        order = pa.array(np.argsort(positions.to_numpy(), kind="stable"))

        def joined(kernels: pa.Array, static: types.Type, added: list[Any]) -> pa.Array:
            return pa.concat_arrays([kernels, values.to_arrow(added, static)]).take(order)

        result.emits = {name: joined(result.emits[name], static, self._fields[name]) for name, static in self._emits}
        result.metas = {key: joined(result.metas[key], static, self._entries[key]) for key, static in self._metas}
        for name in self._missing.keys() | result.emitted.keys():
            emitted = np.ones(native + len(self.rows), dtype=bool)
            if name in result.emitted:
                emitted[:native] = result.emitted[name].to_numpy(zero_copy_only=False)
            emitted[native + np.array(self._missing.get(name, ()), dtype=np.int64)] = False
            result.emitted[name] = pa.array(emitted).take(order)
        result.rows = positions.take(order)
        return result


class Deferred:
    """The rows of one batch that the interpreter judges.

    A row comes with the number of the statement that kernels could not judge. The statements before it run again for
    their values: their log lines are not written again, and a `distinct` that the row has passed is passed.
    """

    def __init__(
        self,
        program: typed.Program,
        compiled: interpreter.Interpreter,
        batch: pa.RecordBatch,
        context: engine.EvaluationContext,
        clock: Clock | None,
    ) -> None:
        self._clock = clock
        self._program = program
        self._compiled = compiled
        self._batch = batch
        self._context = context
        self._entries: list[Entry] = []
        self._expressions: dict[int, tuple[str, str]] = {}
        self._finished = Finished(program)
        distinct = [number for number, one in enumerate(program.statements) if isinstance(one, typed.Distinct)]
        self._last_distinct = distinct[-1] if distinct else -1

    def reject(self, positions: pa.Array, texts: pa.StringArray, reason: failure_columns.Reason) -> None:
        """Note rows that fail for a reason; `texts` has the text of each position."""
        self._finished.rejected.append(failure_columns.alike(positions.to_numpy(), reason, texts))

    def add(self, positions: list[int], number: int) -> None:
        """Take rows over, at the statement of this number."""
        if not positions:
            return
        records = _records(self._batch, self._program, positions)
        context = _context(self._context, self._program, positions)
        repeat = self._compiled.again[:number]
        around = self._context
        for index, position in enumerate(positions):
            record = {name: items[index] for name, items in records.items()}
            if context:
                own = {path: items[index] for path, items in context.items()}
                around = engine.EvaluationContext({**self._context.values, **own}, self._context.seen)
            entry = Entry(position, self._compiled.start(record, around), number)
            entry.row.moment = self._clock() if self._clock else None
            if not self._run(entry, repeat, 0):
                continue
            if number > self._last_distinct:
                self._complete(entry)
            else:
                self._entries.append(entry)

    def _complete(self, entry: Entry) -> None:
        """Run a row to the end."""
        if self._run(entry, self._compiled.steps[entry.following :], entry.following):
            for fields, metas in interpreter.records_of(entry.row):
                self._finished.add(entry.position, fields, metas)

    def _run(self, entry: Entry, steps: tuple[interpreter.Step, ...], first: int) -> bool:
        """True if a row is still alive after these statements, counted from `first`. Others are recorded."""
        tracing.LOOKING.position = entry.position
        try:
            for step in steps:
                stop = step(entry.row)
                if stop is Stop.FILTERED:
                    self._finished.filtered += 1
                    return False
                if stop is Stop.DUPLICATE:
                    self._finished.duplicates += 1
                    return False
        except Failure as failure:
            self._fail(entry, failure, first + steps.index(step))
            return False
        return True

    def _fail(self, entry: Entry, failure: Failure, number: int) -> None:
        # The traceback and the error that caused it would keep every frame of the interpreter alive with the failure.
        failure.__context__ = None
        if number not in self._expressions:
            self._expressions[number] = self._program.expression(number)
        failure.expression = self._expressions[number]
        self._finished.failures.append(engine.RowFailure(entry.position, failure.with_traceback(None)))

    def keys_at(self, number: int, statement: typed.Distinct) -> list[tuple[int, Any]]:
        """The keys of the deferred rows at a `distinct`, by position; the rows wait for `decide`."""
        alive: list[Entry] = []
        keys: list[tuple[int, Any]] = []
        key_of_row = interpreter.distinct_key(statement)
        for entry in sorted(self._entries, key=lambda one: one.position):
            if not self._run(entry, self._compiled.steps[entry.following : number], entry.following):
                continue
            entry.following = number + 1
            try:
                keys.append((entry.position, key_of_row(entry.row)))
            except Failure as failure:
                self._fail(entry, failure, number)
                continue
            alive.append(entry)
        self._entries = alive
        return keys

    def decide(self, duplicates: set[int]) -> None:
        """Drop the deferred rows at these positions: their keys were seen before."""
        self._finished.duplicates += len(duplicates)
        self._entries = [entry for entry in self._entries if entry.position not in duplicates]

    def finish(self) -> Finished:
        """Run the rows that waited for a `distinct` to the end."""
        for entry in sorted(self._entries, key=lambda one: one.position):
            self._complete(entry)
        self._entries = []
        self._finished.failures.sort(key=lambda one: one.row)
        return self._finished


def _records(batch: pa.RecordBatch, program: typed.Program, positions: list[int]) -> dict[str, list[Any]]:
    """The Python values of the program's columns on some rows."""
    rows = pa.array(positions, pa.int64())
    found: dict[str, list[Any]] = {}
    for name, static in tree_walk.columns_of(program).items():
        index = batch.schema.get_field_index(name)
        if index >= 0:
            column = batch.column(index)
            wanted = values.arrow_type(static)
            found[name] = values.from_arrow(
                (column if column.type == wanted else column.cast(wanted)).take(rows), static
            )
    return found


def _context(context: engine.EvaluationContext, program: typed.Program, positions: list[int]) -> dict[str, list[Any]]:
    """The Python values of those context that differ from row to row."""
    rows = pa.array(positions, pa.int64())
    kinds = tree_walk.systems_of(program)
    if any(isinstance(node, typed.Trace) for node in tree_walk.walk(program)):
        kinds["source.row"] = types.INT
    return {
        path: values.from_arrow(context.values[path].take(rows), static)
        for path, static in kinds.items()
        if isinstance(context.values.get(path), pa.Array)
    }
