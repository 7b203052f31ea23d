"""PostgreSQL: tables read by their pages, statements as a whole, all of a run in one snapshot.

The driver holds a transaction whose snapshot the tasks import, so that all of them see the rows that were there when
the run looked, whoever writes meanwhile. Rows come in the order of their places, each time the same.
"""

from __future__ import annotations

import decimal
import importlib
import json
import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
    quoted,
    without_value,
)
from spark_jobs.formats.typed import natural
from spark_jobs.scan import bookmarks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.database.options import DatabaseRead
    from spark_jobs.formats.typed.records import Found as FoundArray
    from spark_jobs.scan.connections import Connection

#: How a transaction sees rows, and in which order and form they come.
_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "{snapshot}",
    "SET LOCAL synchronize_seqscans = off",
    "SET LOCAL max_parallel_workers_per_gather = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL DateStyle = 'ISO, YMD'",
    "SET LOCAL IntervalStyle = 'postgres'",
)
#: The types that the driver hands over as they are; arrays lose their shape, and others become bytes.
_PLAIN = frozenset(
    [
        "bool",
        "int2",
        "int4",
        "int8",
        "float4",
        "float8",
        "text",
        "varchar",
        "bpchar",
        "name",
        "date",
        "timestamp",
        "timestamptz",
        "bytea",
    ]
)
_JSON = frozenset(["json", "jsonb"])
_RANGED = frozenset(["int2", "int4", "int8", "numeric", "date", "timestamp", "timestamptz"])
#: Tables with pages of their own, and views and foreign tables, which have none.
_WITH_PAGES, _PARTITIONED = ("r", "m"), "p"
#: The types of columns that can only grow.
_NUMBERS = frozenset(["int2", "int4", "int8", "numeric"])
_MOMENTS = frozenset(["date", "timestamp", "timestamptz"])
_GROWING = _NUMBERS | _MOMENTS | {"text", "varchar"}
#: Up to so many bytes of new rows are read by a single task, which can use an index.
_FEW_BYTES = 64 << 20
_NOT_NULL = "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass($1)::oid AND attname = $2 AND attnotnull"
_RELATION = """
SELECT c.oid::regclass::text, c.relkind::text, pg_relation_size(c.oid)::int8, current_setting('block_size')::int8,
    current_setting('server_version_num')::int8
FROM pg_class c WHERE c.oid = to_regclass($1)::oid"""
_LEAVES = """
SELECT c.oid::regclass::text, c.relkind::text, pg_relation_size(c.oid)::int8
FROM pg_partition_tree(to_regclass($1)) t JOIN pg_class c ON c.oid = t.relid WHERE t.isleaf
ORDER BY c.oid::regclass::text
"""
#: The first version that finds rows by ranges of their places.
_PAGES_SINCE = 140_000

#: The transactions whose snapshots this process has given away, by process and URI.
_held: dict[tuple[int, str], tuple[Any, str]] = {}
_lock = threading.Lock()


