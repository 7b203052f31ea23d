"""The container of an Avro file: its header, and blocks of records with a marker after each.

No statement of a file about itself is trusted: a number that points outside the file, a misplaced marker, or a block
that cannot be decompressed is reported as a broken file.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.scan.changes import Stream

MAGIC = b"Obj\x01"
MARKER_BYTES = 16
#: A header has a schema and a few words.
_MOST_HEADER_BYTES = 16 << 20
#: So long one may always be, however little a task can hold, and so many times its text is a schema that is parsed.
_ALWAYS_BYTES = 256 << 10
_SCHEMA_FORMS = 16
#: Each costs time, however short it is.
_MOST_WORDS = 10_000
_CHUNK_BYTES = 64 << 10
#: A number of 64 bits has so many bytes at most.
_NUMBER_BYTES = 10
#: The memory limit for unpacking XZ.
_XZ_BYTES = 128 << 20


@dataclass(frozen=True)
class Header:
    """The header of a file: everything before the blocks.

    Args:
        schema: the schema of the records, the text of some JSON.
        codec: how blocks are compressed.
        marker: what follows each block.
        end: where the first block begins.
    """

    schema: str
    codec: str
    marker: bytes
    end: int


@dataclass(frozen=True)
class Block:
    """A block as it stands in the file.

    Args:
        records: how many records it has.
        start: where it begins.
        data: where its bytes begin.
        size: how many these are.
    """

    records: int
    start: int
    data: int
    size: int

    @property
    def end(self) -> int:
        """The offset of the next block."""
        return self.data + self.size + MARKER_BYTES


def broken(reason: str, name: str) -> FormatError:
    """A file that is no Avro file, or no whole one."""
    return FormatError(f"is not a readable Avro file: {reason}", name)


class _Short(Exception):
    """The bytes end before the value is complete."""


class _TooMuch(Exception):
    """A block unpacks to more than a task may hold."""


class _Bytes:
    """Numbers and texts from bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes, after which the position moves."""
        if size < 0 or self.at + size > len(self.data):
            raise _Short
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        """A number, the lowest bits first, signs in the last."""
        found = 0
        for place in range(_NUMBER_BYTES):
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << (7 * place)
            if not byte & 0x80:
                return (found >> 1) ^ -(found & 1)
        raise _Short


def number(number: int) -> bytes:
    """A number as Avro writes it."""
    left = (number << 1) ^ (number >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def header(stream: Stream, name: str, most: int) -> Header:
    """The header of a file; the position is anywhere afterwards.

    Args:
        stream: the file.
        name: the file's name.
        most: how many bytes it may have; some kilobytes it always may.

    Raises:
        FormatError: it has none, or a longer one (E310).
    """
    stream.seek(0)
    data = stream.read(_CHUNK_BYTES)
    if not data.startswith(MAGIC):
        raise broken("it does not begin like one", name)
    while True:
        try:
            words, marker, end = _words(_Bytes(data), name)
            break
        except _Short:
            if len(data) > max(most, _ALWAYS_BYTES):
                raise _long_header(name, most) from None
            more = stream.read(len(data))
            if not more or len(data) > _MOST_HEADER_BYTES:
                raise broken("its header has no end", name) from None
            data += more
    written = words.get(b"avro.schema", b"")
    if end > max(most, _ALWAYS_BYTES) or len(written) > max(most // _SCHEMA_FORMS, _ALWAYS_BYTES):
        raise _long_header(name, most)
    try:
        schema = written.decode()
        json.loads(schema)
        codec = words.get(b"avro.codec", b"null").decode()
    except (ValueError, RecursionError) as problem:
        raise broken(f"its schema is not JSON: {problem}", name) from problem
    if codec not in _CODECS:
        raise FormatError(f"has blocks in `{codec}`, which are not read here", name)
    return Header(schema, codec, marker, end)


def _long_header(name: str, most: int) -> FormatError:
    text = (
        f"its header, with its schema parsed, takes more than {most} bytes, a third of what memory.limit leaves to "
        "each task; raise memory.limit, or use fewer threads"
    )
    return FormatError(text, name, "E310")


def _words(found: _Bytes, name: str) -> tuple[dict[bytes, bytes], bytes, int]:
    found.take(len(MAGIC))
    words: dict[bytes, bytes] = {}
    left = _MOST_WORDS
    while count := found.number():
        left -= abs(count)
        if left < 0:
            raise broken(f"its header has more than {_MOST_WORDS} words", name)
        if count < 0:
            found.number()
        for _ in range(abs(count)):
            key = found.take(found.number())
            words[key] = found.take(found.number())
    return words, found.take(MARKER_BYTES), found.at


def blocks(stream: Stream, start: int, end: int, head: Header, name: str) -> Iterator[Block]:
    """The blocks that begin in a range of a file, the first one at its start; their bytes are not read.

    Raises:
        FormatError: there is something else.
    """
    size = stream.size()
    while start < end:
        stream.seek(start)
        found = _Bytes(stream.read(2 * _NUMBER_BYTES))
        try:
            records, length = found.number(), found.number()
        except _Short:
            raise broken(f"no block begins at byte {start}", name) from None
        block = Block(records, start, start + found.at, length)
        if records < 0 or length < 0 or block.end > size:
            raise broken(f"the block at byte {start} leads out of the file", name)
        yield block
        start = block.end


def data_of(stream: Stream, block: Block, head: Header, name: str, most: int) -> bytes:
    """The records of a block.

    Args:
        stream: the file.
        block: the block.
        head: the file's header.
        name: the file's name.
        most: how many bytes they may be.

    Raises:
        FormatError: the block is broken, or larger than that (E310).
    """
    if block.size > most:
        raise _too_large(block, name, most)
    stream.seek(block.data)
    packed = stream.read(block.size)
    if stream.read(MARKER_BYTES) != head.marker:
        raise broken(f"no marker follows the block at byte {block.start}", name)
    try:
        data: bytes = _CODECS[head.codec](packed, most)
    except _TooMuch:
        raise _too_large(block, name, most) from None
    except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException) as problem:
        raise broken(f"the block at byte {block.start} does not unpack: {problem}", name) from problem
    if len(data) > most:
        raise _too_large(block, name, most)
    return data


def _too_large(block: Block, name: str, most: int) -> FormatError:
    text = (
        f"the block at byte {block.start} is longer than {most} bytes, which is as much as memory.limit lets each "
        "task unfold; raise memory.limit, or use fewer threads"
    )
    return FormatError(text, name, "E310")


def next_start(stream: Stream, position: int, head: Header) -> int:
    """The offset of the first likely block at or after a position; the file's end if there is none.

    A marker is as good as never among the bytes of records, but nothing forbids it.
    """
    size = stream.size()
    if position <= head.end:
        return head.end
    at = position - MARKER_BYTES
    stream.seek(at)
    held = b""
    while chunk := stream.read(_CHUNK_BYTES):
        held += chunk
        found = held.find(head.marker)
        if found >= 0:
            return at + found + MARKER_BYTES
        kept = held[-MARKER_BYTES + 1 :]
        at += len(held) - len(kept)
        held = kept
    return size


def _limited(inner: Any) -> Any:
    """Unpacks to one byte more than is allowed at most."""

    def unpack(packed: bytes, most: int) -> bytes:
        made = inner()
        data: bytes = made.decompress(packed, most + 1)
        if len(data) <= most and not made.eof:
            raise EOFError("it ends too early")
        return data

    return unpack


def _snappy(packed: bytes, most: int) -> bytes:
    """Snappy says how much it unpacks to; four bytes after it check that."""
    body, check = packed[:-4], packed[-4:]
    length = 0
    for place, byte in enumerate(body[:5]):
        length |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            break
    if length > most:
        raise _TooMuch
    data: bytes = pa.decompress(body, decompressed_size=length, codec="snappy", asbytes=True) if length else b""
    if zlib.crc32(data) != int.from_bytes(check, "big"):
        raise ValueError("its checksum is another")
    return data


def _zstandard(packed: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as inner:
        data: bytes = inner.read(most + 1)
        return data


_CODECS: dict[str, Any] = {
    "null": lambda packed, most: packed,
    "deflate": _limited(lambda: zlib.decompressobj(wbits=-15)),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _limited(bz2.BZ2Decompressor),
    "xz": _limited(lambda: lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_XZ_BYTES)),
}
