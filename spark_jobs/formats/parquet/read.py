"""The Parquet files of a source: footers give their columns, row groups are read in parallel.

A split has the row groups whose middle lies in its bytes. Only columns that somebody needs are read.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from spark_jobs.formats.parquet import footer, pages, statistics
from spark_jobs.formats.parquet.extents import Extents
from spark_jobs.formats.typed import natural, reader
from spark_jobs.formats.typed.reader import PassedOver
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.format import ArrayPath, Reading
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile

#: Limits for files with long records on average: they may unfold to so many times a task's limit for one record, and so
#: many times their own size. Short values repeat in any file, long ones only on purpose.
_LONG_BYTES, _MOST_UNFOLDED, _MOST_RATIO = 4 << 10, 16, 1000


@contextmanager
def _translated_errors(file: InputFile) -> Iterator[None]:
    """Turns Arrow's errors into errors of the file: wrap only calls in which Arrow reads the bytes of a file.

    Raises:
        FormatError: it is no Parquet file.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise FormatError(f"is not a readable Parquet file: {problem}", file.name) from problem


def _batches(
    opened: parquet.ParquetFile, file: InputFile, fields: Sequence[pa.Field], rows_of: Callable[[int], int], group: int
) -> Iterator[pa.RecordBatch]:
    """Some columns of a row group, in batches whose borders depend on the row group alone.

    Each row group is read by a call of its own, for two reasons. Arrow compares the footer's columns with the schema
    only in the first row group of a call. And it cannot join the dictionaries of several row groups within lists, maps
    and structs.

    Raises:
        FormatError: the row group is broken, or has other columns or records than the footer says.
    """
    names, kinds = [field.name for field in fields], [field.type for field in fields]
    rows, count = rows_of(group), 0
    with _translated_errors(file):
        found = iter(opened.iter_batches(rows, [group], columns=names, use_threads=False))
    while True:
        with _translated_errors(file):
            batch = next(found, None)
            if batch is not None:
                # Arrow does not check that texts are UTF-8, and later code relies on it.
                batch.validate(full=True)
        if batch is None:
            break
        if batch.schema.types != kinds:
            raise FormatError("is not a readable Parquet file: its columns differ from its footer", file.name)
        count += batch.num_rows
        yield batch
    if count != (known := _rows(opened.metadata, [group])):
        _refuse_count(file, known, count, f" in row group {group + 1}")


