"""Sessions: records of a key between two pauses, found by sorting times, a whole column at a time.

A *piece* is a partial session: one or more records that certainly belong to one session, as the range from the first
time to the last. Pieces of a key that overlap, or have no pause between them, belong to one session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from spark_jobs.nodes.aggregate.timed.watermarks import Numbers

#: Numbers that are packed into a larger one stay below this.
_MOST = 2**62


@dataclass(frozen=True)
class Sessions:
    """Sessions of pieces.

    Args:
        of: the number of each piece's session.
        first: the first time of each session.
        last: the last time of each session.
    """

    of: Numbers
    first: Numbers
    last: Numbers

    @classmethod
    def found(cls, keys: Numbers, first: Numbers, last: Numbers, gap: int) -> Sessions:
        """Find the sessions of pieces, given the number of each piece's key, its first time and its last.

        Only a pause longer than the gap ends a session.
        """
        by = _order(keys, first)
        keys, starts, ends = keys[by], first[by], last[by]
        if first is not last:
            ends = _reached(keys, ends)
        is_new = np.ones(len(by), dtype=bool)
        is_new[1:] = (keys[1:] != keys[:-1]) | (starts[1:] - ends[:-1] > gap)
        of = np.empty(len(by), dtype=np.int64)
        of[by] = np.cumsum(is_new) - 1
        begins = np.flatnonzero(is_new)
        return cls(of, starts[begins], ends[np.append(begins[1:], len(by)) - 1] if len(by) else ends)


def _order(keys: Numbers, times: Numbers) -> Numbers:
    """The permutation that sorts by keys, then times."""
    if not len(keys):
        return np.empty(0, dtype=np.int64)
    least = int(times.min())
    span = int(times.max()) - least + 1
    if (int(keys.max()) + 1) * span < _MOST:
        return np.argsort(keys * span + (times - least))
    return np.lexsort((times, keys))


def _reached(keys: Numbers, ends: Numbers) -> Numbers:
    """The running maximum of the ends within each key. Rows are sorted by key."""
    by = np.lexsort((ends, keys))
    ranks = np.empty(len(by), dtype=np.int64)
    ranks[by] = np.arange(len(by))
    reached: Numbers = ends[by][np.maximum.accumulate(ranks)]
    return reached


def key_numbers(columns: Sequence[pa.Array], count: int) -> Numbers:
    """A number for each row, equal exactly for equal keys. Nulls equal each other."""
    numbers, most = np.zeros(count, dtype=np.int64), 1
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        size = max(len(encoded.dictionary), 1)
        if most * size >= _MOST:
            distinct, numbers = np.unique(numbers, return_inverse=True)
            most = len(distinct)
        numbers = numbers * size + encoded.indices.to_numpy().astype(np.int64)
        most *= size
    return numbers
