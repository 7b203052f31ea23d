"""Unique indexes of a table as rules about the records of one run: which of these the table would not take together.

A record becomes a key for each index: one text, or one number, that is the same for two records exactly if the index
has both as one value. Where nobody can tell without the table, keys differ that the index has as one; then the database
refuses the rows when they are published. Keys are never the same where the index has two values.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl.schema import Column
from spark_jobs.cxl.types import Kind
from spark_jobs.formats.typed import counterparts, write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from spark_jobs.cxl.engine import RowFailure
    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.database.options import KnownDatabaseWrite
    from spark_jobs.formats.database.targets import Constraint, TargetColumn
    from spark_jobs.formats.database.write import Checks

#: Kinds of columns whose integers are their own keys: the columns keep them as they are.
_INTS = frozenset(["int2", "int4", "int8", "tinyint", "smallint", "mediumint", "int", "bigint", "integer"])


@dataclass(frozen=True)
class RunIndex:
    """A unique index of the table that an output writes.

    Args:
        options: the options of the output, completed by its table.
        index: the index.
    """

    options: KnownDatabaseWrite
    index: Constraint

    @property
    def name(self) -> str:
        """Its name in the database."""
        return self.index.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns."""
        return self.index.columns

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns by which records are about one row, and so may share a value: the keys of upserts."""
        return self.options.key

    @property
    def message(self) -> str:
        """The message for a record whose value an earlier record has; the value is appended to it."""
        known = self.columns
        what = f"column '{known[0]}'" if len(known) == 1 else f"columns {', '.join(known)}"
        return (
            f"{what} of table {self.options.table}: an earlier record of the run has this value "
            f"(unique '{self.name}'): "
        )

    def maker(self, static: Sequence[Type], of_rows: Sequence[Type]) -> IndexKeys:
        """Make the object that gives the keys of records in a task; see `IndexKeys`."""
        return IndexKeys(self, static, of_rows)

    def is_int(self, static: Sequence[Type]) -> bool:
        """Whether keys are integers, of records whose columns have these types."""
        known = {column.name: column for column in self.options.known.columns}
        return (
            len(static) == 1
            and static[0].kind is Kind.INT
            and not static[0].is_dynamic
            and not (self.index.nulls_are_equal or self.index.keys)
            and known[self.columns[0]].kind in _INTS
        )


class IndexKeys:
    """Makes the keys of records. Each task has one of its own, because it may ask the database.

    Args:
        index: the index.
        static: the types of its columns in the records.
        of_rows: the types of its `row_columns` in the records.
    """

    def __init__(self, index: RunIndex, static: Sequence[Type], of_rows: Sequence[Type]) -> None:
        options = index.options
        target = options.known
        self._index = index
        self._targets = {column.name: column for column in target.columns}
        self._columns = [Column(name, kind) for name, kind in zip(index.columns, static, strict=True)]
        self._row_columns = [Column(name, kind) for name, kind in zip(index.row_columns, of_rows, strict=True)]
        self._is_int = index.is_int(static)
        self._checks: Checks = importlib.import_module(
            f"spark_jobs.formats.database.{target.engine}.validation"
        ).Checks(target, options)

    def keys(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """The keys of records; null for a record that the index has with any other.

        Args:
            arrays: the columns of the index, as records have them.

        Raises:
            FormatError: the database fails (E911).
        """
        if self._is_int:
            return self._taken(self._targets[self._columns[0].name], arrays[0].cast(pa.int64()))
        constraint = self._index.index
        if constraint.keys:
            return self._checks.computed(constraint, self._converted(arrays))
        collations = constraint.collations or ("",) * len(arrays)
        prefixes = constraint.prefixes or (0,) * len(arrays)
        parts = [
            self._part(column, array, collation, prefix, nulls_are_equal=constraint.nulls_are_equal)
            for column, array, collation, prefix in zip(self._columns, arrays, collations, prefixes, strict=True)
        ]
        return _joined(parts)

    def _converted(self, arrays: Sequence[pa.Array]) -> pa.RecordBatch:
        """Records as the database gets them, with the columns of the index."""
        found = {}
        for column, array in zip(self._columns, arrays, strict=True):
            failures: list[RowFailure] = []
            converted = write.converted(column, array, failures).cast(counterparts.of(column.type))
            found[column.name] = self._taken(self._targets[column.name], converted, {each.row for each in failures})
        return pa.RecordBatch.from_pydict(found)

    def rows(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """Give the keys of the rows that records are about; null where there is none."""
        return _joined(
            [
                self._part(column, array, "", 0, nulls_are_equal=False)
                for column, array in zip(self._row_columns, arrays, strict=True)
            ]
        )

    def _part(self, column: Column, array: pa.Array, collation: str, prefix: int, *, nulls_are_equal: bool) -> pa.Array:
        failures: list[RowFailure] = []
        converted = write.converted(column, array, failures).cast(counterparts.of(column.type))
        target = self._targets[column.name]
        found = self._taken(target, converted, {failure.row for failure in failures})
        if prefix:
            found = pc.utf8_slice_codeunits(found, 0, prefix)
        texts = self._checks.comparable(target, found, collation)
        # Each text begins with its length, so that the texts of several columns cannot run into each other.
        marked = pc.binary_join_element_wise(pc.utf8_length(texts).cast(pa.string()), texts, ":")
        if not nulls_are_equal:
            return marked
        return pc.if_else(array.is_null(), pa.scalar("-"), marked)

    def _taken(self, target: TargetColumn, found: pa.Array, refused: AbstractSet[int] = frozenset()) -> pa.Array:
        """Values, null where the column does not take them: such a record is a dead letter by itself."""
        wrong = refused | {row for row, _ in self._checks.column(target, found)}
        if not wrong:
            return found
        fine = pa.array([row not in wrong for row in range(len(found))], pa.bool_())
        taken: pa.Array = pc.if_else(fine, found, pa.scalar(None, found.type))
        return taken


def _joined(parts: Sequence[Any]) -> pa.Array:
    if len(parts) == 1:
        found: pa.Array = parts[0]
        return found
    joined: pa.Array = pc.binary_join_element_wise(*parts, "")
    return joined


def of(options: KnownDatabaseWrite, columns: Mapping[str, Type]) -> list[RunIndex]:
    """The unique indexes that records with some columns tell of, without the one that upserts go by.

    Args:
        options: the options of the output.
        columns: the columns that the records are known to have. Arrays tell of no index.
    """
    target = options.known
    known = {column.name: column for column in target.columns}
    takes = importlib.import_module(f"spark_jobs.formats.database.{target.engine}.columns").takes
    written = {
        name
        for name, static in columns.items()
        if name in known
        and static.kind is not Kind.ARRAY
        and counterparts.problem(static) is None
        and takes(known[name], counterparts.of(static))
    }
    if not set(options.key) <= written:
        return []
    return [
        RunIndex(options, index)
        for index in options.known.unique_indexes
        if set(index.columns) <= written and not (options.key and index.is_of(options.key))
    ]
