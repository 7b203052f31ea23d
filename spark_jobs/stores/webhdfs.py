"""WebHDFS, the HTTP interface of HDFS: requests to whichever namenode is active, and from there to a datanode.

It needs neither Hadoop's native library nor a JVM. Temporary failures are retried: if a namenode is on standby or does
not answer, the request goes to the next one; safe mode and broken connections are waited for. A namenode believes a
dead datanode to be alive for ten minutes, so it is asked for another one if a datanode does not answer. A request may
therefore be carried out twice, and callers allow for that.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from spark_jobs.stores import hadoop_conf, proxies
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.s3 import pause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.settings import HdfsSettings

#: How often a request is sent before the cluster is given up.
ATTEMPTS = 6
_CONNECT_S, _READ_S = 10, 60
_CONNECTIONS = 64
#: The prefix of paths in addresses.
_PREFIX = "/webhdfs/v1"
#: Exceptions of a namenode that is not active, and of states that pass.
_STANDBY = {"StandbyException", "ObserverRetryOnActiveException"}
_LATER = {"RetriableException", "SafeModeException", "NotYetReplicatedException"}
#: Exceptions for missing files, missing rights, and existing files.
_MISSING = {"FileNotFoundException", "PathNotFoundException", "NoSuchFileException"}
_FORBIDDEN = {"AccessControlException", "SecurityException", "AuthorizationException", "AuthenticationException"}
_TAKEN = {"FileAlreadyExistsException"}
#: The exception for everything else, such as a cluster without a live datanode.
_OTHER = "IOException"
_UNKNOWN = {"UnsupportedOperationException", "UnsupportedActionException"}
_INVALID_TOKEN = {"InvalidToken", "SecretManager$InvalidToken"}
_QUOTA = {"NSQuotaExceededException", "DSQuotaExceededException", "QuotaByStorageTypeExceededException"}


@dataclass(frozen=True)
class Answer:
    """The answer of a server, and the time of its clock as HTTP writes it; empty where it gives none."""

    status: int
    date: str
    data: bytes

    @property
    def body(self) -> Any:
        """The body, as JSON; None where there is none."""
        return json.loads(self.data) if self.data.strip() else None


@dataclass(frozen=True)
class _Unanswered:
    """Why a namenode was no help: another one may be.

    Args:
        error: the error to raise if no namenode helps.
        is_silent: whether no namenode answered.
        is_final: whether asking again is of no use, as for a host that nobody knows.
        datanode: the address of a datanode that did not answer; empty where it was a namenode.
    """

    error: StoreError
    is_silent: bool = False
    is_final: bool = False
    datanode: str = ""


@dataclass(frozen=True)
class WebHdfs:
    """Requests to the clusters of HDFS that URIs name. The settings are resolved ones."""

    settings: HdfsSettings

    def ask(
        self,
        method: str,
        operation: str,
        location: Location,
        path: str,
        wanted: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send a request, again where it fails for the moment; a redirection to a datanode is followed.

        Args:
            method: `GET`, `PUT`, `POST`, `DELETE`.
            operation: `op`, as WebHDFS calls it.
            location: the file or folder; its scheme and bucket name the cluster.
            path: the absolute path in HDFS.
            wanted: further parameters.
            body: the bytes for a datanode.

        Raises:
            StoreError: it is refused.
        """
        addresses = self._addresses(location)
        failures = 0
        #: Datanodes that did not answer, each with its error.
        silent: dict[str, StoreError] = {}
        while True:
            problems: list[_Unanswered] = []
            for address in _active_first(addresses):
                more = {**(wanted or {}), **({"excludedatanodes": ",".join(silent)} if silent else {})}
                found = self._tried(method, operation, location, address, path, more, body)
                if isinstance(found, Answer) and found.status < 300:
                    _ACTIVE[addresses] = address
                    return found
                if isinstance(found, Answer) and silent and _exception(found)[0] == _OTHER:
                    # No other one has the block, or is there at all: the same one may answer again.
                    datanode, error = silent.popitem()
                    found = _Unanswered(error, datanode=datanode)
                    silent.clear()
                elif isinstance(found, Answer):
                    found = self._judged(found, operation, location)
                elif found.datanode:
                    silent[found.datanode] = found.error
                problems.append(found)
            failures += 1
            if failures == ATTEMPTS or all(each.is_final for each in problems):
                # An answer of a namenode says more than a failed connection, and a datanode's error more than standby.
                raise min(problems, key=lambda each: (each.is_silent, not each.datanode)).error
            pause(failures)

    def _judged(self, answer: Answer, operation: str, location: Location) -> _Unanswered:
        """Turn a refusal into an error for the next attempt, if another namenode or a later attempt may succeed.

        Raises:
            StoreError: no further attempt will succeed.
        """
        exception, says = _exception(answer)
        if exception in _STANDBY:
            return _Unanswered(StoreError(Kind.FAILED, _standby(location), str(location)))
        if exception in _LATER or answer.status in (429, 502, 503, 504):
            text = f"the cluster asked for patience {ATTEMPTS} times ({says or answer.status}): run again later"
            return _Unanswered(StoreError(Kind.FAILED, text, str(location)))
        raise _refused(answer.status, exception, says, operation, location, self.settings)

    def _tried(
        self,
        method: str,
        operation: str,
        location: Location,
        address: str,
        path: str,
        wanted: Mapping[str, str] | None,
        body: bytes | None,
    ) -> Answer | _Unanswered:
        """The answer of one namenode, or of the datanode that it names; else why it cannot be reached."""
        from urllib3.exceptions import HTTPError, NameResolutionError

        pool = _pool(os.getpid())
        who = self._who(location, address)
        query = urlencode({"op": operation, **(wanted or {}), **who}, quote_via=quote)
        url = f"{address}{_PREFIX}{quote(path, safe='/')}?{query}"
        headers: dict[str, str] = {}
        target: str | None = None
        try:
            answer = pool.request(method, url, headers=headers, redirect=False, retries=False)
            if answer.status in (301, 302, 303, 307, 308):
                target = _redirected(answer.headers.get("Location", ""), path)
                headers = {"Content-Type": "application/octet-stream"} if body is not None else {}
                answer = pool.request(method, target, body=body, headers=headers, redirect=False, retries=False)
            # Namenodes say it twice.
            return Answer(answer.status, next(iter(answer.headers.getlist("Date")), ""), answer.data)
        except HTTPError as error:
            name = location.bucket or "the default file system"
            why = f"({urlsplit(address if target is None else target).netloc}: {type(error).__name__})"
            text = (
                f"no namenode of `{name}` can be reached {why}: {_REMEDY}"
                if target is None
                else f"a datanode of `{name}` cannot be reached {why}: {_DATANODE_REMEDY}"
            )
            unreached = StoreError(Kind.FAILED, text, str(location))
            datanode = "" if target is None else _address(urlsplit(target).hostname or "")
            is_final = isinstance(error, NameResolutionError)
            return _Unanswered(unreached, is_silent=target is None, is_final=is_final, datanode=datanode)

    def _who(self, location: Location, address: str) -> dict[str, str]:
        """Give the parameters that identify the user: a delegation token, or else a name."""
        netloc = urlsplit(address).netloc
        for authority in (location.bucket, netloc):
            if authority and (found := _token(authority, *_token_file())):
                return {"delegation": found}
        return {"user.name": self.settings.user} if self.settings.user else {}

    def _addresses(self, location: Location) -> tuple[str, ...]:
        """The web addresses of the namenodes that may answer."""
        name = location.bucket
        if location.scheme != "hdfs":
            is_tls = location.scheme == "swebhdfs"
            scheme, port = ("https", hadoop_conf.TLS_PORT) if is_tls else ("http", hadoop_conf.PORT)
            known = dict(self.settings.endpoints).get(name)
            return known or (f"{scheme}://{name if _has_port(name) else f'{name}:{port}'}",)
        if not name:
            name = self.settings.default
            if not name:
                text = (
                    "it names no cluster, and no fs.defaultFS does: write hdfs://namenode:port/path, or set "
                    "HADOOP_CONF_DIR"
                )
                raise StoreError(Kind.FAILED, _and(text, self.settings.problem), str(location))
        known = dict(self.settings.endpoints).get(name) or dict(self.settings.namenodes).get(name)
        if known:
            return known
        host = name.rpartition(":")[0] if _has_port(name) else name
        return (f"http://{host}:{hadoop_conf.PORT}",)


