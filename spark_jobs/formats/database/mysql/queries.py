"""Queries that find the records MySQL or MariaDB would refuse, before these are sent.

A task puts the records into a temporary table with the types, character sets and collations of the real one. So the
database itself says whether it accepts a value, and which values it treats as equal. Refused records are found by
bisection, so that each refusal belongs to one record. The answers hold for the moment of asking.
"""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.formats.database.mysql import columns
from spark_jobs.formats.database.mysql.loading import ROW, column_definition, run, session, statements_of, waiting
from spark_jobs.formats.database.mysql.reading import quoted, translated_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.database.targets import Constraint, Target, TargetColumn
    from spark_jobs.scan.connections import Connection

#: Error numbers for a value that a column or a CHECK constraint refuses.
_ABOUT_VALUES = frozenset(
    [1048, 1264, 1265, 1292, 1366, 1367, 1406, 1411, 1416, 1525, 1690, 3140, 3156, 3819, 4025, 4078]
)
#: Errors that say that the question cannot be asked: no right, no such table or column, a condition that is not read.
_CANNOT = frozenset([1044, 1054, 1064, 1142, 1143, 1146, 1267, 1270, 1271, 1305, 1356, 1370])
_COLUMN = re.compile(r"column '([^']+)'|column `[^`]*`\.`[^`]*`\.`([^`]+)`")


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
        self._opened: Any = None
        self._tables: dict[tuple[str, ...], str] = {}
        self._columns = {column.name: column for column in target.columns}

    def rows(self, found: pa.RecordBatch) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """The records that the table refuses: the row, why, and the columns that tell.

        Raises:
            FormatError: the database fails (E911).
        """
        names = found.schema.names
        constraints = [
            each
            for each in self._target.constraints
            if each.is_decided_by(names, self._key, replaces=self._replaces)
        ]  # fmt: skip
        unsure = [
            name
            for name, array in zip(names, found.columns, strict=True)
            if columns.is_unsure(self._columns[name], array)
        ]
        asked = tuple(dict.fromkeys([*unsure, *(name for each in constraints for name in each.asked_for(self._key))]))
        if not (asked or constraints) or not found.num_rows:
            return
        asked = asked or (names[0],)  # a check without columns
        with waiting(self._connection), translated_errors(self._connection, self._target.name):
            table = self._table(asked)
            run(self._session(), f"DELETE FROM {table}")
            yield from self._refused(table, asked, found)
            for each in constraints:
                for row in self._against(each, table):
                    yield row, each.why, each.columns

    def weights(self, column: TargetColumn, texts: pa.StringArray) -> pa.Array:
        """Texts that are the same where the column's collation has them so: their weights, in hexadecimal digits.

        Args:
            column: the column.
            texts: texts that it takes.

        Raises:
            FormatError: the database fails (E911).
        """
        codes = texts.dictionary_encode()
        known = columns.literals(column, codes.dictionary)
        name = quoted(column.name)
        compared = f"TRIM(TRAILING ' ' FROM {name})" if columns.pads(column) else name
        with waiting(self._connection), translated_errors(self._connection, self._target.name):
            table = self._table((column.name,))
            run(self._session(), f"DELETE FROM {table}")
            lines = (f"({each},{row})" for row, each in enumerate(known))
            for statement in statements_of(f"INSERT INTO {table} VALUES ", lines, self._target.most_bytes):
                run(self._session(), statement)
            rows = run(self._session(), f"SELECT HEX(WEIGHT_STRING({compared})) FROM {table} ORDER BY {quoted(ROW)}")
        weights = [weight.decode() if isinstance(weight, bytes) else weight for (weight,) in rows]
        return pa.array(weights, pa.string()).take(codes.indices)

    def _refused(
        self, table: str, asked: Sequence[str], found: pa.RecordBatch
    ) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Insert records into the temporary table; returns the refused ones."""
        import pymysql

        values = [columns.literals(self._columns[name], found.column(name)) for name in asked]
        lines = [f"({','.join(each)},{row})" for row, each in enumerate(zip(*values, strict=True))]
        waiting_for = [range(found.num_rows)]
        start = f"INSERT INTO {table} VALUES "
        while waiting_for:
            some = waiting_for.pop()
            try:
                for statement in statements_of(start, (lines[at] for at in some), self._target.most_bytes):
                    run(self._session(), statement)
            except pymysql.Error as problem:
                if not problem.args or problem.args[0] not in _ABOUT_VALUES:
                    raise
                # Statements before this one may have put some of them there.
                run(self._session(), f"DELETE FROM {table} WHERE {quoted(ROW)} BETWEEN {some[0]} AND {some[-1]}")
                if len(some) == 1:
                    told_of = _COLUMN.search(str(problem.args[1]))
                    name = next(filter(None, told_of.groups())) if told_of else ""
                    yield some[0], f"the database says: {problem.args[1]}", (name,) if name in asked else tuple(asked)
                else:
                    half = len(some) // 2
                    waiting_for += [some[half:], some[:half]]

    def _against(self, constraint: Constraint, table: str) -> list[int]:
        import pymysql

        refusing = constraint.refusing(self._target.relation, self._key, quoted)
        try:
            found = run(self._session(), f"SELECT r.{quoted(ROW)} FROM {table} r WHERE {refusing} ORDER BY 1")
        except pymysql.Error as problem:
            if problem.args and problem.args[0] in _CANNOT:
                return []
            raise
        return [row for (row,) in found]

    def _table(self, asked: tuple[str, ...]) -> str:
        known = self._tables.get(asked)
        if known is None:
            name = f"clinker_ask_{len(self._tables)}"
            known = self._tables[asked] = f"{quoted(self._target.schema)}.{quoted(name)}"
            definitions = [column_definition(self._columns[each]) for each in asked]
            definitions.append(f"{quoted(ROW)} bigint NOT NULL PRIMARY KEY")
            run(self._session(), f"CREATE TEMPORARY TABLE {known} ({', '.join(definitions)}) ENGINE=InnoDB")
        return known

    def _session(self) -> Any:
        if self._opened is None:
            self._opened = session(self._connection, "READ COMMITTED")
            weakref.finalize(self, self._opened.close)
        return self._opened
