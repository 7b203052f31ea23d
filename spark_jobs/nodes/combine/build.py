"""The build side of a combine: records written down once by the job before, and found by key by every task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import engine, failure, types, values
from spark_jobs.nodes import keys, operator, partition
from spark_jobs.nodes.combine.step import KEY
from spark_jobs.nodes.operator import PARTITION
from spark_jobs.nodes.records import columns, order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.combine.step import CombineStep, Equality
    from spark_jobs.nodes.terms.needs import Rows


def key_type(program_emits: tuple[tuple[str, types.Type], ...]) -> types.Type:
    """The type of a key program's single emit."""
    return program_emits[0][1]


def common(equality: Equality) -> types.Type:
    """The type in which both sides of an equality are compared: 1 matches 1.0, arrays compare deeply (decision 40)."""
    left, right = key_type(equality.driver.emits), key_type(equality.build.emits)
    if left.is_dynamic or right.is_dynamic or left.kind is types.Kind.ARRAY:
        return types.ANY
    if {left.kind, right.kind} == {types.Kind.INT, types.Kind.FLOAT}:
        return types.FLOAT
    return left.non_null()


def comparable(key: pa.Array, static: types.Type, target: types.Type) -> pa.Array:
    """A key column as both sides compare it; what cannot be a key (NaN) is null and matches nothing."""
    return keys.equal_column(values.retyped(key, static, target), target)


def key_name(number: int) -> str:
    """The column of a key."""
    return columns.MATCHED.of(str(number))


def key_names(step: CombineStep, qualifier: str) -> list[str]:
    """The columns of the keys of a build side."""
    return [key_name(i) for i in range(sum(e.build_qualifier == qualifier for e in step.equalities))]


def qualified(step: CombineStep, data: pa.RecordBatch, qualifier: str) -> pa.RecordBatch:
    """The batch with its columns under their qualified names; those of the engine keep theirs."""
    undeclared = {name: operator.undeclared(data, name) for owner, name in step.undeclared if owner == qualifier}
    data = operator.overlay(data, undeclared)
    return data.rename_columns([n if columns.is_engine(n) else f"{qualifier}.{n}" for n in data.schema.names])


#: What looking keys up allocates for each build record and key: Arrow hashes the keys anew each time.
INDEX_BYTES = 64


@dataclass
class _Stored:
    """What waits of one lane to be written, and its file."""

    writer: Any = None
    waiting: list[pa.RecordBatch] = field(default_factory=list)


@dataclass
class Store(operator.Operator):
    """Writes a build side's records and keys down, for the job that probes them.

    With several partitions each batch of the file belongs to one, whose number is in the batch's metadata.
    """

    step: CombineStep
    rows: Rows | None = None
    partitions: int = 1

    def open(self) -> None:
        """Compile the keys of this side."""
        assert self.rows is not None
        self.written, self.qualifier = self.rows, self.rows.input
        self.equalities = [e for e in self.step.equalities if e.build_qualifier == self.qualifier]
        self.programs = [operator.compiled(equality.build) for equality in self.equalities]
        self.place = self.context.account.open(self._write_all)
        self.lanes: dict[order.Lane, _Stored] = {}

    def process(self, batch: operator.Batch, port: int) -> None:
        """Append a batch with its keys and the places its records come from."""
        found: list[pa.Array] = []
        batch = self.placed(batch)
        for equality, program in zip(self.equalities, self.programs, strict=True):
            named = replace(batch, data=qualified(self.step, batch.data, self.qualifier))
            result = self.run(program, named, engine.Surroundings())
            if result.failures:
                self.become(0, len(result.failures))  # what comes in are the driver's records
                self.fail(batch, [combine_error(item) for item in result.failures])
                kept = operator.indices_except(batch.count, [item.row for item in result.failures])
                batch, found = batch.take(kept), [column.take(kept) for column in found]
            found.append(comparable(result.emits[KEY], key_type(equality.build.emits), common(equality)))
        if not batch.count:
            return
        matched = {key_name(i): column for i, column in enumerate(found)}
        data = operator.overlay(operator.with_origin(batch, batch.data, self.context.branches), matched)
        stored = self.lanes.setdefault(batch.lane, _Stored())
        if stored.writer is None:
            stored.writer = self.context.materialize(self.written, batch.lane, data.schema)
        if self.partitions == 1:
            stored.writer.write_batch(data)
            return
        stored.waiting.append(data)
        self.place.add(data.nbytes)

    def finish(self) -> None:
        """Write the rest."""
        self._write_all()

    def _write_all(self) -> None:
        for stored in self.lanes.values():
            if stored.waiting:
                self._write_partitions(stored)
        self.place.set(0)

    def _write_partitions(self, stored: _Stored) -> None:
        table = pa.Table.from_batches(stored.waiting)
        stored.waiting = []
        for number, part in partition.split(table, key_names(self.step, self.qualifier), self.partitions):
            stored.writer.write_batch(operator.gather(part), {PARTITION: str(number)})


