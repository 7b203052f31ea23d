"""One page of a network source: attempts, redirects, limits, and what errors say."""

from __future__ import annotations

import gzip
import itertools
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from spark_jobs.scan.files import FormatError
from spark_jobs.scan.network import http
from spark_jobs.scan.network.endpoint import Credential, Endpoint
from tests.scan import web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("direct")

KEY = "marzipan-4711"


def get(
    server: web.Server,
    target: Path,
    path: str = "/orders",
    cancellation: http.Cancellation | None = None,
    **settings: Any,
) -> http.Reply:
    url = server.url + path
    endpoint = Endpoint(url=url, max_pages=1, **{"timeout_s": 5.0, **settings})
    client = http.Client(endpoint, cancellation or web.Recorded())
    try:
        return client.get(url, target, "the page")
    finally:
        client.close()


def place(server: web.Server) -> str:
    """The host and port of a server."""
    return server.url.partition("//")[2]


def failure(server: web.Server, target: Path, *, cancellation: http.Cancellation | None = None, **settings: Any) -> str:
    with pytest.raises(FormatError) as caught:
        get(server, target, cancellation=cancellation, **settings)
    assert (caught.value.code, caught.value.path) == ("E221", "the page")
    assert caught.value.__cause__ is None
    return caught.value.message


def test_a_page_becomes_a_file(tmp_path: Path) -> None:
    with web.serving(lambda request: web.Answer(b'[{"a":1}]', headers={"Link": "<x>; rel=next"})) as server:
        reply = get(server, tmp_path / "page")
        assert reply == http.Reply(server.url + "/orders", "<x>; rel=next")
    assert (tmp_path / "page").read_bytes() == b'[{"a":1}]'
    assert server.requests[0].headers["User-Agent"] == "clinker"
    assert "Authorization" not in server.requests[0].headers


def test_packed_bodies_are_unpacked(tmp_path: Path) -> None:
    packed = web.Answer(gzip.compress(b"[1]" * 100_000), headers={"Content-Encoding": "gzip"})
    with web.serving(lambda request: packed) as server:
        get(server, tmp_path / "page")
    assert (tmp_path / "page").read_bytes() == b"[1]" * 100_000


def test_an_empty_answer_is_an_empty_page(tmp_path: Path) -> None:
    with web.serving(lambda request: web.Answer(b"", 204)) as server:
        get(server, tmp_path / "page")
    assert (tmp_path / "page").read_bytes() == b""


# ---- again, or not -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble", [web.Answer(b"busy", 503), web.Answer(status=0), web.Answer(b"[1,", length=100)], ids=str
)
def test_what_may_pass_is_tried_again(trouble: web.Answer, tmp_path: Path) -> None:
    cancellation = web.Recorded()
    with web.serving(web.in_turn(trouble, trouble, web.page(1))) as server:
        get(server, tmp_path / "page", cancellation=cancellation)
    assert (tmp_path / "page").read_bytes() == b"[1]"
    assert len(server.requests) == 3
    assert cancellation.pauses == [1.0, 2.0]


