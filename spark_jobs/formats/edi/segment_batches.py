"""Splits a file of interchanges into batches of segments, each segment with the message that it belongs to.

Segments are found many at a time (`segments.py`); the envelope handles the service segments one by one. Where the
delimiters change, the segments found after that place are discarded, and found again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats import encoding
from spark_jobs.formats.edi import segments
from spark_jobs.formats.edi.envelope import HEAD_BYTES, Broken, Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.edi.envelope import Envelope
    from spark_jobs.formats.edi.segments import Mask, Places, Segments, Signs

#: The number of bytes that are parsed at a time.
_WINDOW_BYTES = 1 << 20
#: Delimiters that have changed may soon change again, so the window starts small.
_FIRST_WINDOW_BYTES = 8 << 10
_NO_TAG = "the segment has to begin with a tag of"
#: The number of characters shown of text in the place of a tag.
_MOST_SHOWN = 20


@dataclass(frozen=True)
class Header:
    """The segment that opens an interchange, with its place in the file."""

    segment: Sequence[str]
    number: int
    offset: int


@dataclass(frozen=True)
class SegmentBatch:
    """Segments of a file, with the numbers of the segments that are records.

    Args:
        segments: the segments.
        which: the segments that are records.
        owners: the message of each record, by its index in `messages`.
        messages: the messages around the records.
        headers: the headers among the segments.
        warnings: problems of segments that do not end the run.
    """

    segments: Segments
    which: Places
    owners: Places
    messages: list[Message]
    headers: list[Header]
    warnings: list[BrokenFile]

    def column(self, field: int) -> pa.StringArray:
        """The texts of a field of the records: tag, reference, type, and the elements."""
        if field == 1:
            return segments.repeated([message.reference for message in self.messages], self.owners)
        if field == 2:
            return segments.repeated([message.kind for message in self.messages], self.owners)
        return self.segments.column(max(field - 2, 0), self.which)


class Window:
    """The bytes of a file that are taken apart.

    Args:
        stream: the text of the file, as UTF-8.
        offset: where it begins in the file.
    """

    def __init__(self, stream: ByteStream, offset: int) -> None:
        self._stream = stream
        self._data = b""
        self._at = 0
        self._before = offset
        self.at_end = False

    @property
    def offset(self) -> int:
        """The offset of the next byte in the file."""
        return self._before + self._at

    def look(self, size: int) -> bytes:
        """The next bytes; fewer only at the end of the file."""
        while len(self._data) - self._at < size and not self.at_end:
            chunk = self._stream.read(max(size - len(self._data) + self._at, _WINDOW_BYTES))
            self.at_end = not chunk
            self._before += self._at
            self._data = self._data[self._at :] + chunk
            self._at = 0
        return self._data[self._at : self._at + size]

    def take(self, size: int) -> None:
        """Move the position forward by so many bytes."""
        self._at += size

    def next_head(self) -> bytes:
        """The beginning of the next segment, white space before it left out; empty where the file ends."""
        while True:
            head = self.look(HEAD_BYTES)
            rest = head.lstrip(segments.WHITE)
            self.take(len(head) - len(rest))
            if rest or not head:
                return self.look(HEAD_BYTES)


class InterchangeFile:
    """A file that is taken apart."""

    def __init__(
        self,
        stream: ByteStream,
        offset: int,
        envelope: Envelope,
        most_elements: int,
        window: int,
        charset: str = "utf-8",
    ) -> None:
        self._bytes = Window(stream, offset)
        self._charset = charset
        self._find = partial(segments.find, sized=envelope.sized, wide=not encoding.is_utf8(charset))
        self._sized = {segments.code(tag.decode()): number for tag, number in envelope.sized.items()}
        self._envelope = envelope
        self._most_elements = most_elements
        self._codes = np.array([segments.code(tag) for tag in envelope.services], dtype=np.int64)
        self._opening = segments.code(envelope.opening)
        self._full = max(1, min(window, _WINDOW_BYTES))
        #: The number of segments before the window, and the offset at which the last of them ends.
        self._number = 0
        self._end = offset

    def segment_batches(self) -> Iterator[SegmentBatch]:
        """The segments of the file.

        Raises:
            BrokenFile: the file is broken.
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
            found = self._find(data, signs)
            if not len(found):
                size = self._grown(data, found, size)
                continue
            place = _undecodable(found, data)
            if place == 0:
                raise self._here("the segment cannot be decoded in the file's encoding", int(found.starts[0]))
            if place is not None:
                found = self._find(data[: found.past[place - 1]], signs)
            portion, problem, count = self._walk(found, signs)
            yield portion
            if problem is not None:
                raise problem
            is_cut = count < len(found)
            self._number += count
            self._bytes.take(int(found.past[count - 1]) if is_cut else found.size)
            self._end = self._bytes.offset
            size = min(_FIRST_WINDOW_BYTES if is_cut else size * 2, self._full)
            if not self._envelope.is_open:
                signs = None
        if not self._number:
            raise self._here(f"the file has no interchange: no {self._envelope.header} segment was found")

    def _begin(self, head: bytes) -> Signs:
        """Take the beginning of the next interchange, which defines its delimiters."""
        try:
            signs, size = self._envelope.signs(head)
        except Broken as problem:
            raise self._here(str(problem)) from None
        self._bytes.take(size)
        self._end = self._bytes.offset
        return signs

    def _grown(self, data: bytes, found: Segments, size: int) -> int:
        """The number of bytes to look at next if there was no complete segment."""
        if found.size:
            self._bytes.take(found.size)
            return size
        rest = data.lstrip(segments.WHITE)
        self._bytes.take(len(data) - len(rest))
        if len(rest) > segments.MOST_SEGMENT_BYTES:
            raise self._here(f"the segment has no end within {segments.MOST_SEGMENT_BYTES} bytes")
        if len(data) < size:
            if rest:
                raise self._here("the file ends within the segment: it is truncated")
            text = f"the file ends without {self._envelope.trailer}: it is truncated"
            raise BrokenFile(text, self._number + 1, "", self._end)
        return size * 2 if rest else size

    def _here(self, message: str, after: int = 0) -> BrokenFile:
        return BrokenFile(message, self._number + 1, "", self._bytes.offset + after)

    def _walk(self, found: Segments, signs: Signs) -> tuple[SegmentBatch, BrokenFile | None, int]:
        """The records among segments, the problem of the first segment after them, and how many segments count."""
        envelope = self._envelope
        is_service = np.isin(found.codes, self._codes)
        messages = [envelope.message or Message()]
        headers: list[Header] = []
        warnings: list[BrokenFile] = []
        count, problem = self._follow(found, signs, is_service, messages, headers, warnings)
        is_record = ~is_service | (found.codes == self._opening)
        wrong = self._wrong_segment(found, is_record)
        if wrong is not None and wrong[0] < count + (problem is not None):
            count, problem = wrong
        which = np.flatnonzero(is_record[:count])
        owners = np.cumsum(found.codes[:count] == self._opening)[which]
        broken = None
        if problem is not None:
            tag = "" if found.lengths[found.first[count]] == 0 else found.column(0, np.array([count]))[0].as_py()
            broken = self._at(found, count, "" if problem.startswith(_NO_TAG) else tag, problem)
        reached = [each for each in warnings if each.number <= self._number + count]
        return SegmentBatch(found, which, owners, messages, headers, reached), broken, count

    def _at(self, found: Segments, place: int, tag: str, problem: str) -> BrokenFile:
        return BrokenFile(problem, self._number + place + 1, tag, self._bytes.offset + int(found.starts[place]))

    def _follow(
        self,
        found: Segments,
        signs: Signs,
        is_service: Mask,
        messages: list[Message],
        headers: list[Header],
        warnings: list[BrokenFile],
    ) -> tuple[int, str | None]:
        """Follow the envelope; returns the segment up to which it and the delimiters are valid, and the problem there.

        Notes the messages, headers and warnings on the way.
        """
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
            warnings += [self._at(found, place, texts[0], text) for text in envelope.taken()]
            if texts[0] == envelope.opening:
                messages.append(envelope.message or Message())
            elif texts[0] == envelope.header:
                offset = self._bytes.offset + int(found.starts[place])
                headers.append(Header(texts, self._number + place + 1, offset))
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
        """The first text that is not a valid segment, and why."""
        wrong: list[tuple[int, str]] = []
        most, longest = self._most_elements, segments.MOST_SEGMENT_BYTES
        for is_wrong, why in (
            (found.lengths[found.first] == 0, "the segment has no tag"),
            (self._has_no_tag(found), _NO_TAG),
            (is_record & (found.counts > most), "the segment has {} elements, and max_elements is {}"),
            (found.past - found.starts > longest + 1, f"the segment is longer than {longest} bytes"),
        ):
            if is_wrong.any():
                place = int(np.argmax(is_wrong))
                if why == _NO_TAG:
                    wrong.append((place, f"{_NO_TAG} {self._envelope.tags}, and no {_shown(found, place)}"))
                else:
                    wrong.append((place, why.format(found.counts[place], most)))
        if self._sized:
            wrong += self._wrong_sizes(found)
        return min(wrong, key=lambda each: each[0], default=None)

    def _wrong_sizes(self, found: Segments) -> list[tuple[int, str]]:
        """The first segment whose last element is not as long as it says."""
        for place in np.flatnonzero(np.isin(found.codes, list(self._sized))).tolist():
            number = self._sized[int(found.codes[place])]
            said, text = (found.column(at, np.array([place]))[0].as_py() or "" for at in (number, number + 1))
            size = len(text.encode(self._charset, "replace"))
            if not said.isdecimal() or int(said[:18]) != size or found.counts[place] > number + 1:
                return [(place, f"element {number} says that {said or 'no'} bytes follow, but there are {size}")]
        return []

    def _has_no_tag(self, found: Segments) -> Mask:
        """A mask of segments that do not begin with a tag."""
        lengths = np.minimum(found.lengths[found.first], segments.MOST_TAG_BYTES + 1)
        kinds, which = np.unique(found.codes * 8 + lengths, return_inverse=True)
        is_tag = self._envelope.tag.fullmatch
        are_none = [not is_tag((kind >> 3).to_bytes(8, "big")[8 - (kind & 7) :]) for kind in kinds.tolist()]
        mask: Mask = np.array(are_none, dtype=np.bool_)[which]
        return mask


def _shown(found: Segments, place: int) -> str:
    """The beginning of what stands where a tag belongs."""
    text = found.column(0, np.array([place]))[0].as_py() or ""
    return repr(text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…")


def _undecodable(found: Segments, data: bytes) -> int | None:
    """The first segment that is not UTF-8."""
    if data.isascii():
        return None
    try:
        data[: found.size].decode()
    except UnicodeDecodeError as error:
        return int(np.searchsorted(found.past, error.start, "right"))
    return None


class BrokenFile(Exception):
    """The problem of a broken file, with its segment."""

    def __init__(self, message: str, number: int, tag: str, offset: int) -> None:
        super().__init__(message, number, tag, offset)
        self.message = message
        self.number = number
        self.tag = tag
        self.offset = offset
