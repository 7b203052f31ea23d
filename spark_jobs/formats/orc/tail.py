"""The tail of an ORC file: finds its stripes, and makes a tail with only some of them.

Arrow reads a file from its first stripe to its last, or a stripe as a whole, however far it unpacks. With a tail of
some stripes a part of a file is a file of its own, which Arrow reads a batch at a time. Messages are Google's protocol
buffers; all fields that are not named here are preserved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Kinds of fields, as protocol buffers write them.
_NUMBER, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
#: Fields of the tail as Arrow gives it, of the postscript, of the footer, of a stripe.
_POSTSCRIPT, _FOOTER = 1, 2
_FOOTER_LENGTH, _COMPRESSION, _BLOCK_SIZE, _METADATA_LENGTH, _STRIPE_STATISTICS_LENGTH = 1, 2, 3, 5, 7
_STRIPES, _ROWS, _STATISTICS = 3, 6, 7
_OFFSET, _INDEX_LENGTH, _DATA_LENGTH, _STRIPE_FOOTER_LENGTH, _STRIPE_ROWS = 1, 2, 3, 4, 5
#: The longest chunk of a compressed part that a header can tell.
_MOST_CHUNK_BYTES = (1 << 23) - 1


class Malformed(ValueError):
    """Bytes that are no message."""


@dataclass(frozen=True)
class Stripe:
    """Some records of a file.

    Args:
        offset: where they begin, in bytes.
        size: how many bytes they are.
        rows: how many records they are.
    """

    offset: int
    size: int
    rows: int


class Tail:
    """The tail of a file: everything after the stripes.

    Args:
        serialized: a `FileTail`, as the library gives it.

    Raises:
        Malformed: it is none.
    """

    def __init__(self, serialized: bytes) -> None:
        fields = dict(_fields(serialized))
        postscript, footer = fields.get(_POSTSCRIPT), fields.get(_FOOTER)
        if not isinstance(postscript, bytes) or not isinstance(footer, bytes):
            raise Malformed("it has no footer")
        self._postscript = [*_fields(postscript)]
        self._footer = [*_fields(footer)]
        self.stripes = tuple(_stripe(data) for number, data in self._footer if number == _STRIPES)

    def of(self, chosen: Sequence[int]) -> bytes:
        """A tail that lists only some stripes, to be appended to the whole file."""
        all_stripes = [data for number, data in self._footer if number == _STRIPES]
        footer = [field for field in self._footer if field[0] not in (_STRIPES, _ROWS, _STATISTICS)]
        footer += [(_STRIPES, all_stripes[at]) for at in chosen]
        footer.append((_ROWS, sum(self.stripes[at].rows for at in chosen)))
        written = self._packed(_message(footer))
        changed = (_FOOTER_LENGTH, _METADATA_LENGTH, _STRIPE_STATISTICS_LENGTH)
        postscript = _message(
            [
                (_FOOTER_LENGTH, len(written)),
                *(field for field in self._postscript if field[0] not in changed),
                (_METADATA_LENGTH, 0),
            ]
        )
        if len(postscript) > 255:
            raise Malformed("its postscript is too long")
        return written + postscript + bytes([len(postscript)])

    def _packed(self, data: bytes) -> bytes:
        """A part in the chunks of a compressed file, each as it is."""
        settings = dict(self._postscript)
        if not settings.get(_COMPRESSION):
            return data
        size = settings.get(_BLOCK_SIZE)
        size = min(size, _MOST_CHUNK_BYTES) if isinstance(size, int) and size > 0 else _MOST_CHUNK_BYTES
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        return b"".join((2 * len(chunk) + 1).to_bytes(3, "little") + chunk for chunk in chunks)


def _stripe(data: bytes | int) -> Stripe:
    if not isinstance(data, bytes):
        raise Malformed("a stripe is not a message")
    found = {number: value for number, value in _fields(data) if isinstance(value, int)}
    size = sum(found.get(part, 0) for part in (_INDEX_LENGTH, _DATA_LENGTH, _STRIPE_FOOTER_LENGTH))
    return Stripe(found.get(_OFFSET, 0), size, found.get(_STRIPE_ROWS, 0))


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message by their numbers, in their order."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _NUMBER:
            value, at = _number(data, at)
            yield number, value
            continue
        size = {_EIGHT: 8, _FOUR: 4}.get(kind)
        if kind == _BYTES:
            size, at = _number(data, at)
        if size is None or at + size > len(data):
            raise Malformed("a field ends after its message")
        yield number, data[at : at + size]
        at += size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of groups of seven bits, and where it ends."""
    found = shift = 0
    while at < len(data) and shift < 70:
        found |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return found, at
    raise Malformed("a number does not end")


def _message(fields: Iterable[tuple[int, bytes | int]]) -> bytes:
    """A message of numbers and bytes; ORC has fields of no other kind in its tail."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [_varint(number << 3 | _NUMBER), _varint(value)]
        else:
            parts += [_varint(number << 3 | _BYTES), _varint(len(value)), value]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