@contextmanager
def translated_errors(connection: Connection, name: str = "") -> Iterator[None]:
    """Translate errors of the driver into diagnostics.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    import adbc_driver_manager

    try:
        yield
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as problem:
        raise connection.failed(problem, name) from None


def _begun(connection: Connection, snapshot: str | None) -> Any:
    """A connection with a transaction, in a snapshot where one is given."""
    opened = importlib.import_module("adbc_driver_postgresql.dbapi").connect(connection.uri)
    try:
        with opened.cursor() as cursor:
            for setting in _SETTINGS:
                text = setting.format(snapshot="" if snapshot is None else f"SET TRANSACTION SNAPSHOT '{snapshot}'")
                if text:
                    cursor.execute(text)
    except BaseException:
        opened.close()
        raise
    return opened


def _snapshot(connection: Connection) -> tuple[Any, str]:
    """The transaction that this process holds open for its run, and the name of its snapshot."""
    key = (os.getpid(), connection.uri)
    with _lock:
        if key not in _held:
            opened = _begun(connection, None)
            _held[key] = opened, str(_rows(opened, "SELECT pg_export_snapshot()")[0][0])
        return _held[key]


def release() -> None:
    """End the transactions that this process holds open."""
    with _lock:
        mine = [key for key in _held if key[0] == os.getpid()]
        for key in mine:
            _held.pop(key)[0].close()


def _rows(opened: Any, text: str, *values: Any, is_copied: bool = True) -> list[tuple[Any, ...]]:
    with opened.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": str(is_copied).lower()})
        cursor.execute(text, values or None)
        return [*cursor.fetchall()]


def look(
    connection: Connection, options: DatabaseRead, incremental: IncrementalColumn | None = None
) -> DiscoveredTables:
    """The tables that a source reads: partitions of a partitioned one each by itself, in the order of their names.

    Args:
        connection: where they are.
        options: the options of the source.
        incremental: which rows are wanted, where not all are.

    Raises:
        FormatError: the database refuses or fails, or has no such table (E911).
        Unfit: the table has no such column, or rows have no value in it.
    """
    with translated_errors(connection):
        opened, snapshot = _snapshot(connection)
        if options.query:
            relation = f"({options.query.strip().rstrip(';')}\n) AS clinker_query"
            part = Part(relation, "query", _estimate(opened, relation), snapshot=snapshot)
            return _chosen(opened, connection, [part], options, incremental)
        found = _rows(opened, _RELATION, options.table)
        if not found:
            raise connection.failed(f"there is no table `{options.table}`, or no right to see its schema")
        ((name, kind, size, block, version),) = found
        leaves = [(name, kind, size)] if kind != _PARTITIONED else _rows(opened, _LEAVES, options.table)
        has_pages = version >= _PAGES_SINCE and not options.partition_by
        parts = [
            Part(leaf, leaf, size, block if has_pages else 0, snapshot=snapshot)
            if kind in _WITH_PAGES
            else Part(leaf, leaf, _estimate(opened, leaf), snapshot=snapshot)
            for leaf, kind, size in leaves
        ]
        if options.partition_by:
            parts = [Part(name, name, sum(part.size for part in parts), snapshot=snapshot)]
        return _chosen(opened, connection, parts, options, incremental, name)


def _chosen(
    opened: Any,
    connection: Connection,
    parts: list[Part],
    options: DatabaseRead,
    incremental: IncrementalColumn | None,
    table: str = "",
) -> DiscoveredTables:
    """The parts with the rows that are wanted; `table` has all of their rows, where it is one."""
    through = None
    if incremental is not None and parts:
        parts, through = _grown(opened, parts, incremental, table)
    return DiscoveredTables(tuple(_in_ranges(opened, connection, parts, options)), through)


def _grown(opened: Any, parts: list[Part], incremental: IncrementalColumn, table: str) -> tuple[list[Part], str | None]:
    """The parts with the condition of new rows, and the greatest value of these, as a text."""
    relation = table or parts[0].relation
    column = next((each for each in _columns(opened, relation) if each.name == incremental.column), None)
    if column is None or column.kind not in _GROWING:
        what = "there is none" if column is None else f"it is of the type {column.kind}"
        raise UnfitOptions(
            f"`incremental.column: {incremental.column}` is no column of numbers, moments or texts: {what}"
        )
    name, kind = quoted(column.name), column.kind
    if not _has_all(opened, relation, name, incremental.column, is_table=bool(table)):
        raise without_value(incremental.column)
    conditions = []
    if incremental.since is not None:
        conditions.append(f"{name} >= {_bound(incremental.since, kind, incremental, 'since')}")
    elif incremental.after is not None:
        conditions.append(f"{name} > {_literal(str(incremental.after), kind)}")
    if incremental.until is not None:
        conditions.append(f"{name} < {_bound(incremental.until, kind, incremental, 'until')}")
    settled = [f"{name} < {_settled(kind, incremental)}"] if incremental.delay_s else []
    where = " AND ".join([*conditions, *settled]) or "true"
    ((greatest,),) = _rows(opened, f"SELECT max({name})::text FROM {relation} WHERE {where}")
    if greatest is None:
        return [replace(part, size=0, page_bytes=0) for part in parts[:1]], None
    if str(greatest).lower() in ("infinity", "nan"):
        raise boundless(incremental.column, greatest)
    condition = " AND ".join([*conditions, f"{name} <= {_literal(str(greatest), kind)}"])
    return [_with(opened, part, condition, is_few=bool(conditions)) for part in parts], _through(
        opened, incremental, kind, str(greatest)
    )


def _with(opened: Any, part: Part, condition: str, *, is_few: bool) -> Part:
    """A part with a condition; few rows are read as a whole, by an index where there is one."""
    if is_few:
        size = _estimate(opened, part.relation, condition)
        if not part.page_bytes or size <= _FEW_BYTES:
            return replace(part, condition=condition, size=size, page_bytes=0, order="ctid" if part.page_bytes else "")
    return replace(part, condition=condition)


def _through(opened: Any, incremental: IncrementalColumn, kind: str, greatest: str) -> str | None:
    """Give the value up to which the column is read without a gap; None where rows since the last run are left out."""
    if incremental.since is None or incremental.after is None:
        return greatest
    after = _literal(str(incremental.after), kind)
    text = (
        f"SELECT {_bound(incremental.since, kind, incremental, 'since')} <= {after}, "
        f"greatest({after}, {_literal(greatest, kind)})::text"
    )
    ((is_joined, furthest),) = _rows(opened, text)
    return str(furthest) if is_joined else None


def _has_all(opened: Any, relation: str, name: str, column: str, *, is_table: bool) -> bool:
    """Whether all rows have a value in a column."""
    if is_table and _rows(opened, _NOT_NULL, relation, column):
        return True
    return not _rows(opened, f"SELECT 1 FROM {relation} WHERE {name} IS NULL LIMIT 1")


def _literal(text: str, kind: str) -> str:
    return "'" + text.replace("'", "''") + f"'::{kind}"


def _bound(text: str, kind: str, incremental: IncrementalColumn, option: str) -> str:
    """A bound of the command line as a literal.

    Raises:
        Unfit: it is no value of that type.
    """
    if kind in _MOMENTS:
        try:
            found = bookmarks.time(text)
        except ValueError:
            raise UnfitOptions(f"--{option} {text} is no date or time, as `{incremental.column}` has them") from None
        if kind == "date":
            return _literal(found.date().isoformat(), kind)
        return _literal(found.isoformat() if kind == "timestamptz" else found.replace(tzinfo=None).isoformat(), kind)
    if kind in _NUMBERS and not _is_number(text):
        raise UnfitOptions(f"--{option} {text} is no number, as `{incremental.column}` has them")
    return _literal(text, kind)


def _is_number(text: str) -> bool:
    try:
        return decimal.Decimal(text).is_finite()
    except decimal.InvalidOperation:
        return False


def _settled(kind: str, incremental: IncrementalColumn) -> str:
    """The moment from which on rows are left to a later run."""
    if kind not in _MOMENTS:
        raise UnfitOptions(
            f"`incremental.delay` needs a column of moments, and `{incremental.column}` is of the type {kind}"
        )
    moment = f"(now() - make_interval(secs => {incremental.delay_s!r}))"
    return moment if kind == "timestamptz" else f"({moment} AT TIME ZONE 'UTC')::{kind}"


def _estimate(opened: Any, relation: str, condition: str = "true") -> int:
    """Estimate the bytes of a view or query, which has no pages of its own, from the database's plan."""
    text = f"EXPLAIN (FORMAT JSON) SELECT * FROM {relation} WHERE {condition}"
    ((text,),) = _rows(opened, text, is_copied=False)
    plan = json.loads(str(text))[0]["Plan"]
    return max(1, int(plan["Plan Rows"] * plan["Plan Width"]))


