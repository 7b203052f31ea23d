"""Splits bytes into the segments and elements of EDIFACT and X12, many at once.

A segment ends with a terminator, and a separator stands between its tag and its elements. The character after a release
character is data. White space before a tag and line ends before a terminator are ignored. All delimiters are found in a
few passes over the bytes; once they are removed, the elements follow each other directly, as a text column stores them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.formats import cell_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Places = np.ndarray[tuple[int], np.dtype[np.int64]]
    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

#: The maximal number of bytes before an element of known length.
_MOST_BEFORE = 64
#: Longer white space is passed over segment by segment, in ranges of so many bytes.
_MOST_STEPS, _STEP_BYTES = 16, 1 << 16
#: A longer segment is taken for one without end: its file is broken, or has another terminator.
MOST_SEGMENT_BYTES = 65_536
#: Tags have no more bytes.
MOST_TAG_BYTES = 3
LINE_ENDS = b"\r\n"
#: What may stand between a terminator and the next tag.
WHITE = b" \t\r\n"


@dataclass(frozen=True)
class Signs:
    """The characters that take an interchange apart, as bytes of ASCII; some have no release character."""

    element: int
    terminator: int
    release: int | None = None


@dataclass(frozen=True)
class Segments:
    """The whole segments at the beginning of some bytes.

    Args:
        size: how many bytes they are, the last terminator included.
        starts: where each begins, white space before it left out.
        past: where each ends, its terminator included.
        elements: the tags and elements of all of them, one after the other.
        first: where each segment's tag is among `elements`.
        counts: how many elements each has after its tag.
        lengths: how long the tags and elements are, in bytes.
        codes: the tags as numbers, as `code` gives them; 0 for tags that are longer than three bytes.
    """

    size: int
    starts: Places
    past: Places
    elements: pa.StringArray
    first: Places
    counts: Places
    lengths: Places
    codes: Places

    def __len__(self) -> int:
        return len(self.starts)

    def column(self, number: int, which: Places) -> pa.StringArray:
        """The element of some segments that has a number, 0 being the tag; null where it is absent or empty."""
        places = self.first[which] + number
        is_absent = self.counts[which] < number
        places[is_absent] = 0
        is_absent |= self.lengths[places] == 0
        return self.elements.take(pa.array(places, mask=is_absent))

    def texts(self, which: Places) -> list[list[str]]:
        """The tags and elements of some segments."""
        sizes = self.counts[which] + 1
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self.first[which] - (ends - sizes), sizes)
        flat = self.elements.take(pa.array(places)).to_pylist()
        return [flat[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)]


def code(tag: str) -> int:
    """A tag of up to three characters as a number."""
    return int.from_bytes(tag.encode(), "big")


def find(
    data: bytes, signs: Signs, sized: Mapping[bytes, int] = MappingProxyType({}), *, wide: bool = False
) -> Segments:
    """The whole segments of some bytes, which begin with one; bytes after the last terminator are left.

    Args:
        data: the bytes.
        signs: what takes them apart.
        sized: by their tags, segments whose last element may hold any sign, since the one that has this number says how
            long it is.
        wide: whether it does so in characters, for they were bytes in the encoding of the file.
    """
    size = len(data)
    characters = np.frombuffer(data, dtype=np.uint8)
    is_end = characters == signs.terminator
    is_between = characters == signs.element
    releases = _releases(data, characters, signs)
    released = releases[releases + 1 < size] + 1
    if any(tag + bytes([signs.element]) in data for tag in sized):
        held, cut = _held(data, signs, sized, wide=wide)
        released = np.sort(np.concatenate([released, held]))
        if cut is not None:
            is_end[cut:] = False
    is_end[released] = False
    is_between[released] = False
    ends = np.flatnonzero(is_end)
    size = int(ends[-1]) + 1 if len(ends) else 0
    characters, is_end, is_between = characters[:size], is_end[:size], is_between[:size]
    is_kept = ~(is_end | is_between)
    is_kept[releases[releases < size]] = False
    starts = np.concatenate([[0], ends[:-1] + 1]) if size else ends
    white, line_ends = (bytes(set(some) - {signs.element, signs.terminator}) for some in (WHITE, LINE_ENDS))
    starts = _begun(data, characters, is_kept, starts, white)
    stops = _ended(data, characters, is_kept, released[released < size], starts, ends, line_ends)
    past = ends + 1
    if signs.terminator in LINE_ENDS:
        # Blank lines are no segments where lines are.
        is_blank = starts >= stops
        is_end[ends[is_blank]] = False
        starts, past = starts[~is_blank], past[~is_blank]
    return _taken_apart(characters, is_kept, is_end | is_between, starts, past, size)


def _held(data: bytes, signs: Signs, sized: Mapping[bytes, int], *, wide: bool) -> tuple[Places, int | None]:
    """The bytes of elements whose length is said, and where one begins that is not whole."""
    separator, found = bytes([signs.element]), [np.empty(0, dtype=np.int64)]
    begins = re.compile(b"(?:%s)%s" % (b"|".join(map(re.escape, sized)), re.escape(separator)))
    at = 0
    while (one := begins.search(data, at)) is not None:
        at = one.end()
        before = one.start()
        while before and data[before - 1] in WHITE and data[before - 1] != signs.terminator:
            before -= 1
        pieces = data[at : at + _MOST_BEFORE].split(separator, sized[one[0][: -len(separator)]])
        size = pieces[-2] if len(pieces) > 1 else b""
        if (before and data[before - 1] != signs.terminator) or not size.isdigit() or len(pieces) <= sized[one[0][:-1]]:
            continue
        if any(signs.terminator in piece for piece in pieces[:-1]) or int(size) > MOST_SEGMENT_BYTES:
            continue
        start = at + sum(len(piece) + 1 for piece in pieces[:-1])
        end = start + int(size)
        if wide:
            text = data[start : start + 4 * int(size)].decode("utf-8", "surrogateescape")[: int(size)]
            end = start + len(text.encode("utf-8", "surrogateescape")) + int(size) - len(text)
        if end >= len(data):
            return np.concatenate(found), start
        if data[end] == signs.terminator:
            found.append(np.arange(start, end))
            at = end
    return np.concatenate(found), None


def _taken_apart(
    characters: np.ndarray, is_kept: Mask, is_delimiter: Mask, starts: Places, past: Places, size: int
) -> Segments:
    delimiters = np.flatnonzero(is_delimiter)
    kept = np.cumsum(is_kept, dtype=np.int32)
    ends = kept[delimiters]
    lengths = np.diff(ends, prepend=0).astype(np.int64)
    text = characters[is_kept]
    elements = cell_text.of_bytes(text.tobytes(), ends)
    last = np.searchsorted(delimiters, past - 1)
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
    return Segments(
        size, starts, past, elements, first, last - first, lengths, _codes(text, ends[first], lengths[first])
    )


def _codes(text: np.ndarray, ends: Places, lengths: Places) -> Places:
    """The tags as numbers, by where they end."""
    codes = np.zeros(len(ends), dtype=np.int64)
    for place in range(MOST_TAG_BYTES):
        has = (lengths > place) & (lengths <= MOST_TAG_BYTES)
        codes[has] = (codes[has] << 8) | text[(ends - lengths)[has] + place]
    return codes


def _releases(data: bytes, characters: np.ndarray, signs: Signs) -> Places:
    """The places of release characters. A released release character is data."""
    if signs.release is None or signs.release not in data:
        return np.empty(0, dtype=np.int64)
    places = np.flatnonzero(characters == signs.release)
    # In a run of them every second one is data.
    is_first = np.diff(places, prepend=-2) != 1
    number = np.arange(len(places))
    since = number - np.maximum.accumulate(np.where(is_first, number, 0))
    found: Places = places[since % 2 == 0]
    return found


def _begun(data: bytes, characters: np.ndarray, is_kept: Mask, starts: Places, white: bytes) -> Places:
    """The starts of segments after leading white space, which is removed from the data."""
    starts = starts.copy()
    left = np.arange(len(starts))
    for _ in range(_MOST_STEPS):
        left = left[_is_among(characters[starts[left]], white)]
        if not len(left):
            return starts
        is_kept[starts[left]] = False
        starts[left] += 1
    for place in left.tolist():
        begin = int(starts[place])
        end = begin
        while not data[end : end + _STEP_BYTES].lstrip(white):
            end += _STEP_BYTES
        end += len(piece := data[end : end + _STEP_BYTES]) - len(piece.lstrip(white))
        is_kept[begin:end] = False
        starts[place] = end
    return starts


def _ended(
    data: bytes, characters: np.ndarray, is_kept: Mask, released: Places, starts: Places, ends: Places, line_ends: bytes
) -> Places:
    """The ends of segments without the line ends before terminators, which are removed from the data."""
    left = np.flatnonzero((ends > starts) & _is_among(characters[ends - 1], line_ends))
    if not len(left):
        return ends
    floor = starts
    if len(released):
        past = np.searchsorted(released, ends)
        floor = np.maximum(starts, np.where(past > 0, released[np.maximum(past - 1, 0)] + 1, 0))
    ends = ends.copy()
    for _ in range(_MOST_STEPS):
        left = left[(ends[left] > floor[left]) & _is_among(characters[ends[left] - 1], line_ends)]
        if not len(left):
            return ends
        ends[left] -= 1
        is_kept[ends[left]] = False
    for place in left.tolist():
        begin, end = int(floor[place]), int(ends[place])
        size = 1
        while size < end - begin and not data[end - size : end].strip(line_ends):
            size *= 2
        kept = len(data[max(end - size, begin) : end].rstrip(line_ends)) + max(end - size, begin)
        is_kept[kept:end] = False
        ends[place] = kept
    return ends


def _is_among(characters: np.ndarray, some: bytes) -> Mask:
    found: Mask = np.zeros(len(characters), dtype=np.bool_)
    for one in some:
        found |= characters == one
    return found


def repeated(values: Sequence[str | None], owners: Places) -> pa.StringArray:
    """A column that has for each row the value of its owner."""
    return pa.array(values, pa.string()).take(pa.array(owners))
