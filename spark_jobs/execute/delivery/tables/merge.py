"""Merges records into a table by keys: records replace the rows with their keys, or become new rows.

Each file that has rows with the key of a record is rewritten without these rows, by a task of its own. Records become
files of their own, and take the values of columns that they lack from the rows that they replace. No task needs all
records: it looks up only their keys, as many at a time as its memory holds.

1. Tasks write the keys of records, partitioned by their hashes. No key may occur twice.
2. Tasks find the rows of each file whose keys are among them, and rewrite the file without these rows. They write
values that records take from replaced rows next to the parts of the records. 3. Tasks write the records.
"""

from __future__ import annotations

import io
import os
import uuid
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execute.delivery import converting, destination
from spark_jobs.execute.spark import spread
from spark_jobs.formats import format
from spark_jobs.formats.tables.files import numbers
from spark_jobs.formats.tables.write import Layout
from spark_jobs.formats.tables.write import cast as as_in_table
from spark_jobs.nodes import partition
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import PartRange, PartStore
    from spark_jobs.formats.tables.read import TableReader
    from spark_jobs.formats.tables.write import TableWriter
    from spark_jobs.scan.files import InputFile
    from spark_jobs.tuning import Tuning

#: Columns besides keys and rows: the part of a record, its row there, and its delete flag.
_PART, _ROW, _GONE = "part", "row", "gone"
#: The row number in a file of the table.
_AT = "at"
#: The number of duplicate keys that a message shows.
_SHOWN = 3
_RERAISED = (OSError, format.UnwritableFile, FormatError)


@dataclass(frozen=True)
class Merge:
    """The settings of a merge that tasks need.

    Args:
        part_store: the store of parts.
        folder: the folder for files that tasks exchange.
        create: creates a file in the folder of the table.
        reader: reads the files of the table.
        writer: reads records, and writes the files of tables.
        layout: the layout of files with records.
        table: the layout of rewritten files; None if there is no table yet.
        key: the columns that identify records.
        flag: the column that marks rows to delete; empty if there is none.
        kept: the columns of the table that records lack.
        moved: the parts contain single records in the row format (`converting.py`).
        most_bytes: the bytes of keys and of rows that a task holds at once.
        kept_bytes: the bytes of kept values that are buffered before they are written.
    """

    part_store: PartStore
    folder: str
    create: Callable[[str], IO[bytes]]
    reader: TableReader
    writer: TableWriter[Any]
    layout: Layout
    table: Layout | None
    key: tuple[str, ...]
    flag: str
    kept: tuple[str, ...]
    moved: bool
    most_bytes: int
    kept_bytes: int

    @property
    def keys(self) -> list[str]:
        """The names of the key columns in key files."""
        return [f"key {number}" for number in range(len(self.key))]

    @property
    def known(self) -> pa.Schema:
        """The columns of a message about a record that replaces a row."""
        place = [pa.field(_PART, pa.int64()), pa.field(_ROW, pa.int64())]
        types = self.layout.schema
        return pa.schema([*place, *(pa.field(self.kept_as(name), types.field(name).type) for name in self.kept)])

    def kept_as(self, name: str) -> str:
        """The name of a column of the table in messages, which have other columns for the place of a record."""
        return f"kept {self.kept.index(name)}"

    def stream(self, part_range: PartRange) -> IO[bytes]:
        """The records of a part."""
        destination.check(self.part_store, part_range)
        return converting.open_joined(self.part_store, cast("Any", self.writer), [part_range], moved=self.moved)

    def new(self) -> str:
        """A unique path for a file that tasks exchange."""
        return os.path.join(self.folder, f"{uuid.uuid4().hex}.merge")


class Ambiguous(Exception):
    """A key identifies several records, or several rows.

    Args:
        whose: "the records have" or "the table has".
        keys: some of these keys, each with its number of occurrences.
        remedy: the remedy.
    """

    def __init__(self, whose: str, keys: Sequence[tuple[Mapping[str, Any], int]], remedy: str) -> None:
        super().__init__(whose, keys, remedy)
        self.whose = whose
        self.keys = keys
        self.remedy = remedy


@dataclass(frozen=True)
class _Keys:
    """Keys of records of one part, with bounds of each column like those in the log; None if there are none."""

    bucket: int
    path: str
    bytes: int
    bounds: tuple[tuple[Any, Any] | None, ...]


@dataclass(frozen=True)
class _Message:
    """An Arrow message in a part file: the values that records of one part keep from rows."""

    number: int
    path: str
    start: int
    size: int


@dataclass(frozen=True)
class _Rewritten:
    """A file of the table with rows to be removed."""

    added: tuple[Any, ...]
    messages: tuple[_Message, ...]


