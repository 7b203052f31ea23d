"""The distinct keys of a build side, each with a number, and where the keys of driver records stand among them.

Whole numbers, days and moments are sorted: to look up many of them in their order takes a fraction of what a hash table
takes that does not fit into the cache. All others are hashed by Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import words

#: Among so many numbers any of them is found in the cache.
_FEW = 4096


@dataclass
class Uniques:
    """The distinct values of a column; their numbers are their positions here. Null is none of them."""

    values: pa.Array | np.ndarray

    @classmethod
    def of(cls, column: pa.Array) -> tuple[Uniques, np.ndarray]:
        """Those of a column, and the number of each of its values; -1 for null."""
        numbers = _whole_numbers(column)
        if numbers is None:
            encoded = column.dictionary_encode()
            return cls(encoded.dictionary), _filled(encoded.indices)
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)) if column.null_count else None
        known = numbers if rows is None else numbers[rows]
        order = words.order(known)
        ascending = known[order]
        is_new = np.ones(len(ascending), dtype=np.bool_)
        is_new[1:] = ascending[1:] != ascending[:-1]
        codes = np.empty(len(order), dtype=np.int64)
        codes[order] = np.cumsum(is_new) - 1
        if rows is None:
            return cls(ascending[is_new]), codes
        found = np.full(len(column), -1, dtype=np.int64)
        found[rows] = codes
        return cls(ascending[is_new]), found

    def find(self, column: pa.Array) -> np.ndarray:
        """The number of each value of another column of the same type; -1 for null and for those that are not here."""
        if not len(self.values):
            return np.full(len(column), -1, dtype=np.int64)
        if isinstance(self.values, pa.Array):
            return _filled(pc.index_in(column, value_set=self.values, skip_nulls=True))
        numbers = _whole_numbers(column)
        assert numbers is not None
        found = np.empty(len(numbers), dtype=np.int64)
        order = np.argsort(numbers) if len(self.values) > _FEW else slice(None)
        found[order] = np.searchsorted(self.values, numbers[order])
        found = found.clip(max=len(self.values) - 1)
        is_here = self.values[found] == numbers
        if column.null_count:
            is_here &= column.is_valid().to_numpy(zero_copy_only=False)
        return np.where(is_here, found, -1)

    def __len__(self) -> int:
        return len(self.values)


def _whole_numbers(column: pa.Array) -> np.ndarray | None:
    """Values that are whole numbers in Arrow, any number for null; None for other kinds of values."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif kind != pa.int64():
        return None
    found: np.ndarray = column.fill_null(0).to_numpy(zero_copy_only=False)
    return found.astype(np.int64, copy=False)


def _filled(numbers: pa.Array) -> np.ndarray:
    found: np.ndarray = numbers.fill_null(-1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)
