"""The frame around the segments of an interchange that is written: headers, message boundaries, counts.

The message of a segment depends on the segments before it. A task knows only its own part. It writes the trailers and
headers between two messages that begin in the part, and notes the rest: the records before the first reference, those
of the first message, and their number in the last one. When the parts are joined, the segments between them are made
from these notes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats import encoding, format
from spark_jobs.formats.frame import Joined

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.formats.edi.settings import InterchangeWrite

#: The facts about a record: the reference and type of its message, whether it opens one, the header of its document as
#: a JSON array and, if it opens a message, the elements after reference and type, as they are written.
MARKS = pa.struct(
    [
        ("reference", pa.string()),
        ("kind", pa.string()),
        ("opens", pa.bool_()),
        ("header", pa.string()),
        ("rest", pa.string()),
    ]
)
_NOTHING = pa.scalar(b"", pa.large_binary())


@dataclass
class Note:
    """A task's note about a part, which has leading records, the records of a first message, and the rest.

    Args:
        header: the header of the first record's document.
        kind: the type of its message.
        rest: the elements after that in its segment, if the segment opens the message.
        leading: how many records come before the first one with a reference; how many segments and bytes they are.
        reference: the first reference; None where there is none.
        first_kind: the type of the message there.
        first_rest: the elements after that in the segment that opens it.
        opens: whether a message surely begins there.
        first_segments: how many segments of that message are in the part, and how many bytes.
        second: the reference of the next message; its type and the rest of its segment follow.
        messages: how many messages there are from the first reference on.
        last: the reference of the last one, and how many of its segments are in the part.
    """

    header: str | None = None
    kind: str | None = None
    rest: str = ""
    leading: int = 0
    leading_segments: int = 0
    leading_bytes: int = 0
    reference: str | None = None
    first_kind: str | None = None
    first_rest: str = ""
    opens: bool = False
    first_segments: int = 0
    first_bytes: int = 0
    second: str = ""
    second_kind: str | None = None
    second_rest: str = ""
    messages: int = 0
    last: str = ""
    last_segments: int = 0

    def lead(self, records: int, segments: int, size: int) -> None:
        """Records without a reference come first."""
        self.leading += records
        self.leading_segments += segments
        self.leading_bytes += size

    def begin(self, mark: Mapping[str, Any]) -> None:
        """The first record with a reference."""
        self.reference = self.last = mark["reference"]
        self.first_kind, self.first_rest, self.opens, self.messages = mark["kind"], mark["rest"], mark["opens"], 1

    def follow(self, marks: pa.StructArray, segments: Sequence[int], size: int) -> None:
        """Records of the last message, and further messages.

        Args:
            marks: the marks of the records that open messages.
            segments: how many segments the last message goes on for, and how many each further one has.
            size: how many bytes it goes on for.
        """
        if self.messages == 1:
            self.first_segments += segments[0]
            self.first_bytes += size
            if len(marks):
                self.second, self.second_kind, self.second_rest = (
                    marks.field(name)[0].as_py() for name in ("reference", "kind", "rest")
                )
        self.last_segments += segments[0]
        if len(marks):
            self.messages += len(marks)
            self.last, self.last_segments = marks.field("reference")[-1].as_py(), segments[-1]

    @property
    def text(self) -> str:
        """The note as a part has it."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True)
