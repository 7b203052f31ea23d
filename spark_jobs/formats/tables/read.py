"""The tables of a source: the Parquet files of one version, read as the table says.

Planning opens no file: the table has the columns. A task opens a file, gives its rows the values of the partition,
leaves deleted ones out, and makes nulls of columns that came later. A file of which the table knows that none of its
rows passes the first filter is not opened at all.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.formats.columns import ColumnTracker, OnUnmapped
from spark_jobs.formats.format import FileColumns, Reading
from spark_jobs.formats.parquet import read as parquet
from spark_jobs.formats.parquet import statistics
from spark_jobs.formats.parquet.footer import Group
from spark_jobs.formats.tables import physical
from spark_jobs.formats.typed import natural, reader
from spark_jobs.formats.typed.reader import PassedOver, Records
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.format import SourceColumn
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.formats.tables.files import DataFile
    from spark_jobs.formats.typed.pruning import Test
    from spark_jobs.scan.files import InputFile

_MAGIC_BYTES = 4


class _TableFile:
    """A file of a table with its footer read: see `typed.reader.FileOfBatches`."""

    def __init__(self, file: InputFile, opened: parquet.OpenFile, declared: frozenset[str]) -> None:
        self._file = file
        self._about: DataFile = file.table
        self._opened = opened
        self._declared = declared
        #: The columns and their members by their names, as the file calls them.
        self._names = dict(physical.names(list(self.schema), list(opened.schema)))
        opened.declared = frozenset(self._names.get(name, name) for name in declared)
        self._deleted = self._about.deleted_rows
        self._own = {
            column.name: physical.found_in(column, list(opened.schema))
            for column in self.schema
            if column.name not in self._about.partition
        }

    @property
    def schema(self) -> pa.Schema:
        return self._about.snapshot.schema

    @property
    def pieces(self) -> int:
        return self._opened.pieces

    def rows(self, split: Split | None = None) -> int:
        first, count = (0, self._opened.rows()) if split is None else self._opened.extent(split)
        return count - self._deleted_within(first, count)

    def _deleted_within(self, first: int, count: int) -> int:
        return int(self._deleted[first : first + count].sum())

    def batches(
        self, split: Split, fields: Sequence[pa.Field], file_plan: FilePlan, wanted: Reading
    ) -> Iterator[pa.RecordBatch | PassedOver]:
        chosen = {own.name for field in fields if (own := self._own.get(field.name)) is not None}
        own_fields = [field for field in self._opened.schema if field.name in chosen]
        at, _ = self._opened.extent(split)
        for batch in self._opened.batches(split, own_fields, *self._as_in_file(file_plan, wanted)):
            count = batch.count if isinstance(batch, PassedOver) else batch.num_rows
            gone = self._deleted_within(at, count)
            if isinstance(batch, PassedOver):
                if count > gone:
                    yield PassedOver(count - gone, batch.pieces)
            elif not fields:
                # Without columns there is nothing but a number of rows.
                yield batch.slice(0, count - gone)
            else:
                found = pa.RecordBatch.from_arrays(
                    [self._column(field, batch) for field in fields], schema=pa.schema(fields)
                )
                if gone:
                    is_gone = self._deleted[at : at + count]
                    found = found.filter(pa.array(~np.pad(is_gone, (0, count - len(is_gone)))))
                yield found
            at += count

    def all_rows(self, fields: Sequence[pa.Field], most_bytes: int) -> Iterator[pa.RecordBatch]:
        """All rows that are not deleted, some at a time, with some columns of the table."""
        chosen = {own.name for field in fields if (own := self._own.get(field.name)) is not None}
        at = 0
        own_fields = [field for field in self._opened.schema if field.name in chosen] or [self._opened.schema.field(0)]
        for batch in self._opened.all_rows(own_fields, most_bytes):
            arrays = [self._column(field, batch) for field in fields]
            found = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
            if self._deleted_within(at, batch.num_rows):
                is_gone = self._deleted[at : at + batch.num_rows]
                found = found.filter(pa.array(~np.pad(is_gone, (0, batch.num_rows - len(is_gone)))))
            yield found
            at += batch.num_rows

    def _column(self, field: pa.Field, batch: pa.RecordBatch) -> pa.Array:
        if field.name in self._about.partition:
            repeated: pa.Array = pa.repeat(self._about.partition[field.name].cast(field.type), batch.num_rows)
            return repeated
        own = self._own[field.name]
        if own is None:
            return physical.lacking(field, batch.num_rows)
        return physical.shaped(batch.column(own.name), own, field, self._file.name)

    def _as_in_file(self, file_plan: FilePlan, wanted: Reading) -> tuple[FilePlan, Reading]:
        """Translate the wanted columns and tests to columns of the file, so that its own statistics apply."""
        if not wanted.passes:
            return file_plan, wanted
        ours = [name for name, _ in natural.leaves(self.schema, self._declared)]
        theirs = {name: at for at, (name, _) in enumerate(natural.leaves(self._opened.schema, self._opened.declared))}
        columns, places = [], []
        for column, field in zip(wanted.columns, file_plan.columns.declared, strict=True):
            name = ours[field] if field is not None else None
            if name is not None and name in self._about.partition:
                value = self._about.partition[name]
                if (column.required and not value.is_valid) or not statistics.always_converts(
                    self.schema.field(name).type, column.type
                ):
                    return file_plan, replace(wanted, passes=())
                continue
            columns.append(column)
            places.append(theirs.get(self._names.get(name, "")) if name is not None else None)
        inner = replace(file_plan, columns=FileColumns(len(theirs), tuple(places)))
        return inner, replace(wanted, columns=tuple(columns))


@dataclass(frozen=True)
class TableReader(reader.FooterReader):
    """Reads tables of Parquet files."""

    magic_bytes: ClassVar[int] = _MAGIC_BYTES

    @abstractmethod
    def is_gone(self, file: InputFile) -> FormatError:
        """Make the error for a file that the table lists and that is missing."""

    def facts(self, file: InputFile) -> dict[str, str]:
        """Give the version of the table in which a file is read, under the key `version`."""
        return {"version": str(file.table.snapshot.version)}

    def about(
        self, files: Sequence[InputFile], columns: Sequence[SourceColumn], passes: Sequence[Test]
    ) -> dict[str, str]:
        """The version, and how many files need not be opened."""
        if not files:
            return {"files": "none"}
        snapshot = files[0].table.snapshot
        facts = {**self.facts(files[0]), "files": str(len(files))}
        if snapshot.partition_by:
            facts["partitions"] = ", ".join(snapshot.partition_by)
        if passes:
            wanted = Reading(tuple(columns), passes=tuple(passes))
            matched = self._matched(files[0], [column.key for column in columns])
            skipped = sum(self._is_spared(file, matched, wanted) for file in files)
            facts["files"] += f", of which {skipped} are not opened"
        return facts

    def _matched(self, file: InputFile, declared: Sequence[str]) -> FileColumns:
        tracker = ColumnTracker(declared, OnUnmapped.DROP)
        return tracker.columns([name for name, _ in natural.leaves(file.table.snapshot.schema, self.declared)])

    def head(self, file: InputFile, declared: Sequence[str]) -> reader.TypedHead | None:
        """The columns of the table, as it says itself."""
        if not file.size:
            return None
        kinds = _leaves(file.table.snapshot.schema, self.declared)
        unknown = {name: unknown for name, kind in kinds if (unknown := self._unknown(name, kind)) is not None}
        names = tuple(name for name, _ in kinds)
        reader.refuse_doubles(names, file, "the table")
        return reader.TypedHead(file=file, names=names, data_start=_MAGIC_BYTES, is_splittable=True, unknown=unknown)

    def all_rows(self, file: InputFile, fields: Sequence[pa.Field], most_bytes: int) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are not deleted, with some columns of the table.

        Args:
            file: one that `found` has given.
            fields: the columns.
            most_bytes: so many bytes the values of a batch have on average, all columns of the file counted.

        Raises:
            FormatError: the file is gone or broken.
        """
        with self.opened(file) as opened:
            yield from opened.all_rows(fields, most_bytes)

    @contextmanager
    def opened(self, file: InputFile, wanted: Reading | None = None) -> Iterator[_TableFile]:
        """A file with its footer read."""
        try:
            most = self.record_bytes if wanted is None else wanted.record_bytes
            with changes.opened(file) as stream:
                yield _TableFile(file, parquet.OpenFile(file, stream, frozenset(), most), self.declared)
        except FormatError as error:
            if file.is_object and error.message == "file not found":
                raise self.is_gone(file) from error
            raise

    def decoded(
        self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome, needed: Sequence[int]
    ) -> Iterator[Records]:
        """The records of a split; only the number of records for a file in which none passes the filter."""
        file = file_plan.file
        is_whole = split.index == 0 and split.is_last
        if is_whole and wanted.passes and self._is_spared(file, file_plan.columns, wanted):
            outcome.start, outcome.end = split.start, split.end
            yield Records(_left(file.table), passed_over=1)
            return
        yield from super().decoded(split, file_plan, wanted, outcome, needed)

    def _is_spared(self, file: InputFile, columns: FileColumns, wanted: Reading) -> bool:
        """Whether the table proves that no record of a file passes, and that all convert."""
        about: DataFile = file.table
        if about.records is None or not _left(about):
            return False
        leaves = [
            (field.name, name, kind)
            for field in about.snapshot.schema
            for name, kind in natural.leaves([field], self.declared)
        ]
        return bool(statistics.passed_over([Group(about.records, about.chunks)], leaves, columns, wanted))


def _left(about: DataFile) -> int:
    """The rows of a file that are not deleted."""
    assert about.records is not None
    return about.records - int(about.deleted_rows.sum())


def _leaves(schema: Iterable[pa.Field], declared: Iterable[str]) -> list[tuple[str, pa.DataType]]:
    return list(natural.leaves(schema, frozenset(declared)))