def combine_error(item: engine.RowFailure) -> engine.RowFailure:
    """A row's failure as the combine reports it."""
    told = failure.restated(item.failure, item.failure.detail, failure.Category.COMBINE_ROW)
    return engine.RowFailure(item.row, told)


def nothing(step: CombineStep, qualifier: str) -> pa.Table:
    """A build side that no task has seen a record of: its columns, keys and places, without rows."""
    kinds = {column.name: values.arrow_type(column.type) for column in dict(step.schemas)[qualifier]}
    equalities = [equality for equality in step.equalities if equality.build_qualifier == qualifier]
    kinds |= {key_name(i): values.arrow_type(common(equality)) for i, equality in enumerate(equalities)}
    kinds |= {each.name: each.type for each in columns.ORIGIN}
    return pa.schema(kinds.items()).empty_table()


@dataclass
class BuildTable:
    """The build records, and an index from key values to rows in build order."""

    records: pa.RecordBatch
    uniques: list[pa.Array] = field(default_factory=list)
    order: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    pairs: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def index(cls, table: pa.Table, key_count: int) -> BuildTable:
        """Index a build side by its stored key columns; rows with a null in a key are never found."""
        records = operator.gather(table)
        built = cls(records)
        if not key_count:
            return built
        codes: np.ndarray | None = None
        for i in range(key_count):
            column = records.column(key_name(i))
            unique = pc.unique(column.drop_null())
            built.uniques.append(unique)
            codes = built._joined(codes, _positions(column, unique), len(unique), learn=True)
        assert codes is not None
        built.order = np.argsort(codes, kind="stable")
        built.order = built.order[codes[built.order] >= 0]
        size = int(codes.max()) + 1 if len(codes) and codes.max() >= 0 else 0
        built.starts = np.searchsorted(codes[built.order], np.arange(size + 1))
        return built

    def _joined(self, codes: np.ndarray | None, more: np.ndarray, size: int, *, learn: bool) -> np.ndarray:
        """One number for the keys so far and one more; -1 where any is missing."""
        if codes is None:
            return more
        step = len(self.pairs) if learn else self._step
        pair = np.where((codes >= 0) & (more >= 0), codes * max(size, 1) + more, -1)
        if learn:
            self.pairs.append(np.unique(pair[pair >= 0]))
        known = self.pairs[step]
        if not learn:
            self._step += 1
        if not len(known):
            return np.full(len(pair), -1)
        found = np.searchsorted(known, pair).clip(max=len(known) - 1)
        return np.where((pair >= 0) & (known[found] == pair), found, -1)

    def find(self, columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """For each probe row the first position in `order` and the number of matches."""
        codes: np.ndarray | None = None
        self._step = 0
        for column, unique in zip(columns, self.uniques, strict=True):
            codes = self._joined(codes, _positions(column, unique), len(unique), learn=False)
        assert codes is not None
        if len(self.starts) < 2:
            return np.zeros(len(codes), dtype=np.int64), np.zeros(len(codes), dtype=np.int64)
        safe = codes.clip(min=0)
        counts = np.where(codes >= 0, self.starts[safe + 1] - self.starts[safe], 0)
        return self.starts[safe], counts


def _positions(column: pa.Array, unique: pa.Array) -> np.ndarray:
    """Where each value stands among the unique ones; -1 for null and for values that are not among them."""
    if not len(unique):
        return np.full(len(column), -1, dtype=np.int64)
    found = pc.index_in(column, value_set=unique, skip_nulls=True)
    positions: np.ndarray = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return positions
