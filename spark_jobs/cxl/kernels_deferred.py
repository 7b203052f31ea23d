"""Rows that kernels leave to the interpreter, and how its records come back into the batch's result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine, interpreter, trees, typed, types, values
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.interpreter import Stop

if TYPE_CHECKING:
    from spark_jobs.cxl.interpreter_expressions import Row
    from spark_jobs.cxl.kernels_frame import Clock


@dataclass
class Entry:
    """A deferred row: its position in the batch, its state, and the number of the next statement."""

    position: int
    row: Row
    following: int


@dataclass
class Finished:
    """What became of the deferred rows; `outputs` are their records with the position of the input row."""

    outputs: list[tuple[int, dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    failures: list[engine.RowFailure] = field(default_factory=list)
    filtered: int = 0
    duplicates: int = 0
    emits: tuple[tuple[str, types.Type], ...] = ()
    metas: tuple[tuple[str, types.Type], ...] = ()

    def merged_into(self, result: engine.BatchResult) -> engine.BatchResult:
        """The kernels' result with the interpreter's records put between by row."""
        rows = [row for row, _, _ in self.outputs]
        fields = [found for _, found, _ in self.outputs]
        metas = [found for _, _, found in self.outputs]
        assert result.rows is not None
        native = len(result.rows)
        positions = pa.concat_arrays([result.rows, pa.array(rows, pa.int64())])
        order = pa.array(np.argsort(positions.to_numpy(), kind="stable"))

        def joined(kernels: pa.Array, static: types.Type, name: str, found: list[dict[str, Any]]) -> pa.Array:
            added = values.to_arrow([record.get(name) for record in found], static)
            return pa.concat_arrays([kernels, added]).take(order)

        result.emits = {name: joined(result.emits[name], static, name, fields) for name, static in self.emits}
        result.metas = {key: joined(result.metas[key], static, key, metas) for key, static in self.metas}
        for name, _ in self.emits:
            present = [name in record for record in fields]
            if not all(present):
                result.emitted[name] = pa.array([True] * native + present, pa.bool_()).take(order)
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
        surroundings: engine.Surroundings,
        clock: Clock,
    ) -> None:
        self._clock = clock if trees.reads_clock(program) else None
        self._program = program
        self._compiled = compiled
        self._batch = batch
        self._surroundings = surroundings
        self._entries: list[Entry] = []
        self._finished = Finished(emits=program.emits, metas=program.metas)

    def add(self, positions: list[int], number: int) -> None:
        """Take rows over, at the statement of this number."""
        if not positions:
            return
        records = _records(self._batch, self._program, positions)
        surroundings = _surroundings(self._surroundings, self._program, positions)
        repeat = self._compiled.again[:number]
        around = self._surroundings
        for index, position in enumerate(positions):
            record = {name: items[index] for name, items in records.items()}
            if surroundings:
                own = {path: items[index] for path, items in surroundings.items()}
                around = engine.Surroundings({**self._surroundings.values, **own}, self._surroundings.seen)
            entry = Entry(position, self._compiled.start(record, around), number)
            entry.row.moment = self._clock() if self._clock else None
            if self._run(entry, repeat):
                self._entries.append(entry)

    def _run(self, entry: Entry, steps: tuple[interpreter.Step, ...]) -> bool:
        """Whether a row is still alive after these statements; what became of it otherwise is noted."""
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
            self._finished.failures.append(engine.RowFailure(entry.position, failure))
            return False
        return True

    def keys_at(self, number: int, statement: typed.Distinct) -> list[tuple[int, Any]]:
        """The keys of the deferred rows at a `distinct`, by position; the rows wait for `decide`."""
        alive: list[Entry] = []
        keys: list[tuple[int, Any]] = []
        key_of_row = interpreter.distinct_key(statement)
        for entry in sorted(self._entries, key=lambda one: one.position):
            if not self._run(entry, self._compiled.steps[entry.following : number]):
                continue
            entry.following = number + 1
            try:
                keys.append((entry.position, key_of_row(entry.row)))
            except Failure as failure:
                self._finished.failures.append(engine.RowFailure(entry.position, failure))
                continue
            alive.append(entry)
        self._entries = alive
        return keys

    def decide(self, duplicates: set[int]) -> None:
        """Drop the deferred rows at these positions: their keys were seen before."""
        self._finished.duplicates += len(duplicates)
        self._entries = [entry for entry in self._entries if entry.position not in duplicates]

    def finish(self) -> Finished:
        """Run all deferred rows to the end."""
        for entry in sorted(self._entries, key=lambda one: one.position):
            if self._run(entry, self._compiled.steps[entry.following :]):
                result = interpreter.result_of(entry.row)
                for fields, metas in zip(result.outputs, result.metas, strict=True):
                    self._finished.outputs.append((entry.position, fields, metas))
        self._entries = []
        self._finished.failures.sort(key=lambda one: one.row)
        return self._finished


def _records(batch: pa.RecordBatch, program: typed.Program, positions: list[int]) -> dict[str, list[Any]]:
    """The Python values of the program's columns on some rows."""
    rows = pa.array(positions, pa.int64())
    found: dict[str, list[Any]] = {}
    for name, static in trees.columns_of(program).items():
        index = batch.schema.get_field_index(name)
        if index >= 0:
            column = batch.column(index)
            wanted = values.arrow_type(static)
            found[name] = values.from_arrow(
                (column if column.type == wanted else column.cast(wanted)).take(rows), static
            )
    return found


def _surroundings(
    surroundings: engine.Surroundings, program: typed.Program, positions: list[int]
) -> dict[str, list[Any]]:
    """The Python values of those surroundings that differ from row to row."""
    rows = pa.array(positions, pa.int64())
    kinds = trees.systems_of(program)
    if any(isinstance(node, typed.Trace) for node in trees.walk(program)):
        kinds["source.row"] = types.INT
    return {
        path: values.from_arrow(surroundings.values[path].take(rows), static)
        for path, static in kinds.items()
        if isinstance(surroundings.values.get(path), pa.Array)
    }
