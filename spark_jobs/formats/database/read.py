"""The tables of a source: columns as the database has them, rows read by several tasks."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from spark_jobs.cxl import types
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import reader, reading
from spark_jobs.formats.columns import MISFIT, FilePlan
from spark_jobs.formats.database.tables import DiscoveredTables, IncrementalColumn, Slice, TooLong, UnfitOptions
from spark_jobs.formats.typed import reader as typed_reader
from spark_jobs.formats.typed.records import TypedShape
from spark_jobs.scan import connections
from spark_jobs.scan.bookmarks import COLUMN, UNFIT
from spark_jobs.scan.files import FormatError, InputFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import ModuleType

    from spark_jobs.formats.columns import ColumnTracker
    from spark_jobs.formats.database.tables import Column, Table
    from spark_jobs.formats.format import ArrayPath, Block, Reading, SourceColumn
    from spark_jobs.formats.reader import SourceContext
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.formats.typed.records import Found as FoundArray
    from spark_jobs.scan.bookmarks import IncrementalRead, Mark
    from spark_jobs.scan.connections import Connection

#: A batch is as large as the driver makes it, but no larger than a record may be.
_LEAST_BATCH = 1 << 16


@dataclass(frozen=True)
class DatabaseReader(reader.Reader):
    """Reads tables of databases.

    Args:
        texts: the declared columns that are texts: bytes among them are texts.
    """

    texts: frozenset[str] = frozenset()

    undeclared_type: ClassVar[types.Type] = types.ANY

    def knowing(self, declared: Sequence[SourceColumn]) -> DatabaseReader:
        """The reader that knows which bytes are texts."""
        return replace(self, texts=frozenset(one.key for one in declared if one.type.kind is Kind.STRING))

    def found(self, place: SourceContext) -> tuple[InputFile, ...]:
        """The tables that are read, each like a file.

        Raises:
            FormatError: there is no such connection or table, or the database refuses or fails (E911).
        """
        connection = connections.find(self.options.connection, place.connections, place.base)
        return self._files(connection, self._looked(connection, None).tables)

    def news(self, place: SourceContext, wanted: IncrementalRead) -> tuple[tuple[InputFile, ...], Mark | None]:
        """The tables with conditions for the rows that are new.

        Raises:
            FormatError: see `found`; or the mark is of another column or table, or rows have no value (E913).
        """
        connection = connections.find(self.options.connection, place.connections, place.base)
        column, about = wanted.settings.column, f"{connection.name}:{self.options.table or 'query'}"
        before = wanted.known(COLUMN)
        for key, now in (("column", column), ("of", about)):
            if before is not None and before.get(key) != now:
                raise wanted.unfit(f"is of `{before.get(key)}`, and the source reads `{now}`")
        incremental = IncrementalColumn(
            column,
            None if before is None else before["through"],
            wanted.since,
            wanted.until,
            wanted.settings.delay_s,
        )
        found = self._looked(connection, incremental, wanted)
        files = self._files(connection, found.tables)
        if wanted.is_interval or found.through is None:
            return files, None
        mark = {"by": COLUMN, "of": about, "column": column, "through": found.through}
        return files, mark

    def _looked(
        self, connection: Connection, incremental: IncrementalColumn | None, wanted: IncrementalRead | None = None
    ) -> DiscoveredTables:
        try:
            found: DiscoveredTables = _module(connection).look(connection, self.options, incremental)
        except UnfitOptions as problem:
            if wanted is not None:
                raise FormatError(str(problem), f"source '{wanted.source}'", UNFIT) from None
            raise connection.failed(str(problem)) from None
        return found

    def _files(self, connection: Connection, tables: Sequence[Table]) -> tuple[InputFile, ...]:
        found = []
        for table in tables:
            name = f"{connection.name}:{table.part.name}"
            found.append(InputFile(name, name, table.part.size, version=table.part.snapshot, table=table))
        return tuple(found)

    def release(self) -> None:
        """End the transactions whose snapshots tasks have read."""
        importlib.import_module("spark_jobs.formats.database.postgres.reading").release()

    def look(
        self, inputs: Iterable[InputFile], declared: Sequence[str], tracker: ColumnTracker
    ) -> tuple[list[FilePlan], list[str]]:
        """Match the columns of the tables with the declared ones, even of a table without rows."""
        seen: list[tuple[InputFile, list[str]]] = []
        skipped: list[str] = []
        for file in inputs:
            columns = [column.name for column in _table(file).columns]
            for name in columns:
                if columns.count(name) > 1:
                    text = f"the statement names column '{name}' twice; give one of them another name with AS"
                    raise FormatError(text, file.name, MISFIT)
            tracker.see(file.name, columns)
            if file.size:
                seen.append((file, columns))
            else:
                skipped.append(file.name)
        plans = []
        for file, columns in seen:
            part = _table(file).part
            is_splittable = part.page_bytes > 0 or part.span is not None
            plans.append(FilePlan(file, tracker.columns(columns), 0, is_splittable))
        return plans, skipped

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The rows of a part of a table."""
        outcome.start, outcome.end = split.start, split.end
        file, table = file_plan.file, _table(file_plan.file)
        needed = typed_reader.needed(wanted, file_plan)
        shape = TypedShape(wanted, file_plan.columns)
        rows = replace(
            _slice(split, table),
            most_bytes=max(_LEAST_BATCH, min(wanted.block_bytes, wanted.record_bytes)),
            row_bytes=wanted.record_bytes,
        )
        for count, arrays in self._batches(rows, [table.columns[at] for at in needed], file):
            for at, (array, _) in zip(needed, arrays, strict=True):
                self._refuse_bytes(array, table.columns[at].name, file)
            first, outcome.records = outcome.records, outcome.records + count
            yield shape.block(first, count, dict(zip(needed, arrays, strict=True)))

    def _batches(
        self, rows: Slice, columns: Sequence[Column], file: InputFile
    ) -> Iterator[tuple[int, list[FoundArray]]]:
        """The rows with some columns, none of them longer than a record may be (E310)."""
        try:
            for count, arrays in _module(rows.connection).batches(rows, columns):
                size = sum(array.nbytes for array, _ in arrays)
                # Several rows have as much as a batch, and the last of them.
                if size > rows.row_bytes + (2 * rows.most_bytes if count > 1 else 0):
                    raise TooLong
                yield count, arrays
        except TooLong:
            raise reading.too_long(file, rows.row_bytes) from None

    def _refuse_bytes(self, array: pa.Array, name: str, file: InputFile) -> None:
        if pa.types.is_binary(array.type) and name not in self.texts:
            text = (
                f"column '{name}' has bytes, for which there is no type here; leave it out (`on_unmapped: drop`, and "
                "no declaration), convert it in a `query`, or declare it as string if its bytes are texts"
            )
            raise FormatError(text, file.name, MISFIT)

    def counts(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
        """The database counts."""
        outcome.start, outcome.end = split.start, split.end
        rows = _slice(split, _table(file_plan.file))
        outcome.records = _module(rows.connection).count(rows)
        return True


def _slice(split: Split, table: Table) -> Slice:
    return Slice(table.connection, table.part, split.start, split.end, split.is_last)


def _module(connection: Connection) -> ModuleType:
    return importlib.import_module(f"spark_jobs.formats.database.{connection.engine.name}.reading")


def _table(file: InputFile) -> Table:
    assert file.table is not None, "tables are found by the reader"
    table: Table = file.table
    return table


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> DatabaseReader:
    """The reader of a source's tables."""
    return DatabaseReader(options, arrays, layout)
