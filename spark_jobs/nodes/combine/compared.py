"""What ranges compare: a value of each record for each range, and the records that have none because a side fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Compared:
    """One side of some ranges.

    Args:
        values: for each range the values, in the order of the records.
        failing: the records for which some value fails; it is null.
    """

    values: list[pa.Array]
    failing: np.ndarray

    @classmethod
    def of(cls, results: Sequence[tuple[pa.Array, pa.Array | None]], count: int) -> Compared:
        """That of results of programs: values of some of `count` records, and which these are; None for all."""
        values, failing = [], np.zeros(count, dtype=np.bool_)
        for found, rows in results:
            if rows is None:
                values.append(found)
                continue
            at = np.full(count, -1, dtype=np.int64)
            at[rows.to_numpy(zero_copy_only=False)] = np.arange(len(rows))
            values.append(found.take(pa.array(at, mask=at < 0)))
            failing |= at < 0
        return cls(values, failing)

    @classmethod
    def together(cls, parts: Sequence[Compared]) -> Compared:
        """That of the records of several batches, one after another."""
        columns = zip(*(part.values for part in parts), strict=True)
        values = [pa.chunked_array(column).combine_chunks() for column in columns]
        return cls(values, np.concatenate([part.failing for part in parts]))

    def take(self, rows: pa.Array) -> Compared:
        """That of some records."""
        return Compared([each.take(rows) for each in self.values], self.failing[rows.to_numpy()])
