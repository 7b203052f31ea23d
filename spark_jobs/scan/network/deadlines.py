"""Connections that end at a deadline, whatever the server does.

A socket's time-out bounds a single read, and an answer takes many: a server that sends a byte now and then, of a
header, a chunk's size or a TLS handshake, blocks its reader for ever. So a second handle of each connection is kept,
through which it is shut down at the deadline; the blocked read then ends.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

import urllib3
from urllib3 import connection, connectionpool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: Makes a context in which a function is called when the run ends.
    _AtStop = Callable[[Callable[[], None]], contextlib.AbstractContextManager[None]]

#: Connections that are known at a time. A client asks for one page after the other, from few hosts.
_MOST = 16


class Deadlines:
    """The connections of one client, which asks for one page at a time."""

    def __init__(self) -> None:
        self._handles: list[socket.socket] = []
        self._lock = threading.Lock()
        self.is_over = False

    def watch(self, opened: socket.socket) -> None:
        """Know a connection that was opened."""
        handle = opened.dup()
        with self._lock:
            self._handles.append(handle)
            oldest = self._handles.pop(0) if len(self._handles) > _MOST else None
            is_over = self.is_over
        if oldest is not None:
            oldest.close()
        if is_over:
            _shut(handle)

    @contextlib.contextmanager
    def within(self, seconds: float, at_stop: _AtStop) -> Iterator[None]:
        """Within, every connection ends when the time is over, which `is_over` then says, or when the run ends."""
        self.is_over = False
        timer = threading.Timer(seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            with at_stop(self._end):
                yield
        finally:
            timer.cancel()

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            handles = list(self._handles)
        for handle in handles:
            _shut(handle)

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            handles, self._handles = self._handles, []
        for handle in handles:
            handle.close()

    def pool(self, proxy: str | None = None, **settings: Any) -> urllib3.PoolManager:
        """Connections that are watched, direct or through a proxy."""
        manager = urllib3.ProxyManager(proxy, **settings) if proxy else urllib3.PoolManager(**settings)
        manager.pool_classes_by_scheme = {
            "http": _watched(connectionpool.HTTPConnectionPool, connection.HTTPConnection, self.watch),
            "https": _watched(connectionpool.HTTPSConnectionPool, connection.HTTPSConnection, self.watch),
        }
        return manager


def _watched(pool: Any, opens: Any, watch: Callable[[socket.socket], None]) -> Any:
    """A class of pools whose connections are watched from the moment that they are open."""

    class Watched(opens):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            opened: socket.socket = super()._new_conn()
            watch(opened)
            return opened

    return type("WatchedPool", (pool,), {"ConnectionCls": Watched})


def _shut(handle: socket.socket) -> None:
    # A connection that has ended already cannot be shut down, and need not be.
    with contextlib.suppress(OSError):
        handle.shutdown(socket.SHUT_RDWR)
