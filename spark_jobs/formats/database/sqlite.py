"""SQLite: tables read by ranges of their row ids, each value what it is.

A column of SQLite has no type that binds its values. A database that somebody writes to while a run reads it ends the
run: no snapshot of it can be shared.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from spark_jobs.cxl import types, values
from spark_jobs.formats.database.tables import Column, How, Part, Table, Unfit, quoted
from spark_jobs.scan import files
from spark_jobs.scan.connections import FAILED
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.database.options import DatabaseRead
    from spark_jobs.formats.typed.records import Found
    from spark_jobs.scan.connections import Connection

#: A batch has so many rows at most, and as few as one with long values.
_MOST_ROWS = 1 << 14
_VALUE_BYTES = 50


def _path(connection: Connection) -> str:
    return connection.uri.removeprefix("sqlite:///")


def _state(path: str) -> str:
    """What differs once somebody has written: of the file, and of the log of what is not in it yet."""
    found = []
    for each in (path, f"{path}-wal"):
        try:
            status = os.stat(each)
            found.append(f"{status.st_ino}.{status.st_size}.{status.st_mtime_ns}")
        except FileNotFoundError:
            found.append("")
    return ":".join(found)


@contextmanager
def _opened(connection: Connection, part: Part | None = None) -> Iterator[sqlite3.Connection]:
    """The database, for reading alone; one that is not in the state of a part any more ends the run.

    Raises:
        FormatError: it cannot be read (E911), or was changed (E907).
    """
    path = _path(connection)
    name = path if part is None else part.name
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as opened:
            opened.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
            _check(path, part)
            yield opened
            _check(path, part)
    except sqlite3.Error as problem:
        raise connection.failed(problem, name) from None


def _check(path: str, part: Part | None) -> None:
    if part is not None and _state(path) != part.snapshot:
        text = f"the database {path} was written to, while the run was reading it; read a copy of it (`VACUUM INTO`)"
        raise FormatError(text, part.name, files.CHANGED)


def look(connection: Connection, options: DatabaseRead) -> list[Table]:
    """The table that a source reads, or its ranges.

    Raises:
        FormatError: the database cannot be read, or has no such table (E911).
    """
    snapshot = _state(_path(connection))
    with _opened(connection) as opened:
        if options.query:
            part = Part(f"({options.query.strip().rstrip(';')}\n)", "query", 1, snapshot=snapshot)
        else:
            schema, _, table = options.table.rpartition(".")
            relation = f"{quoted(schema)}.{quoted(table)}" if schema else quoted(table)
            size = os.path.getsize(_path(connection))
            part = Part(relation, options.table, size, snapshot=snapshot, span=_span(opened, relation))
        columns = [
            Column(each[0], "", How.PLAIN)
            for each in opened.execute(f"SELECT * FROM {part.relation} LIMIT 0").description
        ]
        if not options.partition_by:
            return [Table(connection, part, tuple(columns))]
        return [Table(connection, each, tuple(columns)) for each in _in_ranges(opened, part, columns, options)]


def _span(opened: sqlite3.Connection, relation: str) -> tuple[int, int] | None:
    """The first and the last row id of a table; None of views and of tables without."""
    try:
        first, last = opened.execute(f"SELECT min(_rowid_), max(_rowid_) FROM {relation}").fetchone()
    except sqlite3.OperationalError:
        return None
    return None if first is None or not isinstance(first, int) else (first, last)


def _in_ranges(opened: sqlite3.Connection, whole: Part, columns: Sequence[Column], options: DatabaseRead) -> list[Part]:
    name = options.partition_by
    if name not in [column.name for column in columns]:
        raise Unfit(f"`partition_by: {name}` is no column of numbers: there is none")
    column = quoted(name)
    first, last = opened.execute(
        f"SELECT min({column}), max({column}) FROM {whole.relation} WHERE typeof({column}) IN ('integer', 'real')"
    ).fetchone()
    part = Part(whole.relation, whole.name, whole.size, snapshot=whole.snapshot)
    if first is None:
        return [part]
    count = options.partitions
    borders = [*dict.fromkeys(first + (last - first) * at / count for at in range(1, count))]
    is_number = f"typeof({column}) IN ('integer', 'real')"
    conditions = [f"(NOT {is_number} OR {column} < {borders[0]!r})"]
    conditions += [f"{is_number} AND {column} >= {low!r} AND {column} < {high!r}" for low, high in pairwise(borders)]
    conditions.append(f"{is_number} AND {column} >= {borders[-1]!r}")
    return [part.ranged(condition, number, len(conditions)) for number, condition in enumerate(conditions, 1)]


def _text(part: Part, what: str, start: int, end: int, *, is_last: bool) -> str:
    found = [part.condition] if part.condition else []
    if part.span is not None:
        low, high = part.span
        first, last = (low + (high - low + 1) * place // part.size for place in (start, end))
        found.append(f"_rowid_ >= {first}")
        if not is_last:
            found.append(f"_rowid_ < {last}")
    where = f" WHERE {' AND '.join(found)}" if found else ""
    order = " ORDER BY _rowid_" if part.span is not None and what != "count(*)" else ""
    return f"SELECT {what} FROM {part.relation}{where}{order}"


def batches(
    connection: Connection,
    part: Part,
    columns: Sequence[Column],
    start: int,
    end: int,
    *,
    is_last: bool,
    most_bytes: int,
) -> Iterator[tuple[int, list[Found]]]:
    """The rows of a part that stand in some of its bytes: how many, and their columns, of any values where they differ.

    Raises:
        FormatError: the database cannot be read (E911), or was changed (E907).
    """
    what = ", ".join(quoted(column.name) for column in columns) or "1"
    rows = max(1, min(_MOST_ROWS, most_bytes // (_VALUE_BYTES * max(1, len(columns)))))
    with _opened(connection, part) as opened:
        cursor = opened.execute(_text(part, what, start, end, is_last=is_last))
        while found := cursor.fetchmany(rows):
            pairs = zip(zip(*found, strict=True), columns, strict=False)
            yield len(found), [_array(each, part, column) for each, column in pairs]


#: What values of one class are here.
_ALONE: tuple[tuple[type, pa.DataType, Type], ...] = (
    (int, pa.int64(), types.INT),
    (float, pa.float64(), types.FLOAT),
    (str, pa.string(), types.STRING),
    (bytes, pa.binary(), types.STRING),
)


def _array(found: Sequence[Any], part: Part, column: Column) -> Found:
    """A column of one type where all values are of it, else of values of any kind."""
    kinds = {type(value) for value in found} - {type(None)}
    try:
        if not kinds:
            return pa.nulls(len(found), pa.string()), types.ANY
        for kind, arrow, static in _ALONE:
            if kinds == {kind}:
                return pa.array(found, arrow), static
        if bytes not in kinds:
            return values.to_arrow(found, types.ANY), types.ANY
        text = f"column '{column.name}' has bytes among other values; convert them in a `query`"
    except UnicodeEncodeError:
        text = f"column '{column.name}' has a text that is not UTF-8; read it as `hex({column.name})` in a `query`"
    raise FormatError(text, part.name, FAILED)


def count(connection: Connection, part: Part, start: int, end: int, *, is_last: bool) -> int:
    """How many rows that are.

    Raises:
        FormatError: the database cannot be read (E911), or was changed (E907).
    """
    with _opened(connection, part) as opened:
        return int(opened.execute(_text(part, "count(*)", start, end, is_last=is_last)).fetchone()[0])
