"""Encodings other than UTF-8: streams become UTF-8 for readers, and writers encode records."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.formats import cell_text, format, options
from spark_jobs.scan.files import UnreadableText

if TYPE_CHECKING:
    from typing import Protocol

    import pyarrow as pa

    class _ByteStream(Protocol):
        def read(self, size: int, /) -> bytes: ...


#: Encodings that begin with a byte order mark, and the encoding of what follows it.
_MARKED = {
    "utf-8-sig": (codecs.BOM_UTF8, "utf-8"),
    "utf-16": (codecs.BOM_UTF16_LE, "utf-16-le"),
    "utf-32": (codecs.BOM_UTF32_LE, "utf-32-le"),
}
_UNDECODABLE = "clinker_undecodable"
_READ_BYTES = 1 << 20


def _keep_undecodable(error: UnicodeError) -> tuple[str, int]:
    """A lone surrogate for undecodable bytes: no UTF-8 has it, so the reader finds the record malformed."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error(_UNDECODABLE, _keep_undecodable)


def is_utf8(name: str) -> bool:
    """Whether an encoding is UTF-8, with or without a byte order mark, so that files need no conversion."""
    return codecs.lookup(name).name in ("utf-8", "utf-8-sig")


def takes_mark(name: str) -> bool:
    """Whether reading an encoding takes the byte order mark at the beginning for itself."""
    return codecs.lookup(name).name in _MARKED


class Utf8Stream:
    """A stream of some encoding, read as UTF-8. Undecodable bytes come out as bytes that are no UTF-8.

    Args:
        stream: the bytes in that encoding, from the file's beginning on.
        encoding: its name.
        skip: how many bytes of UTF-8 to leave out at the beginning.
    """

    def __init__(self, stream: _ByteStream, encoding: str, skip: int = 0) -> None:
        self._stream = stream
        self._name = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors=_UNDECODABLE)
        self._ready = b""
        self._at_end = False
        while skip and (data := self.read(skip)):
            skip -= len(data)

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes of UTF-8; empty at the end."""
        while not self._ready and not self._at_end:
            data = self._stream.read(_READ_BYTES)
            self._at_end = not data
            try:
                text = self._decoder.decode(data, final=self._at_end)
            except UnicodeError as error:  # wrong characters raise no error here, only a missing byte order mark does
                raise UnreadableText(_without_mark(self._name, data)) from error
            self._ready = text.encode("utf-8", "surrogatepass")
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken


def _without_mark(name: str, data: bytes) -> str:
    """The error for a file without the byte order mark that its encoding needs."""
    width = 4 if codecs.lookup(name).name == "utf-32" else 2
    order = "be" if data[:1] == b"\0" else "le"
    return (
        f"the file has no byte order mark, which '{name}' begins with; its first bytes are {data[:8].hex(' ')}. "
        f"Without one, name the order of the bytes: `encoding: utf-{8 * width}-{order}`"
    )


class Encoding:
    """The encoding of an output: what its file begins with, and its records' bytes."""

    def __init__(self, name: str) -> None:
        canonical = codecs.lookup(name).name
        self.mark, self._body = _MARKED.get(canonical, (b"", canonical))
        self._name = name
        self._is_utf8 = self._body == "utf-8"

    def encode(self, text: str) -> bytes:
        """A text in this encoding.

        Raises:
            UnicodeEncodeError: a character is not in it.
        """
        return text.encode(self._body)

    def encode_column(self, lines: pa.StringArray, *, ends: bool = False) -> format.Encoded:
        """The bytes of records, one text each; a record with a character that the encoding lacks fails."""
        if self._is_utf8:
            return format.Encoded(cell_text.view(lines), len(lines), ends=cell_text.ends(lines) if ends else None)
        if ends:
            return self._encode_each(lines.to_pylist())
        try:
            return format.Encoded(self.encode(cell_text.characters(lines).decode()), len(lines))
        except UnicodeEncodeError:
            return self._encode_each(lines.to_pylist())

    def _encode_each(self, lines: list[str]) -> format.Encoded:
        pieces: list[bytes] = []
        failures: list[RowFailure] = []
        for row, line in enumerate(lines):
            try:
                pieces.append(self.encode(line))
            except UnicodeEncodeError as error:
                failures.append(_unwritable(row, line[error.start], self._name))
        ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
        return format.Encoded(b"".join(pieces), len(pieces), failures, ends)


def _unwritable(row: int, character: str, encoding: str) -> RowFailure:
    return RowFailure(row, Failure(options.unwritable(character, encoding), value=character))
