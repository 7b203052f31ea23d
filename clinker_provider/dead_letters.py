"""Counts the entries of dead-letter files. Pure, free of Airflow."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from clinker_provider.files import Files

if TYPE_CHECKING:
    from pathlib import Path

#: The first bytes of compressed files, and what opens them; the rest is left to Arrow, by its names.
_OPENERS: tuple[tuple[bytes, Any], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\0", lzma.open),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
)


_HERE = Files()


@dataclass(frozen=True)
class Found:
    """The dead-letter files that match a pattern, and how many entries they hold together."""

    paths: tuple[str, ...]
    count: int


def look(pattern: str, files: Files = _HERE) -> Found:
    """The file at this path, or else the files that match it as a glob pattern, with the number of all their entries.

    Args:
        pattern: a path or URI, or a glob pattern of such.
        files: how they are reached.

    Raises:
        OSError: a file cannot be read, or its store refuses.
        ValueError: the pattern is a URI that leads nowhere.
    """
    paths, count = files.matching(pattern), 0
    for path in paths:
        with files.local(path) as copy:
            count += _entries(copy)
    return Found(paths, count)


def _entries(path: Path) -> int:
    """The number of entries of a dead-letter file, without its header.

    An entry may span lines: a failing value can hold newlines, and then it stands between quotes. Fields may have any
    length, which the `csv` module would have to be told for the whole process.
    """
    count, is_quoted = 0, False
    with _opened(path) as file:
        for line in file:
            if not is_quoted and line.strip(b"\r\n"):
                count += 1
            is_quoted ^= line.count(b'"') % 2 == 1
    return max(count - 1, 0)


def _opened(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked where it is compressed."""
    with path.open("rb") as file:
        head = file.read(6)
    opener = next((known for magic, known in _OPENERS if head.startswith(magic)), None)
    if opener is None:
        return path.open("rb")
    if isinstance(opener, str):
        import pyarrow as pa

        packed: Any = pa.CompressedInputStream(str(path), opener)
        return io.BufferedReader(packed)
    unpacked: IO[bytes] = opener(path, "rb")
    return unpacked