def _in_ranges(opened: Any, connection: Connection, parts: list[Part], options: DatabaseRead) -> list[Table]:
    """The parts, cut by the values of a column where one is named."""
    columns = _columns(opened, parts[0].relation) if parts else []
    if not options.partition_by:
        return [Table(connection, part, tuple(columns)) for part in parts]
    (whole,) = parts
    chosen = next((column for column in columns if column.name == options.partition_by), None)
    if chosen is None or chosen.kind not in _RANGED:
        what = "there is none" if chosen is None else f"it is of the type {chosen.kind}"
        raise UnfitOptions(f"`partition_by: {options.partition_by}` is no column of numbers, dates or moments: {what}")
    column, kind, count = quoted(chosen.name), chosen.kind, options.partitions
    kind = "numeric" if kind.startswith("int") else kind
    borders = ", ".join(
        f"(min({column})::{kind} + (max({column})::{kind} - min({column})::{kind}) * {at} / {count})::text"
        for at in range(1, count)
    )
    ((*found,),) = _rows(opened, f"SELECT {borders} FROM {whole.relation} WHERE {whole.condition or 'true'}")
    if found and found[0] is None:
        return [Table(connection, whole, tuple(columns))]
    known = [f"'{border}'::{kind}" for border in dict.fromkeys(found)]
    conditions = [
        " AND ".join([*([f"{column} >= {low}"] if low else []), *([f"{column} < {high}"] if high else [])])
        for low, high in zip([None, *known], [*known, None], strict=True)
    ]
    conditions[0] = f"({conditions[0]} OR {column} IS NULL)" if conditions[0] else ""
    return [
        Table(connection, whole.ranged(condition, number, len(conditions)), tuple(columns))
        for number, condition in enumerate(conditions, 1)
    ]


