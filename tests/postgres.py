"""A PostgreSQL server on loopback, where its programs are installed, and a database of each test's own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PASSWORD = "s3cret-of-the-tests"
_USER = "clinker"
#: Where Debian has its programs, the newest version last; elsewhere they are on the path.
_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))


def program(name: str) -> str | None:
    """The path of one of its programs; None where it is not installed."""
    return shutil.which(name, path=os.pathsep.join([*map(str, reversed(_FOLDERS)), os.environ.get("PATH", "")]))


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass(frozen=True)
class Database:
    """A database: its URI with a password, and the same without."""

    uri: str
    open_uri: str

    def run(self, text: str) -> list[tuple[Any, ...]]:
        """What a statement gives."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.uri, autocommit=True) as opened, opened.cursor() as cursor:
            for each in text.split(";\n"):
                cursor.execute(each)
            return [*cursor.fetchall()] if cursor.description else []


def _as_user() -> Sequence[str]:
    """The server refuses to run as root."""
    return ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups") if os.geteuid() == 0 else ()


@contextmanager
def server(user: str, password: str) -> Iterator[int]:
    """A server on loopback with one user; gives its port."""
    found = {name: program(name) for name in ("initdb", "postgres", "pg_isready")}
    if not all(found.values()):
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="clinker-postgres-"))
    process = None
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        secret = folder / "password"
        secret.write_text(password)
        secret.chmod(0o644)
        data = folder / "data"
        initdb = [found["initdb"], "-D", data, "-U", user, "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync"]
        subprocess.run([*_as_user(), *initdb], check=True, capture_output=True, cwd=folder)
        port = free_port()
        options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
        words = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*_as_user(), found["postgres"], "-D", data, *words], stderr=log, cwd=folder)
        ready = [found["pg_isready"], "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
        for _ in range(120):
            if subprocess.run(ready, capture_output=True, check=False).returncode == 0:
                break
            assert process.poll() is None, (folder / "log").read_text()
        yield port
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # without waiting for clients
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a server that lives as long as the tests, `user:password@host:port`."""
    pytest.importorskip("adbc_driver_postgresql", reason="the extra `databases` is not installed")
    with server(_USER, PASSWORD) as port:
        yield f"{_USER}:{PASSWORD}@127.0.0.1:{port}"


@pytest.fixture
def postgres(postgres_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """An empty database, which is the connection `warehouse` of the environment."""
    from spark_jobs.formats.database.postgres import reading as driver

    name = f"t{uuid.uuid4().hex[:12]}"
    Database(f"postgresql://{postgres_server}/postgres", "").run(f"CREATE DATABASE {name}")
    uri = f"postgresql://{postgres_server}/{name}"
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", uri)
    yield Database(uri, uri.replace(f":{PASSWORD}", ""))
    driver.release()
