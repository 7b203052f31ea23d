"""Records on their way to a table: batches of Arrow, without the records that the table surely refuses.

The constraints of columns are known before a record is read: lengths, ranges, forms of texts, `NOT NULL`. The task asks
the database about all others. A record that does not fit is a dead letter. Conflicts with other sessions are found when
the rows are inserted into the table.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from spark_jobs.cxl import types
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.schema import Schema
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, format
from spark_jobs.formats.database import targets
from spark_jobs.formats.typed.write import TypedWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl.schema import Column
    from spark_jobs.formats.database.options import DatabaseWrite
    from spark_jobs.formats.database.targets import Constraint, TargetColumn


class Checks(Protocol):
    """The checks of values for a kind of database; the module `validation.py` of its package implements them."""

    def column(self, column: TargetColumn, array: pa.Array) -> Iterator[tuple[int, str]]:
        """The rows whose value a column does not take, each with why."""

    def comparable(self, column: TargetColumn, array: pa.Array, collation: str) -> pa.StringArray:
        """Texts that are the same only where a unique index has values as one; null where a value is null.

        Args:
            column: the column.
            array: values that it takes.
            collation: how the index compares texts; empty where that is as the column does.

        Raises:
            FormatError: the database fails (E911).
        """

    def computed(self, constraint: Constraint, found: pa.RecordBatch) -> pa.StringArray:
        """Texts that are the same for two records only where a unique index has them as one, by the database's word.

        A text is null for a record that the index is not about, or has with any other.

        Args:
            constraint: a unique index with `keys`.
            found: the records, with the columns of the index.

        Raises:
            FormatError: the database fails (E911).
        """

    def rows(self, found: pa.RecordBatch) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """The records that the table does not take, whose values fit their columns: why, and the columns that tell.

        Raises:
            FormatError: the database fails (E911).
        """


class DatabaseWriter(TypedWriter):
    """Records for a table; see `targets.Target`, which is None where plans are only looked at."""

    _options: DatabaseWrite

    def __init__(self, schema: Schema, options: DatabaseWrite) -> None:
        target = options.target
        self._spelled = frozenset[str]()
        if target is not None and target.engine != "postgres":
            self._spelled = frozenset(one.name for one in schema.columns if one.type.kind is Kind.ARRAY)
        written = (replace(one, type=types.STRING) if one.name in self._spelled else one for one in schema.columns)
        super().__init__(Schema(tuple(written)), options)
        # The types of records, which say how arrays are spelled.
        self._columns = schema.columns
        self._targets: dict[str, TargetColumn] = {}
        self._checks: Checks | None = None
        if target is not None:
            package = f"spark_jobs.formats.database.{target.engine}"
            takes = importlib.import_module(f"{package}.columns").takes
            problems = targets.problems(target, self._schema, takes)
            if problems:
                raise format.UnwritableFile("; ".join(problems))
            self._targets = {
                column.name: replace(column, needs_value=column.needs_value or column.name in options.key)
                for column in target.columns
            }
            if not options.is_checked_upstream:
                self._checks = importlib.import_module(f"{package}.validation").Checks(target, options)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the records as they are written."""
        return self._schema

    def converted(self, column: Column, array: pa.Array, failures: list[RowFailure]) -> pa.Array:
        """A column as the database has it: arrays are texts of JSON, except in PostgreSQL."""
        if column.name in self._spelled:
            return cell_text.texts(array, column.type)
        return super().converted(column, array, failures)

    def _opened(self, sink: IO[bytes], schema: pa.Schema) -> Any:
        raise AssertionError("rows go into a table")

    def _refused(self, found: pa.RecordBatch) -> Iterator[RowFailure]:
        if self._checks is None:
            return
        bad = set[int]()
        for name, array in zip(found.schema.names, found.columns, strict=True):
            for row, detail in self._checks.column(self._targets[name], array):
                bad.add(row)
                yield self._failure(row, detail, found, (name,))
        good = pa.array([row for row in range(found.num_rows) if row not in bad], pa.int64()) if bad else None
        for at, detail, names in self._checks.rows(found if good is None else found.take(good)):
            yield self._failure(at if good is None else good[at].as_py(), detail, found, names)

    def _failure(self, row: int, detail: str, found: pa.RecordBatch, names: tuple[str, ...]) -> RowFailure:
        values = [found.column(name)[row].as_py() for name in names if name in found.schema.names]
        value = ", ".join(map(str, values)) if len(values) > 1 else next(iter(values), None)
        table = f"table {self._options.table}"
        if names:
            shown = f"column '{names[0]}'" if len(names) == 1 else f"columns {', '.join(names)}"
            table = f"{shown} of {table}"
        return RowFailure(row, Failure(f"{table}: {detail}", value=value, field=names[0] if names else None))


def open_writer(
    schema: Schema, options: DatabaseWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> DatabaseWriter:
    """The writer of an output."""
    return DatabaseWriter(schema, options)
