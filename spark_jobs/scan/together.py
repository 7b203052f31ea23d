"""Reads many small files as if they were one: a block of records costs the same for one file as for hundreds.

Only whole CSV files with the same columns, and whole files of JSON lines, are read so. A CSV file with an open quote is
left to the reader of single files.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_jobs.formats import encoding, format
from spark_jobs.formats.csv import parser as csv_parser
from spark_jobs.formats.csv import quotes
from spark_jobs.formats.json import parser as json_parser
from spark_jobs.formats.json import portions
from spark_jobs.formats.options import JsonLayout
from spark_jobs.formats.stretch import Stretch
from spark_jobs.scan import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.formats.csv.quotes import Dialect
    from spark_jobs.formats.format import Block, Reading
    from spark_jobs.formats.options import CsvOptions, JsonOptions
    from spark_jobs.scan.columns import FilePlan
    from spark_jobs.scan.splits import Split

_NEWLINE, _RETURN = 10, 13


def is_small(name: str, split: Split, file_plan: FilePlan, options: Any) -> bool:
    """Whether a split is a whole file that may be read with others, unless arrays make several records of one."""
    return (
        (name == "csv" or file_plan.layout is JsonLayout.NDJSON)
        and split.index == 0
        and split.is_last
        and split.end - split.start <= format.BLOCK_BYTES
        and file_plan.file.most_records is None
        and encoding.is_utf8(options.encoding)
    )


def read(
    name: str, file_plans: Sequence[FilePlan], options: Any, reading: Reading
) -> tuple[list[Block], list[int]] | None:
    """The records of small files with the same columns, and how many each has.

    None where some file cannot be read so: nothing is lost by reading them one by one then.

    Raises:
        FormatError: a file cannot be read, or changed (E907).
    """
    return (_csv if name == "csv" else _json)(file_plans, options, reading)


def _json(
    file_plans: Sequence[FilePlan], options: JsonOptions, reading: Reading
) -> tuple[list[Block], list[int]] | None:
    files = [changes.content(file_plan.file)[file_plan.data_start :] for file_plan in file_plans]
    # Nothing is told of the file itself: each line that is no record says so on its own.
    reader = json_parser.JsonParser(file_plans[0].file.name, JsonLayout.NDJSON, options, reading)
    blocks = [*reader.blocks(io.BytesIO(portions.joined(files)), Stretch())]
    counts = [portions.count(data) for data in files]
    return (blocks, counts) if sum(block.count for block in blocks) == sum(counts) else None


def _csv(file_plans: Sequence[FilePlan], options: CsvOptions, reading: Reading) -> tuple[list[Block], list[int]] | None:
    dialect = csv_parser.dialect_of(options)
    parts: list[bytes] = []
    for file_plan in file_plans:
        part = changes.content(file_plan.file)[file_plan.data_start :]
        if dialect.quote_byte in part and len(dialect.toggles(part)) % 2:
            return None
        parts.append(part if part.endswith((b"\n", b"\r")) else part + b"\n")
    data = b"".join(parts)
    counts = _counts(data, [len(part) for part in parts], dialect)
    reader = csv_parser.CsvParser(options, file_plans[0].columns, reading)
    blocks = reader.whole(data) if any(counts) else []
    return (blocks, counts) if sum(block.count for block in blocks) == sum(counts) else None


def _counts(data: bytes, sizes: Sequence[int], dialect: Dialect) -> list[int]:
    """How many records each stretch of some bytes has; each ends with the end of a record."""
    array = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero((array == _NEWLINE) | (array == _RETURN))
    if dialect.quote_byte in data:
        toggles = dialect.toggles(data, before=quotes.FILE_START)
        ends = ends[np.searchsorted(toggles, ends) % 2 == 0]
    before = np.concatenate((np.array([-1]), ends[:-1]))
    closing = ends[ends > before + 1]
    borders = np.cumsum(np.array(sizes))
    found: list[int] = np.diff(np.searchsorted(closing, borders), prepend=0).tolist()
    return found
