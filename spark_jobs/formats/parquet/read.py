"""The Parquet files of a source: their columns told by their footers, row groups read in parallel.

A split has the row groups whose middle lies in its bytes. Only columns that somebody needs are read.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from spark_jobs.cxl import types
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import names, reader
from spark_jobs.formats.columns import ColumnTracker, FilePlan, OnUnmapped
from spark_jobs.formats.format import Block
from spark_jobs.formats.parquet import footer, pages, statistics
from spark_jobs.formats.typed import arrow_files, natural
from spark_jobs.formats.typed.records import TypedShape
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from spark_jobs.formats.columns import ScanPlan
    from spark_jobs.formats.format import ArrayPath, Reading, SourceColumn
    from spark_jobs.formats.names import Search
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile

#: A file begins with four bytes that say what it is.
_START = 4
#: What a file may unfold to where its records are so long on average: so many times what a task may hold of one record,
#: and so many times its own size. Short values repeat in any file, long ones only where somebody wants them to.
_LONG_BYTES, _MOST_UNFOLDED, _MOST_RATIO = 4 << 10, 16, 1000
_NOTHING = pa.RecordBatch.from_arrays([], names=[])


@contextmanager
def _opened(file: InputFile) -> Iterator[parquet.ParquetFile]:
    """A file with its footer read; see `_with_stream`."""
    with _with_stream(file) as (_, found):
        yield found


@contextmanager
def _with_stream(file: InputFile) -> Iterator[tuple[Stream, parquet.ParquetFile]]:
    """A file as its bytes, and with its footer read.

    Raises:
        FormatError: it cannot be read, changed (E907), or is no Parquet file.
    """
    with changes.opened(file) as stream:
        with _told(file):
            found = parquet.ParquetFile(pa.PythonFile(stream, mode="r"))
        known = _rows(found.metadata, range(found.num_row_groups))
        if known != found.metadata.num_rows:
            _refuse_count(file, found.metadata.num_rows, known)
        yield stream, found


@contextmanager
def _told(file: InputFile) -> Iterator[None]:
    """To stand around what Arrow does with the bytes of a file, and nothing else: what it refuses is the file's fault.

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
    """Some columns of a row group; how they are cut depends on nothing else.

    Arrow compares what the footer says of columns with the schema in the first row group of a call only, and it cannot
    join the dictionaries of several row groups within lists, maps and structures: so each is a call.

    Raises:
        FormatError: the row group is broken, or has other columns or records than the footer says.
    """
    names, kinds = [field.name for field in fields], [field.type for field in fields]
    rows, count = rows_of(group), 0
    with _told(file):
        found = iter(opened.iter_batches(rows, [group], columns=names, use_threads=False))
    while True:
        with _told(file):
            batch = next(found, None)
            if batch is not None:
                # Arrow takes texts as they are, and what is no text would break whatever reads it.
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
    """The same rows in fewer batches, of so many rows and bytes at most.

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
    """The same batches, as long as they are not far more than a file can mean.

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
    """How many bytes a batch has, were its dictionaries none."""
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
    """One batch, or several where Arrow's texts would become too long."""
    return pa.Table.from_batches(held).combine_chunks().to_batches() if len(held) > 1 else held


