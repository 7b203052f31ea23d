"""The envelope of X12 interchanges: ISA, groups from GS to GE, sets from ST to SE, IEA."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from spark_jobs.formats.edi import envelope, segments
from spark_jobs.formats.edi.envelope import HEAD_BYTES, Broken, Message, element
from spark_jobs.formats.edi.segments import Signs
from spark_jobs.formats.edi.settings import Trailers

if TYPE_CHECKING:
    from collections.abc import Sequence

_TAG = b"ISA"
_ELEMENTS = 16
#: Segments outside groups, and the segments that each may follow.
_FOLLOWS = {"ISB": ("ISA",), "ISE": ("ISA", "ISB"), "TA1": ("ISA", "ISB", "ISE", "TA1")}
_HELP = (
    f"a header has {_ELEMENTS} elements; the last has one character, and the character after it ends segments: "
    "correct it"
)


class X12Envelope(envelope.Envelope):
    """See `envelope.Envelope`."""

    wrapper = "a transaction set"
    header, opening, trailer = "ISA", "ST", "IEA"
    services = ("ISA", "IEA", "GS", "GE", "ST", "SE", *_FOLLOWS)
    levels = ("functional_group", "transaction_set")
    sized = MappingProxyType({b"BIN": 1, b"BDS": 2})
    tag = re.compile(rb"[0-9A-Za-z]{2,3}")
    tags = "two or three letters or digits"

    def __init__(self, trailers: Trailers = Trailers.ERROR) -> None:
        super().__init__(trailers)
        self._header: Sequence[str] = ()
        self._groups = 0
        self._group: Sequence[str] | None = None
        self._sets = 0
        self._opened = 0
        #: The tag before, while no group has begun.
        self._before = ""
        self._acknowledgments = 0

    def signs(self, head: bytes) -> tuple[Signs, int]:
        """The header defines them: the character after the tag, and the one after the sixteenth element."""
        if not head.startswith(_TAG):
            raise Broken(f"expected ISA, found {head[:3].decode('ascii', 'backslashreplace')!r}")
        separator = head[len(_TAG) : len(_TAG) + 1]
        parts = head.split(separator or b"*", _ELEMENTS)
        if len(parts) <= _ELEMENTS or len(parts[-1]) < 2:
            # Elements that are not padded make a header as short as they are.
            elements = f"{len(parts) - 1} of its {_ELEMENTS} elements"
            if len(head) < HEAD_BYTES:
                raise Broken(f"the file ends within the ISA header, after {elements}: it is truncated")
            raise Broken(f"the ISA header has {elements} within {HEAD_BYTES} bytes")
        try:
            signs = envelope.check_signs(Signs(separator[0], parts[-1][1]))
        except Broken as problem:
            raise Broken(f"{problem}; {_HELP}") from None
        following = parts[-1][2:].lstrip(segments.WHITE)
        if following and not following[:1].isalnum():
            found = following[:3].decode("ascii", "backslashreplace")
            raise Broken(f"no segment follows on the ISA header, but {found!r}; {_HELP}")
        return signs, 0

    def goes_on(self, signs: Signs, segment: Sequence[str]) -> bool:
        """A header that has its elements where they belong has the same delimiters."""
        return segment[0] == "ISA" and len(segment) == _ELEMENTS + 1 and len(segment[-1].encode()) == 1

    def take(self, segment: Sequence[str], number: int) -> None:
        tag = segment[0]
        if self.is_open == (tag == "ISA"):
            raise Broken("the interchange before it has no IEA" if self.is_open else "expected ISA")
        if self.message is not None and tag != "SE":
            raise Broken("the transaction set before it has no SE")
        match tag:
            case "ISA":
                self.is_open, self._header, self._groups, self._acknowledgments = True, segment, 0, 0
            case "GS":
                self._open_group(segment)
            case "ST":
                self._open_set(segment, number)
            case "SE":
                self._close_set(segment, number)
            case "GE":
                self._close_group(segment)
            case "IEA":
                self._end(segment)
            case _:
                self._check_place(tag)
        self._before = tag

    def _check_place(self, tag: str) -> None:
        """Segments outside groups, which describe this interchange or others and are not its data."""
        if self._before not in _FOLLOWS[tag]:
            raise Broken(f"{tag} stands after {_joined(_FOLLOWS[tag])}, and before the functional groups")
        self._acknowledgments += tag == "TA1"

    def _open_group(self, segment: Sequence[str]) -> None:
        if self._group is not None:
            raise Broken("the functional group before it has no GE")
        self._group = segment
        self._groups += 1
        self._sets = 0

    def _open_set(self, segment: Sequence[str], number: int) -> None:
        if self._group is None:
            raise Broken("the segment is outside of a functional group, which GS opens")
        levels = (self._header, self._group, segment)
        self.message = Message(element(segment, 2) or None, element(segment, 1) or None, levels)
        self._sets += 1
        self._opened = number

    def _close_set(self, segment: Sequence[str], number: int) -> None:
        if self.message is None:
            raise Broken("no transaction set is open")
        self._check(envelope.check_count, segment, number - self._opened + 1, "segments from ST to SE")
        self._check(
            envelope.check_reference, segment, self.message.reference or "", "control number of the transaction set"
        )
        self.message = None

    def _close_group(self, segment: Sequence[str]) -> None:
        if self._group is None:
            raise Broken("no functional group is open")
        self._check(envelope.check_count, segment, self._sets, "transaction sets")
        self._check(
            envelope.check_reference, segment, element(self._group, 6), "control number of the functional group"
        )
        self._group = None

    def _end(self, segment: Sequence[str]) -> None:
        if self._group is not None:
            raise Broken("the functional group before it has no GE")
        # Some say 1 where an acknowledgment stands alone.
        allowed = None if self._groups else self._acknowledgments
        self._check(envelope.check_count, segment, self._groups, "functional groups", allowed)
        self._check(envelope.check_reference, segment, element(self._header, 13), "control number of the interchange")
        self.is_open = False


def _joined(tags: Sequence[str]) -> str:
    *others, last = tags
    return f"{', '.join(others)} or {last}" if others else last
