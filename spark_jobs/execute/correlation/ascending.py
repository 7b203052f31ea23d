"""Sets of the numbers of records and groups, as sorted arrays: they may be millions.

NumPy's own set functions find duplicates by hashing, which takes a hundred times as long as sorting.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.nodes.records import identity


def each_once(values: np.ndarray) -> np.ndarray:
    """The distinct numbers, ascending."""
    found: np.ndarray = np.sort(values)
    is_first = np.ones(len(found), dtype=bool)
    is_first[1:] = found[1:] != found[:-1]
    return found if is_first.all() else found[is_first]


def united(known: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The distinct numbers of both, ascending."""
    return each_once(np.concatenate([known, others])) if len(others) else known


def are_among(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """A mask of the numbers that are in an ascending array."""
    found: np.ndarray = identity.sorted_index(values, known) >= 0
    return found


def without(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The distinct numbers, ascending, without the numbers of an ascending array."""
    found = each_once(values)
    rest: np.ndarray = found[~are_among(found, known)]
    return rest
