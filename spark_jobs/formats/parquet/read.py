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
from pyarrow import parquet

from spark_jobs.cxl import types
from spark_jobs.formats import names, reader
from spark_jobs.formats.columns import MISFIT, ColumnTracker, FilePlan, OnUnmapped
from spark_jobs.formats.format import Block
from spark_jobs.formats.parquet import footer, statistics
from spark_jobs.formats.typed import natural
from spark_jobs.formats.typed.records import TypedShape
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.columns import ScanPlan
    from spark_jobs.formats.format import ArrayPath, Reading, SourceColumn
    from spark_jobs.formats.names import Search
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile

#: A file begins with four bytes that say what it is.
_START = 4
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
        raise FormatError(f"is no Parquet file that can be read: {problem}", file.name) from problem


def _batches(
    opened: parquet.ParquetFile, file: InputFile, fields: Sequence[pa.Field], block_bytes: int, group: int
) -> Iterator[pa.RecordBatch]:
    """Some columns of a row group; how they are cut depends on nothing else.

    Arrow compares what the footer says of columns with the schema in the first row group of a call only, and it cannot
    join the dictionaries of several row groups within lists, maps and structures: so each is a call.

    Raises:
        FormatError: the row group is broken, or has other columns or records than the footer says.
    """
    names, kinds = [field.name for field in fields], [field.type for field in fields]
    rows = _rows_of_a_block(opened.metadata, [group], block_bytes)
    count = 0
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
            raise FormatError("is no Parquet file that can be read: its columns are not as its footer says", file.name)
        count += batch.num_rows
        yield batch
    if count != (known := _rows(opened.metadata, [group])):
        _refuse_count(file, known, count, f" in row group {group + 1}")


def _joined(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, of so many rows at most: each costs the same, and row groups may have few."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if held and rows > most:
            yield from _as_few(held)
            held, rows = [], batch.num_rows
        held.append(batch)
    yield from _as_few(held)


def _as_few(held: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One batch, or several where Arrow's texts would become too long."""
    return pa.Table.from_batches(held).combine_chunks().to_batches() if len(held) > 1 else held


@dataclass(frozen=True)
class ParquetReader(reader.Reader):
    """Reads Parquet files.

    Args:
        declared: what the declared columns are called in the files: structures among them are read as a whole.
    """

    declared: frozenset[str] = frozenset()

    def knowing(self, declared: Sequence[SourceColumn]) -> ParquetReader:
        """The reader that knows which structures are columns."""
        return replace(self, declared=frozenset(column.key for column in declared))

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
                kinds = _kinds(opened.schema_arrow, file, self.declared)
                seen.append((file, kinds, opened.num_row_groups > 1))
            tracker.see(file.name, list(kinds))
        plans = []
        for file, kinds, is_splittable in seen:
            columns = tracker.columns(list(kinds))
            _refuse_unknown(file, kinds, {*columns.declared, *columns.widened} - {None})
            plans.append(FilePlan(file, columns, _START, is_splittable))
        return tracker.plan(tuple(plans), skipped, types.ANY)

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a split's row groups."""
        outcome.start, outcome.end = split.start, split.end
        shape = TypedShape(wanted, file_plan.columns)
        needed = _needed(wanted, file_plan)
        with _with_stream(file_plan.file) as (stream, opened):
            groups = _groups(split, opened.metadata, file_plan.file.size)
            spared = _spared(opened, stream, file_plan, wanted, self.declared) if wanted.passes else frozenset()
            chosen = _top_level(opened.schema_arrow, needed, self.declared)
            fields = [field for field in opened.schema_arrow if field.name in chosen]
            places = [at for at, (top, _) in enumerate(_with_tops(opened.schema_arrow, self.declared)) if top in chosen]
            read = partial(_batches, opened, file_plan.file, fields, wanted.block_bytes)
            rows = _rows_of_a_block(opened.metadata, groups, wanted.block_bytes)
            for is_spared, some in itertools.groupby(groups, spared.__contains__):
                run = list(some)
                if is_spared:
                    first, count = outcome.records, _rows(opened.metadata, run)
                    outcome.records += count
                    yield Block(first, count, _NOTHING, passed_over=len(run))
                    continue
                for batch in _joined(itertools.chain.from_iterable(map(read, run)), rows):
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


def _kinds(schema: pa.Schema, file: InputFile, declared: frozenset[str]) -> dict[str, pa.DataType]:
    """The Arrow types of a file's columns by their dotted names.

    Raises:
        FormatError: two columns have one name (E217).
    """
    kinds: dict[str, pa.DataType] = {}
    for name, kind in natural.leaves(schema, declared):
        if name in kinds:
            raise FormatError(f"the footer names column '{name}' twice", file.name, MISFIT)
        kinds[name] = kind
    return kinds


def _refuse_unknown(file: InputFile, kinds: dict[str, pa.DataType], fields: set[int | None]) -> None:
    for at, (name, kind) in enumerate(kinds.items()):
        if at in fields and natural.type_of(kind) is None:
            message = (
                f"column '{name}' is of the Parquet type {kind}, for which there is no type here; "
                "leave it out (`on_unmapped: drop`, and no declaration), or write the file with another type"
            )
            raise FormatError(message, file.name, MISFIT)


def _rows(metadata: parquet.FileMetaData, groups: Iterable[int]) -> int:
    return sum(metadata.row_group(number).num_rows for number in groups)


def _refuse_count(file: InputFile, promised: int, found: int, where: str = "") -> None:
    text = f"is no Parquet file that can be read: its footer tells of {promised} records{where}, and there are {found}"
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


def _needed(wanted: Reading, file_plan: FilePlan) -> set[int]:
    """The columns of a file that must be read: all declared ones are checked in every record."""
    widened = file_plan.columns.widened if wanted.widened else ()
    declared = file_plan.columns.declared[: len(wanted.columns)]
    return {field for field in (*declared, *widened) if field is not None}


def _with_tops(schema: pa.Schema, declared: frozenset[str]) -> list[tuple[str, str]]:
    """The leaves of a file, each with the column that it belongs to."""
    return [(field.name, name) for field in schema for name, _ in natural.leaves([field], declared)]


def _top_level(schema: pa.Schema, needed: set[int], declared: frozenset[str]) -> dict[str, None]:
    return {top: None for at, (top, _) in enumerate(_with_tops(schema, declared)) if at in needed}


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


def _rows_of_a_block(metadata: parquet.FileMetaData, groups: list[int], block_bytes: int) -> int:
    """So many rows of some row groups that they are about as large as a block."""
    rows = _rows(metadata, groups)
    size = sum(metadata.row_group(number).total_byte_size for number in groups)
    return max(1024, min(1 << 17, rows * block_bytes // max(size, 1)))


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> ParquetReader:
    """The reader of a source's files."""
    return ParquetReader(options, arrays, layout)
