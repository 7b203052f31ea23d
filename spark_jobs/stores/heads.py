"""The beginnings of many objects, fetched by several threads a little ahead of whoever looks at them one by one."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

#: The bytes of a beginning, how many are fetched at a time, and how many may wait to be looked at.
HEAD_BYTES = 64 << 10
THREADS = 32
MOST_WAITING = 128

#: A beginning: the URI and version of its object, and what fetches it.
Head = tuple[str, str, "Callable[[], bytes]"]


class _Fetcher:
    """Fetches beginnings in order, so many ahead of those that were taken; several threads may take them."""

    def __init__(self, heads: Sequence[Head], threads: ThreadPoolExecutor) -> None:
        self._left = deque(heads)
        self._threads = threads
        self._waiting: dict[tuple[str, str], Future[bytes]] = {}
        #: Whoever wanted these did not wait for their turn.
        self._passed: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._fill()

    def _fill(self) -> None:
        while self._left and len(self._waiting) < MOST_WAITING:
            uri, version, fetch = self._left.popleft()
            if (uri, version) not in self._passed:
                self._waiting[uri, version] = self._threads.submit(fetch)

    def take(self, uri: str, version: str) -> bytes | None:
        """A beginning, for the first who asks; None where it is not on its way."""
        with self._lock:
            found = self._waiting.pop((uri, version), None)
            if found is None:
                self._passed.add((uri, version))
                return None
            self._fill()
        return found.result()


_FETCHERS: list[_Fetcher] = []


def take(uri: str, version: str) -> bytes | None:
    """The beginning of an object, where it is fetched ahead.

    Raises:
        StoreError: it cannot be read.
    """
    return _FETCHERS[-1].take(uri, version) if _FETCHERS else None


@contextmanager
def ahead(heads: Sequence[Head]) -> Iterator[None]:
    """Within, the beginnings of some objects are fetched ahead, in this order."""
    if len(heads) < 2:
        yield
        return
    threads = ThreadPoolExecutor(THREADS, "clinker-heads")
    fetcher = _Fetcher(heads, threads)
    _FETCHERS.append(fetcher)
    try:
        yield
    finally:
        _FETCHERS.remove(fetcher)
        threads.shutdown(wait=False, cancel_futures=True)