class InterchangeFrame(ABC):
    """See `frame.Frame`; a format says how its segments are spelled.

    Args:
        options: the format's write options.
    """

    options: InterchangeWrite

    #: The tag that opens a message, and the tags of all segments that the frame writes.
    opening: ClassVar[str]
    services: ClassVar[tuple[str, ...]]
    #: The pattern of record tags, its description in messages, and tags that belong elsewhere in a file.
    tag: ClassVar[re.Pattern[str]]
    tags: ClassVar[str]
    elsewhere: ClassVar[tuple[str, ...]]
    separator: ClassVar[str]
    terminator: ClassVar[str]
    #: Characters that have no place in any text, and whether a segment may end with a line end.
    barred: ClassVar[str] = ""
    keeps_line_ends: ClassVar[bool] = True
    #: The reference of a message whose records have none.
    first_reference: ClassVar[str]

    marks: ClassVar[pa.DataType] = MARKS

    @abstractmethod
    def safe(self, texts: pa.StringArray) -> pa.StringArray:
        """Texts as they are written into a segment; `problem` has accepted them."""

    def problem(self, text: str) -> str | None:
        """The reason why a text cannot be written in a segment; None where it can."""
        sign = next((sign for sign in self.barred if sign in text), None)
        return None if sign is None else f"has the delimiter '{sign}', which {self.options.title} cannot escape"

    @abstractmethod
    def ended(self, lines: pa.StringArray) -> pa.StringArray:
        """Segments that end with a line end, so that it is not taken for one between segments."""

    @abstractmethod
    def opened(self, reference: Any, kind: Any, rest: Any) -> tuple[Any, ...]:
        """The pieces of the segment that opens a message; columns for columns. `rest` begins with a separator."""

    @abstractmethod
    def closed(self, count: Any, reference: Any) -> tuple[Any, ...]:
        """The pieces of the segment that closes a message of so many segments."""

    @abstractmethod
    def header(self, elements: Sequence[str], *, messages: bool) -> str:
        """The text that a file begins with."""

    @abstractmethod
    def trailer(self, elements: Sequence[str], messages: int) -> str:
        """The text that a file ends with, after so many messages."""

    @property
    def end_of_segment(self) -> str:
        """The characters after each segment: terminator and line end."""
        return self.terminator + ("\n" if self.options.segment_newline else "")

    def segment(self, *elements: str) -> str:
        """A segment of the frame."""
        for text in elements:
            if (problem := self.problem(text)) is not None:
                raise format.UnwritableFile(f"segment {elements[0]}: an element '{text}' {problem}")
        return self.separator.join(self.safe(_texts(elements)).to_pylist()) + self.end_of_segment

    def empty(self) -> bytes:
        """A file without records: an interchange without messages, or no bytes if records would bring the header."""
        if self.options.interchange is None:
            return b""
        elements = self.options.interchange
        return self._charset.mark + self._bytes(self.header(elements, messages=False) + self.trailer(elements, 0))

    @property
    def _charset(self) -> encoding.Encoding:
        return encoding.Encoding(self.options.encoding)

    def _bytes(self, text: str) -> bytes:
        try:
            return self._charset.encode(text)
        except UnicodeEncodeError as error:
            message = f"character '{text[error.start]}' of a header cannot be written as {self.options.encoding}"
            raise format.UnwritableFile(message) from None

    # ---- in a task

    def enclose(self, records: pa.Array, marks: pa.StructArray, note: str) -> tuple[memoryview, str]:
        """The bytes of the next records of a part with the text between their messages; and the note after them."""
        if note:
            known = Note(**json.loads(note))
        else:
            known = Note(*(marks.field(name)[0].as_py() for name in ("header", "kind", "rest")))
        ends = _ends(records)
        segments = np.concatenate([[0], np.cumsum(np.diff(ends) > 0)])
        places = pc.indices_nonzero(pc.not_equal(marks.field("reference"), "")).to_numpy().astype(np.int64)
        start = 0
        if known.reference is None:
            start = int(places[0]) if len(places) else len(records)
            known.lead(start, int(segments[start]), int(ends[start] - ends[0]))
            if len(places):
                known.begin(marks[start].as_py())
                places = places[1:]
        if known.reference is None:
            return _view(records), known.text
        begins = _begins(marks, places, known.last)
        borders = np.concatenate([[start], begins, [len(records)]])
        counts = np.diff(segments[borders])
        framed = self._framed(records, marks, begins, counts, known)
        opening = marks.take(pa.array(begins))
        known.follow(opening, counts.tolist(), int(ends[borders[1]] - ends[start]))
        return _view(framed), known.text

    def _framed(
        self, records: pa.Array, marks: pa.StructArray, begins: np.ndarray, counts: np.ndarray, known: Note
    ) -> pa.Array:
        """Records, with the closing and opening segments before each record that begins a message, if known already."""
        # The segment count of a part's first message is known only when parts are joined.
        inner = begins[1:] if known.messages == 1 else begins
        if not len(inner):
            return records
        opening = marks.take(pa.array(inner))
        own = counts[:-1].copy()
        own[0] += known.last_segments
        references = marks.field("reference").take(pa.array(begins))
        before = pa.concat_arrays([pa.array([known.last], pa.string()), references])[: len(begins)]
        skipped = len(begins) - len(inner)
        closed = self.closed(pc.cast(pa.array(own[skipped:] + 2), pa.string()), before[skipped:])
        opened = self.opened(opening.field("reference"), self._kinds(opening), opening.field("rest"))
        glue = self._glued(pc.binary_join_element_wise(*closed, *opened, ""))
        chosen = np.zeros(len(records), dtype=np.int64)
        chosen[inner] = np.arange(len(inner))
        is_none = np.ones(len(records), dtype=np.bool_)
        is_none[inner] = False
        before_each = glue.take(pa.array(chosen, mask=is_none))
        return pc.binary_join_element_wise(pc.fill_null(before_each, b""), records, _NOTHING)

    def _kinds(self, opening: pa.StructArray) -> pa.StringArray:
        """The types of messages that begin."""
        kinds: pa.StringArray = opening.field("kind")
        if kinds.null_count:
            missing = opening.field("reference").filter(kinds.is_null())[0].as_py()
            kinds = pc.fill_null(kinds, self._kind(None, missing))
        return kinds

    def no_kind(self, reference: str) -> str:
        """The problem of a message without a type."""
        return (
            f"the type of the message '{reference}' is not known: its record has no {self.options.kind}, "
            f"and the option {self.options.default_kind} is missing"
        )

    def _kind(self, kind: str | None, reference: str) -> str:
        """The type of a message; what `options:` says where its record has none."""
        found = kind or getattr(self.options, self.options.default_kind)
        if found is None:
            raise format.UnwritableFile(self.no_kind(reference))
        if kind is None:
            found = self.safe(_texts([found]))[0].as_py()
        return str(found)

    def _glued(self, texts: pa.StringArray) -> pa.Array:
        if encoding.is_utf8(self.options.encoding):
            return pc.cast(pc.cast(texts, pa.large_string()), pa.large_binary())
        return pa.array([self._bytes(text) for text in texts.to_pylist()], pa.large_binary())

    # ---- where parts are joined

    def joined(self, notes: Sequence[str]) -> Joined:
        """The text before, between and after the parts.

        Raises:
            Unfit: a header or a type is missing.
        """
        found = [Note(**json.loads(note)) for note in notes]
        elements = self._elements(found[0].header)
        state = _Joining(self)
        parts = [list(state.ranges(note)) for note in found]
        end = state.close() + self.trailer(elements, state.messages)
        start = self._charset.mark + self._bytes(self.header(elements, messages=True))
        return Joined(start, [[(self._bytes(text), size) for text, size in each] for each in parts], self._bytes(end))

    def begun(self, reference: str, kind: str | None, rest: str) -> str:
        """The segment that opens a message."""
        return "".join(self.opened(reference, self._kind(kind, reference), rest))

    def _elements(self, header: str | None) -> tuple[str, ...]:
        """The elements of the header: from `options:`, else from the document of the first record."""
        if self.options.interchange is not None:
            return tuple(self.options.interchange)
        if header is None:
            name = self.options.interchange_from_doc
            raise format.UnwritableFile(
                f"the first record has no section '{name}' around it, which is to be the header again"
            )
        return tuple(json.loads(header))


