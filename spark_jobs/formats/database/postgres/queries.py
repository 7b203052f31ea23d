"""Queries that find the records PostgreSQL would refuse, before these are sent: unreadable texts, broken constraints.

A task asks about many records in one statement. Refused records are found by bisection, so that each refusal belongs to
one record. The answers hold for the moment of asking: another session may add a row, or remove one, until
the run publishes.
"""

from __future__ import annotations

import importlib
import weakref
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.database.postgres import columns
from spark_jobs.formats.database.postgres.loading import waiting
from spark_jobs.formats.database.postgres.reading import translated_errors
from spark_jobs.formats.database.tables import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.database.targets import Constraint, Target, TargetColumn
    from spark_jobs.scan.connections import Connection

#: The settings that staged texts are read with when they are published.
_SETTINGS = (
    "SET default_transaction_read_only = on",
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET lock_timeout = '{lock}s'",
)
#: The classes of states that are about values: a value that is no value of its type, and one that a constraint refuses.
_ABOUT_VALUES = ("22", "23")
#: The class of states about the statement: no right, no such table, or no way to compute something.
_CANNOT = "42"
#: The number of checked texts that are remembered for each column.
_MOST_KNOWN = 10_000


class Queries:
    """A session with which a task queries the database.

    Args:
        connection: the connection of the output.
        target: the table that gets the records.
        key: the key columns of an upsert; empty otherwise.
        replaces: whether the output replaces the table's rows.
    """

    def __init__(self, connection: Connection, target: Target, key: tuple[str, ...], *, replaces: bool) -> None:
        self._connection, self._target, self._key, self._replaces = connection, target, key, replaces
        self._opened: Any = None
        self._known: dict[tuple[str, str], str | None] = {}
        self._columns = {column.name: column for column in target.columns}

    def texts(self, type: str, texts: pa.Array) -> dict[str, str]:
        """Find the texts that are no values of a type; returns the message of the database for each.

        Args:
            type: the type as SQL has it.
            texts: distinct texts without nulls.

        Raises:
            FormatError: the database fails (E911).
        """
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        new = pa.array([text for text in texts.to_pylist() if (type, text) not in self._known], pa.string())
        statement = f"SELECT 0::int8 WHERE 0 > (SELECT count(x::{type}) FROM unnest($1::text[]) x)"
        refused = dict(self._refused(statement, [new]))
        for number, text in enumerate(new.to_pylist()):
            self._known[type, text] = refused.get(number)
        return {text: why for text in texts.to_pylist() if (why := self._known[type, text]) is not None}

    def converted(self, column: TargetColumn, found: pa.DataType, texts: pa.Array) -> pa.Array:
        """Values as the column has them, as texts of the database; null where a text is none of its values.

        Args:
            column: the column.
            found: the type of the values in records.
            texts: the values.

        Raises:
            FormatError: the database fails (E911).
        """
        codes = texts.dictionary_encode()
        given = f"(x::{columns.staged(found)})"
        text = f"({columns.converted(given, column, found)})::text"
        if column.kind == "citext":
            text = f"lower({text})"
        statement = f"SELECT {text} FROM unnest($1::text[]) WITH ORDINALITY g(x, n) ORDER BY n"
        return pa.array(self._converted(statement, codes.dictionary), pa.string()).take(codes.indices)

    def _converted(self, statement: str, *arrays: pa.Array, unless: str = "") -> list[str | None]:
        """Give a text for each of some rows; null for a row that the database refuses to compute it for.

        Args:
            statement: the query; it returns a text for each row.
            arrays: the parameters of the query, a column each.
            unless: the class of states that says that nobody can tell: then all are null.
        """
        import adbc_driver_manager

        count = len(arrays[0])
        if not count:
            return []
        with waiting(self._connection), translated_errors(self._connection, self._target.name):
            try:
                return self._asked(statement, [*arrays])
            except adbc_driver_manager.Error as problem:
                if unless and (problem.sqlstate or "").startswith(unless):
                    return [None] * count
                if (problem.sqlstate or "")[:2] not in _ABOUT_VALUES:
                    raise
        if count == 1:
            return [None]
        half = count // 2
        return [
            *self._converted(statement, *(each[:half] for each in arrays), unless=unless),
            *self._converted(statement, *(each[half:] for each in arrays), unless=unless),
        ]

    def computed(self, constraint: Constraint, found: pa.RecordBatch) -> pa.StringArray:
        """See `write.py:Checks`: hashes of 128 bits, which the database makes of values that it has as equal.

        Raises:
            FormatError: the database fails (E911).
        """
        names = [*constraint.computed()]
        row = f"ROW({', '.join(names)})"
        counts = [f"({constraint.condition})"] if constraint.condition else []
        if not constraint.nulls_are_equal:
            counts += [f"{name} IS NOT NULL" for name in names]
        hashed = " || ':' || ".join(f"hash_record_extended({row}, {seed})::text" for seed in (0, 1))
        text = f"CASE WHEN {' AND '.join(counts)} THEN {hashed} END" if counts else hashed
        given = self._given(constraint, found.schema)
        statement = f'SELECT {text} FROM {given} ORDER BY "$n"'
        return pa.array(self._converted(statement, *found.columns, unless=_CANNOT), pa.string())

    def _given(self, constraint: Constraint, written: pa.Schema) -> str:
        """Records that are the parameters of a query, as a relation `r`: their columns, place and computed values."""
        values = [
            f"{columns.converted(quoted(each.name), self._columns[each.name], each.type)} AS {quoted(each.name)}"
            for each in written
        ]
        lists = [f"${at}::{columns.staged(each.type)}[]" for at, each in enumerate(written, 1)]
        given = ", ".join([*map(quoted, written.names), '"$n"'])
        relation = f'(SELECT "$n", {", ".join(values)} FROM unnest({", ".join(lists)}) WITH ORDINALITY AS g({given})) r'
        if not constraint.keys:
            return relation
        computed = ", ".join(f"{text} AS {name}" for name, text in constraint.computed().items())
        return f"(SELECT *, {computed} FROM {relation}) r"

    def _constraints(self, written: pa.Schema) -> list[Constraint]:
        names = _askable(written)
        known = self._target.constraints
        return [each for each in known if each.is_decided_by(names, self._key, replaces=self._replaces)]

    def rows(self, found: pa.RecordBatch) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """The records that the table's constraints refuse: the row, why, and the columns that tell.

        Raises:
            FormatError: the database fails (E911).
        """
        for constraint in self._constraints(found.schema):
            yield from self._against(constraint, found)

    def _against(self, constraint: Constraint, found: pa.RecordBatch) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        # A check without columns is asked about a column that is there.
        names = constraint.asked_for(self._key) or tuple(_askable(found.schema)[:1])
        asked = found.select(names)
        statement = (
            f'SELECT "$n"::int8 - 1 FROM {self._given(constraint, asked.schema)} '
            f"WHERE {constraint.refusing(self._target.relation, self._key)}"
        )
        for row, why in self._refused(statement, asked.columns, unless=_CANNOT):
            yield row, why or constraint.why, constraint.columns

    def _refused(self, statement: str, arrays: list[pa.Array], *, unless: str = "") -> list[tuple[int, str]]:
        """Find the rows that a statement returns (with an empty text), and the rows at which it fails (with the error).

        Args:
            statement: the query; it returns row numbers.
            arrays: the parameters of the query, a column each.
            unless: the class of states that says that nobody can tell: then there are none.
        """
        import adbc_driver_manager

        waiting_for = [(0, len(arrays[0]))] if len(arrays[0]) else []
        found: list[tuple[int, str]] = []
        while waiting_for:
            first, count = waiting_for.pop()
            with waiting(self._connection), translated_errors(self._connection, self._target.name):
                try:
                    given = [array.slice(first, count) for array in arrays]
                    found += [(first + row, "") for row in self._asked(statement, given)]
                    continue
                except adbc_driver_manager.Error as problem:
                    if unless and (problem.sqlstate or "").startswith(unless):
                        return []
                    if (problem.sqlstate or "")[:2] not in _ABOUT_VALUES:
                        raise
                    said = _said(problem)
            if count == 1:
                found.append((first, f"the database says: {said}"))
            else:
                half = count // 2
                waiting_for += [(first, half), (first + half, count - half)]
        return found

    def _asked(self, statement: str, arrays: list[pa.Array]) -> list[Any]:
        given = [_whole(columns.sent(array)) for array in arrays]
        lists = [pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array) for array in given]
        batch = pa.RecordBatch.from_arrays(lists, names=[str(at) for at in range(len(lists))])
        with self._session().cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(statement, batch)
            return [value for (value,) in cursor.fetchall()]

    def _session(self) -> Any:
        if self._opened is None:
            from spark_jobs.formats.database.postgres import loading

            driver = importlib.import_module("adbc_driver_postgresql.dbapi")
            self._opened = driver.connect(self._connection.uri, autocommit=True)
            weakref.finalize(self, self._opened.close)
            for setting in _SETTINGS:
                loading.run(self._opened, setting.format(lock=loading.LOCK_S))
        return self._opened


def _askable(written: pa.Schema) -> list[str]:
    """The columns whose values a statement can have many of: arrays among many values cannot be told apart."""
    return [field.name for field in written if not pa.types.is_list(field.type)]


def _whole(array: pa.Array) -> pa.Array:
    """An array that starts where its buffers start, as the driver reads it."""
    return pc.take(array, pa.array(range(len(array)), pa.int64())) if array.offset else array


def _said(problem: Exception) -> str:
    """The words of the database about one value."""
    text = " ".join(str(problem).split())
    return text.rpartition("ERROR: ")[2].partition(" SQLSTATE")[0].strip()
