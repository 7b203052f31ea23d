"""Numbers with more digits than their double keeps, found in the bytes of objects on lines.

Whoever has numbers as doubles does not know how they were written. A number of at most 15 digits is the shortest text
of its double, and most numbers have so few: eight bytes at a time tell. The others are compared with the text of their
double, as columns. Such a number inside of a text is taken for one, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import written_numbers
from spark_jobs.formats.json.texts import portions

if TYPE_CHECKING:
    from spark_jobs.formats.json.texts.portions import Mask, Places

    Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]

#: A number of 16 digits, with a point or an exponent, fills a whole word of the text, wherever it begins.
_WORD = 8
#: Characters on one side of such a word are counted up to here. A longer one is taken for an odd number.
_MOST_COUNTED = 64
#: Arrow counts the bytes of texts with 32 bits.
_MOST_BYTES = (1 << 31) - 256
#: Numbers consist of the characters from `.` to `9`; `/` lies between them and occurs in no number.
_FIRST, _COUNT = ord("."), ord("9") - ord(".") + 1
_LOW, _TOP = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_FROM_FIRST = np.uint64(0x0101010101010101 * (0x80 - _FIRST))
_BEYOND_LAST = np.uint64(0x0101010101010101 * (0x80 - ord(":")))
_PLAIN = r"^[0-9]+\.[0-9]+$"
_NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]+")


def rows(text: bytes) -> Places:
    """The lines with a number whose double has another shortest text, ascending; some others too.

    Args:
        text: one object a line, with LF between them.
    """
    if len(text) > _MOST_BYTES:
        return np.arange(len(portions.line_ends(text)))
    padded = bytes(_WORD) + text + bytes(_WORD + -len(text) % _WORD)
    words = np.frombuffer(padded, dtype="<u8")
    low = words & _LOW
    are_numeral = (low + _FROM_FIRST) & ~((low + _BEYOND_LAST) | words) & _TOP
    found = np.flatnonzero(are_numeral == _TOP) * _WORD
    if not len(found):
        return found
    odd = _odd_places(padded, np.frombuffer(padded, dtype=np.uint8), found)
    return np.unique(np.searchsorted(portions.line_ends(text), odd - _WORD))


def differing(found: pa.Array, texts: pa.StringArray) -> Mask:
    """Which values of a column were read as doubles, or made of them, and are not the numbers that are written.

    Args:
        found: the values; as texts, if they are of any kind.
        texts: how they are written.
    """
    as_texts = found if isinstance(found, pa.StringArray) else pc.cast(found, pa.string())
    differs = pc.fill_null(pc.not_equal(as_texts, texts), False)
    odd = np.zeros(len(texts), dtype=np.bool_)
    for row, each in zip(pc.indices_nonzero(differs).to_pylist(), texts.filter(differs).to_pylist(), strict=True):
        odd[row] = _is_odd(each)
    return odd


def _odd_places(padded: bytes, data: Bytes, places: Places) -> Places:
    """Where numbers are that are not the shortest text of their double, of those with a word that begins there."""
    before, after = _extent(data, places, -1), _extent(data, places + _WORD - 1, 1)
    is_far = (before == _MOST_COUNTED) | (after == _MOST_COUNTED)
    starts, ends = places - before, places + _WORD + after
    odd = [places[is_far]]
    # A number may have several such words.
    is_first = ~is_far & np.append(True, starts[1:] != starts[:-1])
    starts, ends = starts[is_first], ends[is_first]
    has_exponent = (data[ends] | 0x20) == ord("e")
    odd.append(_odd_exponents(padded, starts[has_exponent]))
    starts, ends = starts[~has_exponent], ends[~has_exponent]
    if len(starts):
        texts = _cut(data, starts, ends)
        # Whole numbers are ints, and others no numbers.
        has_point = pc.match_substring(texts, ".").to_numpy(zero_copy_only=False)
        starts, texts = starts[has_point], texts.filter(pa.array(has_point))
        is_number = pc.match_substring_regex(texts, _PLAIN).to_numpy(zero_copy_only=False)
        starts, texts = starts[is_number], texts.filter(pa.array(is_number))
        differs = differing(pc.cast(texts, pa.float64()), texts)
        odd.append(starts[differs])
    return np.concatenate(odd)


def _extent(data: Bytes, places: Places, step: int) -> Places:
    """Count the characters of numbers next to each place, on one side of it, up to a maximum."""
    found = np.zeros(len(places), dtype=np.int64)
    left = np.arange(len(places))
    for count in range(1, _MOST_COUNTED + 1):
        # Before and after the text there are bytes that are none.
        left = left[data[places[left] + step * count] - np.uint8(_FIRST) < np.uint8(_COUNT)]
        if not len(left):
            break
        found[left] = count
    return found


def _cut(data: Bytes, starts: Places, ends: Places) -> pa.StringArray:
    """Some ranges, ascending, as texts."""
    borders = np.empty(2 * len(starts), dtype=np.int32)
    borders[0::2], borders[1::2] = starts, ends
    between = pa.StringArray.from_buffers(len(borders) - 1, pa.py_buffer(borders), pa.py_buffer(data))
    return between.take(pa.array(np.arange(0, len(borders), 2, dtype=np.int32)))


def _odd_exponents(padded: bytes, starts: Places) -> Places:
    """Where numbers with exponents begin that are not the shortest text of their double."""
    odd = []
    for start in starts.tolist():
        found = _NUMBER.match(padded, start)
        if found is not None and _is_odd(found[0].decode()):
            odd.append(start)
    return np.array(odd, dtype=np.int64)


def _is_odd(text: str) -> bool:
    return not isinstance(written_numbers.number_of(text), float)
