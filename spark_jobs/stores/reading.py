"""An object read like a file: in ranges that grow while it is read in order, with the next one on its way meanwhile."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_jobs.stores import heads

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.objects import Store

#: The shortest and the longest range of one request: latency is shared by many bytes, and memory stays bounded.
LEAST_BYTES = 256 << 10
MOST_BYTES = 8 << 20
_AHEAD_THREADS = 8


class ObjectReader:
    """The bytes of an object at any position.

    It holds the range it reads in and at most two more: the one before it, where it was left by a jump, and the next
    one on its way. Ranges are not longer than a few reads of whoever reads: a
    task with little memory reads little at a time.

    Args:
        store: where the object is.
        location: which it is.
        size: its length in bytes.
        version: the version that every range must have.
    """

    def __init__(self, store: Store, location: Location, size: int, version: str) -> None:
        self._store = store
        self._location = location
        self._size = size
        self._version = version
        self._at = 0
        self._held, self._held_at = b"", 0
        #: If a reader looks at the end of a split first, it comes back to the beginning.
        self._left, self._left_at = b"", 0
        #: The range that is fetched meanwhile, from one position to another.
        self._ahead: tuple[int, int, Future[bytes]] | None = None
        self._range_bytes = LEAST_BYTES
        self._end = size

    def __enter__(self) -> ObjectReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the buffers, without waiting for requests in flight."""
        if self._ahead is not None:
            self._ahead[2].cancel()
        self._ahead, self._held, self._left = None, b"", b""

    def size(self) -> int:
        """The object's length in bytes."""
        return self._size

    def seek(self, position: int) -> int:
        """Go to a position."""
        self._at = position
        return position

    def expect(self, end: int) -> None:
        """Announce that nothing from a position on is likely to be read, so that it is not fetched ahead."""
        self._end = min(max(end, 0), self._size)

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end of the object.

        Raises:
            StoreError: the object changed, is gone, or cannot be read.
        """
        left = min(size, self._size - self._at)
        found: list[bytes] = []
        while left > 0:
            offset = self._at - self._held_at
            if not 0 <= offset < len(self._held):
                self._turn(left)
                offset = self._at - self._held_at
            piece = self._held[offset : offset + left] if offset or left < len(self._held) else self._held
            found.append(piece)
            self._at += len(piece)
            left -= len(piece)
        return found[0] if len(found) == 1 else b"".join(found)

    def _turn(self, wanted: int) -> None:
        """Hold the range that begins at the position."""
        follows = self._at == self._held_at + len(self._held) and bool(self._held)
        if follows:
            self._range_bytes = min(2 * max(self._range_bytes, wanted), max(4 * wanted, LEAST_BYTES), MOST_BYTES)
            self._left = b""
        elif 0 <= self._at - self._left_at < len(self._left):
            self._held, self._held_at, self._left, self._left_at = self._left, self._left_at, b"", 0
            return
        else:
            self._left, self._left_at = self._held, self._held_at
        ahead, self._ahead = self._ahead, None
        if self._size <= LEAST_BYTES:
            self._held, self._held_at = self._fetch(0, self._size), 0
        elif ahead is not None and ahead[0] <= self._at < ahead[1]:
            self._held, self._held_at = ahead[2].result(), ahead[0]
        else:
            if ahead is not None:
                ahead[2].cancel()
            end = min(self._at + max(wanted, self._range_bytes), max(self._end, self._at + wanted), self._size)
            self._held, self._held_at = self._fetch(self._at, end), self._at
        start = self._held_at + len(self._held)
        end = min(start + self._range_bytes, self._end)
        if follows and start < end:
            self._ahead = start, end, _threads(os.getpid()).submit(self._fetch, start, end)

    def _fetch(self, start: int, end: int) -> bytes:
        if start == 0 and (known := heads.take(str(self._location), self._version)) is not None:
            if len(known) >= end:
                return known
            return known + self._store.fetch(self._location, len(known), end, self._version)
        return self._store.fetch(self._location, start, end, self._version)


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AHEAD_THREADS, "clinker-ahead")
