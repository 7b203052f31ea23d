"""Columns as whole numbers: equal values have equal numbers, and the numbers sort in the requested order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import decimal_units, types
from spark_jobs.nodes import packed_sort, sorting

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Two numbers up to this one can be added.
_MOST = 1 << 62
#: Whole numbers in a range up to this size are their own codes. Others are numbered by their rank.
_NARROW = 1 << 32
_PLAIN = (types.Kind.INT, types.Kind.BOOL, types.Kind.DATE, types.Kind.DATETIME)


@dataclass(frozen=True)
class Codes:
    """A number for each row, from 0 to `size` - 1."""

    numbers: np.ndarray
    size: int

    def dense(self) -> Codes:
        """Codes in the same order without gaps."""
        uniques, numbers = np.unique(self.numbers, return_inverse=True)
        return Codes(numbers, max(len(uniques), 1))

    def reversed(self) -> Codes:
        """The codes in descending order."""
        return Codes(self.size - 1 - self.numbers, self.size)


def of_keys(column: pa.Array) -> Codes:
    """Codes of a comparable key (see `keys.py`): equal for equal values, nulls included, in no particular order."""
    if pa.types.is_integer(column.type) and not column.null_count and len(column):
        numbers = column.to_numpy().astype(np.int64)
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < _NARROW:
            return Codes(numbers - low, high - low + 1)
    encoded = column.dictionary_encode(null_encoding="encode")
    return Codes(encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1))


def of_values(column: pa.Array, static: types.Type) -> Codes:
    """Codes in the order of values, from 1. Nulls have 0."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    found = _ranks(column, static, valid)
    return Codes(np.where(valid, found.numbers + 1, 0), found.size + 1)


def of_sort(column: pa.Array, static: types.Type, *, descending: bool, nulls_first: bool) -> Codes:
    """Codes in the order of a field of `sort_by`."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    found = _ranks(column, static, valid)
    if descending:
        found = found.reversed()
    if column.null_count == 0:
        return found
    null = 0 if nulls_first else found.size
    return Codes(np.where(valid, found.numbers + nulls_first, null), found.size + 1)


def _ranks(column: pa.Array, static: types.Type, valid: np.ndarray) -> Codes:
    """Numbers in the order of the values. Numbers of nulls are undefined."""
    if static.is_dynamic or static.kind is types.Kind.ARRAY:
        return _texts(sorting.field(column, static))
    if static.kind is types.Kind.STRING:
        return _texts(column)
    if static.kind is types.Kind.DECIMAL and decimal_units.units(column)[1] is not None:
        return _texts(sorting.field(column, static))
    if static.kind in _PLAIN or static.kind is types.Kind.DECIMAL:
        numbers = sorting.number(column, static)
        known = numbers[valid] if column.null_count else numbers
        if not len(known):
            return Codes(np.zeros(len(column), np.int64), 1)
        low, high = known.min(), known.max()
        if int(high) - int(low) < _NARROW:
            return Codes((numbers - low).astype(np.int64) * valid, int(high) - int(low) + 1)
    else:
        numbers = sorting.number(column, static)
    uniques, ranks = np.unique(numbers, return_inverse=True)
    return Codes(ranks, max(len(uniques), 1))


def _texts(column: pa.Array) -> Codes:
    found = sorting.ranks(column)
    return Codes(found, int(found.max(initial=0)) + 1)


def joined(parts: Sequence[Codes], count: int) -> Codes:
    """Combine several codes into one, ordered by the first, then the second, and so on."""
    whole = Codes(np.zeros(count, np.int64), 1)
    for part in parts:
        if whole.size * part.size > _MOST:
            part = part.dense()
        if whole.size * part.size > _MOST:
            whole = whole.dense()
        whole = Codes(whole.numbers * part.size + part.numbers, whole.size * part.size)
    return whole


def order(parts: Sequence[Codes], rows: np.ndarray) -> np.ndarray:
    """Rows sorted by the first codes, then by the second, and so on. The sort is stable.

    Args:
        parts: codes of all rows.
        rows: the rows to sort.
    """
    waiting = list(parts)
    while waiting:
        # The last codes are sorted first, as many at once as fit into a word. Later sorts are stable.
        found = waiting.pop()
        if not packed_sort.fits(found.size, len(rows)):
            found = found.dense()
        while waiting and packed_sort.fits(waiting[-1].size * found.size, len(rows)):
            found = joined([waiting.pop(), found], len(rows))
        rows = rows[packed_sort.order(found.numbers[rows])]
    return rows