def _joined(batches: Iterable[pa.RecordBatch], most: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows in fewer batches, of at most so many rows and bytes.

    Each batch costs the same, and row groups may have few rows. One that unfolded to more than others is cut again.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        mine = _unfolded(batch)
        rows, size = rows + batch.num_rows, size + mine
        if held and (rows > most or size > most_bytes):
            yield from _as_few(held)
            held, rows, size = [], batch.num_rows, mine
        if mine > 2 * most_bytes and batch.num_rows > 1:
            step = max(1, batch.num_rows * most_bytes // mine)
            yield from (batch.slice(at, step) for at in range(0, batch.num_rows, step))
            rows = size = 0
            continue
        held.append(batch)
    yield from _as_few(held)


def _watched(batches: Iterable[pa.RecordBatch], file: InputFile, wanted: Reading) -> Iterator[pa.RecordBatch]:
    """The batches, as long as they are not far larger than a file can mean.

    Long texts that are each written once, and referred to without end, would keep a task busy for hours.

    Raises:
        FormatError: they are (E310).
    """
    most = max(_MOST_UNFOLDED * wanted.record_bytes, _MOST_RATIO * file.size)
    rows = size = 0
    for batch in batches:
        rows, size = rows + batch.num_rows, size + _unfolded(batch)
        if size > most and size > rows * _LONG_BYTES:
            text = (
                f"its records unfold to more than {most} bytes, and the file has {file.size}; "
                "raise memory.limit, use fewer threads, or write the file without references to the same long values"
            )
            raise FormatError(text, file.name, "E310")
        yield batch


def _unfolded(batch: pa.RecordBatch) -> int:
    """The bytes of a batch without dictionary encoding."""
    size = 0
    for array in batch.columns:
        if isinstance(array, pa.DictionaryArray) and len(array.dictionary) and _has_lengths(array.dictionary.type):
            sizes = pc.binary_length(array.dictionary).take(array.indices)
            size += int(pc.sum(sizes.cast(pa.int64())).as_py() or 0)
        else:
            size += array.nbytes
    return size


def _has_lengths(kind: pa.DataType) -> bool:
    return any(is_one(kind) for is_one in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def _as_few(held: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Combine batches into one, or into several if Arrow's texts would become too long."""
    return pa.Table.from_batches(held).combine_chunks().to_batches() if len(held) > 1 else held


class OpenFile:
    """A file with its footer read, which may have `most` bytes."""

    def __init__(self, file: InputFile, stream: Stream, declared: frozenset[str], most: int) -> None:
        if file.size > most:
            footer.checked_size(stream, most, file.name)
            stream.seek(0)
        self._file = file
        self._stream = stream
        self.declared = declared
        with _translated_errors(file):
            self._opened = parquet.ParquetFile(pa.PythonFile(stream, mode="r"), coerce_int96_timestamp_unit="us")
        promised, found = self._opened.metadata.num_rows, _rows(self._opened.metadata, range(self.pieces))
        if found != promised:
            _refuse_count(file, promised, found)

    @property
    def schema(self) -> pa.Schema:
        return self._opened.schema_arrow

    @property
    def pieces(self) -> int:
        return self._opened.num_row_groups

    def rows(self, split: Split | None = None) -> int:
        metadata = self._opened.metadata
        return metadata.num_rows if split is None else _rows(metadata, _groups(split, metadata, self._file.size))

    def extent(self, split: Split) -> tuple[int, int]:
        """The place of the first record of a split in the file, and how many it has."""
        metadata = self._opened.metadata
        groups = _groups(split, metadata, self._file.size)
        return _rows(metadata, range(groups[0]) if groups else ()), _rows(metadata, groups)

    def all_rows(self, fields: Sequence[pa.Field], most_bytes: int) -> Iterator[pa.RecordBatch]:
        """All rows, so many bytes of them at a time on average.

        Args:
            fields: the columns, in the order of the file.
            most_bytes: the most bytes that the values of a batch may have, over all columns.

        Raises:
            FormatError: the file is broken.
        """
        for group in range(self.pieces):
            known = self._opened.metadata.row_group(group)
            rows = max(1, most_bytes * known.num_rows // max(known.total_byte_size, 1))
            at_a_time = {group: min(rows, max(known.num_rows, 1))}
            yield from _batches(self._opened, self._file, fields, at_a_time.__getitem__, group)

    def batches(
        self, split: Split, fields: Sequence[pa.Field], file_plan: FilePlan, wanted: Reading
    ) -> Iterator[pa.RecordBatch | PassedOver]:
        metadata = self._opened.metadata
        groups = _groups(split, metadata, self._file.size)
        spared: frozenset[int] = frozenset()
        if wanted.passes:
            spared = _spared(self._opened, self._stream, file_plan, wanted, self.declared)
        rows = _rows_of_a_block(metadata, groups, wanted.block_bytes)
        rows_of = _rows_at_a_time(self._opened, self._stream, {field.name for field in fields}, wanted, self._file.name)
        read = partial(_batches, self._opened, self._file, fields, rows_of)
        for is_spared, some in itertools.groupby(groups, spared.__contains__):
            run = list(some)
            if is_spared:
                yield PassedOver(_rows(metadata, run), len(run))
                continue
            found = _watched(itertools.chain.from_iterable(map(read, run)), self._file, wanted)
            yield from _joined(found, rows, _budget(wanted))


@dataclass(frozen=True)
class ParquetReader(reader.FooterReader):
    """Reads Parquet files."""

    title: ClassVar[str] = "Parquet"
    magic_bytes: ClassVar[int] = 4

    @contextmanager
    def opened(self, file: InputFile, wanted: Reading | None = None) -> Iterator[OpenFile]:
        """A file with its footer read."""
        with changes.opened(file) as stream:
            yield OpenFile(file, stream, self.declared, self.record_bytes if wanted is None else wanted.record_bytes)


def _rows(metadata: parquet.FileMetaData, groups: Iterable[int]) -> int:
    return sum(metadata.row_group(number).num_rows for number in groups)


def _refuse_count(file: InputFile, promised: int, found: int, where: str = "") -> None:
    text = f"is not a readable Parquet file: its footer tells of {promised} records{where}, and there are {found}"
    raise FormatError(text, file.name)


def _spared(
    opened: parquet.ParquetFile, stream: Stream, file_plan: FilePlan, wanted: Reading, declared: frozenset[str]
) -> frozenset[int]:
    """The row groups of a file that need not be read (see `statistics.py`)."""
    groups = footer.groups(stream)
    if [group.rows for group in groups] != [_rows(opened.metadata, [at]) for at in range(opened.num_row_groups)]:
        return frozenset()
    leaves = [
        (field.name, name, kind) for field in opened.schema_arrow for name, kind in natural.leaves([field], declared)
    ]
    return statistics.passed_over(groups, leaves, file_plan.columns, wanted)


def _groups(split: Split, metadata: parquet.FileMetaData, file_size: int) -> list[int]:
    """The row groups of a split: every row group whose middle lies in it, as if row groups filled the whole file.

    The footer's column metadata is not used: Arrow aborts the process if it is broken.
    """
    if split.index == 0 and split.is_last:
        return list(range(metadata.num_row_groups))
    sizes = [max(metadata.row_group(number).total_byte_size, 0) for number in range(metadata.num_row_groups)]
    ends = list(itertools.accumulate(sizes))
    total = max(sum(sizes), 1)
    middles = ((end - size // 2) * file_size // total for size, end in zip(sizes, ends, strict=True))
    return [number for number, middle in enumerate(middles) if split.takes(middle)]


def _budget(wanted: Reading) -> int:
    """The bytes that a batch may have in memory."""
    return max(wanted.block_bytes, wanted.record_bytes // 4)


def _rows_at_a_time(
    opened: parquet.ParquetFile, stream: Stream, chosen: Collection[str], wanted: Reading, name: str
) -> Callable[[int], int]:
    """A function that limits the rows of each row group that Arrow may decode at a time."""
    budget = _budget(wanted)
    # A split without row groups needs no footer.
    known: list[Extents] = []

    def of(group: int) -> int:
        if not known:
            known.append(Extents(stream, wanted.record_bytes, name))
            if len(known[0]) != opened.num_row_groups:
                raise pages.broken("its footer is broken", name)
        places = known[0].of(group)
        least = _rows_of_a_block(opened.metadata, [group], wanted.block_bytes)
        rows = _rows(opened.metadata, [group])
        return pages.most_rows(stream, places, chosen, rows, least, budget, wanted.record_bytes, name)

    return of


def _rows_of_a_block(metadata: parquet.FileMetaData, groups: list[int], block_bytes: int) -> int:
    """The number of rows of some row groups that make a batch of about the size of a block."""
    rows = _rows(metadata, groups)
    size = sum(metadata.row_group(number).total_byte_size for number in groups)
    return max(1024, min(1 << 17, rows * block_bytes // max(size, 1)))


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> ParquetReader:
    """The reader of a source's files."""
    return ParquetReader(options, arrays, layout)