def test_pauses_double_up_to_a_limit_and_then_the_source_is_given_up(tmp_path: Path) -> None:
    cancellation = web.Recorded()
    with web.serving(lambda request: web.Answer(b"\n  sorry,\x1b we are\tbusy\n", 502)) as server:
        told = failure(server, tmp_path / "page", cancellation=cancellation, retries=7)
    assert told == "HTTP 502: sorry, we are busy, after 7 retries"
    assert cancellation.pauses == [1, 2, 4, 8, 16, 30, 30]
    assert len(server.requests) == 8


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "Sun, 01 Mar 2026 10:00:42 GMT", "Date": "Sun, 01 Mar 2026 10:00:00 GMT"}, 42.0),
        ({"Retry-After": "Sun, 01 Mar 2020 10:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, 1.0),
        ({"Retry-After": "Mon, 01 Jan 2024 00:00:00 +99999999999999999999"}, 1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_server_says_how_long_to_wait(status: int, headers: dict[str, str], pause: float, tmp_path: Path) -> None:
    cancellation = web.Recorded()
    with web.serving(web.in_turn(web.Answer(b"slow", status, headers), web.page(1))) as server:
        get(server, tmp_path / "page", cancellation=cancellation)
    assert cancellation.pauses == [pause]


def test_nobody_waits_for_hours(tmp_path: Path) -> None:
    cancellation = web.Recorded()
    with web.serving(lambda request: web.Answer(b"", 503, {"Retry-After": "3600"})) as server:
        told = failure(server, tmp_path / "page", cancellation=cancellation)
    assert told == "HTTP 503; the server asks to wait 3600 s, more than 300 s"
    assert cancellation.pauses == []


@pytest.mark.parametrize("status", [304, 400, 401, 404, 408, 429])
def test_what_will_not_pass_is_not_tried_again(status: int, tmp_path: Path) -> None:
    with web.serving(lambda request: web.Answer(b"no" if status != 304 else b"", status)) as server:
        assert failure(server, tmp_path / "page").startswith(f"HTTP {status}")
    assert len(server.requests) == 1


def test_a_port_that_nobody_listens_at(tmp_path: Path) -> None:
    with web.serving(lambda request: web.page()) as server:
        pass
    cancellation = web.Recorded()
    assert failure(server, tmp_path / "page", cancellation=cancellation, retries=1) == (
        "no connection: Connection refused, after 1 retry"
    )
    assert cancellation.pauses == [1.0]


def test_a_host_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*arguments: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    server = web.Server("http://nowhere.example", lambda request: web.page())
    assert failure(server, tmp_path / "page", retries=0) == "the host's name is unknown, after 0 retries"


def test_a_server_that_is_silent_is_not_waited_for(tmp_path: Path) -> None:
    held = threading.Event()

    def silent(request: web.Request) -> web.Answer:
        held.wait(20)
        return web.page()

    with web.serving(silent) as server:
        started = time.monotonic()
        told = failure(server, tmp_path / "page", retries=0, timeout_s=0.1)
        assert time.monotonic() - started < 10
        held.set()
    assert told == "no complete answer within 0.1 s, after 0 retries"


def test_a_server_that_drips_is_not_waited_for(tmp_path: Path) -> None:
    """Each byte comes in time, the page does not: the clock goes on by a second with each look at it."""
    dripping = web.Answer(itertools.repeat(b" "))
    with web.serving(lambda request: dripping) as server:
        told = failure(server, tmp_path / "page", cancellation=web.Recorded(tick_s=1.0), retries=0, timeout_s=20.0)
    assert told == "no complete answer within 20 s, after 0 retries"
    assert (tmp_path / "page").stat().st_size < 64 << 20


def test_the_end_of_the_run_ends_pauses_and_pages(tmp_path: Path) -> None:
    cancellation = http.Cancellation()

    def stopping(request: web.Request) -> web.Answer:
        cancellation.stop()
        return web.Answer(b"", 503)

    with web.serving(stopping) as server, pytest.raises(http.Stopped):
        get(server, tmp_path / "page", cancellation=cancellation)
    assert len(server.requests) == 1
    cancellation = http.Cancellation()

    def endless() -> Iterator[bytes]:
        for number in itertools.count():
            if number == 5:
                cancellation.stop()
            yield b" "

    with web.serving(lambda request: web.Answer(endless())) as server, pytest.raises(http.Stopped):
        get(server, tmp_path / "page", cancellation=cancellation)


# ---- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_a_page_that_is_too_large_ends_the_pull(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    monkeypatch.setattr(http, "MAX_PAGE_BYTES", 1 << 20)
    body = b" " * ((1 << 20) + 1)
    answer = web.Answer(gzip.compress(body), headers={"Content-Encoding": "gzip"}) if packed else web.Answer(body)
    with web.serving(lambda request: answer) as server:
        told = failure(server, tmp_path / "page")
    assert told == "the page has more than 1 MiB: request smaller pages"
    assert len(server.requests) == 1
    assert (tmp_path / "page").stat().st_size <= 1 << 20


# ---- redirects and credentials -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status: int, tmp_path: Path) -> None:
    def answer(request: web.Request) -> web.Answer:
        if request.path == "/orders":
            return web.Answer(b"moved", status, {"Location": "new/place?x=1#y"})
        return web.page(request.target)

    with web.serving(answer) as server:
        reply = get(server, tmp_path / "page", credential=Credential("X-Key", KEY))
    assert reply.url == server.url + "/new/place?x=1"
    assert (tmp_path / "page").read_bytes() == b'["/new/place?x=1"]'
    assert [request.headers.get("X-Key") for request in server.requests] == [KEY, KEY]


def test_a_credential_does_not_follow_to_another_host(tmp_path: Path) -> None:
    with web.serving(lambda request: web.page(1)) as other:
        moved = web.Answer(b"", 302, {"Location": other.url + "/elsewhere"})
        with web.serving(lambda request: moved) as server:
            get(
                server,
                tmp_path / "page",
                credential=Credential("Authorization", f"Bearer {KEY}"),
                hosts=(place(other),),
            )
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert "Authorization" not in other.requests[0].headers


def test_who_is_refused_elsewhere_learns_why(tmp_path: Path) -> None:
    with web.serving(lambda request: web.Answer(b"who?", 401)) as other:
        moved = web.Answer(b"", 302, {"Location": other.url})
        with web.serving(lambda request: moved) as server:
            told = failure(server, tmp_path / "page", credential=Credential("X-Key", KEY), hosts=(place(other),))
    assert told == f"HTTP 401: who? (the credential is only sent to {server.url} alone, not to {other.url})"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://h/a", "http://me:pw@h/"])
def test_redirects_lead_to_http_alone(location: str, tmp_path: Path) -> None:
    with web.serving(lambda request: web.Answer(b"", 302, {"Location": location})) as server:
        told = failure(server, tmp_path / "page")
    assert told.startswith("HTTP 302 leads to ")
    assert ":pw" not in told


def test_redirects_end(tmp_path: Path) -> None:
    with web.serving(lambda request: web.Answer(b"", 302, {"Location": "/orders"})) as server:
        assert failure(server, tmp_path / "page") == "more than 10 redirects"
    assert len(server.requests) == 11


def test_no_message_has_the_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "clinker")
    echo = web.Answer(f"{'x' * 195}{KEY} and Bearer {KEY}".encode(), 500)
    with web.serving(lambda request: echo) as server:
        told = failure(server, tmp_path / "page", retries=1, credential=Credential("Authorization", f"Bearer {KEY}"))
    assert told == f"HTTP 500: {'x' * 195}*** a …, after 1 retry"
    assert [record.getMessage() for record in caplog.records] == [
        f"the page: HTTP 500: {'x' * 195}*** a …; attempt 2 of 2 in 1 s"
    ]


@pytest.mark.parametrize(
    "spelling", [KEY, quote(KEY, safe=""), "".join(f"\\u{ord(c):04x}" for c in KEY), KEY[:4] + "\n" + KEY[4:]]
)
def test_a_secret_of_the_address_is_hidden_however_the_server_repeats_it(spelling: str, tmp_path: Path) -> None:
    echo = web.Answer(b'{"error":"GET /orders?api_key=' + spelling.encode() + b'"}', 403)
    with web.serving(lambda request: echo) as server:
        told = web.refusal(f"{server.url}/orders?api_key={KEY}", tmp_path / "page")
    assert told.startswith("HTTP 403: ")
    assert KEY[4:] not in told.replace(" ", "")
    assert spelling not in told


@pytest.mark.parametrize("address", ["http://127.0.0.2:{port}/", "http://localhost:{port}/", "http://[::1]:{port}/"])
def test_redirects_lead_to_no_other_place_unasked(address: str, tmp_path: Path) -> None:
    def answer(request: web.Request) -> web.Answer:
        return web.Answer(b"", 302, {"Location": address.format(port=8080)})

    with web.serving(answer) as server:
        told = failure(server, tmp_path / "page")
        assert "is another place than the one of `url`" in told
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("home", "url", "hosts", "followed"),
    [
        ("https://a/x", "https://a/y", (), True),
        ("http://a/x", "https://a/y", (), True),
        ("https://a/x", "http://a/y", ("a",), False),
        ("https://a/x", "https://a:8443/y", (), False),
        ("https://a/x", "https://a:8443/y", ("a",), False),
        ("https://a/x", "https://a:8443/y", ("a:8443",), True),
        ("https://a/x", "https://B/y", ("b",), True),
        ("https://a/x", "https://[fd00::1]/y", ("fd00::1",), True),
        ("https://a/x", "https://b.a/y", ("a",), False),
        ("https://a/x", "ftp://a/y", ("a",), False),
    ],
)
def test_where_redirects_may_lead(home: str, url: str, hosts: tuple[str, ...], *, followed: bool) -> None:
    assert (Endpoint(url=home, max_pages=1, hosts=hosts).refusal(url) is None) is followed


# ---- proxies -------------------------------------------------------------------------------------------------------


def test_the_proxy_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with web.serving(lambda request: web.page(request.target)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:pw@"))
        monkeypatch.setenv("no_proxy", "inside.example")
        get(web.Server("http://shop.example", proxy.answer), tmp_path / "page")
        assert (tmp_path / "page").read_bytes() == b'["http://shop.example/orders"]'
        assert proxy.requests[0].headers["Proxy-Authorization"] == "Basic bWU6cHc="
    with web.serving(lambda request: web.page(1)) as direct:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        get(direct, tmp_path / "page")
        assert direct.targets == ["/orders"]
