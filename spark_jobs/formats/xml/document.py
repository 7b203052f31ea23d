"""Reads the elements of a document from its first byte on: records go to a builder, everything else is skipped.

Expat parses, and checks namespaces; only the elements that are open are kept. A document type is checked and
skipped: nothing is fetched, and its declarations have no effect. A declaration of an entity is refused on the spot, so
the only entities are the five that XML predefines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from xml.parsers import expat

from spark_jobs.formats.format import MOST_RECORD_BYTES
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.xml.options import XmlRead

#: Elements can be nested so deep, in a record and around it.
MOST_DEPTH = 256
#: White space of XML; other blanks are part of a text.
BLANKS = " \t\r\n"
#: Expat gives long texts in chunks; these are as few as can be.
_TEXT_BYTES = 1 << 20
#: A document type is at most so long.
MOST_DOCTYPE_BYTES = 1 << 20
#: Between the parts of a name as Expat gives it: namespace, local name, and prefix. No document has this character.
_SEPARATOR = "\x0c"


class Broken(Exception):
    """A document is refused; the parser knows the place."""


class _DoctypeEnded(Exception):
    """A document type has ended: the rest goes to a parser that does not know it."""


class Records(Protocol):
    """Builds records from the elements of a document; the methods are Expat's handlers.

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
        """Take some characters of a text; Expat may split a long text."""

    def begin_verbatim(self) -> None:
        """Note that a CDATA section begins."""

    def end_verbatim(self) -> None:
        """Note that the CDATA section ends."""


class PathMatcher(ABC):
    """The way from the root to the wanted elements."""

    def __init__(self) -> None:
        #: The elements around the place where the document is, and the last of them, by their names.
        self.open: list[str] = []

    def enter(self, name: str) -> Records | None:
        """Enter an element; returns the builder that takes it with its content, None if it is skipped."""
        if len(self.open) == MOST_DEPTH:
            raise Broken(f"elements are nested more than {MOST_DEPTH} levels deep")
        self.open.append(name)
        return self.receiver()

    def leave(self) -> None:
        """Leave the last element."""
        self.open.pop()

    @abstractmethod
    def receiver(self) -> Records | None:
        """The builder that takes the last element that was entered."""

    def problem(self) -> str | None:
        """The problem that shows at the end of the document, if any."""
        return None


@dataclass(frozen=True)
class DocumentChunk:
    """A chunk of a document.

    Args:
        data: its bytes.
        is_last: whether the document ends with it.
        has_records: whether it begins between two records, and ends before the tag of one.
    """

    data: bytes
    is_last: bool = False
    has_records: bool = False


