"""A server between a client and a store: it counts requests, and answers some of them badly."""

from __future__ import annotations

import http.client
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "server", "date"}


@dataclass(frozen=True)
class Request:
    """A request: its number from 0, its method and path, the range that it asks for, and how long its body is."""

    number: int
    method: str
    path: str
    range: str = ""
    size: int = 0


@dataclass(frozen=True)
class Fault:
    """What happens instead of, or to, the store's answer.

    Args:
        status: answered without asking the store; `code` is the store's word for it, or `body` all that it says.
        cut: only so many bytes of the body are sent, and the connection is closed.
        before: something that is done before the store is asked.
        wait_s: how long the answer takes.
        after_cut: whether the connection is closed without an answer, after the store has carried out the request.
        headers: of an answer without the store, beside the usual ones.
    """

    status: int = 0
    code: str = ""
    body: str = ""
    cut: int | None = None
    before: Callable[[], None] | None = None
    wait_s: float = 0
    after_cut: bool = False
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Proxy:
    """A proxy before a store. `rule` chooses the fault of a request, and `edit` changes the answer of the store.

    The store does not see `hidden` headers.
    """

    endpoint: str
    rule: Callable[[Request], Fault | None] = lambda request: None
    edit: Callable[[Request, bytes], bytes] = lambda request, data: data
    hidden: frozenset[str] = frozenset()
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def asked(self, method: str) -> list[Request]:
        return [each for each in self.requests if each.method == method]


@contextmanager
def between(store: str) -> Iterator[Proxy]:
    """A proxy before a store."""
    target = urlsplit(store)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with proxy.lock:
                request = Request(
                    len(proxy.requests), self.command, self.path, self.headers.get("Range") or "", len(body)
                )
                proxy.requests.append(request)
            fault = proxy.rule(request) or Fault()
            if fault.before is not None:
                fault.before()
            time.sleep(fault.wait_s)
            if fault.status:
                text = (
                    fault.body.encode()
                    or f"<Error><Code>{fault.code}</Code><Message>for a test</Message></Error>".encode()
                )
                self.send(fault.status, {"Content-Type": "application/xml", **dict(fault.headers)}, text)
                return
            connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=60)
            # Whoever takes this for the proxy of a network names the server that it wants.
            path = self.path if self.path.startswith("/") else "/" + self.path.split("/", 3)[3]
            connection.request(
                self.command,
                path,
                body,
                {k: v for k, v in self.headers.items() if k.lower() not in {*proxy.hidden, "host"}}
                | {"Host": self.headers["Host"]},
            )
            answer = connection.getresponse()
            data = proxy.edit(request, answer.read())
            if fault.after_cut:
                self.close_connection = True
                return
            headers = {k: v for k, v in answer.getheaders() if k.lower() not in _HOP}
            size = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send(answer.status, headers, data, size, fault.cut)
            connection.close()

        def send(
            self, status: int, headers: dict[str, str], data: bytes, size: str | None = None, cut: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", size or str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data if cut is None else data[:cut])
            if cut is not None and cut < len(data):
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy = Proxy(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
