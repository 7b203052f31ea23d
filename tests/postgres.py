"""A PostgreSQL server on loopback, where its programs are installed, and a database of each test's own."""

from __future__ import annotations

import contextlib
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

import psutil
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
        """The rows of a statement."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.uri, autocommit=True) as opened, opened.cursor() as cursor:
            for each in text.split(";\n"):
                cursor.execute(each)
            return [*cursor.fetchall()] if cursor.description else []


def _as_user() -> Sequence[str]:
    """The server refuses to run as root."""
    return ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups") if os.geteuid() == 0 else ()


class Server:
    """A server on loopback with one user, which may be killed and started again.

    Args:
        folder: for its data and its log, which the user `postgres` may enter.
        user: the name of its user.
        password: the password.
    """

    def __init__(self, folder: Path, user: str, password: str) -> None:
        found = {name: program(name) for name in ("initdb", "postgres", "pg_isready")}
        if not all(found.values()):
            pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        self._folder, self._programs, self.port = folder, found, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        secret = folder / "password"
        secret.write_text(password)
        secret.chmod(0o644)
        initdb = ["initdb", "-D", "data", "-U", user, "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync"]
        command = [*_as_user(), found["initdb"], *initdb[1:]]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "fsync": "off"}
        words = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        command = [*_as_user(), self._programs["postgres"], "-D", "data", *words]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stderr=log, cwd=self._folder)
        ready = [self._programs["pg_isready"], "-h", "127.0.0.1", "-p", str(self.port), "-t", "1"]
        for _ in range(120):
            if subprocess.run(ready, capture_output=True, check=False).returncode == 0:
                break
            assert self._process.poll() is None, (self._folder / "log").read_text()

    def kill(self) -> None:
        """Kill it with all its processes, without a warning; committed data is there when it starts again."""
        assert self._process is not None
        family = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        self._process.wait()
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(family, timeout=10)

    def stop(self) -> None:
        """End it without waiting for clients."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()


@contextmanager
def restartable(user: str, password: str) -> Iterator[Server]:
    """A running server, which is stopped at the end."""
    folder = Path(tempfile.mkdtemp(prefix="clinker-postgres-"))
    found = None
    try:
        found = Server(folder, user, password)
        found.start()
        yield found
    finally:
        if found is not None:
            found.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server(user: str, password: str) -> Iterator[int]:
    """A server on loopback with one user; gives its port."""
    with restartable(user, password) as found:
        yield found.port


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
