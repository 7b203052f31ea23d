"""Takes bytes apart into segments and their elements, as EDIFACT and X12 have them; many at once.

A segment ends with a terminator, and a separator stands between its tag and its elements. A release character makes the
one behind it data. White space before a tag and line ends before a terminator count for nothing. All delimiters are
found in a few passes over the bytes; without them the elements stand one behind the other, which is what a text column
is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.formats import cell_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    Places = np.ndarray[tuple[int], np.dtype[np.int64]]
    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

#: A longer segment has no end: its file is broken, or has another terminator (spec/formats.md 7.1).
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
        behind: where each is over, its terminator included.
        elements: the tags and elements of all of them, one after the other.
        first: where each segment's tag is among `elements`.
        counts: how many elements each has behind its tag.
        lengths: how long the tags and elements are, in bytes.
        codes: the tags as numbers, as `code` gives them; 0 for tags that are longer than three bytes.
    """

    size: int
    starts: Places
    behind: Places
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


def find(data: bytes, signs: Signs) -> Segments:
    """The whole segments of some bytes, which begin with one; those behind the last terminator are left."""
    size = len(data)
    characters = np.frombuffer(data, dtype=np.uint8)
    is_end = characters == signs.terminator
    is_between = characters == signs.element
    releases = _releases(data, characters, signs)
    released = releases[releases + 1 < size] + 1
    is_end[released] = False
    is_between[released] = False
    ends = np.flatnonzero(is_end)
    size = int(ends[-1]) + 1 if len(ends) else 0
    characters, is_end, is_between = characters[:size], is_end[:size], is_between[:size]
    is_kept = ~(is_end | is_between)
    is_kept[releases[releases < size]] = False
    starts = np.concatenate([[0], ends[:-1] + 1]) if size else ends
    starts = _begun(characters, is_kept, starts)
    stops = _ended(characters, is_kept, released[released < size], starts, ends)
    behind = ends + 1
    if signs.terminator in LINE_ENDS:
        # Blank lines are no segments where lines are.
        is_blank = starts >= stops
        is_end[ends[is_blank]] = False
        starts, behind = starts[~is_blank], behind[~is_blank]
    return _taken_apart(characters, is_kept, is_end | is_between, starts, behind, size)


def _taken_apart(
    characters: np.ndarray, is_kept: Mask, is_delimiter: Mask, starts: Places, behind: Places, size: int
) -> Segments:
    delimiters = np.flatnonzero(is_delimiter)
    kept = np.cumsum(is_kept, dtype=np.int32)
    ends = kept[delimiters]
    lengths = np.diff(ends, prepend=0).astype(np.int64)
    text = characters[is_kept]
    elements = cell_text.of_bytes(text.tobytes(), ends)
    last = np.searchsorted(delimiters, behind - 1)
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
    return Segments(
        size, starts, behind, elements, first, last - first, lengths, _codes(text, ends[first], lengths[first])
    )


def _codes(text: np.ndarray, ends: Places, lengths: Places) -> Places:
    """The tags as numbers, by where they end."""
    codes = np.zeros(len(ends), dtype=np.int64)
    for place in range(MOST_TAG_BYTES):
        has = (lengths > place) & (lengths <= MOST_TAG_BYTES)
        codes[has] = (codes[has] << 8) | text[(ends - lengths)[has] + place]
    return codes


def _releases(data: bytes, characters: np.ndarray, signs: Signs) -> Places:
    """Where release characters are; one that is released itself is data."""
    if signs.release is None or signs.release not in data:
        return np.empty(0, dtype=np.int64)
    places = np.flatnonzero(characters == signs.release)
    # In a run of them every second one is data.
    is_first = np.diff(places, prepend=-2) != 1
    number = np.arange(len(places))
    since = number - np.maximum.accumulate(np.where(is_first, number, 0))
    found: Places = places[since % 2 == 0]
    return found


def _begun(characters: np.ndarray, is_kept: Mask, starts: Places) -> Places:
    """Where segments begin behind the white space before them, which is no longer kept."""
    if not len(starts) or not (_is_among(characters[starts], WHITE) & is_kept[starts]).any():
        return starts
    places, runs, after = _runs(_is_among(characters, WHITE) & is_kept)
    at = np.minimum(np.searchsorted(runs, starts), len(runs) - 1)
    is_before = runs[at] == starts
    is_leading = np.zeros(len(runs), dtype=np.bool_)
    is_leading[at[is_before]] = True
    is_kept[places[np.repeat(is_leading, after - runs)]] = False
    return np.where(is_before, after[at], starts)


def _ended(characters: np.ndarray, is_kept: Mask, released: Places, starts: Places, ends: Places) -> Places:
    """Where segments end without the line ends before their terminators, which are no longer kept."""
    last = np.maximum(ends - 1, starts)
    if not len(ends) or not (_is_among(characters[last], LINE_ENDS) & is_kept[last]).any():
        return ends
    is_line_end = _is_among(characters, LINE_ENDS) & is_kept
    is_line_end[released] = False
    places, runs, after = _runs(is_line_end)
    if not len(runs):
        return ends
    at = np.minimum(np.searchsorted(after, ends), len(runs) - 1)
    is_behind = after[at] == ends
    is_trailing = np.zeros(len(runs), dtype=np.bool_)
    is_trailing[at[is_behind]] = True
    is_kept[places[np.repeat(is_trailing, after - runs)]] = False
    return np.where(is_behind, runs[at], ends)


def _is_among(characters: np.ndarray, some: bytes) -> Mask:
    found: Mask = np.zeros(len(characters), dtype=np.bool_)
    for one in some:
        found |= characters == one
    return found


def _runs(mask: Mask) -> tuple[Places, Places, Places]:
    """The places of a mask, where runs of them begin, and where each of these is over."""
    places = np.flatnonzero(mask)
    is_first = np.diff(places, prepend=-2) != 1
    after = places[np.concatenate([np.flatnonzero(is_first)[1:] - 1, [len(places) - 1]])] + 1 if len(places) else places
    return places, places[is_first], after


def repeated(values: Sequence[str | None], owners: Places) -> pa.StringArray:
    """A column that has for each row the value of its owner."""
    return pa.array(values, pa.string()).take(pa.array(owners))
