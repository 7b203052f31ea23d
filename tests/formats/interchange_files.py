"""Reads files of interchanges the whole way, and writes them down by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats import format, reading, registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.scan import files
from spark_jobs.scan.compression import Compression
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Record = list[str | None]
#: A tag with its elements.
Segment = tuple[str, list[str]]
TAGS = st.sampled_from(["BGM", "N1", "LIN", "PO1", "FTX", "2A", "837"])
LETTERS = st.sampled_from(["BGM", "LIN", "FTX", "NAD", "unb"])


@dataclass
class Result:
    """The result of reading a file: its records as texts, and its problems."""

    records: list[Record]
    problem: str | None = None
    warnings: list[str] = field(default_factory=list)


def read(name: str, path: Path, data: bytes, *, block_bytes: int = format.BLOCK_BYTES, **options: Any) -> Result:
    """All records of a file with these bytes, every field as a text."""
    path.write_bytes(data)
    chosen = registry.named(name)
    reader = chosen.reader(chosen.read_options(**options))
    fields = reader.fields
    result = Result([])
    try:
        scan = reader.plan(fields, [_described(path)], OnUnmapped.REJECT)
        wanted = Reading(tuple(SourceColumn(field, types.STRING) for field in fields), block_bytes=block_bytes)
        for split in splits.plan(scan.files, 16):
            outcome = reading.SplitOutcome()
            for block in reader.read(split, scan.files[0], wanted, outcome):
                assert block.first_row == len(result.records)
                assert block.count == block.batch.num_rows > 0
                result.records += [list(record.values()) for record in block.batch.to_pylist()]
            result.warnings += outcome.warnings
            assert outcome.records == len(result.records)
    except FormatError as problem:
        result.problem = str(problem)
    return result


def record(tag: str, reference: str, kind: str, elements: Sequence[str], width: int) -> Record:
    """The record of a segment."""
    cells = [element or None for element in elements]
    return [tag, reference, kind, *cells, *[None] * (width - len(cells))]


def _described(path: Path) -> files.InputFile:
    found = files.describe(str(path), path.name)
    return replace(found, compression=Compression.GZIP) if path.suffix == ".gz" else found
