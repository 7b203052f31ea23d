"""Where the values of members stand in the bytes of JSON objects on lines, found without parsing them.

The result is right if every line is one JSON object, and no key is written with escapes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import values
from spark_jobs.formats.json.texts import portions, structure

if TYPE_CHECKING:
    from spark_jobs.formats.json.texts.portions import Mask, Places

_QUOTE, _OPENING, _CLOSING, _COMMA, _COLON = 1, 2, 3, 4, 5
_ROLES = np.zeros(256, dtype=np.uint8)
_ROLES[ord('"')] = _QUOTE
_ROLES[list(b"[{")] = _OPENING
_ROLES[list(b"]}")] = _CLOSING
_ROLES[ord(",")] = _COMMA
_ROLES[ord(":")] = _COLON
_STEPS = np.array([0, 0, 1, -1, 0, 0], dtype=np.int64)


class Spans:
    """The values of a member, by line: from where to where, -1 where a line has none.

    Args:
        text: the objects.
        starts: where the values begin.
        stops: where the comma or bracket after each of them is.
    """

    def __init__(self, text: bytes, starts: Places, stops: Places) -> None:
        self.starts = starts
        self.stops = stops
        self.is_there = starts >= 0
        data = np.frombuffer(text, dtype=np.uint8)
        #: The first byte of each value, which tells its kind; 0 where there is none.
        self.firsts = np.where(self.is_there, data[np.where(self.is_there, starts, 0)], 0)
        self._data = data

    def texts(self) -> pa.StringArray:
        """The values as they are written."""
        return _gathered(self._data, self.starts, self.stops, self.is_there)


class Objects:
    """Objects on lines.

    Args:
        text: the lines, with LF between them.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        #: Every quote of it begins or ends a text.
        self._plain = structure.without_escapes(text)
        found = _ROLES[np.frombuffer(self._plain, dtype=np.uint8)]
        at = np.flatnonzero(found)
        roles = found[at]
        is_quote = roles == _QUOTE
        is_outside = ~(np.logical_xor.accumulate(is_quote) | is_quote)
        self._quotes = at[is_quote]
        self._at, self._roles = at[is_outside], roles[is_outside]
        #: How many objects and arrays are open after each of these.
        self._depths = np.cumsum(_STEPS[self._roles])
        self._ends = portions.line_ends(text)

    def rows(self, positions: list[int]) -> Places:
        """In which lines some bytes are."""
        return np.searchsorted(self._ends, np.array(positions, dtype=np.int64))

    def member(self, path: tuple[str, ...]) -> tuple[Spans, Mask]:
        """The values at a path, and lines that do not tell: a key stands twice, or no object where one has to be."""
        starts, stops = np.append(0, self._ends[:-1] + 1), self._ends
        odd = np.zeros(len(self._ends), dtype=np.bool_)
        for depth, name in enumerate(path, 1):
            found = self._step(name, depth, starts, stops, odd)
            if depth < len(path):
                is_object = found.firsts == ord("{")
                odd |= found.is_there & ~is_object & (found.firsts != ord("n"))
                starts, stops = np.where(is_object, found.starts, -1), np.where(is_object, found.stops, -1)
        return found, odd

    def _step(self, name: str, depth: int, starts: Places, stops: Places, odd: Mask) -> Spans:
        """The values of a member of objects that stand between some places, one for each line; notes odd lines."""
        key = re.compile(re.escape(values.json_text(name).encode()) + rb"\s*:\s*")
        found = [match.span() for match in key.finditer(self._plain)]
        keys, begins = np.array(found, dtype=np.int64).reshape(-1, 2).T
        rows = np.searchsorted(self._ends, keys)
        before = np.searchsorted(self._at, keys) - 1
        is_own = (self._depths[before] == depth) & (keys >= starts[rows]) & (keys < stops[rows])
        rows, begins = rows[is_own], begins[is_own]
        is_end = ((self._roles == _COMMA) & (self._depths == depth)) | (
            (self._roles == _CLOSING) & (self._depths == depth - 1)
        )
        ends = self._at[is_end]
        odd |= np.bincount(rows, minlength=len(odd)) > 1
        first, last = np.full(len(odd), -1), np.full(len(odd), -1)
        first[rows], last[rows] = begins, ends[np.searchsorted(ends, begins)]
        return Spans(self._text, first, last)

    def repeats(self, spans: Spans) -> Mask:
        """The lines in whose value an object has a key twice."""
        found = np.zeros(len(self._ends), dtype=np.bool_)
        colons = np.flatnonzero(self._roles == _COLON)
        places = self._at[colons]
        rows = np.searchsorted(self._ends, places)
        is_inside = (places > spans.starts[rows]) & (places < spans.stops[rows])
        colons, places, rows = colons[is_inside], places[is_inside], rows[is_inside]
        if not len(colons):
            return found
        closing = np.searchsorted(self._quotes, places) - 1
        keys = _gathered(
            np.frombuffer(self._text, dtype=np.uint8), self._quotes[closing - 1] + 1, self._quotes[closing]
        ).dictionary_encode()
        pairs = self._parents(colons) * len(keys.dictionary) + keys.indices.to_numpy()
        order = np.argsort(pairs, kind="stable")
        is_again = np.diff(pairs[order]) == 0
        found[rows[order[1:][is_again]]] = True
        return found

    def _parents(self, colons: Places) -> Places:
        """The object of each key, by the number of its brace."""
        parents = np.zeros(len(colons), dtype=np.int64)
        depths = self._depths[colons]
        for depth in np.unique(depths):
            opening = np.flatnonzero((self._roles == _OPENING) & (self._depths == depth))
            is_here = depths == depth
            parents[is_here] = opening[np.searchsorted(opening, colons[is_here]) - 1]
        return parents


def _gathered(
    data: np.ndarray[tuple[int], np.dtype[np.uint8]], starts: Places, stops: Places, is_there: Mask | None = None
) -> pa.StringArray:
    """Ranges of a text that follow one another, as a column; null where there is none."""
    some = slice(None) if is_there is None else is_there
    steps = np.zeros(len(data) + 1, dtype=np.int8)
    steps[starts[some]] += 1
    steps[stops[some]] -= 1
    chosen = data[np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)]
    offsets = np.zeros(len(starts) + 1, dtype=np.int32)
    np.cumsum(stops - starts if is_there is None else np.where(is_there, stops - starts, 0), out=offsets[1:])
    valid = None
    if is_there is not None and not is_there.all():
        valid = pa.array(is_there).buffers()[1]
    buffers = [valid, pa.py_buffer(offsets.tobytes()), pa.py_buffer(chosen.tobytes())]
    return pa.StringArray.from_buffers(len(starts), buffers[1], buffers[2], buffers[0])
