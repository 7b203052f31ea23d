"""The shapes of regular records: which elements and attributes they have, in which order, and which have texts.

Records of one shape have the same names, so one of them represents all.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.formats.xml.fast.tags import Irregular, Tags

if TYPE_CHECKING:
    from collections.abc import Collection

#: A document with more shapes is looked at record by record.
_MOST_SHAPES = 10_000
#: So is a range with more new ones, and a record with more tags.
_MOST_NEW = 256
_MOST_PIECES = 1 << 16
_CHANCE = random.SystemRandom()


class Shapes:
    """The shapes that the records of a document had so far.

    A shape is a number of 64 bits, a sum of numbers drawn by chance for each part of a tag and each place in a record:
    two shapes hardly have the same, and nobody can make them have it.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._numbers: dict[bytes, int] = {}
        self._weights = np.zeros(0, dtype=np.uint64)

    def new(self, data: bytes, record: str, prefixes: Collection[str] = ()) -> list[bytes] | None:
        """The first record of each shape that was not there before; None where all have to be read.

        Args:
            data: whole records in UTF-8, with nothing but blanks between them.
            record: the name of their element, as it is written.
            prefixes: the prefixes that the elements around the records bind to a namespace.
        """
        if len(self._seen) > _MOST_SHAPES:
            return None
        try:
            tags = Tags(data, record, prefixes)
        except Irregular:
            return None
        first = np.flatnonzero((tags.levels == 0) & ~tags.is_end)
        begins = tags.first[first]
        sizes = np.diff(np.append(begins, len(tags.codes)))
        if sizes.max() > _MOST_PIECES:
            return None
        shapes = self._sums(tags, begins, sizes)
        known, places = np.unique(shapes, return_index=True)
        fresh = sorted(place for shape, place in zip(known.tolist(), places.tolist(), strict=True) if self._note(shape))
        if len(fresh) > _MOST_NEW:
            return None
        borders = np.append(tags.starts[first], len(data))
        return [data[borders[place] : borders[place + 1]] for place in fresh]

    def _note(self, shape: int) -> bool:
        is_new = shape not in self._seen
        self._seen.add(shape)
        return is_new

    def _sums(self, tags: Tags, begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """The shape of each record."""
        if sizes.max() > len(self._weights):
            more = [_CHANCE.getrandbits(64) | 1 for _ in range(int(sizes.max()) - len(self._weights))]
            self._weights = np.append(self._weights, np.array(more, dtype=np.uint64))
        codes = np.array([self._number(text) for text in tags.spellings], dtype=np.uint64)[tags.codes]
        # The last part of a tag shows whether a text follows it.
        last = np.append(tags.first[1:], len(tags.codes)) - 1
        codes[last[tags.has_text]] ^= np.uint64(self._number(b""))
        place = np.arange(len(codes)) - np.repeat(begins, sizes)
        return np.add.reduceat(codes * self._weights[place], begins)

    def _number(self, spelling: bytes) -> int:
        if spelling not in self._numbers:
            self._numbers[spelling] = _CHANCE.getrandbits(64)
        return self._numbers[spelling]
