"""Reads files of interchanges, whatever their envelope: a record for each segment of a message (spec/formats.md 7).

A file has one interchange or several, each with its own delimiters. Segments are found many at a time
(`segments.py`); the envelope sees the service segments one by one and says what is wrong with them. A file is read as
a whole by one task, for only reading it tells which message a segment belongs to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from spark_jobs.cxl import failures
from spark_jobs.formats import encoding, names, reader, reading, stretch
from spark_jobs.formats.columns import ColumnTracker, FilePlan, OnUnmapped
from spark_jobs.formats.edi import segments
from spark_jobs.formats.records import RecordShape
from spark_jobs.scan import changes, files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from spark_jobs.formats.columns import ScanPlan
    from spark_jobs.formats.edi.segments import Mask, Places, Segments, Signs
    from spark_jobs.formats.format import Block, Reading
    from spark_jobs.formats.names import Search
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.formats.stretch import ByteStream
    from spark_jobs.scan.files import InputFile

#: So many bytes are taken apart at once.
_WINDOW_BYTES = 1 << 20
#: Where delimiters have changed, they may soon do so again.
_FIRST_WINDOW_BYTES = 8 << 10
#: What is enough to know the delimiters of an interchange.
HEAD_BYTES = 1024


class Broken(Exception):
    """A service segment, or another one in its place, that does not fit; the message says why."""


class Envelope(ABC):
    """Follows the envelope of a file's interchanges, service segment by service segment.

    Attributes:
        is_open: whether an interchange is open.
        message: the reference and the type of the open message; None outside of messages.
    """

    #: What wraps records here, the segment that opens it, and all tags that are no data.
    wrapper: ClassVar[str]
    opening: ClassVar[str]
    services: ClassVar[tuple[str, ...]]
    #: The tags around an interchange.
    header: ClassVar[str]
    trailer: ClassVar[str]

    def __init__(self) -> None:
        self.is_open = False
        self.message: tuple[str | None, str | None] | None = None

    @abstractmethod
    def signs(self, head: bytes) -> tuple[Signs, int]:
        """The delimiters of the interchange that begins here, and how many bytes say nothing else.

        Raises:
            Broken: none begins here.
        """

    @abstractmethod
    def goes_on(self, signs: Signs, segment: Sequence[str]) -> bool:
        """Whether a segment behind an interchange begins another one with the same delimiters."""

    @abstractmethod
    def take(self, segment: Sequence[str], number: int) -> None:
        """Follow a service segment, which has a number in the file.

        Raises:
            Broken: it does not fit.
        """


def element(segment: Sequence[str], number: int) -> str:
    """An element of a segment; empty where it is absent."""
    return segment[number] if number < len(segment) else ""


def check_count(segment: Sequence[str], actual: int, what: str) -> None:
    """The first element of a trailer is how many there are of something.

    Raises:
        Broken: it is not.
    """
    written = element(segment, 1).strip()
    if not (written.isascii() and written.isdigit()):
        raise Broken(f"the count of {what} is '{written}', which is no number; there are {actual}")
    if int(written[-18:]) != actual or written[:-18].strip("0"):
        raise Broken(f"the count of {what} is {written}, but there are {actual}")


def check_reference(segment: Sequence[str], opened: str, what: str) -> None:
    """The second element of a trailer is the reference of its header.

    Raises:
        Broken: it is not.
    """
    written = element(segment, 2)
    if written != opened:
        raise Broken(f"the {what} is '{written}', but '{opened}' was opened")


def check_signs(signs: Signs) -> Signs:
    """Delimiters have to differ, and to be none of the characters that data is made of.

    Raises:
        Broken: they are not.
    """
    found = [signs.element, signs.terminator, *([] if signs.release is None else [signs.release])]
    for sign in found:
        character = chr(sign)
        if sign >= 0x80 or character.isalnum() or character == "\0" or found.count(sign) > 1:
            raise Broken(f"{character!r} cannot be a delimiter")
    return signs


@dataclass(frozen=True)
class _Portion:
    """Segments of which some are records.

    Args:
        segments: the segments.
        which: those that are records.
        owners: for each of them its message, by its place in `messages`.
        messages: references and types.
    """

    segments: Segments
    which: Places
    owners: Places
    messages: list[tuple[str | None, str | None]]

    def column(self, field: int) -> pa.StringArray:
        """The texts of a field of the records: tag, reference, type, and the elements."""
        if field in (1, 2):
            return segments.repeated([message[field - 1] for message in self.messages], self.owners)
        return self.segments.column(max(field - 2, 0), self.which)


class _Window:
    """The bytes of a file that are taken apart."""

    def __init__(self, stream: ByteStream, offset: int) -> None:
        self._stream = stream
        self._data = b""
        self._at = 0
        self._before = offset
        self.at_end = False

    @property
    def offset(self) -> int:
        """Where in the file the next byte stands."""
        return self._before + self._at

    def look(self, size: int) -> bytes:
        """The next bytes, fewer at the end of the file alone."""
        while len(self._data) - self._at < size and not self.at_end:
            chunk = self._stream.read(max(size - len(self._data) + self._at, _WINDOW_BYTES))
            self.at_end = not chunk
            self._before += self._at
            self._data = self._data[self._at :] + chunk
            self._at = 0
        return self._data[self._at : self._at + size]

    def take(self, size: int) -> None:
        """Go on behind some bytes."""
        self._at += size

    def next_head(self) -> bytes:
        """The beginning of the next segment, line ends before it left out; empty where the file ends."""
        while True:
            head = self.look(HEAD_BYTES)
            rest = head.lstrip(segments.LINE_ENDS)
            self.take(len(head) - len(rest))
            if rest or not head:
                return self.look(HEAD_BYTES)


class _File:
    """A file that is taken apart."""

    def __init__(self, stream: ByteStream, offset: int, envelope: Envelope, most_elements: int, window: int) -> None:
        self._bytes = _Window(stream, offset)
        self._envelope = envelope
        self._most_elements = most_elements
        self._codes = np.array([segments.code(tag) for tag in envelope.services], dtype=np.int64)
        self._opening = segments.code(envelope.opening)
        self._full = max(1, min(window, _WINDOW_BYTES))
        #: How many segments there were before the window.
        self._number = 0

    def portions(self) -> Iterator[_Portion]:
        """The segments of the file.

        Raises:
            _At: the file is broken.
        """
        signs: Signs | None = None
        size = self._full
        while True:
            if signs is None:
                head = self._bytes.next_head()
                if not head:
                    break
                signs = self._begin(head)
            data = self._bytes.look(size)
            found = segments.find(data, signs)
            if not len(found):
                size = self._grown(data, found, size)
                continue
            place = _undecodable(found, data)
            if place == 0:
                raise self._here("the segment is no text of the encoding of the file", int(found.starts[0]))
            if place is not None:
                found = segments.find(data[: found.behind[place - 1]], signs)
            portion, problem, count = self._walk(found, signs)
            yield portion
            if problem is not None:
                raise problem
            is_cut = count < len(found)
            self._number += count
            self._bytes.take(int(found.behind[count - 1]) if is_cut else found.size)
            size = min(_FIRST_WINDOW_BYTES if is_cut else size * 2, self._full)
            if not self._envelope.is_open:
                signs = None
        if not self._number:
            raise self._here(f"the file has no interchange: no {self._envelope.header} segment was found")

    def _begin(self, head: bytes) -> Signs:
        """Take what says the delimiters of the next interchange."""
        try:
            signs, size = self._envelope.signs(head)
        except Broken as problem:
            raise self._here(str(problem)) from None
        self._bytes.take(size)
        return signs

    def _grown(self, data: bytes, found: Segments, size: int) -> int:
        """How many bytes to look at where the last ones had no segment."""
        if found.size:
            self._bytes.take(found.size)
            return size
        if len(data.lstrip(segments.LINE_ENDS)) > segments.MOST_SEGMENT_BYTES:
            raise self._here(f"the segment has no end within {segments.MOST_SEGMENT_BYTES} bytes")
        if len(data) < size:
            if data.strip(segments.LINE_ENDS):
                raise self._here("the file ends within the segment: it is truncated")
            raise self._here(f"the file ends without {self._envelope.trailer}: it is truncated")
        return size * 2

    def _here(self, message: str, after: int = 0) -> _At:
        return _At(message, self._number + 1, "", self._bytes.offset + after)

    def _walk(self, found: Segments, signs: Signs) -> tuple[_Portion, _At | None, int]:
        """The records among segments, what is wrong with the first one behind them, and how many segments count."""
        envelope = self._envelope
        is_service = np.isin(found.codes, self._codes)
        messages = [envelope.message or (None, None)]
        count, problem = self._follow(found, signs, is_service, messages)
        is_record = ~is_service | (found.codes == self._opening)
        wrong = self._wrong_segment(found, is_record)
        if wrong is not None and wrong[0] < count + (problem is not None):
            count, problem = wrong
        which = np.flatnonzero(is_record[:count])
        owners = np.cumsum(found.codes[:count] == self._opening)[which]
        told = None
        if problem is not None:
            tag = "" if found.lengths[found.first[count]] == 0 else found.column(0, np.array([count]))[0].as_py()
            told = _At(problem, self._number + count + 1, tag, self._bytes.offset + int(found.starts[count]))
        return _Portion(found, which, owners, messages), told, count

    def _follow(
        self, found: Segments, signs: Signs, is_service: Mask, messages: list[tuple[str | None, str | None]]
    ) -> tuple[int, str | None]:
        """Follow the envelope; up to which segment it and the delimiters hold, and what is wrong with that one."""
        envelope = self._envelope
        services = np.flatnonzero(is_service)
        at = 0
        for place, texts in zip(services.tolist(), found.texts(services), strict=True):
            if place > at and envelope.message is None:
                return at, self._outside()
            try:
                envelope.take(texts, self._number + place + 1)
            except Broken as problem:
                return place, str(problem)
            if texts[0] == envelope.opening:
                messages.append(envelope.message or (None, None))
            at = place + 1
            is_over = not envelope.is_open and at < len(found)
            if is_over and not envelope.goes_on(signs, found.texts(np.array([at]))[0]):
                return at, None
        if at < len(found) and envelope.message is None:
            return at, self._outside()
        return len(found), None

    def _outside(self) -> str:
        envelope = self._envelope
        return f"the segment is outside of {envelope.wrapper}, which {envelope.opening} opens"

    def _wrong_segment(self, found: Segments, is_record: Mask) -> tuple[int, str] | None:
        """The first segment that is none, and why."""
        wrong: list[tuple[int, str]] = []
        most, longest = self._most_elements, segments.MOST_SEGMENT_BYTES
        for is_wrong, why in (
            (found.lengths[found.first] == 0, "the segment has no tag"),
            (is_record & (found.counts > most), "the segment has {} elements, and max_elements is {}"),
            (found.behind - found.starts > longest + 1, f"the segment is longer than {longest} bytes"),
        ):
            if is_wrong.any():
                place = int(np.argmax(is_wrong))
                wrong.append((place, why.format(found.counts[place], most)))
        return min(wrong, default=None)


def _undecodable(found: Segments, data: bytes) -> int | None:
    """The first segment that is no UTF-8."""
    if data.isascii():
        return None
    try:
        data[: found.size].decode()
    except UnicodeDecodeError as error:
        return int(np.searchsorted(found.behind, error.start, "right"))
    return None


class _At(Exception):
    """What is wrong with a file, and with which segment."""

    def __init__(self, message: str, number: int, tag: str, offset: int) -> None:
        super().__init__(message, number, tag, offset)
        self.message = message
        self.number = number
        self.tag = tag
        self.offset = offset


@dataclass(frozen=True)
class InterchangeReader(reader.Reader):
    """Reads files of interchanges; a format says how its envelope is, and what its columns are called."""

    title: ClassVar[str]
    reference: ClassVar[tuple[str, str]]

    @abstractmethod
    def envelope(self) -> Envelope:
        """What follows the envelope of a file."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of every file: tag, reference, type, and the elements."""
        elements = range(1, self.options.max_elements + 1)
        return ("seg_id", *self.reference, *(f"e{number:02}" for number in elements))

    def plan(
        self,
        declared: Sequence[str],
        inputs: Iterable[InputFile],
        on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
        search: Search = names.search_here,
    ) -> ScanPlan:
        """The columns are the same in every file; each has to begin with an interchange.

        Raises:
            FormatError: a file cannot be read or begins in another way, or an undeclared column is rejected.
        """
        tracker = ColumnTracker(declared, on_unmapped)
        found: list[tuple[InputFile, int]] = []
        skipped: list[str] = []
        for file in inputs:
            if not file.size:
                skipped.append(file.name)
                continue
            edges, start = self._start(file)
            tracker.see(file.name, self.fields)
            found.append((replace(file, edges=edges), start))
        shared = tracker.columns(self.fields)
        plans = tuple(FilePlan(file, shared, start, is_splittable=False) for file, start in found)
        return tracker.plan(plans, skipped)

    def _start(self, file: InputFile) -> tuple[int, int]:
        """The digest of a file's ends, and where its first segment begins in it."""
        charset = self.options.encoding
        with changes.opened(file) as raw, files.told(file.name):
            edges = raw.edges()
            is_utf8 = encoding.is_utf8(charset)
            stream: ByteStream = raw if is_utf8 else encoding.Utf8Stream(raw, charset)
            head = _Window(stream, 0).look(HEAD_BYTES)
        start = stretch.records_start(head, is_marked=is_utf8 or not encoding.takes_mark(charset))
        try:
            if head[start:]:
                self.envelope().signs(head[start:])
        except Broken as problem:
            raise self._error(_At(str(problem), 1, "", start), file) from None
        return edges, start

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a file; its counts and references are checked on the way."""
        shape = RecordShape(wanted, file_plan.columns, has_nulls=True)
        with changes.opened(file_plan.file) as stream:
            part = reading.bytes_of(split, file_plan, self.options.encoding, stream, outcome)
            text = _File(part, file_plan.data_start, self.envelope(), self.options.max_elements, wanted.block_bytes)
            try:
                for portion in text.portions():
                    count = len(portion.which)
                    if not count:
                        continue
                    texts = {field: portion.column(field) for field in shape.needed}
                    first = outcome.records
                    outcome.records += count
                    yield shape.block(first, count, texts, None, failures.none())
            except _At as problem:
                raise self._error(problem, file_plan.file) from None

    def _error(self, problem: _At, file: InputFile) -> FormatError:
        unit = "byte" if encoding.is_utf8(self.options.encoding) else "byte of its text as UTF-8"
        tag = f" ({problem.tag})" if problem.tag else ""
        place = f"segment {problem.number}{tag} at {unit} {problem.offset}"
        return FormatError(f"broken {self.title}: {place}: {problem.message}", file.name)