def merge(
    spark: SparkSession,
    merge: Merge,
    ranges: Sequence[PartRange],
    files: Sequence[InputFile],
    tuning: Tuning,
    remove: Callable[[Iterable[str]], None],
) -> tuple[tuple[Any, ...], tuple[InputFile, ...]]:
    """Write the files of a merge. Returns the files that the commit adds, and the files that it removes.

    Args:
        spark: runs the tasks.
        merge: the settings.
        ranges: the parts with the records.
        files: the files of the table.
        tuning: the amount of work that the driver does itself.
        remove: removes files from the table's folder that no commit will list.

    Raises:
        Ambiguous: a key occurs twice.
        FormatError: a file of the table cannot be read.
        Unfit: a value does not fit the table.
        OSError: a file cannot be read or written.
    """
    size = sum(part_range.size for part_range in ranges)
    is_small = size <= tuning.driver_output_bytes
    buckets = min(max(1, -(-size // merge.most_bytes)), tuning.key_buckets)
    numbered = [*enumerate(ranges)]
    key_files = [each for some in _each(spark, partial(_keys, merge, buckets), numbered, is_small) for each in some]
    groups = _grouped(key_files, merge.most_bytes)
    doubles = [each for some in _each(spark, partial(_doubles, merge), groups, is_small) for each in some]
    if doubles:
        remedy = "choose one record for each key by `distinct` or an aggregate"
        raise Ambiguous("the records have", doubles[:_SHOWN], remedy)
    wanted = [file for file in files if _may_have(file, merge, key_files)]
    is_quick = is_small and sum(file.size for file in wanted) <= tuning.driver_output_bytes
    answers = _each(spark, partial(_rewritten, merge, groups), wanted, is_quick)
    rewritten = [(file, each) for file, each in zip(wanted, answers, strict=True) if each is not None]
    messages: dict[int, list[_Message]] = {}
    for _, each in rewritten:
        for message in each.messages:
            messages.setdefault(message.number, []).append(message)
    items = [(number, part_range, tuple(messages.get(number, ()))) for number, part_range in numbered]
    again = [added for _, each in rewritten for added in each.added]
    try:
        new = [each for some in _each(spark, partial(_written, merge), items, is_small) for each in some]
    except BaseException:
        remove(each.path for each in again)
        raise
    return (*again, *new), tuple(file for file, _ in rewritten)


def _each(spark: SparkSession, work: Callable[[Any], Any], items: Sequence[Any], is_small: bool) -> list[Any]:
    """The result of a function for each item, computed in this process if that is faster than a job."""
    return (
        [work(item) for item in items]
        if is_small
        else spread.parallel_map(spark, work, items, reraised=(*_RERAISED, Ambiguous))
    )


def _grouped(key_files: Sequence[_Keys], most_bytes: int) -> list[tuple[str, ...]]:
    """Key files in groups that a task holds at once. Equal keys are in one group."""
    sizes: dict[int, int] = {}
    for each in key_files:
        sizes[each.bucket] = sizes.get(each.bucket, 0) + each.bytes
    groups: list[tuple[str, ...]] = []
    size = most_bytes
    for bucket in sorted(sizes):
        paths = tuple(each.path for each in key_files if each.bucket == bucket)
        if size + sizes[bucket] > most_bytes:
            groups.append(())
            size = 0
        groups[-1] += paths
        size += sizes[bucket]
    return groups


def _keys(merge: Merge, buckets: int, item: tuple[int, PartRange]) -> list[_Keys]:
    """Write the keys of a part, a file for each nonempty bucket."""
    number, part_range = item
    schema = pa.schema([merge.layout.schema.field(name) for name in merge.key])
    held: dict[int, list[pa.Table]] = {}
    row = 0
    for batch in merge.writer.batches(merge.stream(part_range), moved=merge.moved):
        rows = pa.Table.from_batches([batch])
        gone = (
            pc.fill_null(rows.column(merge.flag), False) if merge.flag else pa.array(np.zeros(rows.num_rows, np.bool_))
        )
        keys = as_in_table(rows, schema).rename_columns(merge.keys)
        place = {_PART: np.full(rows.num_rows, number), _ROW: np.arange(row, row + rows.num_rows), _GONE: gone}
        for name, values in place.items():
            keys = keys.append_column(name, values if isinstance(values, pa.ChunkedArray) else pa.array(values))
        row += rows.num_rows
        chosen = partition.numbers([_hashable(keys.column(name)) for name in merge.keys], buckets)
        for bucket, some in partition.cut(keys, chosen):
            held.setdefault(bucket, []).append(some)
    found = []
    for bucket, tables in held.items():
        keys = pa.concat_tables(tables)
        path = merge.new()
        with merge.part_store.create(path) as sink, pa.ipc.new_stream(sink, keys.schema) as stream:
            stream.write_table(keys)
        bounds = tuple(_bounds(keys.column(name)) for name in merge.keys)
        found.append(_Keys(bucket, path, keys.nbytes, bounds))
    return found


def _hashable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of a hashable type that are equal exactly if the column's values are."""
    kind = column.type
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        return column.cast(pa.int64())
    return column if pa.types.is_boolean(kind) else column.cast(pa.string())


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """The lowest and the highest value, in the form of the log; None for types without bounds."""
    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type):
        return None
    found = pc.min_max(column)
    ends = numbers(pa.array([found["min"].as_py(), found["max"].as_py()], column.type))
    return None if ends is None else (ends[0], ends[1])


def _may_have(file: InputFile, merge: Merge, key_files: Sequence[_Keys]) -> bool:
    """False if the log shows that no row of a file has a key of the records."""
    chunks: Mapping[str, Any] = file.table.chunks
    known = [chunks.get(name) for name in merge.key]
    return any(
        all(
            chunk is None or bounds is None or chunk.lowest is None or chunk.highest is None
            or (chunk.lowest <= bounds[1] and bounds[0] <= chunk.highest)
            for chunk, bounds in zip(known, each.bounds, strict=True)
        )
        for each in key_files
    )  # fmt: skip


def _loaded(merge: Merge, paths: Sequence[str]) -> pa.Table:
    tables = []
    for path in paths:
        with merge.part_store.open(path) as source, pa.ipc.open_stream(source) as stream:
            tables.append(stream.read_all())
    return pa.concat_tables(tables)


def _doubles(merge: Merge, paths: Sequence[str]) -> list[tuple[dict[str, Any], int]]:
    """Some keys that occur more than once."""
    counted = _loaded(merge, paths).group_by(merge.keys, use_threads=False).aggregate([([], "count_all")])
    several = counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, _SHOWN)
    return [
        ({name: row[own] for name, own in zip(merge.key, merge.keys, strict=True)}, row["count_all"])
        for row in several.to_pylist()
    ]


@dataclass
class _Matches:
    """The rows of a file that have keys of records."""

    is_gone: np.ndarray[Any, Any]
    #: The replaced rows: their numbers in the file, ascending; the part of each record, and the record's row there.
    at: np.ndarray[Any, Any]
    part: np.ndarray[Any, Any]
    row: np.ndarray[Any, Any]

    @classmethod
    def of(cls, merge: Merge, groups: Sequence[Sequence[str]], file: InputFile) -> _Matches | None:
        """Find these rows; None if there are none."""
        fields = [file.table.snapshot.schema.field(name) for name in merge.key]
        found, rows = [], 0
        for group in groups:
            keys, rows = _loaded(merge, group), 0
            for batch in merge.reader.all_rows(file, fields, merge.most_bytes):
                probe = pa.Table.from_batches([batch]).rename_columns(merge.keys)
                probe = probe.append_column(_AT, pa.array(np.arange(rows, rows + probe.num_rows)))
                rows += probe.num_rows
                joined = probe.join(keys, merge.keys, join_type="inner", use_threads=False)
                if joined.num_rows:
                    found.append(joined.select([_AT, _PART, _ROW, _GONE]))
        if not found:
            return None
        all_of_them = pa.concat_tables(found).sort_by(_AT)
        is_gone = np.zeros(rows, np.bool_)
        is_gone[all_of_them.column(_AT).to_numpy()] = True
        stay = all_of_them.filter(pc.invert(all_of_them.column(_GONE)))
        return cls(is_gone, *(stay.column(name).to_numpy() for name in (_AT, _PART, _ROW)))


def _rewritten(merge: Merge, groups: Sequence[Sequence[str]], file: InputFile) -> _Rewritten | None:
    """Rewrite a file of the table without removed rows; None if it has none."""
    assert merge.table is not None
    matches = _Matches.of(merge, groups, file)
    if matches is None:
        return None
    columns = [file.table.snapshot.schema.field(name) for name in merge.table.schema.names]
    path = merge.new()
    with merge.part_store.create(path) as sink:
        kept = _ReplacedValues(merge, matches, path, sink)
        remaining = _remaining(merge.reader.all_rows(file, columns, merge.most_bytes), matches, kept)
        added = merge.writer.rewritten(remaining, merge.table, merge.create)
        kept.flush()
    return _Rewritten(tuple(added), tuple(kept.messages))


def _remaining(batches: Iterator[pa.RecordBatch], matches: _Matches, kept: _ReplacedValues) -> Iterator[pa.RecordBatch]:
    """The rows to keep. Values that records take from replaced rows are buffered."""
    at = 0
    for batch in batches:
        kept.add(batch, at)
        stays = pa.array(~matches.is_gone[at : at + batch.num_rows])
        at += batch.num_rows
        found = batch.filter(stays)
        if found.num_rows:
            yield found


class _ReplacedValues:
    """Values of replaced rows of a file for the records that replace them, as messages for each part of records."""

    def __init__(self, merge: Merge, matches: _Matches, path: str, sink: IO[bytes]) -> None:
        self._merge = merge
        self._matches = matches
        self._path = path
        self._sink = sink
        self._held: list[pa.RecordBatch] = []
        self.messages: list[_Message] = []

    def add(self, batch: pa.RecordBatch, at: int) -> None:
        """Buffer values of rows of the file; `at` is the number of the first row."""
        first, end = np.searchsorted(self._matches.at, [at, at + batch.num_rows])
        if first == end:
            return
        own = slice(int(first), int(end))
        rows = batch.select([*self._merge.kept]).take(pa.array(self._matches.at[own] - at))
        place = [pa.array(self._matches.part[own]), pa.array(self._matches.row[own])]
        self._held.append(pa.RecordBatch.from_arrays([*place, *rows.columns], schema=self._merge.known))
        if sum(each.nbytes for each in self._held) >= self._merge.kept_bytes:
            self.flush()

    def flush(self) -> None:
        """Write the buffered values."""
        if not self._held:
            return
        rows = pa.Table.from_batches(self._held)
        self._held = []
        for number, own in partition.cut(rows, rows.column(_PART).to_numpy()):
            start = self._sink.tell()
            for batch in own.combine_chunks().to_batches():
                self._sink.write(batch.serialize())
            self.messages.append(_Message(number, self._path, start, self._sink.tell() - start))


def _written(merge: Merge, item: tuple[int, PartRange, Sequence[_Message]]) -> list[Any]:
    """Write the records of a part, except records with a delete flag."""
    _, part_range, messages = item
    records = _Records(merge, _read(merge, messages))
    return merge.writer.files(
        merge.stream(part_range), merge.layout, merge.create, moved=merge.moved, change=records.changed
    )  # fmt: skip


def _read(merge: Merge, messages: Sequence[_Message]) -> pa.Table:
    """Read the values that records of a part take from rows of the table, in the order of the records."""
    batches = []
    for each in messages:
        with merge.part_store.open(each.path) as source:
            source.seek(each.start)
            stream = io.BytesIO(merge.known.serialize().to_pybytes() + source.read(each.size))
        with pa.ipc.open_stream(stream) as opened:
            batches += [*opened]
    return pa.Table.from_batches(batches, merge.known).sort_by(_ROW)


class _Records:
    """The records of a part in their final form: with values from replaced rows, and without flags."""

    def __init__(self, merge: Merge, kept: pa.Table) -> None:
        self._merge = merge
        self._kept = kept
        self._rows = kept.column(_ROW).to_numpy()
        self._at = 0
        twice = np.flatnonzero(self._rows[1:] == self._rows[:-1])
        self._twice = int(self._rows[twice[0]]) if len(twice) else None

    def changed(self, group: pa.Table) -> pa.Table:
        """The next records in the form of the table.

        Raises:
            Ambiguous: several rows of the table have the key of a record.
            Unfit: a value does not fit the table.
        """
        merge, first = self._merge, self._at
        self._at += group.num_rows
        if self._twice is not None and first <= self._twice < self._at:
            (row,) = group.select([*merge.key]).slice(self._twice - first, 1).to_pylist()
            count = int((self._rows == self._twice).sum())
            raise Ambiguous(
                "the table has", [(row, count)], "remove these rows but one, or let `key` name more columns"
            )
        written = pa.schema([column for column in merge.layout.schema if column.name not in merge.kept])
        found = as_in_table(group, written)
        if merge.kept:
            start, end = np.searchsorted(self._rows, [first, self._at])
            places = np.full(group.num_rows, -1)
            places[self._rows[start:end] - first] = np.arange(start, end)
            indices = pa.array(places, mask=places < 0)
            for name in merge.kept:
                values = self._kept.column(merge.kept_as(name)).take(indices)
                found = found.append_column(merge.layout.schema.field(name), values)
            found = found.select(merge.layout.schema.names)
        if merge.flag:
            found = found.filter(pc.invert(pc.fill_null(group.column(merge.flag), False)))
        return found