class Document:
    """An XML document, parsed chunk by chunk as UTF-8.

    Args:
        path: the file, as messages print it.
        matcher: finds the wanted elements.
    """

    def __init__(self, path: str, matcher: PathMatcher) -> None:
        self._path = path
        self._matcher = matcher
        self._fed = 0
        #: The offset from which the parser counts.
        self._base = 0
        #: Where the declarations of a document type begin, and where it ends.
        self._doctype_at: int | None = None
        self._doctype_end: int | None = None
        #: The prefixes that have a namespace here, and how many elements around declare each.
        self.prefixes: dict[str, int] = {}
        #: The last chunk, and where the tag that ended the last record begins.
        self._chunk = b""
        self._ended_at = -1
        #: The name of the last record's element, as it is written.
        self.record = ""
        #: Whether records were passed over that were read by other means: places in messages would not be true.
        self.has_gaps = False
        #: Whether a record has begun and not ended.
        self.is_in_record = False
        self._parser = self._begin()
        self._leave()

    def _begin(self) -> Any:
        # Names are not interned: there may be any number of them. The text is UTF-8 here, whatever encoding the XML
        # declaration names: the reader has decoded it before.
        parser: Any = expat.ParserCreate("utf-8", _SEPARATOR, intern=None)
        parser.namespace_prefixes = True
        parser.buffer_text = True
        parser.buffer_size = _TEXT_BYTES
        parser.ordered_attributes = True
        # Without this, Expat does not report declarations after a reference to a parameter entity.
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        parser.XmlDeclHandler = _check_version
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EndDoctypeDeclHandler = self._doctype_ended
        parser.EntityDeclHandler = _refuse_entity
        parser.SkippedEntityHandler = _refuse_reference
        parser.StartNamespaceDeclHandler = self._bind
        parser.EndNamespaceDeclHandler = self._unbind
        return parser

    def chunks(self, stream: ByteStream, size: int, first: int) -> Iterator[DocumentChunk]:
        """The chunks of a stream, of about `size` bytes, cut before records where that can be.

        Until it is known what records look like, they have at most `first` bytes.

        They are to be fed; a chunk with whole records may be read by other means and skipped. Expat starts again with a
        tag or comment that is not whole, so each read at least doubles what there is of it.

        Raises:
            FormatError: a tag or comment is longer than records may be.
        """
        rest = b""
        while chunk := stream.read(max(size if self._is_between_records else min(size, first), self.waiting)):
            if self.waiting > MOST_RECORD_BYTES:
                what = f"a tag, comment or instruction is longer than {MOST_RECORD_BYTES >> 20} MB"
                raise self._error(what, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber)
            data, rest = rest + chunk, b""
            at = self._before_record(data)
            if at > 0:
                data, rest = data[:at], data[at:]
            yield DocumentChunk(data, has_records=at > 0 and self._is_between_records)
        yield DocumentChunk(rest, is_last=True)

    def _before_record(self, data: bytes) -> int:
        """The likely start of the last record in these bytes; at most 0 if there is none."""
        tag = b"<" + self.record.encode()
        return max(data.rfind(tag + b">"), data.rfind(tag + b" ")) if self.record else 0

    def passed_over(self) -> None:
        """Note that a chunk with whole records was read by other means."""
        self.has_gaps = True

    def feed(self, data: bytes, *, is_last: bool = False) -> None:
        """Go on.

        Raises:
            FormatError: the document is broken or refused, or lacks the target of `record_path`.
        """
        self._fed += len(data)
        self._chunk = data
        try:
            try:
                self._parser.Parse(data, is_last)
            except _DoctypeEnded:
                assert self._doctype_end is not None
                self._parse_after_doctype(data[self._doctype_end - self._fed + len(data) :], is_last)
            if self._doctype_at is not None and self._doctype_end is None:
                _check_doctype(self._fed - self._doctype_at)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise self._error(f"broken XML: {reason}", error.lineno, error.offset) from None
        except Broken as error:
            parser = self._parser
            raise self._error(str(error), parser.CurrentLineNumber, parser.CurrentColumnNumber) from None
        if is_last and (problem := self._matcher.problem()) is not None:
            raise FormatError(problem, self._path)

    def _doctype(self, name: str, system: str | None, public: str | None, _: bool) -> None:
        if self._doctype_at is not None:
            raise Broken("the document has a second document type (`<!DOCTYPE`)")
        self._doctype_at = self._index - len(system or "") - len(public or "")

    def _doctype_ended(self) -> None:
        assert self._doctype_at is not None
        self._doctype_end = self._index + 1
        _check_doctype(self._doctype_end - self._doctype_at)
        raise _DoctypeEnded

    def _parse_after_doctype(self, data: bytes, is_last: bool) -> None:
        """Go on as if only blanks came before: otherwise attributes would get defaults or lose blanks."""
        assert self._doctype_end is not None
        known = self._parser
        blanks = "\n" * (known.CurrentLineNumber - 1) + " " * (known.CurrentColumnNumber + 1)
        self._base = self._doctype_end - len(blanks)
        self._parser = self._begin()
        self._leave()
        self._parser.Parse(blanks, False)
        self._parser.Parse(data, is_last)

    def _bind(self, prefix: Any, _: str | None) -> None:
        if prefix not in (None, "xml"):
            self.prefixes[prefix] = self.prefixes.get(prefix, 0) + 1

    def _unbind(self, prefix: Any) -> None:
        if prefix not in (None, "xml"):
            self.prefixes[prefix] -= 1
            if not self.prefixes[prefix]:
                del self.prefixes[prefix]

    @property
    def _index(self) -> int:
        return self._base + int(self._parser.CurrentByteIndex)

    @property
    def _is_between_records(self) -> bool:
        """Whether the last chunk ended after a record, with nothing but blanks between."""
        begun = self._fed - len(self._chunk)
        if self.is_in_record or self._ended_at < begun:
            return False
        tail = self._chunk[self._ended_at - begun :]
        return tail.count(b"<") == tail.count(b">") == 1 and tail.rstrip(BLANKS.encode())[-1:] == b">"

    @property
    def waiting(self) -> int:
        """The number of bytes that wait for the end of their tag or text."""
        return self._fed - max(self._index, 0)

    def _error(self, message: str, line: int, column: int) -> FormatError:
        return FormatError(f"line {line}, column {column + 1}: {message}", self._path)

    def _start(self, name: str, attributes: list[str]) -> None:
        name = written(name)
        receiver = self._matcher.enter(name)
        if receiver is not None:
            self._matcher.leave()
            self.record = name
            receiver.ended = self._ended
            receiver.begin(attributes)
            self._follow(receiver)

    def _end(self, name: str) -> None:
        self._matcher.leave()

    def _follow(self, records: Records) -> None:
        self.is_in_record = True
        parser = self._parser
        parser.StartElementHandler = records.start
        parser.EndElementHandler = records.end
        parser.CharacterDataHandler = records.characters
        parser.StartCdataSectionHandler = records.begin_verbatim
        parser.EndCdataSectionHandler = records.end_verbatim

    def _ended(self) -> None:
        self._ended_at = self._index
        self._leave()

    def _leave(self) -> None:
        self.is_in_record = False
        parser = self._parser
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = None
        parser.StartCdataSectionHandler = None
        parser.EndCdataSectionHandler = None


