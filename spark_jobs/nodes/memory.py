"""The memory of a task: a pool of reservations.

Each task has an equal share of `memory.limit`. Operators buffer records for a lookup, for grouping, sorting or sending.
Each buffer makes a `Reservation` in the task's `MemoryPool` and counts its bytes there. All reservations together may
hold only a part of the share, because processing the records takes at least as much again for copies, hash tables and
indices. If they exceed it, the largest one releases memory by sending or spilling. `room` is the memory that may be
allocated for work.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: All reservations together hold at most this part of a task's share (one in so many).
_HELD = 3
#: The limit for any share: Arrow counts the bytes of a text column in 31 bits.
_MOST_HELD = 1 << 30
#: The part of a task's share that is read, sent or pushed at once. These bytes exist in a few forms at a time.
_STEP = 16
_LEAST_STEP, _MOST_STEP = 64 << 10, 8 << 20
_MOST_READ = 4 << 20
#: The number of forms in which data exists at a time: bytes, texts, values, results.
_FORMS = 4
#: The bytes that Arrow allocates for each group: for a hash table, and for columns that double as they grow.
_HASHED_BYTES, _STATE_BYTES = 64, 44


def grouping_bytes(states: int) -> int:
    """The bytes that grouping allocates for each group, besides copies of the columns.

    Args:
        states: the number of columns that are computed for each group.
    """
    return _HASHED_BYTES + _STATE_BYTES * (states + 1)


def step_bytes(share: int) -> int:
    """The bytes of records that are read, sent or pushed at once."""
    return max(_LEAST_STEP, min(share // _STEP, _MOST_STEP))


def block_bytes(share: int) -> int:
    """The bytes of a file that are read at once."""
    return min(step_bytes(share), _MOST_READ)


def record_bytes(share: int) -> int:
    """The largest size of a record in bytes. While a record is read it exists in several forms."""
    return share // (_FORMS - 1)


class Reservation:
    """The bytes of one buffer of records."""

    def __init__(self, pool: MemoryPool, release: Callable[[], None] | None) -> None:
        self._pool = pool
        self._release = release
        self._is_busy = False
        #: The bytes that are reserved.
        self.bytes = 0

    def add(self, size: int) -> None:
        """Reserve `size` more bytes. The pool may call `release` during this call, so the buffer must be consistent."""
        self.bytes += size
        self._pool.release_excess()

    def set(self, size: int) -> None:
        """Reserve exactly `size` bytes, either fewer than before or for work in progress."""
        self.bytes = size

    def close(self) -> None:
        """Give all bytes back, for good."""
        self.bytes = 0
        self._pool.close(self)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The pool does not ask for a release inside this context."""
        before, self._is_busy = self._is_busy, True
        try:
            yield
        finally:
            self._is_busy = before

    @property
    def can_release(self) -> bool:
        """True if a release would free memory."""
        return self._release is not None and not self._is_busy and self.bytes > 0

    def release(self) -> None:
        """Free as much memory as possible."""
        assert self._release is not None
        with self.busy():
            self._release()

    @property
    def room(self) -> int:
        """The bytes that work may allocate, besides all reservations."""
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
        """Take `size` bytes out of the share until the task ends. A negative size gives them back."""
        self._kept += size

    def reserve(self, release: Callable[[], None] | None = None) -> Reservation:
        """Make a reservation. `release` frees as much of its memory as possible, and updates the reservation."""
        reservation = Reservation(self, release)
        self._reservations.append(reservation)
        return reservation

    def close(self, reservation: Reservation) -> None:
        """Remove a reservation and its bytes."""
        if reservation in self._reservations:
            self._reservations.remove(reservation)

    @property
    def held(self) -> int:
        """The bytes of all reservations."""
        return sum(reservation.bytes for reservation in self._reservations)

    @property
    def room(self) -> int:
        """The bytes left for work: the share without the reservations and the data being read."""
        reading = _FORMS * block_bytes(self.share)
        return max(self.share - self._kept - self.held - reading, self.share // _STEP)

    def release_excess(self) -> None:
        """Release the largest reservations, until all together are within the limit or none can free memory."""
        asked: set[int] = set()
        while self.held > self.limit:
            able = [each for each in self._reservations if each.can_release and id(each) not in asked]
            if not able:
                return
            largest = max(able, key=lambda each: each.bytes)
            asked.add(id(largest))
            largest.release()