def _columns(opened: Any, relation: str) -> list[Column]:
    with opened.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {relation} LIMIT 0")
        schema: pa.Schema = cursor.fetch_record_batch().schema
    found = []
    for field in schema:
        kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        found.append(Column(field.name, kind, _how(kind)))
    return found


def _how(kind: str) -> How:
    if kind in _PLAIN:
        return How.PLAIN
    if kind == "oid":
        return How.INT
    return How.JSON if kind in _JSON or kind.startswith("_") else How.TEXT


def _expression(column: Column) -> str:
    name = quoted(column.name)
    match column.how:
        case How.PLAIN:
            return name
        case How.INT:
            return f"{name}::int8 AS {name}"
        case How.JSON if column.kind not in _JSON:
            return f"to_json({name})::text AS {name}"
        case _:
            return f"{name}::text AS {name}"


def _condition(wanted: Slice) -> str:
    """Give the SQL condition that selects the rows of a slice."""
    part = wanted.part
    found = [part.condition] if part.condition else []
    if part.page_bytes:
        first, last = (-(-place // part.page_bytes) for place in (wanted.start, wanted.end))
        found.append(f"ctid >= '({first},0)'::tid")
        if not wanted.is_last:
            found.append(f"ctid < '({last},0)'::tid")
    return " AND ".join(found)


def batches(wanted: Slice, columns: Sequence[Column]) -> Iterator[tuple[int, list[FoundArray]]]:
    """The rows of a slice: how many, and their columns.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    part = wanted.part
    names = ", ".join(map(_expression, columns)) or "true AS clinker_row"
    condition = _condition(wanted)
    text = f"SELECT {names} FROM {part.relation}{f' WHERE {condition}' if condition else ''}"
    text += f" ORDER BY {part.order}" if part.order else ""
    with translated_errors(wanted.connection, part.name):
        opened = _begun(wanted.connection, part.snapshot)
        try:
            with opened.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(wanted.most_bytes)})
                cursor.execute(text)
                for batch in cursor.fetch_record_batch():
                    pairs = zip(batch.columns, columns, strict=False)
                    yield batch.num_rows, [_found(array, column) for array, column in pairs]
        finally:
            opened.close()


def _found(array: pa.Array, column: Column) -> FoundArray:
    if column.how is not How.JSON:
        return natural.natural(array)
    parsed = (None if text is None else _parsed(text) for text in array.to_pylist())
    return values.to_arrow(parsed, types.ANY), types.ANY


def _parsed(text: str) -> Any:
    """A value of JSON, whose numbers keep their digits."""
    return json.loads(text, parse_int=number_of, parse_float=number_of)


def count(wanted: Slice) -> int:
    """Count the rows of a slice.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    part, condition = wanted.part, _condition(wanted)
    with translated_errors(wanted.connection, part.name):
        opened = _begun(wanted.connection, part.snapshot)
        try:
            text = f"SELECT count(*) FROM {part.relation}{f' WHERE {condition}' if condition else ''}"
            return int(_rows(opened, text)[0][0])
        finally:
            opened.close()
