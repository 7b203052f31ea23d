"""Counts the entries of dead-letter files. Pure, free of Airflow."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from clinker_provider import local_files

#: The first bytes of compressed files, and what opens them; the rest is left to Arrow, by its names.
_OPENERS: tuple[tuple[bytes, Any], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\0", lzma.open),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
)


@dataclass(frozen=True)
class Found:
    """The dead-letter files that match a pattern, and how many entries they hold together."""

    paths: tuple[str, ...]
    count: int


def look(pattern: str) -> Found:
    """The file of this path, or else those that match it as a glob pattern; and their entries without the headers.

    Raises:
        OSError: when a file cannot be read, or is in a store.
    """
    pattern = local_files.pattern(pattern)
    # A run's own path may hold characters that mean something in patterns.
    candidates = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)
    paths = tuple(sorted(path for path in candidates if Path(path).is_file()))
    return Found(paths, sum(_entries(Path(path)) for path in paths))


def _entries(path: Path) -> int:
    """How many records begin, the header not counted.

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
