"""A MariaDB server on loopback, where its programs are installed, and a database of each test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres import PASSWORD, free_port
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

_USER = "clinker"


@dataclass(frozen=True)
class MariaDatabase:
    """A database: its URI with a password."""

    uri: str

    def run(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of the last of some statements."""
        from spark_jobs.formats.database.mysql import reading as mysql
        from spark_jobs.scan.connections import Connection

        opened = mysql.connected(Connection("tests", self.uri))
        try:
            found: list[tuple[Any, ...]] = []
            for each in text.split(";\n"):
                found = mysql.rows(opened, each)
            return found
        finally:
            opened.close()


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[str]:
    """The address of a server that lives as long as the tests, `user:password@host:port`."""
    pymysql = pytest.importorskip("pymysql", reason="the extra `databases` is not installed")
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    found = {name: shutil.which(name, path=path) or "" for name in ("mariadb-install-db", "mariadbd")}
    if not all(found.values()):
        pytest.skip("MariaDB is not installed (Debian: apt install mariadb-server)")
    folder = Path(tempfile.mkdtemp(prefix="clinker-mariadb-"))
    server = None
    try:
        owner = ["--user=mysql"] if os.geteuid() == 0 else []
        if owner:
            shutil.chown(folder, "mysql", "mysql")
        folder.chmod(0o755)
        data, socket, port = folder / "data", folder / "socket", free_port()
        owner.append(f"--tmpdir={folder}")
        made = [
            found["mariadb-install-db"],
            "--no-defaults",
            f"--datadir={data}",
            "--auth-root-authentication-method=normal",
        ]
        subprocess.run([*made, "--skip-test-db", *owner], check=True, capture_output=True, cwd=folder)
        options = [f"--datadir={data}", f"--socket={socket}", f"--port={port}", "--bind-address=127.0.0.1", *owner]
        options += ["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0", f"--pid-file={folder / 'pid'}"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [found["mariadbd"], "--no-defaults", *options], stderr=log, stdout=log, cwd=folder
            )

        def root() -> Any:
            assert server is not None
            assert server.poll() is None, (folder / "log").read_text()
            try:
                return pymysql.connect(unix_socket=str(socket), user="root")
            except pymysql.Error:
                return None

        with until(root, 120) as opened, opened.cursor() as cursor:
            cursor.execute(f"CREATE USER {_USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
            cursor.execute(f"GRANT ALL ON *.* TO {_USER}@'127.0.0.1' WITH GRANT OPTION")
        yield f"{_USER}:{PASSWORD}@127.0.0.1:{port}"
    finally:
        if server is not None:
            server.terminate()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def mariadb(mariadb_server: str, monkeypatch: pytest.MonkeyPatch) -> MariaDatabase:
    """An empty database, which is the connection `warehouse` of the environment."""
    name = f"t{uuid.uuid4().hex[:12]}"
    MariaDatabase(f"mysql://{mariadb_server}/").run(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    uri = f"mysql://{mariadb_server}/{name}"
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", uri)
    return MariaDatabase(uri)
