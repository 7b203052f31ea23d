"""A catalogue of Iceberg tables that speaks the REST protocol on loopback, over one that is a file of SQLite.

Requests are read and answered with the library's own models of the protocol. It knows tokens and client credentials,
and fails as it is told.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "t0ken-of-the-catalogue"
CLIENT, CLIENT_SECRET = "robot", "s3cret-of-the-robot"
HEADER = "k3y-in-a-header"
_TABLE = re.compile(r"/v1/namespaces/([^/]+)/tables/([^/]+)")
_TABLES = re.compile(r"/v1/namespaces/([^/]+)/tables")
_NAMESPACE = re.compile(r"/v1/namespaces/([^/]+)")
_CODES = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    CommitFailedException: 409,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
}


@dataclass
class Failure:
    """An error answer in place of the real one.

    Args:
        method: which requests.
        path: a pattern of their paths.
        status: the status of the answer; 0 closes the connection.
        times: how many requests; fewer as they come.
        body: the body of the answer; None: an error message of the protocol.
        is_done: whether the request is carried out all the same.
    """

    method: str
    path: str
    status: int
    times: int = 1 << 30
    body: str | None = None
    is_done: bool = False


@dataclass
class Rest:
    """A server.

    Args:
        uri: where it is.
        inner: the catalogue that it serves.
        failures: what fails.
        requests: methods, paths and headers of the requests.
    """

    uri: str
    inner: SqlCatalog
    failures: list[Failure] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def served(folder: Path, *, with_header: bool = False) -> Iterator[Rest]:
    """A server over the catalogue in a folder; `with_header` asks for a header as well."""
    inner = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    rest = Rest("", inner)
    handler = type("Handler", (_Handler,), {"rest": rest, "with_header": with_header, "lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    rest.uri = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield rest
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    rest: Rest
    with_header: bool
    lock: threading.Lock

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer("GET")

    def do_HEAD(self) -> None:
        self._answer("HEAD")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        path = urlsplit(self.path).path
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.rest.requests.append((method, path, dict(self.headers.items())))
        failure = next(
            (f for f in self.rest.failures if f.times and f.method == method and re.fullmatch(f.path, path)), None
        )
        if failure is not None:
            failure.times -= 1
            if failure.is_done:
                self._carried_out(method, path, body)
            if failure.status == 0:
                self.close_connection = True
                return
            said = failure.body if failure.body is not None else _error("Failed", "as it was told", failure.status)
            self._send(failure.status, said)
            return
        self._send(*self._carried_out(method, path, body))

    def _send(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _carried_out(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        if path == "/v1/oauth/tokens":
            wanted = parse_qs(body.decode())
            if (wanted.get("client_id"), wanted.get("client_secret")) != ([CLIENT], [CLIENT_SECRET]):
                return 401, json.dumps({"error": "invalid_client", "error_description": f"{wanted} is nobody"})
            return 200, json.dumps({"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600})
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, _error("NotAuthorizedException", f"not with {self.headers.get('Authorization')}", 401)
        if self.with_header and self.headers.get("X-Api-Key") != HEADER:
            return 403, _error("ForbiddenException", "a header is missing", 403)
        if path == "/v1/config":
            return 200, json.dumps({"defaults": {}, "overrides": {}})
        try:
            with self.lock:
                return 200, self._made(method, path, body)
        except tuple(_CODES) as error:
            return _CODES[type(error)], _error(type(error).__name__, str(error), _CODES[type(error)])

    def _made(self, method: str, path: str, body: bytes) -> str:
        inner = self.rest.inner
        if matched := _TABLE.fullmatch(path):
            name = (*unquote(matched[1]).split("\x1f"), unquote(matched[2]))
            if method != "POST":
                return _table(inner.load_table(name))
            asked = CommitTableRequest.model_validate_json(body)
            made = inner.commit_table(_Named(name), asked.requirements, asked.updates)
            return json.dumps(
                {"metadata-location": made.metadata_location, "metadata": json.loads(made.metadata.model_dump_json())}
            )
        if matched := _TABLES.fullmatch(path):
            lacking = {"location": None, "partition-spec": None, "write-order": None}  # what the model wants said
            wanted = CreateTableRequest.model_validate(lacking | json.loads(body))
            name = (*unquote(matched[1]).split("\x1f"), wanted.name)
            make = inner._create_staged_table if wanted.stage_create else inner.create_table
            if inner.table_exists(name):
                raise TableAlreadyExistsError(f"there is {name}")
            more = {"partition_spec": wanted.partition_spec} if wanted.partition_spec else {}
            return _table(make(name, wanted.table_schema, wanted.location, properties=wanted.properties, **more))
        if matched := _NAMESPACE.fullmatch(path):
            return json.dumps(
                {
                    "namespace": unquote(matched[1]).split("\x1f"),
                    "properties": inner.load_namespace_properties(unquote(matched[1])),
                }
            )
        asked_for = json.loads(body)
        inner.create_namespace(tuple(asked_for["namespace"]), asked_for.get("properties") or {})
        return json.dumps({"namespace": asked_for["namespace"], "properties": {}})


@dataclass
class _Named:
    """A table of which nothing but its name is asked."""

    identifier: tuple[str, ...]

    def name(self) -> tuple[str, ...]:
        return self.identifier


def _table(table: Any) -> str:
    found = {"metadata": json.loads(table.metadata.model_dump_json()), "config": {}}
    if table.metadata_location and "staged" not in type(table).__name__.lower():
        found["metadata-location"] = table.metadata_location
    return json.dumps(found)


def _error(kind: str, message: str, code: int) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "code": code}})