_TOKEN = re.compile(r"(delegation=)[^&\s\"']+")
_TOKENS = "HADOOP_TOKEN_FILE_LOCATION"
_REMEDY = (
    "check the name and the network; the web addresses of namenodes are those of HADOOP_CONF_DIR, of "
    f"storage.hdfs.endpoints in clinker.toml, or else port {hadoop_conf.PORT} of the host"
)
_DATANODE_REMEDY = "see whether it runs, and whether this machine knows its host and may reach its web address"
#: The address that has answered last, of several.
_ACTIVE: dict[tuple[str, ...], str] = {}


def _redirected(target: str, path: str) -> str:
    """Where a request is sent to, with the letters of its own path: Java joins letters and accents in addresses."""
    parts = urlsplit(target)
    given = unquote(parts.path.removeprefix(_PREFIX))
    is_joined = given != path and given == unicodedata.normalize("NFC", path) and parts.path.startswith(_PREFIX)
    return parts._replace(path=f"{_PREFIX}{quote(path, safe='/')}").geturl() if is_joined else target


def _address(host: str) -> str:
    """The address by which a namenode knows a datanode; empty where nobody knows it here."""
    try:
        return str(socket.gethostbyname(host))
    except OSError:
        return ""


def _active_first(addresses: tuple[str, ...]) -> list[str]:
    active = _ACTIVE.get(addresses)
    return sorted(addresses, key=lambda each: each != active)


