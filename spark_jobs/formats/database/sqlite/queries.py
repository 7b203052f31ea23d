"""Queries that find the records SQLite would refuse, before these are sent, where the task sees the database file.

An empty copy of the table, in memory, shows whether its checks hold. A temporary table with the records, in a read-only
session, shows whether unique and foreign keys hold. Tasks on other machines cannot ask.
"""

from __future__ import annotations

import re
import sqlite3
import weakref
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.database.sqlite import columns, indexes
from spark_jobs.formats.database.sqlite.reading import path_of
from spark_jobs.formats.database.sqlite.session import LOCK_S, identity, reading, translated_errors
from spark_jobs.formats.database.tables import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from spark_jobs.formats.database.targets import Constraint, Target
    from spark_jobs.scan.connections import Connection

_ROW = '"$row"'


class Queries:
    """A session in which a task asks.

    Args:
        connection: where.
        target: the table that gets the records.
        key: the key columns of an upsert; empty otherwise.
        replaces: whether the table's rows go.
    """

    def __init__(self, connection: Connection, target: Target, key: tuple[str, ...], *, replaces: bool) -> None:
        self._connection, self._target, self._key, self._replaces = connection, target, key, replaces
        self._columns = {column.name: column for column in target.columns}
        self._is_here = identity(path_of(connection)) == target.seen
        self._opened: sqlite3.Connection | None = None
        self._copy: sqlite3.Connection | None = None
        self._tables: dict[tuple[str, ...], str] = {}
        self._computing: dict[str, indexes.Values] = {}

    def rows(self, found: pa.RecordBatch) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """The records that the table refuses: the row, why, and the columns that tell.

        Raises:
            FormatError: the database fails (E911).
        """
        if not found.num_rows:
            return
        names = found.schema.names
        values = {
            name: columns.values(self._columns[name], array)
            for name, array in zip(names, found.columns, strict=True)
            if self._target.constraints
        }
        with translated_errors(self._connection, self._target.name):
            for each in self._target.constraints:
                if not each.is_decided_by(names, self._key, replaces=self._replaces):
                    continue
                if each.kind == "check":
                    yield from self._tried(each, names, values)
                elif each.keys and self._is_here:
                    for row in self._having(each, values):
                        yield row, each.why, each.columns
                elif self._is_here:
                    for row in self._against(each, values):
                        yield row, each.why, each.columns

    def _tried(
        self, definition: Constraint, names: Sequence[str], values: dict[str, list[Any]]
    ) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Try records in an empty copy of the table in memory: it refuses values and evaluates checks."""
        written = {column.name for column in self._target.columns if column.is_written}
        if self._key and written - {*names}:
            return  # a row that an upsert changes has other values there
        if self._copy is None:
            self._copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._copy.close)
            self._copy.execute(definition.text)
        relation = quoted(definition.name)
        marks = ", ".join("?" * len(names))
        add = f"INSERT OR ABORT INTO {relation} ({', '.join(map(quoted, names))}) VALUES ({marks})"
        rows = [*zip(*(values[name] for name in names), strict=True)]
        try:
            self._copy.executemany(add, rows)
        except sqlite3.IntegrityError:
            pass  # a record, or two with one value: each is looked at alone
        except sqlite3.OperationalError:
            return  # a function or a collation that the program of the table's owner brings along
        else:
            self._copy.execute(f"DELETE FROM {relation}")
            return
        for number, row in enumerate(rows):
            self._copy.execute(f"DELETE FROM {relation}")
            try:
                self._copy.execute(add, row)
            except sqlite3.IntegrityError as problem:
                about = tuple(name for name in names if re.search(rf"\b{re.escape(name)}\b", str(problem)))
                yield number, f"the database says: {problem}", about

    def computed(self, index: Constraint, found: pa.RecordBatch) -> list[str | None]:
        """Give texts that are the same only for records that a unique index with `keys` has as one.

        Raises:
            FormatError: the database fails (E911).
        """
        values = {
            name: columns.values(self._columns[name], array)
            for name, array in zip(found.schema.names, found.columns, strict=True)
        }
        with translated_errors(self._connection, self._target.name):
            made = self._values(index)
            return [made.text(keys) for keys in made.of(values)]

    def _values(self, index: Constraint) -> indexes.Values:
        if index.name not in self._computing:
            self._computing[index.name] = indexes.Values(self._target, index)
        return self._computing[index.name]

    def _having(self, index: Constraint, values: dict[str, list[Any]]) -> Iterator[int]:
        """The records whose keys a row of the table has already; an upsert may change that row."""
        same = " AND ".join(f"{quoted(name)} = ?" for name in self._key)
        compared = [f"({key}) = ?" for key in index.keys]
        compared += [f"({index.condition})"] if index.condition else []
        compared += [f"NOT ({same})"] if same else []
        statement = f"SELECT 1 FROM {self._target.relation} WHERE {' AND '.join(compared)} LIMIT 1"
        for row, keys in enumerate(self._values(index).of(values)):
            if keys is None:
                continue
            given = [*keys, *(values[name][row] for name in self._key)]
            try:
                if self._session().execute(statement, given).fetchone():
                    yield row
            except sqlite3.OperationalError as problem:
                if "no such" not in str(problem):
                    raise
                return  # a function that the program of the table's owner brings along

    def _against(self, constraint: Constraint, values: dict[str, list[Any]]) -> list[int]:
        asked = constraint.asked_for(self._key)
        table = self._table(asked)
        session = self._session()
        session.execute(f"DELETE FROM {table}")
        marks = ", ".join("?" * (len(asked) + 1))
        given = zip(range(len(values[asked[0]])), *(values[name] for name in asked), strict=True)
        session.executemany(f"INSERT INTO {table} VALUES ({marks})", given)
        refusing = constraint.refusing(self._target.relation, self._key)
        # Values without an affinity of their own are compared as the column of the table has them, or the one that a
        # foreign key refers to: `007` is no `7` in a column of texts.
        bare = ", ".join(f"+{quoted(name)} AS {quoted(name)}" for name in asked)
        try:
            found = session.execute(
                f"SELECT r.{_ROW} FROM (SELECT {_ROW}, {bare} FROM {table}) r WHERE {refusing} ORDER BY 1"
            ).fetchall()
        except sqlite3.OperationalError as problem:
            if "no such" in str(problem):
                return []  # a table, a function or a collation that is not here
            raise
        return [row for (row,) in found]

    def _table(self, asked: tuple[str, ...]) -> str:
        known = self._tables.get(asked)
        if known is None:
            known = self._tables[asked] = f"temp.clinker_ask_{len(self._tables)}"
            definitions = ", ".join(map(quoted, asked))
            self._session().execute(f"CREATE TABLE {known} ({_ROW} INTEGER PRIMARY KEY, {definitions})")
        return known

    def _session(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = reading(path_of(self._connection))
            weakref.finalize(self, self._opened.close)
            self._opened.execute("PRAGMA temp_store = MEMORY")
            self._opened.execute(f"PRAGMA busy_timeout = {LOCK_S * 1000}")
        return self._opened
