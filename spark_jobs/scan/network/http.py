"""Gets one page of a network source into a file: redirects, repeated attempts, limits, and errors without secrets.

Only temporary errors are retried: statuses from 500 on, connections that fail or break, answers that take too long, and
a 429 with `Retry-After`. Messages of urllib3 are never shown, because they quote addresses.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import threading
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import urllib3
from urllib3 import exceptions

from spark_jobs.scan.files import FormatError
from spark_jobs.scan.network import addresses
from spark_jobs.scan.network.deadlines import Deadlines
from spark_jobs.stores import proxies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from spark_jobs.scan.network.endpoint import Endpoint

LOG = logging.getLogger("clinker.scan")
#: The most bytes of a page, unpacked.
MAX_PAGE_BYTES = 64 << 20
#: Redirects that one request follows.
MAX_REDIRECTS = 10
#: The longest pause before another attempt, in seconds; a server that asks for more is not waited for.
LONGEST_PAUSE_S = 300
#: The pause before the first repetition, in seconds; it doubles with each, up to the longest of its own accord.
FIRST_PAUSE_S = 1.0
LONGEST_BACKOFF_S = 30.0

#: The bytes read, and the characters shown, of an answer that is no page. A secret that reading cut off is never shown.
_EXCERPT_BYTES = 16 << 10
_EXCERPT_CHARACTERS = 200
_CHUNK_BYTES = 64 << 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Silence urllib3, whose log lines contain whole addresses."""
    library = logging.getLogger("urllib3")
    propagate, library.propagate = library.propagate, False
    try:
        yield
    finally:
        library.propagate = propagate


class Stopped(Exception):
    """The run ends, so the page is not needed any more."""


class Cancellation:
    """The time of a pull: a clock, and pauses that end when the run does. Tests have one that waits for nothing."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._at_stop: set[Callable[[], None]] = set()

    def now(self) -> float:
        """Seconds of a clock that only goes forward."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Wait; raises `Stopped` when the run ends meanwhile."""
        if self._stopping.wait(seconds):
            raise Stopped

    def check(self) -> None:
        """Raise `Stopped` when the run has ended."""
        if self._stopping.is_set():
            raise Stopped

    def stop(self) -> None:
        """End all pauses and connections, and so every pull."""
        self._stopping.set()
        for end in list(self._at_stop):
            end()

    @contextlib.contextmanager
    def at_stop(self, end: Callable[[], None]) -> Iterator[None]:
        """Within, a function is called when the run ends."""
        self._at_stop.add(end)
        try:
            self.check()
            yield
        finally:
            self._at_stop.discard(end)


@dataclass(frozen=True)
class Reply:
    """A fetched page: the address that it came from after redirects, and its `Link` header."""

    url: str
    link: str


