"""SQLite: tables read by ranges of their row ids; each value keeps its own type.

A column of SQLite has no type that binds its values. A database that somebody writes to while a run reads it ends the
run: no snapshot of it can be shared.
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from spark_jobs.cxl import types, values
from spark_jobs.formats.database.tables import (
    Column,
    DiscoveredTables,
    How,
    IncrementalColumn,
    Part,
    Slice,
    Table,
    TooLong,
    UnfitOptions,
    boundless,
    quoted,
    without_value,
)
from spark_jobs.scan import bookmarks, files
from spark_jobs.scan.connections import FAILED
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.database.options import DatabaseRead
    from spark_jobs.formats.typed.records import Found as FoundArray
    from spark_jobs.scan.connections import Connection

#: A batch has so many rows at most, and as few as one with long values.
_MOST_ROWS = 1 << 14
_VALUE_BYTES = 50
#: SQLite applies its limit to statements and sort keys, too.
_LEAST_ROW_BYTES = 1 << 20
_LOOKED_AT = 16
_NO_TEXT = re.compile(r"Could not decode to UTF-8 column '(.*?)' with text ", re.DOTALL)
#: Texts that tell a time, as SQLite's own functions read and write them.
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d(?:(?P<between>[ T])\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?P<offset>Z|[+-]\d\d:\d\d)?)?"
)


def path_of(connection: Connection) -> str:
    """The file of a database."""
    return connection.uri.removeprefix("sqlite:///")


def refuse_missing(path: str) -> None:
    """Say where a database was looked for that is not there: SQLite only says that it cannot open it.

    Raises:
        sqlite3.OperationalError: there is no file, or a folder.
    """
    if os.path.isdir(path):
        raise sqlite3.OperationalError(f"{path} is a folder: name the file of the database")
    if not os.path.exists(path):
        text = "with three slashes (sqlite:///shop.db) its path starts at the base folder, with four it is absolute"
        raise sqlite3.OperationalError(f"there is no file {path}; correct the URI: {text} (sqlite:////data/shop.db)")


def _state(path: str) -> str:
    """Give a fingerprint of the file and its write-ahead log; it differs once somebody has written."""
    found = []
    for each in (path, f"{path}-wal"):
        try:
            status = os.stat(each)
            # A log without content comes and goes with sessions.
            found.append(f"{status.st_ino}.{status.st_size}.{status.st_mtime_ns}" if status.st_size else "")
        except FileNotFoundError:
            found.append("")
    return ":".join(found)


@contextmanager
def _opened(connection: Connection, part: Part | None = None) -> Iterator[sqlite3.Connection]:
    """The database, for reading alone; one that is not in the state of a part any more ends the run.

    Raises:
        FormatError: it cannot be read (E911), or was changed (E907).
    """
    path = path_of(connection)
    name = path if part is None else part.name
    try:
        refuse_missing(path)
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


def look(
    connection: Connection, options: DatabaseRead, incremental: IncrementalColumn | None = None
) -> DiscoveredTables:
    """The table that a source reads, or its ranges.

    Args:
        connection: where it is.
        options: the options of the source.
        incremental: which rows are wanted, where not all are.

    Raises:
        FormatError: the database cannot be read, or has no such table (E911).
        Unfit: the table has no such column, or rows have no value in it.
    """
    snapshot = _state(path_of(connection))
    with _opened(connection) as opened:
        if options.query:
            part = Part(f"({options.query.strip().rstrip(';')}\n)", "query", 1, snapshot=snapshot)
        else:
            schema, table = named(opened, options.table)
            relation = f"{quoted(schema)}.{quoted(table)}" if schema else quoted(table)
            size = os.path.getsize(path_of(connection))
            part = Part(relation, options.table, size, snapshot=snapshot, span=_span(opened, relation))
        columns = [
            Column(each[0], "", How.PLAIN)
            for each in opened.execute(f"SELECT * FROM {part.relation} LIMIT 0").description
        ]
        through = None
        if incremental is not None:
            part, through = _grown(opened, part, columns, incremental)
        parts = _in_ranges(opened, part, columns, options) if options.partition_by else [part]
        return DiscoveredTables(tuple(Table(connection, each, tuple(columns)) for each in parts), through)


def named(opened: sqlite3.Connection, table: str) -> tuple[str, str]:
    """Split a name into schema, empty for none, and table; the name of a table may have points itself."""
    text = "SELECT 1 FROM main.sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE"
    if opened.execute(text, (table,)).fetchone():
        return "", table
    schema, _, name = table.rpartition(".")
    return schema, name


def _grown(
    opened: sqlite3.Connection, part: Part, columns: Sequence[Column], incremental: IncrementalColumn
) -> tuple[Part, int | float | str | None]:
    """The part with the condition of new rows, and the greatest value of these."""
    if incremental.column not in [column.name for column in columns]:
        raise UnfitOptions(f"`incremental.column: {incremental.column}` is no column of the table")
    if incremental.delay_s:
        raise UnfitOptions(
            "`incremental.delay` needs a column of times, and SQLite has no such type: leave `delay` out"
        )
    name = quoted(incremental.column)
    if opened.execute(f"SELECT 1 FROM {part.relation} WHERE {name} IS NULL LIMIT 1").fetchone():
        raise without_value(incremental.column)
    (example,) = opened.execute(f"SELECT max({name}) FROM {part.relation}").fetchone()
    conditions = []
    if incremental.since is not None:
        conditions.append(
            f"{name} >= {_literal(_bound(incremental.since, example, incremental, 'since'), incremental)}"
        )
    elif incremental.after is not None:
        conditions.append(f"{name} > {_literal(incremental.after, incremental)}")
    if incremental.until is not None:
        conditions.append(f"{name} < {_literal(_bound(incremental.until, example, incremental, 'until'), incremental)}")
    where = " AND ".join(conditions) or "true"
    (greatest,) = opened.execute(f"SELECT max({name}) FROM {part.relation} WHERE {where}").fetchone()
    if greatest is None:
        return replace(part, size=0, span=None), None
    condition = " AND ".join([*conditions, f"{name} <= {_literal(greatest, incremental)}"])
    through = greatest
    if incremental.since is not None and incremental.after is not None:
        bounds = (
            _literal(_bound(incremental.since, example, incremental, "since"), incremental),
            _literal(incremental.after, incremental),
        )
        last = _literal(greatest, incremental)
        text = f"SELECT {bounds[0]} <= {bounds[1]}, max({bounds[1]}, {last})"
        is_joined, furthest = opened.execute(text).fetchone()
        through = furthest if is_joined else None
    return replace(part, condition=condition), through


def _bound(text: str, example: object, incremental: IncrementalColumn, option: str) -> int | float | str:
    """A bound of the command line as a value like others of the column."""
    if isinstance(example, str) and (layout := _MOMENT.fullmatch(example)):
        return _moment(text, layout, incremental, option)
    if not isinstance(example, (int, float)):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    raise UnfitOptions(f"--{option} {text} is no number, as `{incremental.column}` has them")


def _moment(text: str, layout: re.Match[str], incremental: IncrementalColumn, option: str) -> str:
    """A bound as the column spells times, since texts are compared letter by letter.

    It ends where nothing but zeros follows, so it is not greater than a longer spelling of the same time.
    """
    try:
        found = bookmarks.time(text)
    except ValueError:
        raise UnfitOptions(f"--{option} {text} is no date or time, as `{incremental.column}` has them") from None
    if layout["offset"]:
        found = found.astimezone(datetime.fromisoformat(layout[0]).tzinfo)
    day, moment = f"{found:%Y-%m-%d}", f"{found:%H:%M:%S.%f}".rstrip("0").rstrip(".").removesuffix(":00")
    return day if moment == "00:00" else f"{day}{layout['between'] or ' '}{moment}"


def _literal(value: object, incremental: IncrementalColumn) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise boundless(incremental.column, value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str) and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    raise UnfitOptions(
        f"`{incremental.column}` has bytes or a text that cannot be shown, and such values cannot be remembered"
    )


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
        raise UnfitOptions(f"`partition_by: {name}` is no column of numbers: there is none")
    column = quoted(name)
    first, last = opened.execute(
        f"SELECT min({column}), max({column}) FROM {whole.relation} WHERE typeof({column}) IN ('integer', 'real') "
        f"AND {whole.condition or 'true'}"
    ).fetchone()
    part = replace(whole, span=None)
    if first is None:
        return [part]
    count = options.partitions
    borders = [*dict.fromkeys(first + (last - first) * at / count for at in range(1, count))]
    is_number = f"typeof({column}) IN ('integer', 'real')"
    conditions = [f"(NOT {is_number} OR {column} < {borders[0]!r})"]
    conditions += [f"{is_number} AND {column} >= {low!r} AND {column} < {high!r}" for low, high in pairwise(borders)]
    conditions.append(f"{is_number} AND {column} >= {borders[-1]!r}")
    return [part.ranged(condition, number, len(conditions)) for number, condition in enumerate(conditions, 1)]


def _text(wanted: Slice, what: str) -> str:
    part = wanted.part
    found = [part.condition] if part.condition else []
    if part.span is not None:
        low, high = part.span
        first, last = (low + (high - low + 1) * place // part.size for place in (wanted.start, wanted.end))
        found.append(f"_rowid_ >= {first}")
        if not wanted.is_last:
            found.append(f"_rowid_ < {last}")
    where = f" WHERE {' AND '.join(found)}" if found else ""
    order = " ORDER BY _rowid_" if part.span is not None and what != "count(*)" else ""
    return f"SELECT {what} FROM {part.relation}{where}{order}"


def batches(wanted: Slice, columns: Sequence[Column]) -> Iterator[tuple[int, list[FoundArray]]]:
    """The rows of a slice: how many, and their columns, of any values where they differ.

    Raises:
        FormatError: the database cannot be read (E911), or was changed (E907).
        TooLong: a row is longer than it may be.
    """
    what = ", ".join(quoted(column.name) for column in columns) or "1"
    rows = max(1, min(_MOST_ROWS, wanted.most_bytes // (_VALUE_BYTES * max(1, len(columns)))))
    with _opened(wanted.connection, wanted.part) as opened:
        opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(wanted.row_bytes, _LEAST_ROW_BYTES))
        # The usual one is faster, and a text that it does not take is none that a run can read.
        opened.text_factory = str
        cells = _Cells(len(columns))
        try:
            cursor = opened.execute(_text(wanted, what))
            while found := cells.fetched(cursor, rows, wanted.most_bytes):
                arrays = [
                    _array(each, wanted.part, column)
                    for each, column in zip(zip(*found, strict=True), columns, strict=False)
                ]
                cells.note(arrays)
                yield len(found), arrays
        except sqlite3.DataError as problem:
            if problem.sqlite_errorcode == sqlite3.SQLITE_TOOBIG:
                raise TooLong from None
            raise
        except sqlite3.OperationalError as problem:
            if (named := _NO_TEXT.match(str(problem))) is None:
                raise
            raise FormatError(_no_text(named[1]), wanted.part.name, FAILED) from None


class _Cells:
    """Fetches rows until their texts and bytes are many, wherever these are: a column may have values of any type."""

    def __init__(self, count: int) -> None:
        #: The columns that may have texts and bytes; of the others one row in some is looked at.
        self._wide = [*range(count)]

    def fetched(self, cursor: sqlite3.Cursor, most: int, most_bytes: int) -> list[tuple[Any, ...]]:
        """The next rows, limited by their number and by their bytes."""
        found: list[tuple[Any, ...]] = []
        size, wide = 0, self._wide
        for row in islice(cursor, most):
            if not len(found) % _LOOKED_AT:
                wide = sorted({*wide, *(at for at, value in enumerate(row) if value.__class__ in (str, bytes))})
            found.append(row)
            for at in wide:
                value = row[at]
                if value.__class__ is str or value.__class__ is bytes:
                    size += len(value)
            if size >= most_bytes:
                break
        return found

    def note(self, arrays: Sequence[FoundArray]) -> None:
        """Take note of the columns that have numbers alone."""
        self._wide = [
            at
            for at, (array, static) in enumerate(arrays)
            if static not in (types.INT, types.FLOAT) or array.null_count == len(array)
        ]


#: What values of one class are here.
_ALONE: tuple[tuple[type, pa.DataType, Type], ...] = (
    (int, pa.int64(), types.INT),
    (float, pa.float64(), types.FLOAT),
    (str, pa.string(), types.STRING),
    (bytes, pa.binary(), types.STRING),
)


def _array(found: Sequence[Any], part: Part, column: Column) -> FoundArray:
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
        text = _no_text(column.name)
    raise FormatError(text, part.name, FAILED)


def _no_text(column: str) -> str:
    return f"column '{column}' has a text that is not UTF-8; read it as `hex({column})` in a `query`"


def count(wanted: Slice) -> int:
    """Count the rows of a slice.

    Raises:
        FormatError: the database cannot be read (E911), or was changed (E907).
    """
    with _opened(wanted.connection, wanted.part) as opened:
        return int(opened.execute(_text(wanted, "count(*)")).fetchone()[0])
