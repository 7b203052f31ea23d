"""The build side of a combine: records that an earlier job materializes, and that every task looks up by key."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import engine, failure, types, values
from spark_jobs.nodes import keys, operator, partition
from spark_jobs.nodes.combine.index import Compared
from spark_jobs.nodes.combine.step import KEY, Match
from spark_jobs.nodes.records import batches, columns, order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.combine.step import CombineStep, Equality, Range
    from spark_jobs.nodes.terms.needs import Rows


def key_type(program_emits: tuple[tuple[str, types.Type], ...]) -> types.Type:
    """The type of a key program's single emit."""
    return program_emits[0][1]


def common(equality: Equality) -> types.Type:
    """The type in which both sides of an equality are compared: 1 matches 1.0, arrays compare deeply."""
    return meeting_type(key_type(equality.driver.emits), key_type(equality.build.emits))


def meeting_type(left: types.Type, right: types.Type) -> types.Type:
    """The type in which keys of two types are compared."""
    if {left.kind, right.kind} == {types.Kind.DECIMAL, types.Kind.FLOAT}:
        return types.FLOAT
    if left.is_dynamic or right.is_dynamic or left.kind is types.Kind.ARRAY:
        return types.ANY
    if {left.kind, right.kind} == {types.Kind.INT, types.Kind.FLOAT}:
        return types.FLOAT
    if types.Kind.DECIMAL in (left.kind, right.kind) and (left.kind, left.scale) != (right.kind, right.scale):
        return types.ANY
    return left.non_null()


def comparable(key: pa.Array, static: types.Type, target: types.Type) -> pa.Array:
    """A key column in the type of the comparison. Values that cannot be keys (NaN) become null and match nothing."""
    return keys.equal_column(values.retyped(key, static, target), target)


def key_name(number: int) -> str:
    """The column of a key."""
    return columns.MATCHED.of(str(number))


def key_names(step: CombineStep, qualifier: str) -> list[str]:
    """The columns of the keys of a build side."""
    return [key_name(i) for i in range(sum(e.build_qualifier == qualifier for e in step.equalities))]


def range_names(step: CombineStep, qualifier: str) -> list[str]:
    """The columns of the values that a build side's ranges compare."""
    return [columns.MATCHED.of(f"range.{i}") for i, _ in enumerate(ranges_of(step, qualifier))]


#: A mask column: a side of a range fails for the build record.
FAILING = columns.MATCHED.of("range.failing")


def ranges_of(step: CombineStep, qualifier: str) -> list[Range]:
    """The ranges that find candidates among a build side's records."""
    return [each for each in step.ranges if each.build_qualifier == qualifier]


def qualified(step: CombineStep, data: pa.RecordBatch, qualifier: str) -> pa.RecordBatch:
    """The batch with qualified column names. Engine columns keep their names."""
    undeclared = {name: batches.undeclared(data, name) for owner, name in step.undeclared if owner == qualifier}
    data = batches.overlay(data, undeclared)
    return data.rename_columns([n if columns.is_engine(n) else f"{qualifier}.{n}" for n in data.schema.names])


@dataclass
class _Stored:
    """The buffered records of one merge path, and their file."""

    writer: Any = None
    schema: pa.Schema | None = None
    waiting: list[pa.RecordBatch] = field(default_factory=list)