class _Passing(Exception):
    """An attempt failed for a reason that may pass; `wait_s` is how long the server asks to wait."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_s = wait_s


class _Final(Exception):
    """An attempt failed, and so will every other."""


class Client:
    """Gets the pages of one endpoint, one after the other."""

    def __init__(self, endpoint: Endpoint, cancellation: Cancellation) -> None:
        self._endpoint = endpoint
        self._cancellation = cancellation
        self._pools: dict[tuple[str, str | None], urllib3.PoolManager] = {}
        self._deadlines = Deadlines()

    def close(self) -> None:
        """Close idle connections."""
        for pool in self._pools.values():
            pool.clear()
        self._deadlines.close()

    def get(self, url: str, target: Path, name: str) -> Reply:
        """Get a page into a file.

        Args:
            url: the page's address.
            target: the file.
            name: the page's name in messages.

        Raises:
            FormatError: it cannot be had (code `E221`).
            Stopped: the run ends.
            OSError: the file cannot be written.
        """
        attempts = self._endpoint.retries + 1
        for attempt in range(1, attempts + 1):
            self._cancellation.check()
            try:
                return self._attempt(url, target)
            except _Final as failed:
                raise FormatError(str(failed), name, "E221") from None
            except _Passing as failed:
                if attempt == attempts:
                    reason = f"{failed.reason}, after {_times(self._endpoint.retries)}"
                    raise FormatError(reason, name, "E221") from None
                pause = failed.wait_s if failed.wait_s is not None else _backoff(attempt)
                if pause > LONGEST_PAUSE_S:
                    reason = f"{failed.reason}; the server asks to wait {pause:.0f} s, more than {LONGEST_PAUSE_S} s"
                    raise FormatError(reason, name, "E221") from None
                LOG.warning("%s: %s; attempt %d of %d in %.3g s", name, failed.reason, attempt + 1, attempts, pause)
            self._cancellation.pause(pause)
        raise AssertionError("the last attempt returns or raises")

    def _attempt(self, url: str, target: Path) -> Reply:
        for _ in range(MAX_REDIRECTS + 1):
            with self._deadlines.within(self._endpoint.timeout_s, self._cancellation.at_stop):
                found = self._step(url, target)
            if isinstance(found, Reply):
                return found
            url = found
        raise _Final(f"more than {MAX_REDIRECTS} redirects")

    def _step(self, url: str, target: Path) -> Reply | str:
        """Send one request. Returns the page, or the address of a redirect."""
        started = self._cancellation.now()
        response = self._request(url)
        try:
            if self._deadlines.is_over:
                # The connection was shut down within the head: what was read of it may look whole.
                raise _Passing(self._too_late())
            location = response.headers.get("Location")
            if response.status in _REDIRECTS and location:
                url = addresses.resolved(url, location)
                if reason := self._endpoint.refusal(url):
                    shown = addresses.display_url(url, self._endpoint.secrets)
                    raise _Final(f"HTTP {response.status} leads to {shown}, which {reason}")
                return url
            self._refuse(response, url, started)
            self._save(response, target, started)
            return Reply(url, response.headers.get("Link", ""))
        finally:
            response.close()  # one that was read to its end has given its connection back already

    def _request(self, url: str) -> urllib3.BaseHTTPResponse:
        """Send the request and read the head of the answer."""
        timeout = self._endpoint.timeout_s
        try:
            return self._pool(url).request(
                "GET",
                url,
                headers=self._headers(url),
                timeout=urllib3.Timeout(connect=timeout, read=timeout),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (exceptions.HTTPError, OSError) as error:
            raise self._failure(error) from None

    def _headers(self, url: str) -> Mapping[str, str]:
        headers = {
            "Accept": "application/json, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": "clinker",
        }
        credential = self._endpoint.credential
        if credential and addresses.is_same_place(url, self._endpoint.url):
            headers = {key: text for key, text in headers.items() if key.lower() != credential.header.lower()}
            headers[credential.header] = credential.value
        return headers

    def _pool(self, url: str) -> urllib3.PoolManager:
        """The connections for an address, direct or through the proxy that the environment names for it."""
        scheme, proxy = urlsplit(url).scheme.lower(), proxies.of(url)
        key = (scheme, proxy)
        if key not in self._pools:
            # Reading the system's certificates takes longer than a small page.
            context = ssl.create_default_context() if scheme == "https" else None
            self._pools[key] = self._deadlines.pool(**(proxies.settings(proxy) if proxy else {}), ssl_context=context)
        return self._pools[key]

    def _refuse(self, response: urllib3.BaseHTTPResponse, url: str, started: float) -> None:
        """Raise unless the answer is a page."""
        status = response.status
        if 200 <= status < 300:
            return
        reason = f"HTTP {status}{self._excerpt(response, url, started)}"
        if status >= 500 or (status == 429 and "Retry-After" in response.headers):
            raise _Passing(reason, _wait_s(response.headers))
        credential = self._endpoint.credential
        if status in (401, 403) and credential and not addresses.is_same_place(url, self._endpoint.url):
            reason += f" (the credential is only sent to {_host(self._endpoint.url)} alone, not to {_host(url)})"
        raise _Final(reason)

    def _excerpt(self, response: urllib3.BaseHTTPResponse, url: str, started: float) -> str:
        """The beginning of an answer that is not a page, as one line."""
        data = b""
        # The server's own message is useful, but the error is known without it.
        with contextlib.suppress(exceptions.HTTPError, OSError):
            while len(data) < _EXCERPT_BYTES and self._left(started) > 0:
                chunk = response.read1(_EXCERPT_BYTES)
                if not chunk:
                    break
                data += chunk
        # Secrets go before the text is cut: half of one would not be found.
        secrets = (*self._endpoint.secrets, *addresses.secrets_in(url))
        text = addresses.masked(data.decode("utf-8", "replace"), secrets)
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        if not text:
            return ""
        if addresses.hides(text, secrets):
            return ": (the server's message is hidden, because it repeats a secret in another spelling)"
        return f": {text[:_EXCERPT_CHARACTERS]}{' …' if len(text) > _EXCERPT_CHARACTERS else ''}"

    def _save(self, response: urllib3.BaseHTTPResponse, target: Path, started: float) -> None:
        """The body into the file, unpacked."""
        size = 0
        # Pages are data of others, like copies of staged sources: for this user alone.
        with open(target, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            while True:
                self._cancellation.check()
                try:
                    chunk = response.read1(_CHUNK_BYTES)
                except (exceptions.HTTPError, OSError) as error:
                    raise self._failure(error) from None
                if not chunk and self._deadlines.is_over:
                    raise _Passing(self._too_late())
                if not chunk:
                    return
                size += len(chunk)
                if size > MAX_PAGE_BYTES:
                    raise _Final(f"the page has more than {MAX_PAGE_BYTES >> 20} MiB: request smaller pages")
                if self._left(started) <= 0:
                    raise _Passing(self._too_late())
                file.write(chunk)

    def _left(self, started: float) -> float:
        return self._endpoint.timeout_s - (self._cancellation.now() - started)

    def _too_late(self) -> str:
        return f"no complete answer within {self._endpoint.timeout_s:g} s"

    def _failure(self, error: exceptions.HTTPError | OSError) -> _Passing | _Final:
        """The problem with a connection, in words without addresses."""
        self._cancellation.check()
        if self._deadlines.is_over:
            return _Passing(self._too_late())
        cause = error.__cause__ or error.__context__
        match error:
            case exceptions.NameResolutionError():
                return _Passing("the host's name is unknown")
            case exceptions.NewConnectionError():
                number = cause.errno if isinstance(cause, OSError) else None
                return _Passing(f"no connection: {os.strerror(number)}" if number else "no connection")
            case exceptions.ConnectTimeoutError():
                return _Passing(f"no connection within {self._endpoint.timeout_s:g} s")
            case exceptions.ReadTimeoutError():
                return _Passing(self._too_late())
            case exceptions.SSLError():
                reason = next((item for item in (*error.args, cause) if isinstance(item, ssl.SSLError)), None)
                if isinstance(reason, ssl.SSLCertVerificationError):
                    return _Final(f"the server's certificate is not trusted: {reason.verify_message}")
                return _Passing(f"TLS failed: {(reason.reason if reason else None) or 'no reason given'}")
            case exceptions.ProxyError():
                return _Passing("the proxy gives no connection")
            case exceptions.DecodeError():
                return _Passing("the body cannot be unpacked")
            case exceptions.LocationValueError():
                return _Final("is not an address that can be requested")
            case _:
                return _Passing("the connection broke")


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _times(retries: int) -> str:
    return "1 retry" if retries == 1 else f"{retries} retries"


def _backoff(attempt: int) -> float:
    """The pause after an attempt: 1, 2, 4 … seconds."""
    return min(FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 30), LONGEST_BACKOFF_S)


def _wait_s(headers: Mapping[str, str]) -> float | None:
    """The seconds that the server asks to wait, also if it names a moment by its own clock; None if it does not ask."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    moment = _moment(text)
    if moment is None:
        return None
    now = _moment(headers.get("Date", ""))
    return max(moment - (time.time() if now is None else now), 0.0)


def _moment(text: str) -> float | None:
    """The seconds since 1970 of a date in a header; None if it is none."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
