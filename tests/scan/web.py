"""A web server on loopback for tests, and a cancellation that waits for nothing."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from spark_jobs.scan.files import FormatError
from spark_jobs.scan.network import http
from spark_jobs.scan.network.endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from email.message import Message
    from pathlib import Path


@dataclass
class Request:
    target: str
    headers: Message

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))


@dataclass
class Answer:
    """The server's answer. `body` may come in pieces, and `length` may be wrong. `status` 0 hangs up at once."""

    body: bytes | Iterable[bytes] = b"[]"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


@dataclass
class Server:
    url: str
    answer: Callable[[Request], Answer]
    requests: list[Request] = field(default_factory=list)

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.requests]


def page(*records: Any, **headers: str) -> Answer:
    return Answer(json.dumps(records).encode(), headers=headers)


def in_turn(*answers: Answer) -> Callable[[Request], Answer]:
    """Each answer once, the last one for ever."""
    left = list(answers)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about; it must not be told in the middle of the next."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            request = Request(self.path, self.headers)
            server.requests.append(request)
            found = server.answer(request)
            if not found.status:
                self.close_connection = True
                return
            pieces = [found.body] if isinstance(found.body, bytes) else found.body
            self.send_response_only(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            length = len(found.body) if isinstance(found.body, bytes) and found.length is None else found.length
            if length is None:
                self.send_header("Connection", "close")
            else:
                self.send_header("Content-Length", str(length))
            self.close_connection = length is None or found.length is not None
            self.end_headers()
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Silent."""

    listening = _Listening(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{listening.server_address[1]}", answer)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


class Recorded(http.Cancellation):
    """Notes the pauses; the clock goes on by them, and by `tick_s` with each look."""

    def __init__(self, tick_s: float = 0.0) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self.tick_s = tick_s
        self._now = 0.0

    def now(self) -> float:
        self._now += self.tick_s
        return self._now

    def pause(self, seconds: float) -> None:
        self.check()
        self.pauses.append(seconds)
        self._now += seconds


def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def refusal(url: str, target: Path, cancellation: http.Cancellation | None = None, **settings: Any) -> str:
    """Why a page is not had at the first attempt."""
    client = http.Client(Endpoint(url=url, max_pages=1, retries=0, **settings), cancellation or http.Cancellation())
    try:
        with pytest.raises(FormatError) as caught:
            client.get(url, target, "the page")
    finally:
        client.close()
    return caught.value.message
