"""Which correlation groups a task has read records of: a bit for each bucket of keys, in a file.

Where no record depends on another, a task that has no record of a rejected group would do the same again in the next
pass, so what it did holds. Several groups share a bucket: a task is done again for nothing then, and never left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.execute.tasks.facts import BUCKETS
from spark_jobs.nodes.records import groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

#: A file has so many bits at least for each that is set, so that most of what is asked for is not there.
_SPARSE = 64
_FEWEST = 1 << 10


class Presence:
    """The groups of the records that a task reads."""

    def __init__(self) -> None:
        self._bits = np.zeros(BUCKETS, dtype=bool)

    def add(self, key: Sequence[pa.Array]) -> None:
        """Note groups by the texts of their key, field by field."""
        found = groups.buckets(key, BUCKETS)
        self._bits[found[found >= 0]] = True

    def write(self, path: str) -> None:
        """Write the bits down, in as many buckets as there are groups for.

        Raises:
            OSError: that cannot be done.
        """
        least = max(_SPARSE * int(self._bits.sum()), _FEWEST)
        shared = max(BUCKETS >> (least - 1).bit_length(), 1)
        bits = np.logical_or.reduce(self._bits.reshape(-1, shared), axis=1)
        with open(path, "wb") as file:
            file.write(np.packbits(bits).data)


def has_any(path: str, buckets: np.ndarray) -> bool:
    """Whether a task has read records of groups in some of `BUCKETS` buckets.

    Raises:
        OSError: the file cannot be read.
    """
    packed = np.fromfile(path, dtype=np.uint8)
    at = buckets // (BUCKETS // (8 * len(packed)))
    return bool((packed[at >> 3] & (128 >> (at & 7)).astype(np.uint8)).any())