def _has_port(authority: str) -> bool:
    return authority.rpartition(":")[2].isdecimal() and ":" in authority


def _and(text: str, problem: str) -> str:
    return f"{text} ({problem})" if problem else text


def _standby(location: Location) -> str:
    return f"all namenodes of `{location.bucket}` that answer are on standby: make one active, and run again"


def _exception(answer: Answer) -> tuple[str, str]:
    """Give the name of Hadoop's exception and its message, in one line; the name is empty where there is none."""
    try:
        remote = json.loads(answer.data)["RemoteException"]
        return str(remote["exception"]), " ".join(str(remote.get("message") or "").split("\n")[0].split())
    except (ValueError, KeyError, TypeError):
        return "", " ".join(answer.data[:200].decode("utf-8", "replace").split())


def _refused(
    status: int, exception: str, says: str, operation: str, location: Location, settings: HdfsSettings
) -> StoreError:
    """Translate a refusal of the cluster into an error with a kind and a message."""
    uri = str(location)
    if exception in _MISSING or (status == 404 and not exception):
        return StoreError(Kind.MISSING, "file not found", uri)
    if exception in _TAKEN:
        return StoreError(Kind.TAKEN, "another run has written it meanwhile", uri)
    if exception in _INVALID_TOKEN or ("token" in says.lower() and status in (401, 403)):
        text = f"the cluster does not accept the delegation token of this machine ({says[:200]}): fetch a new one"
        return StoreError(Kind.FORBIDDEN, text, uri)
    if status == 401:
        text = (
            "the cluster wants Kerberos: fetch a delegation token (hdfs fetchdt) on a machine that has a ticket, and "
            f"name its file in {_TOKENS}, on the driver and on the executors"
        )
        return StoreError(Kind.FORBIDDEN, text, uri)
    if says.endswith("(is not a directory)"):  # which Hadoop calls a missing right
        return StoreError(Kind.FAILED, f"a file stands where the path has a folder: {says[:300]}", uri)
    if exception in _FORBIDDEN or (status == 403 and not exception):
        text = f"access is denied to the user `{settings.user}`: {says[:300]}"
        return StoreError(Kind.FORBIDDEN, text, uri)
    if exception in _QUOTA:
        return StoreError(Kind.FAILED, f"a quota of HDFS is exceeded: {says[:300]}", uri)
    if exception in _UNKNOWN or status == 501 or (exception == "IllegalArgumentException" and '"op"' in says):
        return StoreError(Kind.UNSUPPORTED, f"the cluster does not know {operation}: {says[:200]}".rstrip(": "), uri)
    return StoreError(Kind.FAILED, f"{operation} fails: {status} {exception} {says[:300]}".rstrip(), uri)


def _token_file() -> tuple[str | None, int]:
    """The file of tokens and its modification time: renewing a token rewrites the file."""
    path = os.environ.get(_TOKENS)
    try:
        return path, os.stat(path).st_mtime_ns if path else 0
    except OSError:
        return path, 0


@lru_cache(maxsize=64)
def _token(authority: str, path: str | None, written: int) -> str | None:
    del written  # cached facts hold for one content of the file
    return hadoop_conf.token(authority, path, f"hdfs://{authority}/")


def _without_token(record: logging.LogRecord) -> bool:
    """Remove tokens from log messages about requests."""
    text = record.getMessage()
    if "delegation=" in text:
        record.msg, record.args = _TOKEN.sub(r"\1…", text), ()
    return True


@lru_cache(maxsize=1)
def _pool(process: int) -> proxies.Connections:
    # Namenodes take tokens in URLs, which the HTTP client would write to its debug log.
    logging.getLogger("urllib3.connectionpool").addFilter(_without_token)
    return proxies.Connections(_CONNECTIONS, _CONNECT_S, _READ_S)
