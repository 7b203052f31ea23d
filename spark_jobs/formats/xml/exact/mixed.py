"""The text of an element that comes in pieces: between its children, and in CDATA sections."""

from __future__ import annotations

import io

from spark_jobs.formats.xml.document import BLANKS


class MixedText:
    """Takes the pieces of a text one after the other, any number of them."""

    __slots__ = ("_first", "_last", "_pieces")

    def __init__(self) -> None:
        self._pieces = io.StringIO()
        #: The start of the first CDATA section, and the end of the last one.
        self._first: int | None = None
        self._last = 0

    def add(self, text: str, *, is_verbatim: bool = False) -> None:
        """Add the next piece, and whether it is in a CDATA section."""
        if is_verbatim and self._first is None:
            self._first = self._pieces.tell()
        self._pieces.write(text)
        if is_verbatim:
            self._last = self._pieces.tell()

    def value(self) -> str:
        """The whole text; blanks are cut off up to the first and last CDATA section."""
        text = self._pieces.getvalue()
        if self._first is None:
            return text.strip(BLANKS)
        return text[: self._first].lstrip(BLANKS) + text[self._first : self._last] + text[self._last :].rstrip(BLANKS)
