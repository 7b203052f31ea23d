"""Values as numbers that have their order: their ranks among the values of a build side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import words


@dataclass
class Scale:
    """The distinct values of a column, in order; texts as Arrow has them, all others as numbers."""

    values: np.ndarray | pa.Array

    @classmethod
    def of(cls, column: pa.Array) -> Scale:
        """The scale of a column's values. Null is none, and neither is NaN, which no comparison holds for."""
        if pa.types.is_string(column.type):
            unique = pc.unique(column.drop_null())
            return cls(unique.take(pc.sort_indices(unique)))
        numbers, is_value = _numbers(column)
        return cls(words.distinct(numbers[is_value]))

    @property
    def width(self) -> int:
        """More than any place among the values."""
        return len(self.values) + 1

    def ranks(self, column: pa.Array) -> np.ndarray:
        """The rank of each value of the scale's column; -1 for what is none."""
        found, is_value = self.places(column, "left")
        return np.where(is_value, found, -1)

    def places(self, column: pa.Array, side: str) -> tuple[np.ndarray, np.ndarray]:
        """How many values of the scale are below each one (`side` "left") or not above it; and whether it is one."""
        if isinstance(self.values, pa.Array):
            return _text_places(self.values, column, side)
        numbers, is_value = _numbers(column)
        return np.searchsorted(self.values, numbers, side=side), is_value  # type: ignore[call-overload]


def _numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    is_value = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        is_value = is_value & ~np.isnan(numbers)
    return numbers, is_value


def _text_places(values: pa.Array, column: pa.Array, side: str) -> tuple[np.ndarray, np.ndarray]:
    """Those of texts: sorted together with the scale's, each once."""
    is_value = column.is_valid().to_numpy(zero_copy_only=False)
    texts = pc.unique(column.drop_null())
    order = pc.sort_indices(pa.concat_arrays([values, texts])).to_numpy()  # stable: what is equal stands behind
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum(order < len(values))
    found = places[len(values) :]
    if side == "left":
        found = found - pc.is_in(texts, value_set=values).to_numpy(zero_copy_only=False)
    if not len(texts):
        return np.zeros(len(column), dtype=np.int64), is_value
    which = pc.index_in(column, value_set=texts).fill_null(0).to_numpy(zero_copy_only=False)
    return found[which], is_value
