"""Servers that never come to an end do not hold a run."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from spark_jobs.scan.network import http
from spark_jobs.scan.network.endpoint import Endpoint
from tests.scan import web
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("direct")

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ENDLESS = {
    "a header": (HEAD + b"X: ", b"a"),
    "headers": (HEAD, b"X: a\r\n"),
    "a chunk's size": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n", b" "),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body": (HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
    "a body without length": (HEAD + b"Connection: close\r\n\r\n", b" "),
    "a redirect": (b"HTTP/1.1 302 Found\r\nLocation: /", b"a"),
    "an error's text": (b"HTTP/1.1 500 Oh\r\nContent-Length: 100000\r\n\r\n", b"a"),
    "nothing": (b"", b""),
}


@contextlib.contextmanager
def dripping(first: bytes, drop: bytes) -> Iterator[str]:
    """A server that answers each request with some bytes, and then the same few again and again."""
    listener, ending = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def answer(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.recv(65536)
            client.sendall(first)
            while not ending.wait(0.02):
                client.sendall(drop)

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ending.set()
        listener.close()


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_server_that_drips_does_not_hold_the_run(kind: str, tmp_path: Path) -> None:
    with dripping(*ENDLESS[kind]) as place:
        told = web.refusal(f"http://{place}/x", tmp_path / "page", timeout_s=0.3)
    expected = "HTTP 500" if kind == "an error's text" else "no complete answer within 0.3 s"
    assert told.startswith(expected)


def test_a_handshake_that_drips_does_not_hold_the_run(tmp_path: Path) -> None:
    # The head of a TLS record of 16 KB, a byte of which comes now and then.
    with dripping(b"\x16\x03\x03\x40\x00", b"\x02") as place:
        assert web.refusal(f"https://{place}/x", tmp_path / "page", timeout_s=0.3).startswith(
            "no complete answer within 0.3 s"
        )


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_drips_does_not_hold_the_run(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dripping(b"HTTP/1.1 200 OK\r\nX: ", b"a") as place:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://{place}")
        told = web.refusal(f"{scheme}://shop.example/x", tmp_path / "page", timeout_s=0.3)
    assert told.startswith("no complete answer within 0.3 s")


def test_the_end_of_the_run_ends_a_request_that_waits(tmp_path: Path) -> None:
    cancellation = http.Cancellation()
    with dripping(*ENDLESS["a header"]) as place:
        client = http.Client(Endpoint(url=f"http://{place}/x", max_pages=1, timeout_s=3600.0), cancellation)
        threading.Timer(0.2, cancellation.stop).start()
        with pytest.raises(http.Stopped):
            client.get(f"http://{place}/x", tmp_path / "page", "the page")
        client.close()


def test_many_connections_leave_no_handles(tmp_path: Path) -> None:
    def answer(request: web.Request) -> web.Answer:
        return web.Answer(b"[]", headers={"Connection": "close"})

    with web.serving(answer) as server:
        client = http.Client(Endpoint(url=server.url, max_pages=1), web.Recorded())
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(60):
            client.get(server.url, tmp_path / "page", "the page")
        # Those of the server, which is in this process, go a moment later.
        assert until(lambda: len(os.listdir("/proc/self/fd")) < before + 40, 20)
        client.close()
