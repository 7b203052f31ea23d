"""Decodes ORC files in a process of its own (`formats/isolated/`): Arrow may end it where their bytes are wrong."""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import dataset, orc

from spark_jobs.formats.isolated.program import Refused
from spark_jobs.formats.orc import tail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.isolated.program import RemoteFile


class Decoder:
    """An ORC file; see `isolated.program.Decoder`."""

    def __init__(self, file: RemoteFile, settings: dict[str, Any]) -> None:
        self._file = file
        with _translated_errors():
            opened = orc.ORCFile(pa.PythonFile(file, mode="r"))
            self.schema: pa.Schema | None = opened.schema
            self._tail = tail.Tail(opened.reader.serialized_file_tail())
        stripes = self._tail.stripes
        rows = sum(stripe.rows for stripe in stripes)
        if rows != opened.nrows:
            text = f"its footer tells of {opened.nrows} records, and its stripes of {rows}"
            raise Refused(f"is not a readable ORC file: {text}")
        self.about = {"stripes": [[stripe.offset, stripe.size, stripe.rows] for stripe in stripes]}

    def batches(self, wanted: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """The records of some `stripes`: their `columns`, so many `rows` at a time, from the row number `skip` on."""
        part = _Part(self._file, self._tail.of(wanted["stripes"]))
        left = wanted["skip"]
        with _translated_errors():
            fragment = dataset.OrcFileFormat().make_fragment(pa.PythonFile(part, mode="r"))
            found = fragment.to_batches(
                columns=wanted["columns"],
                batch_size=wanted["rows"],
                use_threads=False,
                batch_readahead=0,
                fragment_readahead=0,
            )
        while True:
            with _translated_errors():
                batch = next(found, None)
            if batch is None:
                return
            if left < batch.num_rows:
                yield batch.slice(left)
            left = max(0, left - batch.num_rows)


class _Part(io.RawIOBase):
    """A file with another tail after it."""

    def __init__(self, file: RemoteFile, data: bytes) -> None:
        super().__init__()
        self._file, self._data = file, data
        self._at = 0
        self._total = file.total + len(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = 0, /) -> int:
        """Go to a position."""
        self._at = position + (0, self._at, self._total)[whence]
        return self._at

    def tell(self) -> int:
        """The position of the next byte."""
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; none at the end."""
        end = self._total if size < 0 else min(self._total, self._at + size)
        data = b""
        if self._at < self._file.total and self._at < end:
            self._file.seek(self._at)
            data = self._file.read(min(end, self._file.total) - self._at)
        start = self._at + len(data) - self._file.total
        data += self._data[start : end - self._file.total] if start >= 0 else b""
        self._at += len(data)
        return data


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turns Arrow's errors about bytes into errors of the file.

    Raises:
        Refused: it is no ORC file.
        MemoryError: it needs more memory than there is.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, tail.Malformed) as problem:
        if isinstance(problem, MemoryError) or "bad_alloc" in str(problem):
            raise MemoryError from problem
        raise Refused(f"is not a readable ORC file: {_text(problem)}") from problem


def _text(problem: Exception) -> str:
    if "out of range for nanosecond" in str(problem):
        return (
            f"{problem}; moments before the year 1678 and after 2262 cannot be read: leave the column out "
            "(`on_unmapped: drop`, and no declaration), or write it as a text"
        )
    return str(problem)
