"""What a task may hold, and who holds how much of it (decision 41).

A task has an equal share of `memory.limit`. Records wait in many places of it: for a lookup, for their group, to be
sorted, to be sent. Each place counts its bytes in the task's account. Together they may hold a part of the share, for
whoever works on what it holds needs as much again, and more: copies, hash tables, indices. When they hold too much, the
place that holds most gives up what it can: it sends or spills it. Whoever works asks the account how much it may take.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: Of a task's share, what all its places hold together.
_HELD = 3
#: However large the share is: Arrow counts the bytes of a text column in 31 bits.
_MOST_HELD = 1 << 30
#: Of a task's share, the bytes that are read, sent or given on at once: each is there in a few forms at a time.
_STEP = 16
_LEAST_STEP, _MOST_STEP = 64 << 10, 8 << 20
_MOST_READ = 4 << 20
#: How many forms that are: bytes, texts, values, results.
_FORMS = 4
#: What Arrow allocates for each group while it groups: a hash table, and columns that grow by doubling.
_HASHED_BYTES, _STATE_BYTES = 64, 44


def grouping_bytes(states: int) -> int:
    """What grouping rows into as many groups allocates for each of them, beside copies of their columns.

    Args:
        states: columns that are computed for each group.
    """
    return _HASHED_BYTES + _STATE_BYTES * (states + 1)


def step_bytes(share: int) -> int:
    """How many bytes of records are read, sent or given on at once."""
    return max(_LEAST_STEP, min(share // _STEP, _MOST_STEP))


def block_bytes(share: int) -> int:
    """How many bytes of a file are read at once."""
    return min(step_bytes(share), _MOST_READ)


def record_bytes(share: int) -> int:
    """How long a record may be: while it is read, it is there in a few forms."""
    return share // (_FORMS - 1)


class Place:
    """One place where records wait."""

    def __init__(self, account: Account, release: Callable[[], None] | None) -> None:
        self._account = account
        self._release = release
        self._is_busy = False
        #: What it holds.
        self.bytes = 0

    def add(self, size: int) -> None:
        """It holds more. Something may be released before this comes back: what is held has to be in order by then."""
        self.bytes += size
        self._account.settle()

    def set(self, size: int) -> None:
        """It holds so much now, which is less, or is work in progress."""
        self.bytes = size

    def close(self) -> None:
        """It holds nothing any more, and never will."""
        self.bytes = 0
        self._account.close(self)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While it works on what it holds, nobody asks it to release anything."""
        before, self._is_busy = self._is_busy, True
        try:
            yield
        finally:
            self._is_busy = before

    @property
    def can_release(self) -> bool:
        """Whether it would give something up when asked."""
        return self._release is not None and not self._is_busy and self.bytes > 0

    def release(self) -> None:
        """Give up what can be given up."""
        assert self._release is not None
        with self.busy():
            self._release()

    @property
    def room(self) -> int:
        """What may be allocated here to work on it, beside what all places hold."""
        return self._account.room


class Account:
    """A task's share, and the places that hold parts of it."""

    def __init__(self, share: int) -> None:
        self.share = share
        self._places: list[Place] = []
        self._kept = 0

    @property
    def limit(self) -> int:
        """What the places may hold together."""
        return min((self.share - self._kept) // _HELD, _MOST_HELD)

    def keep(self, size: int) -> None:
        """The task holds these bytes to its end."""
        self._kept += size

    def open(self, release: Callable[[], None] | None = None) -> Place:
        """A new place; `release` gives up what it holds, as far as it can, and tells the place."""
        place = Place(self, release)
        self._places.append(place)
        return place

    def close(self, place: Place) -> None:
        """Forget a place."""
        if place in self._places:
            self._places.remove(place)

    @property
    def held(self) -> int:
        """What all places hold."""
        return sum(place.bytes for place in self._places)

    @property
    def room(self) -> int:
        """What is left to work with: the share without what is held and what is being read."""
        reading = _FORMS * block_bytes(self.share)
        return max(self.share - self._kept - self.held - reading, self.share // _STEP)

    def settle(self) -> None:
        """The largest places release what they hold, until all hold little enough or none can help."""
        asked: set[int] = set()
        while self.held > self.limit:
            able = [place for place in self._places if place.can_release and id(place) not in asked]
            if not able:
                return
            largest = max(able, key=lambda place: place.bytes)
            asked.add(id(largest))
            largest.release()
