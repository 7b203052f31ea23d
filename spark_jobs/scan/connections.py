"""Connections by name: the addresses of databases, with passwords hidden.

A URI in the environment may have a password. Each machine that reads looks it up by the name of its variable; only that
name is sent and shown. A URI in `clinker.toml` has no password; the client finds one where its own tools do. No Arrow
here: plans look for connections.
"""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spark_jobs import credentials
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The diagnostic of a database that refuses or fails.
FAILED = "E911"
_VARIABLE = "CLINKER_CONNECTION_"
_OF_ENVIRONMENT = "env:"


@dataclass(frozen=True)
class Engine:
    """A kind of database.

    Args:
        name: which module of `formats/database` reads it.
        title: its name in messages.
        schemes: how its URIs begin.
        driver: the package that it needs; empty if none is needed.
        example: how a URI looks.
    """

    name: str
    title: str
    schemes: tuple[str, ...]
    driver: str
    example: str


_SQLITE = "sqlite"
ENGINES = (
    Engine(
        "postgres", "PostgreSQL", ("postgresql", "postgres"), "adbc_driver_postgresql",
        "postgresql://user@host:port/database",
    ),
    Engine("mysql", "MySQL and MariaDB", ("mysql", "mariadb"), "pymysql", "mysql://user@host:port/database"),
    Engine("sqlite", "SQLite", (_SQLITE,), "", "sqlite:///file.db"),
)  # fmt: skip
_BY_SCHEME = {scheme: engine for engine in ENGINES for scheme in engine.schemes}
#: Databases that people ask for, and that nothing here reads.
_WITHOUT = {
    "SQL Server": ("mssql", "sqlserver"), "Oracle": ("oracle",), "Db2": ("db2", "ibm_db_sa"),
    "Snowflake": ("snowflake",), "BigQuery": ("bigquery",), "Redshift": ("redshift",),
}  # fmt: skip


@dataclass(frozen=True)
class Connection:
    """A connection: its name, and where its URI is (`place`)."""

    name: str
    place: str

    @property
    def uri(self) -> str:
        """The URI, with its password where it has one.

        Raises:
            FormatError: this machine does not have it (E911).
        """
        if not self.place.startswith(_OF_ENVIRONMENT):
            return self.place
        variable = self.place.removeprefix(_OF_ENVIRONMENT)
        if not (found := os.environ.get(variable)):
            text = f"the variable {variable} is not set on this machine, and on the driver's it is; set it on all"
            raise FormatError(text, self.name, FAILED)
        return found

    @property
    def reference(self) -> str:
        """The text from which another process makes the connection (`of_reference`): the name, and a file's URI."""
        return f"{self.name}@{self.place}" if self.place.startswith(f"{_SQLITE}:") else self.name

    @property
    def engine(self) -> Engine:
        """The kind of database."""
        return _BY_SCHEME[urlsplit(self.uri).scheme]

    @property
    def shown(self) -> str:
        """The address of the database without secrets."""
        if self.uri.startswith(f"{_SQLITE}:"):
            return self.uri  # the name of a file, in which nothing has a meaning
        parts = urlsplit(self.uri)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"

    def failed(self, problem: Exception | str, name: str = "") -> FormatError:
        """The error for a problem that a driver reports, without the URI and its password.

        Args:
            problem: the driver's error.
            name: the name of the table or statement.
        """
        text = " ".join(str(problem).split()).replace(self.uri, self.shown)
        for secret in sorted(credentials.within(self.uri), key=len, reverse=True):
            text = text.replace(secret, credentials.HIDDEN)
        return FormatError(f"connection '{self.name}': {text}", name or self.shown, FAILED)


def variable(name: str) -> str:
    """The variable of a connection."""
    return _VARIABLE + name.replace("-", "_").upper()


def secrets(environ: Mapping[str, str]) -> list[str]:
    """The passwords of all connections of an environment."""
    return [each for key, value in environ.items() if key.startswith(_VARIABLE) for each in credentials.within(value)]


def problem(uri: str) -> str | None:
    """The problem of a URI in `clinker.toml`; None if there is none."""
    if next(iter(credentials.within(uri)), None) is not None:
        return (
            "has a password: files are copied and shown; set the variable with the whole URI, or use ~/.pgpass or "
            "~/.my.cnf"
        )
    return _unknown(uri)


def _unknown(uri: str) -> str | None:
    scheme = ""
    try:
        parts = urlsplit(uri)
        scheme = parts.scheme.partition("+")[0]
        if parts.scheme in _BY_SCHEME and (parts.scheme == _SQLITE or parts.port is None or parts.port):
            return None
    except ValueError:
        pass  # a host or a port that is none
    for title, schemes in _WITHOUT.items():
        if scheme in schemes:
            supported = ", ".join(engine.title for engine in ENGINES)
            return f"leads to {title}, which is not supported: there are {supported}; read files that it exports"
    return f"is no URI that is known: write {', '.join(engine.example for engine in ENGINES)}"


def find(name: str, known: Mapping[str, str], base: Path) -> Connection:
    """The connection of some name; the environment goes before `clinker.toml`.

    Args:
        name: the name.
        known: the URIs of `clinker.toml`.
        base: the folder that relative files of SQLite start at.

    Raises:
        FormatError: there is none, its URI is unknown, or its driver is not installed (E911).
    """
    of_environment = os.environ.get(variable(name))
    uri = of_environment or known.get(name)
    if not uri:
        listed = ", ".join(sorted(known)) or "none"
        text = (
            f"there is no connection '{name}': set {variable(name)} to its URI, or add [connections.{name}] with `uri` "
            f"to clinker.toml, which has {listed}"
        )
        raise FormatError(text, name, FAILED)
    if why := _unknown(uri):
        raise FormatError(f"the URI of connection '{name}' {why}", name, FAILED)
    if uri.startswith(f"{_SQLITE}:"):
        path = re.sub(r"^sqlite:(//)?", "", uri).removeprefix("/") or "."
        path = re.sub("^/+", "/", path)  # two slashes at the beginning are a host for SQLite
        return Connection(name, f"{_SQLITE}:///{(base / path).absolute()}")
    found = Connection(name, f"{_OF_ENVIRONMENT}{variable(name)}" if of_environment else uri)
    if importlib.util.find_spec(found.engine.driver) is None:
        text = f"connection '{name}' needs a driver for {found.engine.title}: pip install 'clinker-spark[databases]'"
        raise FormatError(text, name, FAILED)
    return found


def of_reference(reference: str, known: Mapping[str, str]) -> Connection:
    """The connection that another process refers to (`Connection.reference`).

    Args:
        reference: a name, or a name and the URI of a file.
        known: the URIs of `clinker.toml`.

    Raises:
        FormatError: see `find`.
    """
    name, _, place = reference.partition("@")
    # The URI has an absolute path, so the base folder of this process does not matter.
    return Connection(name, place) if place.startswith(f"{_SQLITE}:///") else find(name, known, Path())