def _check_version(version: str, encoding: str | None, standalone: int) -> None:
    if version != "1.0":
        what = f"the document declares version {version} of XML, which has other rules for characters and names"
        raise Broken(f"{what}; only 1.0 is read: declare that, if the document keeps to it")


def _check_doctype(size: int) -> None:
    if size > MOST_DOCTYPE_BYTES:
        raise Broken(f"the document type (`<!DOCTYPE`) is longer than {MOST_DOCTYPE_BYTES >> 20} MB")


def _refuse_entity(name: str, is_parameter: bool, *_: Any) -> None:
    what = "parameter entity" if is_parameter else "entity"
    raise Broken(
        f"the document type declares the {what} '{name}': entities are refused, because they could expand without "
        "bound; write its text instead"
    )


def _refuse_reference(name: str, is_parameter: bool) -> None:
    what = f"%{name};" if is_parameter else f"&{name};"
    raise Broken(f"`{what}` refers to an entity, and entities are refused; write its text instead")


class RecordMatcher(PathMatcher):
    """The way to the records.

    Args:
        options: the read options.
        records: makes the records.
    """

    def __init__(self, options: XmlRead, records: Records) -> None:
        super().__init__()
        self._records = records
        self._strips = options.strips
        self._path = options.record_path
        self._names = options.path
        if self._strips:
            self._names = [local(name) for name in self._names]
        self._is_anywhere = (self._path or "").startswith("//")
        self._root = ""
        #: Whether an element was found that can contain the records.
        self._is_found = self._path is None or self._is_anywhere

    def receiver(self) -> Records | None:
        """The builder of records, if the element is a record."""
        if len(self.open) == 1:
            self._root = self.open[0]
        if self._strips:
            self.open[-1] = local(self.open[-1])
        return self._records if self._is_record() else None

    def _is_record(self) -> bool:
        if self._path is None:
            return True
        if self._is_anywhere:
            return self.open[-len(self._names) :] == self._names
        if not self._is_found and self.open == (self._names[:-1] or self._names):
            self._is_found = True
        return self.open == self._names

    def problem(self) -> str | None:
        """The message that the target of `record_path` is missing, which ends the run; None when it was found."""
        if self._is_found:
            return None
        missing = "/".join(self._names[:-1] or self._names)
        return f"record_path '{self._path}': the file has no element '/{missing}'; its root is '{self._root}'"


def local(name: str) -> str:
    """A name without the prefix of its namespace."""
    return name[name.rfind(":") + 1 :]


def written(name: str) -> str:
    """A name as it is written in the document, from the form that Expat gives."""
    if _SEPARATOR not in name:
        return name
    _, own, *prefix = name.split(_SEPARATOR)
    return f"{prefix[0]}:{own}" if prefix else own
