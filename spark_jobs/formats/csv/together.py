"""Reads many small CSV files as if they were one.

Only whole files with the same columns are read so. A file with an open quote is left to the reader of single files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats.csv import parser, quotes
from spark_jobs.scan import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.csv.options import CsvRead
    from spark_jobs.formats.csv.quotes import Dialect
    from spark_jobs.formats.format import Block, Reading

_NEWLINE, _RETURN = 10, 13


def read(file_plans: Sequence[FilePlan], options: CsvRead, wanted: Reading) -> tuple[list[Block], list[int]] | None:
    """The records of small files, and how many each has; see `Reader.read_together`."""
    dialect = parser.dialect_of(options)
    parts: list[bytes] = []
    for file_plan in file_plans:
        part = changes.content(file_plan.file)[file_plan.data_start : file_plan.end]
        if dialect.quote_byte in part and len(dialect.toggles(part)) % 2:
            return None
        parts.append(part if part.endswith((b"\n", b"\r")) else part + b"\n")
    data = b"".join(parts)
    counts = _counts(data, [len(part) for part in parts], dialect)
    reader = parser.CsvParser(options, file_plans[0].columns, wanted)
    blocks = reader.whole(data) if any(counts) else []
    return (blocks, counts) if sum(block.count for block in blocks) == sum(counts) else None


def _counts(data: bytes, sizes: Sequence[int], dialect: Dialect) -> list[int]:
    """The number of records in each range of some bytes. Each range ends with the end of a record."""
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
