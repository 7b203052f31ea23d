"""A document's elements from its first byte on: records to who makes them, everything else passed over.

Expat parses; nothing but the elements that are open is kept. A document with a DTD is refused at its beginning, before
any declaration in it is read: there are no entities but the five of XML, and nothing is fetched (decision 28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from xml.parsers import expat

from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.formats.xml.options import XmlRead

#: Elements can stand in each other so deep, in a record and around it.
MOST_DEPTH = 256
#: Expat gives long texts in pieces; these are as few as can be.
_TEXT_BYTES = 1 << 20


class Broken(Exception):
    """A document is refused; the place is known to who parses it."""


class Records(Protocol):
    """What makes records of the elements that a document gives: these are Expat's handlers.

    `ended` is to be called at the end of a record.
    """

    ended: Callable[[], None]

    def begin(self, attributes: list[str]) -> None:
        """A record begins. Attributes are names and values in turn."""

    def start(self, name: str, attributes: list[str], /) -> None:
        """An element in it begins."""

    def end(self, name: str, /) -> None:
        """The last element that began ends, or the record itself."""

    def characters(self, text: str, /) -> None:
        """A piece of text."""

    def begin_verbatim(self) -> None:
        """A CDATA section begins."""

    def end_verbatim(self) -> None:
        """It ends."""


class Document:
    """One document, given piece by piece as UTF-8.

    Args:
        path: the file, as messages print it.
        options: the read options.
        records: makes the records.
    """

    def __init__(self, path: str, options: XmlRead, records: Records) -> None:
        self._path = path
        self._records = records
        self._way = _Way(options)
        self._fed = 0
        #: Whether a record has begun and not ended.
        self.is_in_record = False
        self._parser = _parser()
        records.ended = self._leave
        self._leave()

    def feed(self, data: bytes, *, is_last: bool = False) -> None:
        """Go on.

        Raises:
            FormatError: the document is broken, or refused, or has not what `record_path` leads to.
        """
        self._fed += len(data)
        parser = self._parser
        try:
            parser.Parse(data, is_last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise self._error(f"broken XML: {reason}", error.lineno, error.offset) from None
        except Broken as error:
            raise self._error(str(error), parser.CurrentLineNumber, parser.CurrentColumnNumber) from None
        if is_last and (problem := self._way.problem()) is not None:
            raise FormatError(problem, self._path)

    @property
    def waiting(self) -> int:
        """How many bytes there are that are no whole tag or text yet."""
        return self._fed - max(int(self._parser.CurrentByteIndex), 0)

    def _error(self, message: str, line: int, column: int) -> FormatError:
        return FormatError(f"line {line}, column {column + 1}: {message}", self._path)

    def _start(self, name: str, attributes: list[str]) -> None:
        if self._way.enter(name):
            self._way.leave()
            self._records.begin(attributes)
            self._follow()

    def _end(self, name: str) -> None:
        self._way.leave()

    def _follow(self) -> None:
        self.is_in_record = True
        parser, records = self._parser, self._records
        parser.StartElementHandler = records.start
        parser.EndElementHandler = records.end
        parser.CharacterDataHandler = records.characters
        parser.StartCdataSectionHandler = records.begin_verbatim
        parser.EndCdataSectionHandler = records.end_verbatim

    def _leave(self) -> None:
        self.is_in_record = False
        parser = self._parser
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = None
        parser.StartCdataSectionHandler = None
        parser.EndCdataSectionHandler = None


def _parser() -> Any:
    # Names are not interned: there may be any number of them. What a declaration says of the encoding was obeyed or
    # overruled before.
    parser: Any = expat.ParserCreate("utf-8", intern=None)
    parser.buffer_text = True
    parser.buffer_size = _TEXT_BYTES
    parser.ordered_attributes = True
    parser.StartDoctypeDeclHandler = _refuse_dtd
    return parser


def _refuse_dtd(*_: Any) -> None:
    raise Broken("the document has a DTD (`<!DOCTYPE`), which is not read: it could declare entities without end")


class _Way:
    """From the root to the records."""

    def __init__(self, options: XmlRead) -> None:
        self._strips = options.strips
        self._path = options.record_path
        self._names = options.path
        if self._strips:
            self._names = [local(name) for name in self._names]
        self._is_anywhere = (self._path or "").startswith("//")
        self._open: list[str] = []
        self._root = ""
        #: Whether there was an element that the records can stand in.
        self._is_found = self._path is None or self._is_anywhere

    def enter(self, name: str) -> bool:
        """Go into an element; whether it is a record."""
        if len(self._open) == MOST_DEPTH:
            raise Broken(f"elements stand in each other more than {MOST_DEPTH} levels deep")
        self._open.append(local(name) if self._strips else name)
        if len(self._open) == 1:
            self._root = name
        if self._path is None:
            return True
        if self._is_anywhere:
            return self._open[-len(self._names) :] == self._names
        if not self._is_found and self._open == (self._names[:-1] or self._names):
            self._is_found = True
        return self._open == self._names

    def leave(self) -> None:
        """Go out of the last element."""
        self._open.pop()

    def problem(self) -> str | None:
        """What is wrong if all was seen: a missing target (decision 48)."""
        if self._is_found:
            return None
        missing = "/".join(self._names[:-1] or self._names)
        return f"record_path '{self._path}': the file has no element '/{missing}'; its root is '{self._root}'"


def local(name: str) -> str:
    """A name without the prefix of its namespace."""
    return name[name.rfind(":") + 1 :]