@dataclass
class MaterializeBuildSide(operator.Operator):
    """Materializes a build side's records and keys for the job that probes them.

    With several partitions each batch of the file belongs to one of them; the batch's metadata has its number.
    """

    step: CombineStep
    provides: Rows | None = None
    partitions: int = 1

    def open(self) -> None:
        """Compile the keys of this side."""
        assert self.provides is not None
        self.written, self.qualifier = self.provides, self.provides.input
        self.equalities = [e for e in self.step.equalities if e.build_qualifier == self.qualifier]
        self.programs = [operator.compiled(equality.build) for equality in self.equalities]
        self.compared = [operator.compiled(each.build) for each in ranges_of(self.step, self.qualifier)]
        self.reservation = self.context.memory_pool.reserve(self._write_all)
        self.merge_paths: dict[order.MergePath, _Stored] = {}

    def process(self, batch: batches.Batch, port: int) -> None:
        """Append a batch with its keys and the origins of its records."""
        found: list[pa.Array] = []
        batch = self.placed(batch)
        for equality, program in zip(self.equalities, self.programs, strict=True):
            named = replace(batch, data=qualified(self.step, batch.data, self.qualifier))
            result = self.run(program, named, engine.EvaluationContext())
            if result.failures:
                self.count_replaced(
                    0, len(result.failures)
                )  # the records that a combine counts as input are the driver's
                self.fail(batch, [combine_error(item) for item in result.failures])
                kept = batches.indices_except(batch.count, [item.row for item in result.failures])
                batch, found = batch.take(kept), [column.take(kept) for column in found]
            found.append(comparable(result.emits[KEY], key_type(equality.build.emits), common(equality)))
        if not batch.count:
            return
        matched = {key_name(i): column for i, column in enumerate(found)}
        matched |= self._of_ranges(batch)
        data = batch.data
        if only_collects(self.step):
            data = data.select(collected_columns(self.step, data.schema.names))
        else:
            data = batches.with_origin(batch, data, self.context.branches)
        data = batches.overlay(data, matched)
        stored = self.merge_paths.setdefault(batch.merge_path, _Stored())
        if stored.schema is None or not stored.schema.equals(data.schema):
            self._begin(batch.merge_path, stored, data.schema)
        if self.partitions == 1:
            stored.writer.write_batch(data)
            return
        stored.waiting.append(data)
        self.reservation.add(data.nbytes)

    def _of_ranges(self, batch: batches.Batch) -> dict[str, pa.Array]:
        """Evaluate the compared side of each range, and mark the records for which it fails."""
        named = replace(batch, data=qualified(self.step, batch.data, self.qualifier))
        made = [self.run(program, named, engine.EvaluationContext()) for program in self.compared]
        found = Compared.of([(result.emits[KEY], result.rows) for result in made], batch.count)
        matched = dict(zip(range_names(self.step, self.qualifier), found.values, strict=True))
        if any(each.may_fail for each in ranges_of(self.step, self.qualifier)):
            matched[FAILING] = pa.array(found.failing)
        return matched

    def finish(self) -> None:
        self._write_all()

    def _begin(self, merge_path: order.MergePath, stored: _Stored, schema: pa.Schema) -> None:
        """Begin a file. A file has records of one schema, and a merge path may bring several schemas."""
        if stored.waiting:
            self._write_partitions(stored)
            self.reservation.set(sum(each.nbytes for kept in self.merge_paths.values() for each in kept.waiting))
        if stored.writer is not None:
            stored.writer.close()
        stored.writer, stored.schema = self.context.files.materialize(self.written, merge_path, schema), schema

    def _write_all(self) -> None:
        for stored in self.merge_paths.values():
            if stored.waiting:
                self._write_partitions(stored)
        self.reservation.set(0)

    def _write_partitions(self, stored: _Stored) -> None:
        table = pa.Table.from_batches(stored.waiting)
        stored.waiting = []
        for number, part in partition.split(table, key_names(self.step, self.qualifier), self.partitions):
            stored.writer.write_batch(batches.gather(part), number)


def combine_error(item: engine.RowFailure) -> engine.RowFailure:
    """A row's failure as the combine reports it."""
    restated = failure.restated(item.failure, item.failure.detail, failure.Category.COMBINE_ROW)
    return engine.RowFailure(item.row, restated)


def only_collects(step: CombineStep) -> bool:
    """True if build records are only found and collected: they feed no other build side, and no residual can fail."""
    return step.match is Match.COLLECT and step.rest is None and len(step.builds) == 1


def collected_columns(step: CombineStep, names: Sequence[str]) -> list[str]:
    """The columns to keep of build records that are only found: the columns of the arrays and pass-through columns."""
    read = {*step.collected(step.builds[0]).names, *(column for _, _, column in step.pass_through)}
    return [name for name in names if name in read]


def empty_side(step: CombineStep, qualifier: str) -> pa.Table:
    """An empty build side, for which no task has written a record: its columns and keys, without rows."""
    kinds = {column.name: values.arrow_type(column.type) for column in dict(step.schemas)[qualifier]}
    equalities = [equality for equality in step.equalities if equality.build_qualifier == qualifier]
    kinds |= {key_name(i): values.arrow_type(common(equality)) for i, equality in enumerate(equalities)}
    compared = zip(range_names(step, qualifier), ranges_of(step, qualifier), strict=True)
    kinds |= {name: values.arrow_type(key_type(each.build.emits)) for name, each in compared}
    if any(each.may_fail for each in ranges_of(step, qualifier)):
        kinds[FAILING] = pa.bool_()
    kinds |= {each.name: each.type for each in columns.ORIGIN}
    carried = ((name, column) for name, of, column in step.pass_through if of == qualifier)
    kinds |= {column: values.arrow_type(made.type) for name, column in carried if (made := step.output.get(name))}
    return pa.schema(kinds.items()).empty_table()
