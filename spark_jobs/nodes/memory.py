"""The memory of a task: a pool of reservations.

Each task has an equal share of `memory.limit`. Operators buffer records for a lookup, for grouping, sorting or sending.
Each buffer makes a `Reservation` in the task's `MemoryPool` and counts its bytes there. All reservations together may
hold only a part of the share, because processing the records takes at least as much again for copies, hash tables and
indices. When they exceed it, the largest one releases what it can, by sending or spilling. `room` is the memory that
may be allocated for work.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: All reservations together hold at most this part of a task's share (one in so many).
_HELD = 3
#: However large the share is: Arrow counts the bytes of a text column in 31 bits.
_MOST_HELD = 1 << 30
#: Of a task's share, the bytes that are read, sent or given on at once: each is there in a few forms at a time.
_STEP = 16
_LEAST_STEP, _MOST_STEP = 64 << 10, 8 << 20
_MOST_READ = 4 << 20
#: The number of forms in which data exists at a time: bytes, texts, values, results.
_FORMS = 4
#: The bytes that Arrow allocates for each group: a hash table, and columns that double as they grow.
_HASHED_BYTES, _STATE_BYTES = 64, 44


def grouping_bytes(states: int) -> int:
    """The bytes that grouping allocates per row for so many groups, beside copies of their columns.

    Args:
        states: columns that are computed for each group.
    """
    return _HASHED_BYTES + _STATE_BYTES * (states + 1)


def step_bytes(share: int) -> int:
    """The bytes of records that are read, sent or passed on at once."""
    return max(_LEAST_STEP, min(share // _STEP, _MOST_STEP))


def block_bytes(share: int) -> int:
    """The bytes of a file that are read at once."""
    return min(step_bytes(share), _MOST_READ)


def record_bytes(share: int) -> int:
    """The maximal length of a record in bytes. While a record is read it exists in several forms."""
    return share // (_FORMS - 1)


class Reservation:
    """The bytes that one holder of records has in memory."""

    def __init__(self, pool: MemoryPool, release: Callable[[], None] | None) -> None:
        self._pool = pool
        self._release = release
        self._is_busy = False
        #: The bytes that it holds.
        self.bytes = 0

    def add(self, size: int) -> None:
        """Hold `size` bytes more. The pool may release something before this returns, so records must be consistent."""
        self.bytes += size
        self._pool.release_excess()

    def set(self, size: int) -> None:
        """Hold `size` bytes from now on: fewer than before, or work in progress."""
        self.bytes = size

    def close(self) -> None:
        """Hold nothing any more, for good."""
        self.bytes = 0
        self._pool.close(self)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Within this context the pool does not ask for a release."""
        before, self._is_busy = self._is_busy, True
        try:
            yield
        finally:
            self._is_busy = before

    @property
    def can_release(self) -> bool:
        """Whether a release would free something."""
        return self._release is not None and not self._is_busy and self.bytes > 0

    def release(self) -> None:
        """Release memory, as far as possible."""
        assert self._release is not None
        with self.busy():
            self._release()

    @property
    def room(self) -> int:
        """The bytes that work may allocate, beside all reservations."""
        return self._pool.room


class MemoryPool:
    """A task's share of memory, and the reservations in it."""

    def __init__(self, share: int) -> None:
        self.share = share
        self._reservations: list[Reservation] = []
        self._kept = 0

    @property
    def limit(self) -> int:
        """The bytes that all reservations may hold together."""
        return min((self.share - self._kept) // _HELD, _MOST_HELD)

    def hold(self, size: int) -> None:
        """Take `size` bytes out of the share until the task ends; negative gives them back."""
        self._kept += size

    def reserve(self, release: Callable[[], None] | None = None) -> Reservation:
        """Returns a new reservation; `release` frees what it holds, as far as it can, and updates the reservation."""
        reservation = Reservation(self, release)
        self._reservations.append(reservation)
        return reservation

    def close(self, reservation: Reservation) -> None:
        """Release a reservation, with everything that it holds."""
        if reservation in self._reservations:
            self._reservations.remove(reservation)

    @property
    def held(self) -> int:
        """The bytes that all reservations hold."""
        return sum(reservation.bytes for reservation in self._reservations)

    @property
    def room(self) -> int:
        """The bytes that are left for work: the share without reservations and the data being read."""
        reading = _FORMS * block_bytes(self.share)
        return max(self.share - self._kept - self.held - reading, self.share // _STEP)

    def release_excess(self) -> None:
        """Let the largest reservations release, until all together are within the limit or none can free anything."""
        asked: set[int] = set()
        while self.held > self.limit:
            able = [each for each in self._reservations if each.can_release and id(each) not in asked]
            if not able:
                return
            largest = max(able, key=lambda each: each.bytes)
            asked.add(id(largest))
            largest.release()
