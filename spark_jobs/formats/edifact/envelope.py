"""The envelope of EDIFACT interchanges: UNB, messages from UNH to UNT, UNZ."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from spark_jobs.formats.edi import envelope
from spark_jobs.formats.edi.envelope import Broken, Message, element
from spark_jobs.formats.edi.segments import WHITE, Signs
from spark_jobs.formats.edi.settings import Trailers

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The delimiters where no UNA says others.
LEVEL_A = Signs(ord("+"), ord("'"), ord("?"))
_ADVICE = b"UNA"
_ADVICE_BYTES = 9
#: The encodings of the character sets that UNB can name, except ASCII and UTF-8.
_CHARSETS = {
    "UNOC": "iso8859-1",
    "UNOD": "iso8859-2",
    "UNOE": "iso8859-5",
    "UNOF": "iso8859-7",
    "UNOG": "iso8859-3",
    "UNOH": "iso8859-4",
    "UNOI": "iso8859-6",
    "UNOJ": "iso8859-8",
    "UNOK": "iso8859-9",
    "KECA": "euc-kr",
}
_SYNTAX_BYTES = 4


class EdifactEnvelope(envelope.Envelope):
    """See `envelope.Envelope`."""

    wrapper = "a message"
    header, opening, trailer = "UNB", "UNH", "UNZ"
    services = ("UNB", "UNZ", "UNG", "UNE", "UNH", "UNT")
    tag = re.compile(rb"[A-Za-z]{3}")
    tags = "three letters"

    def __init__(self, trailers: Trailers = Trailers.ERROR) -> None:
        super().__init__(trailers)
        self._header: Sequence[str] = ()
        self._reference = ""
        self._messages = 0
        self._opened = 0

    def signs(self, head: bytes) -> tuple[Signs, int]:
        """The delimiters from the service string advice, if there is one. A blank as release character means none."""
        if not head.startswith(_ADVICE):
            if not head.startswith(b"UNB"):
                raise Broken(f"expected UNB or UNA, found {head[:3].decode('ascii', 'backslashreplace')!r}")
            return LEVEL_A, 0
        if len(head) < _ADVICE_BYTES:
            raise Broken("the file ends within UNA: it is truncated")
        _, separator, _, release, _, terminator = head[len(_ADVICE) : _ADVICE_BYTES]
        signs = Signs(separator, terminator, None if release == ord(" ") else release)
        return envelope.check_signs(signs), _ADVICE_BYTES

    def charset(self, head: bytes) -> str | None:
        """The encoding of the character set that the header of a file names; None for ASCII, UTF-8 and unknown ones."""
        head = head.removeprefix(codecs.BOM_UTF8).lstrip(WHITE)
        try:
            head = head[self.signs(head)[1] :].lstrip(WHITE)
        except Broken:
            return None
        name = head[len(self.header) + 1 :][:_SYNTAX_BYTES]
        return _CHARSETS.get(name.decode("ascii", "replace").upper()) if head.startswith(b"UNB") else None

    def goes_on(self, signs: Signs, segment: Sequence[str]) -> bool:
        """Without a UNA of its own an interchange has the usual delimiters."""
        return signs == LEVEL_A and segment[0] == "UNB"

    def take(self, segment: Sequence[str], number: int) -> None:
        tag = segment[0]
        if not self.is_open and tag != "UNB":
            raise Broken("expected UNB")
        match tag:
            case "UNB":
                self._begin(segment)
            case "UNH":
                self._open(segment, number)
            case "UNT":
                self._close(segment, number)
            case "UNZ":
                self._end(segment)
            case _:
                raise Broken("functional groups (UNG and UNE) are not supported")

    def _begin(self, segment: Sequence[str]) -> None:
        if self.is_open:
            raise Broken("the interchange before it has no UNZ")
        self.is_open = True
        self._header = segment
        # Syntax, sender, recipient and time come first; an empty element may stand before the reference.
        self._reference = next(filter(None, segment[5:]), "")
        self._messages = 0

    def _open(self, segment: Sequence[str], number: int) -> None:
        if self.message is not None:
            raise Broken("the message before it has no UNT")
        self.message = Message(element(segment, 1) or None, element(segment, 2) or None, (self._header,))
        self._messages += 1
        self._opened = number

    def _close(self, segment: Sequence[str], number: int) -> None:
        if self.message is None:
            raise Broken("no message is open")
        self._check(envelope.check_count, segment, number - self._opened + 1, "segments from UNH to UNT")
        self._check(envelope.check_reference, segment, self.message.reference or "", "reference of the message")
        self.message = None

    def _end(self, segment: Sequence[str]) -> None:
        if self.message is not None:
            raise Broken("the message before it has no UNT")
        self._check(envelope.check_count, segment, self._messages, "messages")
        if self._reference:
            self._check(envelope.check_reference, segment, self._reference, "reference of the interchange")
        self.is_open = False