class _Joining:
    """The messages of a file, part by part."""

    def __init__(self, frame: InterchangeFrame) -> None:
        self._frame = frame
        self._open: str | None = None
        self._segments = 0
        self.messages = 0

    def _begin(self, reference: str, kind: str | None, rest: str) -> str:
        closed = self.close()
        self._open, self._segments = reference, 0
        self.messages += 1
        return closed + self._frame.begun(reference, kind, rest)

    def close(self) -> str:
        """The segment that closes the open message."""
        if self._open is None:
            return ""
        return "".join(self._frame.closed(str(self._segments + 2), self._open))

    def ranges(self, note: Note) -> Iterator[tuple[str, int | None]]:
        """The text before each range of a part, and the bytes of the range; None for the rest."""
        if note.leading:
            before = self._begin(self._frame.first_reference, note.kind, note.rest) if self._open is None else ""
            yield before, note.leading_bytes
            self._segments += note.leading_segments
        if note.reference is None:
            return
        is_other = note.opens or note.reference != self._open
        before = self._begin(note.reference, note.first_kind, note.first_rest) if is_other else ""
        yield before, note.first_bytes
        self._segments += note.first_segments
        if note.messages > 1:
            yield self._begin(note.second, note.second_kind, note.second_rest), None
            self.messages += note.messages - 2
            self._open, self._segments = note.last, note.last_segments


def _texts(found: Sequence[str]) -> pa.StringArray:
    return pa.array(found, pa.string())


def _begins(marks: pa.StructArray, places: np.ndarray, last: str) -> np.ndarray:
    """The records that begin a message, among the records with a reference that follow a message."""
    chosen = pa.array(places)
    found = marks.field("reference").take(chosen)
    before = pa.concat_arrays([pa.array([last], pa.string()), found])[: len(found)]
    is_other = pc.or_(pc.not_equal(found, before), marks.field("opens").take(chosen))
    begins: np.ndarray = places[is_other.to_numpy(zero_copy_only=False)]
    return begins


def _ends(records: pa.Array) -> np.ndarray:
    found: np.ndarray = np.frombuffer(records.buffers()[1], dtype=np.int64)
    return found[records.offset : records.offset + len(records) + 1]


def _view(records: pa.Array) -> memoryview:
    """All bytes of some records."""
    ends = _ends(records)
    return memoryview(records.buffers()[2] or b"").cast("B")[ends[0] : ends[-1]]