@dataclass(frozen=True)
class ParquetReader(reader.Reader):
    """Reads Parquet files.

    Args:
        declared: what the declared columns are called in the files: structures among them are read as a whole.
        texts: those that are declared as texts: bytes among them are texts, as old writers do not say.
    """

    declared: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    def knowing(self, declared: Sequence[SourceColumn]) -> ParquetReader:
        """The reader that knows which structures and texts are columns."""
        texts = frozenset(column.key for column in declared if column.type.kind is Kind.STRING)
        return replace(self, declared=frozenset(column.key for column in declared), texts=texts)

    def plan(
        self,
        declared: Sequence[str],
        inputs: Iterable[InputFile],
        on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
        search: Search = names.search_here,
    ) -> ScanPlan:
        """Match the columns in the footers with the declared ones.

        Raises:
            FormatError: a file cannot be read, an undeclared column is rejected, or nothing stands for the type of one
                that is read.
        """
        tracker = ColumnTracker(declared, on_unmapped)
        seen: list[tuple[InputFile, dict[str, pa.DataType], bool]] = []
        skipped: list[str] = []
        for file in inputs:
            if not file.size:
                skipped.append(file.name)
                continue
            with _opened(file) as opened:
                arrow_files.refuse_nothing(file, opened.metadata.num_rows)
                kinds = arrow_files.kinds(opened.schema_arrow, file, self.declared)
                seen.append((file, kinds, opened.num_row_groups > 1))
            tracker.see(file.name, list(kinds))
        plans = []
        for file, kinds, is_splittable in seen:
            columns = tracker.columns(list(kinds))
            arrow_files.refuse_unknown(
                "Parquet", file, kinds, {*columns.declared, *columns.widened} - {None}, self.texts
            )
            plans.append(FilePlan(file, columns, _START, is_splittable))
        return tracker.plan(tuple(plans), skipped, types.ANY)

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a split's row groups."""
        outcome.start, outcome.end = split.start, split.end
        shape = TypedShape(wanted, file_plan.columns)
        needed = arrow_files.needed(wanted, file_plan)
        with _with_stream(file_plan.file) as (stream, opened):
            groups = _groups(split, opened.metadata, file_plan.file.size)
            spared = _spared(opened, stream, file_plan, wanted, self.declared) if wanted.passes else frozenset()
            chosen = _top_level(opened.schema_arrow, needed, self.declared)
            fields = [field for field in opened.schema_arrow if field.name in chosen]
            places = [
                at
                for at, (top, _) in enumerate(arrow_files.with_tops(opened.schema_arrow, self.declared))
                if top in chosen
            ]
            rows = _rows_of_a_block(opened.metadata, groups, wanted.block_bytes)
            rows_of = _rows_at_a_time(opened, stream, chosen, wanted, file_plan.file.name)
            read = partial(_batches, opened, file_plan.file, fields, rows_of)
            for is_spared, some in itertools.groupby(groups, spared.__contains__):
                run = list(some)
                if is_spared:
                    first, count = outcome.records, _rows(opened.metadata, run)
                    outcome.records += count
                    yield Block(first, count, _NOTHING, passed_over=len(run))
                    continue
                found_batches = _watched(itertools.chain.from_iterable(map(read, run)), file_plan.file, wanted)
                for batch in _joined(found_batches, rows, _budget(wanted)):
                    arrays = natural.arrays(batch.columns, fields, self.declared)
                    found = {
                        at: natural.natural(array) for at, array in zip(places, arrays, strict=True) if at in needed
                    }
                    first, outcome.records = outcome.records, outcome.records + batch.num_rows
                    yield shape.block(first, batch.num_rows, found)

    def counts(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
        """The footer has the numbers."""
        outcome.start, outcome.end = split.start, split.end
        with _opened(file_plan.file) as opened:
            outcome.records = _rows(opened.metadata, _groups(split, opened.metadata, file_plan.file.size))
        return True


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


def _top_level(schema: pa.Schema, needed: set[int], declared: frozenset[str]) -> dict[str, None]:
    return {top: None for at, (top, _) in enumerate(arrow_files.with_tops(schema, declared)) if at in needed}


def _groups(split: Split, metadata: parquet.FileMetaData, file_size: int) -> list[int]:
    """The row groups of a split: those whose middle lies in it, were the file's bytes row groups alone.

    What the footer says of columns is not asked: Arrow ends the process where that is broken.
    """
    if split.index == 0 and split.is_last:
        return list(range(metadata.num_row_groups))
    sizes = [max(metadata.row_group(number).total_byte_size, 0) for number in range(metadata.num_row_groups)]
    ends = list(itertools.accumulate(sizes))
    total = max(sum(sizes), 1)
    groups = []
    for number, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        middle = (end - size // 2) * file_size // total
        if (split.start <= middle or split.index == 0) and (middle < split.end or split.is_last):
            groups.append(number)
    return groups


def _budget(wanted: Reading) -> int:
    """How many bytes a batch may become, whatever it is in the file."""
    return max(wanted.block_bytes, wanted.record_bytes // 4)


def _rows_at_a_time(
    opened: parquet.ParquetFile, stream: Stream, chosen: Collection[str], wanted: Reading, name: str
) -> Callable[[int], int]:
    """How many rows of each row group Arrow may make at a time, whatever they are in the file."""
    budget = _budget(wanted)

    def of(group: int) -> int:
        # A split without row groups needs no footer.
        places = footer.extents(stream)
        least = _rows_of_a_block(opened.metadata, [group], wanted.block_bytes)
        if places is None or len(places) != opened.num_row_groups:
            return least
        rows = _rows(opened.metadata, [group])
        return pages.most_rows(stream, places[group], chosen, rows, least, budget, wanted.record_bytes, name)

    return of


def _rows_of_a_block(metadata: parquet.FileMetaData, groups: list[int], block_bytes: int) -> int:
    """So many rows of some row groups that they are about as large as a block."""
    rows = _rows(metadata, groups)
    size = sum(metadata.row_group(number).total_byte_size for number in groups)
    return max(1024, min(1 << 17, rows * block_bytes // max(size, 1)))


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> ParquetReader:
    """The reader of a source's files."""
    return ParquetReader(options, arrays, layout)
