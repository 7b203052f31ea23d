"""The beginnings of many objects, fetched ahead of the reader that looks at them one by one.

Threads of this process fetch them one at a time. Each request costs a client written in Python some milliseconds of
processor time, so tasks fetch them in batches where there are thousands.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

#: The bytes of a beginning, how many requests are on their way at a time, and how many answers may wait for a reader.
HEAD_BYTES = 64 << 10
THREADS = 32
MOST_WAITING = 128

#: A beginning: the URI and version of its object, and the function that fetches it.
Head = tuple[str, str, "Callable[[], bytes]"]
#: A beginning that was fetched, or why it cannot be.
Answer = bytes | StoreError


class _Fetcher:
    """Fetches beginnings in order, a number of them ahead; several threads may take them."""

    def __init__(self, heads: Sequence[Head], threads: ThreadPoolExecutor, most_waiting: int) -> None:
        self._left = deque(heads)
        self._most_waiting = most_waiting
        self._threads = threads
        self._waiting: dict[tuple[str, str], Future[bytes]] = {}
        #: Objects that were read before their turn.
        self._passed: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._fill()

    def _fill(self) -> None:
        while self._left and len(self._waiting) < self._most_waiting:
            uri, version, fetch = self._left.popleft()
            if (uri, version) not in self._passed:
                self._waiting[uri, version] = self._threads.submit(fetch)

    def take(self, uri: str, version: str) -> bytes | None:
        """A prefetched beginning, once; None if it is not being fetched."""
        with self._lock:
            found = self._waiting.pop((uri, version), None)
            if found is None:
                self._passed.add((uri, version))
                return None
            self._fill()
        return found.result()


class _BatchFetcher:
    """Fetches beginnings batch by batch, and holds one batch; several threads may take them."""

    def __init__(self, batches: Sequence[Sequence[tuple[str, str]]], fetch: Callable[[int], Sequence[Answer]]) -> None:
        self._batches = batches
        self._fetch = fetch
        #: An object that comes several times is fetched with the first batch that has it.
        self._batch_of = {key: number for number, batch in reversed([*enumerate(batches)]) for key in batch}
        self._held: dict[tuple[str, str], Answer] = {}
        self._fetched = -1
        self._lock = threading.Lock()

    def take(self, uri: str, version: str) -> bytes | None:
        """See `_Fetcher.take`."""
        with self._lock:
            number = self._batch_of.get((uri, version), -1)
            if number > self._fetched:
                self._held = dict(zip(self._batches[number], self._fetch(number), strict=True))
                self._fetched = number
            found = self._held.pop((uri, version), None)
        if isinstance(found, StoreError):
            raise found
        return found


class _Source(Protocol):
    def take(self, uri: str, version: str) -> bytes | None: ...


_FETCHERS: list[_Source] = []


def take(uri: str, version: str) -> bytes | None:
    """The beginning of an object, where it is fetched ahead.

    Raises:
        StoreError: it cannot be read.
    """
    return _FETCHERS[-1].take(uri, version) if _FETCHERS else None


@contextmanager
def prefetched(heads: Sequence[Head], most_waiting: int = MOST_WAITING) -> Iterator[None]:
    """Fetches the beginnings of some objects ahead, in this order, while the context lasts.

    Args:
        heads: the beginnings.
        most_waiting: so many are fetched before somebody looks at them.
    """
    if len(heads) < 2:
        yield
        return
    threads = ThreadPoolExecutor(min(THREADS, most_waiting), "clinker-heads")
    try:
        with _taken_from(_Fetcher(heads, threads, most_waiting)):
            yield
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


@contextmanager
def batches(keys: Sequence[Sequence[tuple[str, str]]], fetch: Callable[[int], Sequence[Answer]]) -> Iterator[None]:
    """Fetches the beginnings of some objects batch by batch, while the context lasts.

    Args:
        keys: the URIs and versions of the objects of each batch, in the order in which they will be looked at.
        fetch: gives the beginnings of the batch with a number, or why one cannot be read.
    """
    with _taken_from(_BatchFetcher(keys, fetch)):
        yield


@contextmanager
def _taken_from(source: _Source) -> Iterator[None]:
    _FETCHERS.append(source)
    try:
        yield
    finally:
        _FETCHERS.remove(source)
