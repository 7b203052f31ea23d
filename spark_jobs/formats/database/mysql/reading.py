"""MySQL and MariaDB: tables and statements, read as a whole or by ranges of a column.

These databases have no snapshot that several sessions share. Each task reads in a snapshot of its own, which is the
state of the moment at which the task begins. Rows of a table come in the order of its primary key.
"""

from __future__ import annotations

import configparser
import decimal
import importlib
import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values
from spark_jobs.cxl.written_numbers import number_of
from spark_jobs.formats.database.tables import (
    Column,
    DiscoveredTables,
    How,
    IncrementalColumn,
    Part,
    Slice,
    Table,
    UnfitOptions,
    boundless,
    without_value,
)
from spark_jobs.scan import bookmarks
from spark_jobs.scan.connections import FAILED
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.database.options import DatabaseRead
    from spark_jobs.formats.typed.records import Found as FoundArray
    from spark_jobs.scan.connections import Connection

#: How a session sees and shows values; a slow reader is waited for.
_SETTINGS = (
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION net_write_timeout = 86400",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)
_MOST_ROWS = 1 << 14
_VALUE_BYTES = 50
#: The numbers that the protocol has for types.
_NAMES = {
    0: "decimal", 1: "int", 2: "int", 3: "int", 4: "float", 5: "double", 6: "null", 7: "timestamp", 8: "int",
    9: "int", 10: "date", 11: "time", 12: "datetime", 13: "year", 14: "date", 15: "text", 16: "bit", 245: "json",
    246: "decimal", 247: "text", 248: "text", 249: "text", 250: "text", 251: "text", 252: "text", 253: "text",
    254: "text", 255: "geometry",
}  # fmt: skip
_RANGED = frozenset(["int", "decimal", "double", "float", "year", "date", "datetime", "timestamp"])
_NUMBERS = frozenset(["int", "decimal", "year"])
_MOMENTS = frozenset(["date", "datetime", "timestamp"])
_GROWING = _NUMBERS | _MOMENTS | {"text"}
#: Types whose values may have any length.
_WIDE = frozenset(["text", "json", "geometry"])
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
#: Moments that a calendar has, from the year 1 on.
_REAL = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TABLE = """
SELECT t.data_length FROM information_schema.tables t
WHERE t.table_schema = coalesce(%s, database()) AND t.table_name = %s"""
_KEY = """
SELECT s.column_name FROM information_schema.statistics s
WHERE s.table_schema = coalesce(%s, database()) AND s.table_name = %s AND s.index_name = 'PRIMARY'
ORDER BY s.seq_in_index"""

#: MariaDB keeps JSON as texts, and says by a check that they are.
_JSON = """
SELECT c.constraint_name FROM information_schema.check_constraints c
WHERE c.constraint_schema = coalesce(%s, database()) AND c.table_name = %s
    AND c.check_clause = concat('json_valid(`', c.constraint_name, '`)')"""


def quoted(name: str) -> str:
    """A name as statements have it."""
    return "`" + name.replace("`", "``") + "`"


def relation_of(table: str) -> tuple[str | None, str]:
    """The database, where one is named, and the name of a table; either may stand between backticks."""
    names = [""]
    is_quoted = False
    for at, character in enumerate(table):
        if character == "`":
            is_quoted = not is_quoted
            if is_quoted and at and table[at - 1] == "`":
                names[-1] += "`"
        elif character == "." and not is_quoted:
            names.append("")
        else:
            names[-1] += character
    if len(names) > 2 or is_quoted or not all(names):
        raise UnfitOptions(f"`table: {table}` is no name of a table; write `table` or `database.table`")
    return (names[0] if len(names) == 2 else None), names[-1]


@contextmanager
def translated_errors(connection: Connection, name: str = "") -> Iterator[None]:
    """Translate errors of the driver into diagnostics.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    import pymysql

    try:
        yield
    except (pymysql.Error, OSError, RuntimeError) as problem:
        said = problem.args[1] if len(problem.args) > 1 else problem
        number = f" ({problem.args[0]})" if isinstance(problem, pymysql.Error) and len(problem.args) > 1 else ""
        raise connection.failed(f"{said}{number}", name) from None


def connected(connection: Connection) -> Any:
    """Open a session of a connection; settings that its URI lacks come from `~/.my.cnf`.

    Raises:
        FormatError: a parameter of the URI is unknown (E911).
    """
    parts = urlsplit(connection.uri)
    given: dict[str, Any] = {"charset": "utf8mb4", "use_unicode": True, "autocommit": True, "conv": _texts()}
    for key, value in (("user", parts.username), ("password", parts.password), ("host", parts.hostname)):
        if value is not None:
            given[key] = unquote(value)
    if parts.port:
        given["port"] = parts.port
    if name := unquote(parts.path.removeprefix("/")):
        given["database"] = name
    defaults = Path("~/.my.cnf").expanduser()
    if defaults.is_file():
        given["read_default_file"] = str(defaults)
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        given |= _parameter(connection, key, value, dict(parse_qsl(parts.query)).get("ssl-ca"))
    try:
        return importlib.import_module("pymysql").connect(**given)
    except configparser.Error:
        # Its words quote lines, which may be passwords.
        raise connection.failed(f"{defaults} is no file of options: each must stand below a [group], once") from None
    except ValueError as problem:
        raise connection.failed(problem) from None  # a host that has no form of one


def _parameter(connection: Connection, key: str, value: str, authority: str | None) -> dict[str, Any]:
    match key:
        case "socket":
            return {"unix_socket": value}
        case "connect-timeout" if value.isdecimal() and int(value):
            return {"connect_timeout": int(value)}
        case "ssl-ca":
            return {}
        case "ssl-mode" if value.upper() in _SSL:
            return (
                {"ssl": _SSL[value.upper()](authority)} if _SSL[value.upper()] is not None else {"ssl_disabled": True}
            )
    raise connection.failed(
        f"the URI has `{key}={value if key == 'ssl-mode' else '…'}`, which is not known: there are `ssl-mode` "
        f"({', '.join(_SSL)}), `ssl-ca`, `socket` and `connect-timeout`"
    )


def _context(authority: str | None, *, checks_name: bool, checks: bool) -> Any:
    import ssl

    found = ssl.create_default_context(cafile=authority)
    found.check_hostname = checks_name
    found.verify_mode = ssl.CERT_REQUIRED if checks else ssl.CERT_NONE
    return found


_SSL: dict[str, Any] = {
    "DISABLED": None,
    "REQUIRED": lambda authority: _context(authority, checks_name=False, checks=False),
    "VERIFY_CA": lambda authority: _context(authority, checks_name=False, checks=True),
    "VERIFY_IDENTITY": lambda authority: _context(authority, checks_name=True, checks=True),
}


def _texts() -> dict[Any, Any]:
    """Return PyMySQL's converters: the usual ones for parameters, and for results only the converters of numbers."""
    converters = importlib.import_module("pymysql.converters")
    found: dict[Any, Any] = dict(converters.encoders)
    found |= dict.fromkeys((1, 2, 3, 8, 9, 13), int)
    found |= dict.fromkeys((4, 5), float)
    return found


@contextmanager
def _opened(connection: Connection, name: str = "") -> Iterator[Any]:
    """A session in a snapshot of its own."""
    with translated_errors(connection, name):
        opened = connected(connection)
        try:
            for setting in _SETTINGS:
                rows(opened, setting)
            yield opened
        finally:
            opened.close()


def rows(opened: Any, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement; returns its rows, none for a statement that has no result."""
    with opened.cursor() as cursor:
        cursor.execute(text, values or None)
        return [*cursor.fetchall()]


def release() -> None:
    """Nothing is held open between tasks."""


def look(
    connection: Connection, options: DatabaseRead, incremental: IncrementalColumn | None = None
) -> DiscoveredTables:
    """The table that a source reads, or its ranges.

    Raises:
        FormatError: the database refuses or fails, or has no such table (E911).
        Unfit: the table has no such column, or rows have no value in it.
    """
    with _opened(connection) as opened:
        ((moment,),) = rows(opened, "SELECT UTC_TIMESTAMP(6)")
        schema, table = relation_of(options.table) if options.table else (None, "")
        if options.query:
            relation = f"({options.query.strip().rstrip(';')}\n) AS clinker_query"
            part = Part(relation, "query", 1, snapshot=_text(moment))
        else:
            known = rows(opened, _TABLE, schema, table)
            if not known:
                raise connection.failed(f"there is no table `{options.table}`, or no right to see it")
            key = ", ".join(quoted(_text(name)) for (name,) in rows(opened, _KEY, schema, table))
            relation = ".".join(quoted(each) for each in (schema, table) if each)
            part = Part(relation, options.table, max(1, int(known[0][0] or 1)), snapshot=_text(moment), order=key)
        columns = _columns(opened, part.relation)
        if options.table and "MariaDB" in _text(rows(opened, "SELECT VERSION()")[0][0]):
            are_json = {_text(name) for (name,) in rows(opened, _JSON, schema, table)}
            columns = [replace(each, kind="json", how=How.JSON) if each.name in are_json else each for each in columns]
        through = None
        if incremental is not None:
            part, through = _grown(opened, part, columns, incremental)
        parts = _in_ranges(opened, part, columns, options) if options.partition_by else [part]
        return DiscoveredTables(tuple(Table(connection, each, tuple(columns)) for each in parts), through)


def _text(value: Any) -> str:
    """Names of the schema come as bytes from some servers."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _columns(opened: Any, relation: str) -> list[Column]:
    with opened.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {relation} LIMIT 0")
        found = []
        for name, number, *_ in cursor.description:
            kind = _NAMES.get(number, "text")
            how = {"json": How.JSON, "geometry": How.TEXT}.get(kind, How.PLAIN)
            found.append(Column(name, kind, how))
        return found


def _column(columns: Sequence[Column], name: str, kinds: frozenset[str], option: str, wanted: str) -> Column:
    column = next((each for each in columns if each.name == name), None)
    if column is None or column.kind not in kinds:
        what = "there is none" if column is None else f"it is of the type {column.kind}"
        raise UnfitOptions(f"`{option}: {name}` is no column of {wanted}: {what}")
    return column


def _in_ranges(opened: Any, whole: Part, columns: Sequence[Column], options: DatabaseRead) -> list[Part]:
    """The rows cut by the values of a column into ranges of equal width."""
    chosen = _column(columns, options.partition_by, _RANGED, "partition_by", "numbers, dates or moments")
    column, count = quoted(chosen.name), options.partitions
    is_moment = chosen.kind in _MOMENTS
    # Moments are cut by microseconds, which are whole numbers.
    origin = "'0001-01-01'"
    least, most = f"min({column})", f"max({column})"
    where = f"({whole.condition or 'true'})"
    if is_moment:
        least, most = (f"TIMESTAMPDIFF(MICROSECOND, {origin}, {each})" for each in (least, most))
        where += f" AND {column} >= {origin}"
    ((low, high),) = rows(opened, f"SELECT {least}, {most} FROM {whole.relation} WHERE {where}")
    if low is None:
        return [whole]
    if chosen.kind in ("double", "float"):
        # Shares are added: the width of all values may be more than a float holds.
        borders = [repr(low * (1 - at / count) + high * (at / count)) for at in range(1, count)]
    else:
        first, last = decimal.Decimal(_text(low)), decimal.Decimal(_text(high))
        with decimal.localcontext(decimal.Context(prec=80)):
            borders = [f"{first + (last - first) * at / count:.10f}" for at in range(1, count)]
    if is_moment:
        borders = [f"TIMESTAMPADD(MICROSECOND, {border.partition('.')[0]}, {origin})" for border in borders]
    known = [*dict.fromkeys(borders)]
    conditions = [
        " AND ".join([*([f"{column} >= {low}"] if low else []), *([f"{column} < {high}"] if high else [])])
        for low, high in zip([None, *known], [*known, None], strict=True)
    ]
    conditions[0] = f"({conditions[0]} OR {column} IS NULL)" if conditions[0] else ""
    return [whole.ranged(condition, number, len(conditions)) for number, condition in enumerate(conditions, 1)]


def _grown(
    opened: Any, part: Part, columns: Sequence[Column], incremental: IncrementalColumn
) -> tuple[Part, str | None]:
    """The part with the condition of new rows, and the greatest value of these, as a text."""
    chosen = _column(columns, incremental.column, _GROWING, "incremental.column", "numbers, moments or texts")
    name, kind = quoted(chosen.name), chosen.kind
    if rows(opened, f"SELECT 1 FROM {part.relation} WHERE {name} IS NULL LIMIT 1"):
        raise without_value(incremental.column)
    conditions = []
    if incremental.since is not None:
        conditions.append(f"{name} >= {_bound(opened, incremental.since, kind, incremental, 'since')}")
    elif incremental.after is not None:
        conditions.append(f"{name} > {_literal(opened, str(incremental.after), kind)}")
    if incremental.until is not None:
        conditions.append(f"{name} < {_bound(opened, incremental.until, kind, incremental, 'until')}")
    settled = [f"{name} < {_settled(kind, incremental)}"] if incremental.delay_s else []
    where = " AND ".join([*conditions, *settled]) or "true"
    ((found,),) = rows(opened, f"SELECT max({name}) FROM {part.relation} WHERE {where}")
    if found is None:
        return replace(part, size=0), None
    if isinstance(found, bytes) and kind == "text":
        raise UnfitOptions(
            f"`incremental.column: {incremental.column}` has bytes: name a column of numbers, moments or texts"
        )
    greatest = _text(found)
    if kind == "text" and not greatest.isprintable():
        raise boundless(incremental.column, repr(greatest))
    condition = " AND ".join([*conditions, f"{name} <= {_literal(opened, greatest, kind)}"])
    through: str | None = greatest
    if incremental.since is not None and incremental.after is not None:
        after = _literal(opened, str(incremental.after), kind)
        since, last = _bound(opened, incremental.since, kind, incremental, "since"), _literal(opened, greatest, kind)
        ((is_joined, is_further),) = rows(opened, f"SELECT {since} <= {after}, {last} >= {after}")
        through = (greatest if is_further else str(incremental.after)) if is_joined else None
    return replace(part, condition=condition), through


def _literal(opened: Any, text: str, kind: str) -> str:
    if kind in _NUMBERS:
        return str(decimal.Decimal(text)) if "E" not in text.upper() else f"{decimal.Decimal(text):f}"
    quoted_text = str(opened.escape(text))
    if kind in _MOMENTS:
        return f"CAST({quoted_text} AS {'DATE' if kind == 'date' else 'DATETIME(6)'})"
    return quoted_text


def _bound(opened: Any, text: str, kind: str, incremental: IncrementalColumn, option: str) -> str:
    """A bound of the command line as a literal.

    Raises:
        Unfit: it is no value of that type.
    """
    if kind in _MOMENTS:
        try:
            found = bookmarks.time(text)
        except ValueError:
            raise UnfitOptions(f"--{option} {text} is no date or time, as `{incremental.column}` has them") from None
        shown = found.date().isoformat() if kind == "date" else found.replace(tzinfo=None).isoformat(sep=" ")
        return _literal(opened, shown, kind)
    if kind in _NUMBERS:
        try:
            if not decimal.Decimal(text).is_finite():
                raise decimal.InvalidOperation
        except decimal.InvalidOperation:
            raise UnfitOptions(f"--{option} {text} is no number, as `{incremental.column}` has them") from None
    return _literal(opened, text, kind)


def _settled(kind: str, incremental: IncrementalColumn) -> str:
    """The moment from which on rows are left to a later run."""
    if kind not in _MOMENTS:
        raise UnfitOptions(
            f"`incremental.delay` needs a column of moments, and `{incremental.column}` is of the type {kind}"
        )
    return f"(UTC_TIMESTAMP(6) - INTERVAL {incremental.delay_s!r} SECOND)"


def _expression(column: Column) -> str:
    name = quoted(column.name)
    if column.kind == "float":
        return f"{name} + 0E0 AS {name}"  # else the server shows six digits
    if column.kind == "bit":
        return f"CAST({name} AS UNSIGNED) AS {name}"
    return f"ST_AsText({name}) AS {name}" if column.kind == "geometry" else name


def _statement(part: Part, what: str) -> str:
    return f"SELECT {what} FROM {part.relation}{f' WHERE {part.condition}' if part.condition else ''}"


def batches(wanted: Slice, columns: Sequence[Column]) -> Iterator[tuple[int, list[FoundArray]]]:
    """The rows of a part, which is read as a whole: how many, and their columns.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    part, most_bytes = wanted.part, wanted.most_bytes
    text = _statement(part, ", ".join(map(_expression, columns)) or "1")
    text += f" ORDER BY {part.order}" if part.order else ""
    most = max(1, min(_MOST_ROWS, most_bytes // (_VALUE_BYTES * max(1, len(columns)))))
    cursors = importlib.import_module("pymysql.cursors")
    wide = [at for at, column in enumerate(columns) if column.kind in _WIDE]
    with _opened(wanted.connection, part.name) as opened, opened.cursor(cursors.SSCursor) as cursor:
        cursor.execute(text)
        while found := _fetched(cursor, most, most_bytes, wide):
            pairs = zip(zip(*found, strict=True), columns, strict=False)
            yield len(found), [_array(each, column, part) for each, column in pairs]


def _fetched(cursor: Any, most: int, most_bytes: int, wide: Sequence[int]) -> list[tuple[Any, ...]]:
    """The next rows of a cursor; none at its end.

    Args:
        cursor: where they come from.
        most: so many at most.
        most_bytes: none after those whose wide values have so many characters and bytes.
        wide: the places of values of any length.
    """
    found: list[tuple[Any, ...]] = []
    size = 0
    while len(found) < most and size < most_bytes and (row := cursor.fetchone()) is not None:
        found.append(row)
        for at in wide:
            size += len(row[at] or "")
    return found


def _array(found: Sequence[Any], column: Column, part: Part) -> FoundArray:
    kind = column.kind
    if column.how is How.JSON:
        parsed = (None if each is None else _parsed(each) for each in found)
        return values.to_arrow(parsed, types.ANY), types.ANY
    if kind in ("int", "year", "bit"):
        if all(each is None or _LEAST <= each <= _MOST for each in found):
            return pa.array(found, pa.int64()), types.INT
        shown = [each if each is None or each <= _MOST else str(each) for each in found]
        return values.to_arrow(shown, types.ANY), types.ANY
    if kind in ("double", "float"):
        return pa.array(found, pa.float64()), types.FLOAT
    if kind in _MOMENTS:
        return _moments(pa.array(map(_shown, found), pa.string()), kind)
    if kind == "text" and any(isinstance(each, bytes) for each in found):
        if all(each is None or isinstance(each, bytes) for each in found):
            return pa.array(found, pa.binary()), types.STRING
        raise FormatError(f"column '{column.name}' has bytes among texts", part.name, FAILED)
    return pa.array(map(_shown, found), pa.string()), types.STRING


def _shown(value: Any) -> str | None:
    return None if value is None else _text(value)


def _moments(texts: pa.StringArray, kind: str) -> FoundArray:
    """Convert texts to dates or timestamps; impossible ones, such as `0000-00-00`, stay texts."""
    is_date = kind == "date"
    arrow, static = (pa.date32(), types.DATE) if is_date else (pa.timestamp("us"), types.DATETIME)
    is_real = pc.and_(pc.match_substring_regex(texts, _REAL), pc.invert(pc.starts_with(texts, "0000")))
    if pc.all(is_real).as_py() is not False:
        try:
            return pc.cast(texts, arrow), static
        except pa.ArrowInvalid:
            pass  # the 30th of February, which some servers keep
    found = (None if each is None else _moment(each, is_date=is_date) for each in texts.to_pylist())
    return values.to_arrow(found, types.ANY), types.ANY


def _moment(text: str, *, is_date: bool) -> Any:
    try:
        return date.fromisoformat(text) if is_date else datetime.fromisoformat(text)
    except ValueError:
        return text


def _parsed(text: Any) -> Any:
    """Parse a JSON value, keeping all digits of numbers; invalid JSON, which MariaDB may store, stays a text."""
    try:
        return json.loads(text, parse_int=number_of, parse_float=number_of)
    except json.JSONDecodeError:
        return text


def count(wanted: Slice) -> int:
    """Count the rows of a slice.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    with _opened(wanted.connection, wanted.part.name) as opened:
        return int(rows(opened, _statement(wanted.part, "count(*)"))[0][0])
