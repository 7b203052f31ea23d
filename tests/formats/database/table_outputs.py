"""Pipelines that write a table of MariaDB or SQLite, and what independent clients read of it."""

from __future__ import annotations

import itertools
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.execute.delivery import databases
from spark_jobs.execute.delivery.local import recovery
from spark_jobs.execute.delivery.participant import StorageAccess
from spark_jobs.formats.database import write
from spark_jobs.formats.database.options import DatabaseRead, DatabaseWrite, WriteMode
from spark_jobs.formats.database.tables import Slice
from spark_jobs.scan import connections
from tests.formats.database.test_table_outputs import Warehouse

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl.types import Type
    from tests.mariadb import MariaDatabase


@dataclass(frozen=True)
class SqliteDatabase:
    """A file of SQLite: its URI."""

    uri: str

    @property
    def path(self) -> Path:
        return Path(self.uri.removeprefix("sqlite:///"))

    def run(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of the last of some statements."""
        with closing(sqlite3.connect(self.path, isolation_level=None, timeout=60)) as opened:
            opened.execute("PRAGMA foreign_keys = ON")
            found: list[tuple[Any, ...]] = []
            for each in text.split(";\n"):
                found = opened.execute(each).fetchall()
            return found


class SqliteWarehouse(Warehouse):
    """See `Warehouse`."""

    database: SqliteDatabase  # type: ignore[assignment]

    @property
    def staged(self) -> list[Any]:
        beside = [name for name in os.listdir(self.database.path.parent) if "clinker_" in name]
        return beside + self.database.run("SELECT name FROM sqlite_master WHERE name LIKE 'clinker%'")

    @property
    def notes(self) -> list[str]:
        names = self.database.run("SELECT name FROM sqlite_master WHERE name LIKE 'clinker%'")
        return [str(self.database.run(f'SELECT * FROM "{name}"')) for (name,) in names]


class MariaWarehouse(Warehouse):
    """See `Warehouse`."""

    database: MariaDatabase  # type: ignore[assignment]

    @property
    def staged(self) -> list[Any]:
        name = urlsplit(self.database.uri).path.removeprefix("/")
        text = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{}' AND table_name LIKE '{}'"
        return self.database.run(text.format(name, "clinker%"))

    @property
    def notes(self) -> list[str]:
        return [str(self.database.run(f"SELECT `$note` FROM `{_text(name)}` WHERE `$part` = -1")) for (name,) in
                self.staged]  # fmt: skip

    def read(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, with values as the driver converts them."""
        import pymysql

        parts = urlsplit(self.database.uri)
        assert parts.hostname is not None
        with closing(
            pymysql.connect(host=parts.hostname, port=parts.port or 0, user=parts.username or "",
                            password=parts.password or "", database=parts.path[1:], charset="utf8mb4")
        ) as opened, opened.cursor() as cursor:  # fmt: skip
            cursor.execute(text)
            return [*cursor.fetchall()]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def settled(warehouse: Warehouse, files: str, *, first: str = "database") -> list[int]:
    """The ids in the table (and in the file, if there is one) after recovery."""
    access = StorageAccess(connections={"warehouse": warehouse.database.uri})
    if first == "files" and (warehouse.folder / "out").exists():
        recovery.recover(warehouse.folder / "out", access)
    databases.recover(connections.find("warehouse", {}, warehouse.folder), access)
    assert warehouse.staged == []
    ids = sorted(int(row[0]) for row in warehouse.database.run("SELECT id FROM t"))
    if files:
        assert (warehouse.folder / "out/rows.csv").read_text().split()[1:] == [str(each) for each in ids]
    return ids


def put(
    loading: Any, connection: connections.Connection, table: str, static: Type, found: list[Any], run: str
) -> dict[int, str]:
    """Replace the rows of a table by rows with some values in column `v`; returns the reason of each refused row."""
    known = loading.look(connection, DatabaseWrite(connection.name, table, WriteMode.REPLACE))
    writer = write.DatabaseWriter(Schema((Column("id", types.INT), Column("v", static))), known)
    arrays = [pa.array(range(len(found)), pa.int64()), pa.array(found, writer.schema.field("v").type)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=writer.schema)
    refused = {failure.row: failure.failure.detail for failure in writer._refused(batch)}
    taken = batch.take(pa.array([at for at in range(len(found)) if at not in refused], pa.int64()))
    with closing(loading.lock_run(connection, run, connection.name)):
        staging = loading.begin(connection, known, run, 0, writer.schema)
        count = loading.fill(connection, staging, 0, [taken], writer.schema)
        with loading.transaction(connection) as session:
            loading.publish(session, replace(staging, rows=count))
    return refused


def read_again(reading: Any, connection: connections.Connection, table: str) -> dict[int, Any]:
    """The values of the column `v` by the row's number, as our own source reads them."""
    (found,) = reading.look(connection, DatabaseRead(connection.name, table)).tables
    again: dict[int, Any] = {}
    for _, arrays in reading.batches(Slice(connection, found.part, 0, found.part.size, is_last=True), found.columns):
        (ids, _), (read, static) = arrays
        again |= dict(zip(ids.to_pylist(), values.from_arrow(read, static), strict=True))
    return again


def check_values(
    warehouse: Warehouse,
    loading: Any,
    reading: Any,
    case: tuple[Type, st.SearchStrategy[Any], list[str]],
    *,
    key: str,
    examples: int,
    is_same: Callable[[Any, Any], bool],
) -> None:
    """Check that each value is refused, or read again as it was by our own source.

    Args:
        warehouse: the database.
        loading: the module that writes into its tables.
        reading: the module that reads them.
        case: the type of the values, the values, and the column types of the tables that they are written to.
        key: the type of the key column.
        examples: how many lists of values are tried.
        is_same: compares a value that was read with the one that was written.
    """
    static, drawn, columns = case
    connection = connections.Connection("warehouse", warehouse.database.uri)
    for number, column in enumerate(columns):
        warehouse.database.run(f"CREATE TABLE c{number} (id {key} PRIMARY KEY, v {column})")
    runs = itertools.count()

    @settings(max_examples=examples, deadline=None, suppress_health_check=[*HealthCheck])
    @given(st.lists(drawn, min_size=20, max_size=100))
    def check(found: list[Any]) -> None:
        for number, column in enumerate(columns):
            refused = put(loading, connection, f"c{number}", static, found, f"r{next(runs)}")
            again = read_again(reading, connection, f"c{number}")
            assert again.keys() == {*range(len(found))} - refused.keys()
            for at, read in again.items():
                assert is_same(read, found[at]), (column, found[at], read)

    check()
    assert warehouse.staged == []
