"""Runs the whole way from a file's bytes to its records, split or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import types
from spark_jobs.formats import reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.csv import parser
from spark_jobs.formats.csv.options import CsvRead
from spark_jobs.formats.csv.read import CsvReader
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.scan import files

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spark_jobs.formats.columns import ScanPlan
    from spark_jobs.formats.format import Block

Columns = dict[str, types.Type]


@dataclass
class Result:
    """What reading a file gave; failures are (row, field, value, category, detail)."""

    records: list[dict[str, Any]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    failures: list[tuple[int, str | None, Any, str, str]] = field(default_factory=list)
    failed_rows: list[dict[str, str | None]] = field(default_factory=list)
    count: int = 0
    blocks: int = 0
    was_consistent: bool = True
    schema: pa.Schema | None = None

    def add(self, block: Block, offset: int) -> None:
        self.blocks += 1
        first = block.first_row + offset
        assert block.batch.num_rows + len(block.failures) == block.count
        rows = range(block.first_row, block.first_row + block.count) if block.rows is None else block.rows.to_pylist()
        places = sorted([*rows, *(failure.row for failure in block.failures)])
        assert places == list(range(block.first_row, block.first_row + block.count))
        self.count = max(self.count, first + block.count)
        self.records += block.batch.to_pylist()
        self.rows += [row + offset for row in rows]
        for failed in block.failures:
            why = failed.failure
            self.failures.append((failed.row + offset, why.field, why.value, str(why.category), why.detail))
        if block.failed_rows is not None:
            assert block.failed_rows.num_rows == len(block.failures)
            self.failed_rows += block.failed_rows.to_pylist()
        self.schema = block.batch.schema


def source_columns(declared: Columns, required: tuple[str, ...] = ()) -> tuple[SourceColumn, ...]:
    return tuple(SourceColumn(name, static, name in required) for name, static in declared.items())


def read_csv(
    path: Path,
    data: bytes,
    declared: Columns,
    *,
    options: CsvRead | None = None,
    split_bytes: int = splits.SPLIT_BYTES,
    block_bytes: int = parser.BLOCK_BYTES,
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
    required: tuple[str, ...] = (),
    columns: tuple[SourceColumn, ...] | None = None,
    **wanted: Any,
) -> Result:
    """All records of a file with these bytes, read in splits; again with exact borders where a guess was wrong."""
    path.write_bytes(data)
    options = options or CsvRead()
    file = files.describe(str(path), path.name)
    reader = CsvReader(options)
    columns = source_columns(declared, required) if columns is None else columns
    scan = reader.plan(tuple(column.name for column in columns), [file], on_unmapped)
    want = Reading(columns, scan.undeclared, block_bytes=block_bytes, **wanted)
    parts = splits.plan(scan.files, split_bytes)
    result, consistent = _read(parts, scan, reader, want)
    if not consistent:
        parts = reader.exact_splits(scan.files[0], parts)
        result, consistent = _read(parts, scan, reader, want)
        assert consistent
        result.was_consistent = False
    return result


def _read(parts: list[splits.Split], scan: ScanPlan, reader: CsvReader, want: Reading) -> tuple[Result, bool]:
    result = Result()
    consistent = True
    for split in parts:
        outcome = reading.SplitOutcome()
        offset = result.count
        for block in reader.read(split, scan.files[split.file], want, outcome):
            result.add(block, offset)
        assert offset + outcome.records == result.count
        counted = reading.SplitOutcome()
        reader.count(split, scan.files[split.file], counted)
        # After a wrong cut the counts do not matter, because the file is read again.
        assert counted.is_consistent == outcome.is_consistent
        assert not outcome.is_consistent or counted == outcome
        consistent &= outcome.is_consistent
    return result, consistent
