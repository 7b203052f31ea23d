"""PostgreSQL: tables read by their pages, statements as a whole, all of a run in one snapshot.

The driver holds a transaction whose snapshot the tasks import, so that all of them see the rows that were there when
the run looked, whoever writes meanwhile. Rows come in the order of their places, each time the same.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import types, values
from spark_jobs.formats.database.tables import Column, How, Part, Table, Unfit, quoted
from spark_jobs.formats.typed import natural, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.database.options import DatabaseRead
    from spark_jobs.formats.typed.records import Found
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
def told(connection: Connection, name: str = "") -> Iterator[None]:
    """Within, what the driver says becomes a diagnostic.

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


def look(connection: Connection, options: DatabaseRead) -> list[Table]:
    """The tables that a source reads: partitions of a partitioned one each by itself, in the order of their names.

    Raises:
        FormatError: the database refuses or fails, or has no such table (E911).
    """
    with told(connection):
        opened, snapshot = _snapshot(connection)
        if options.query:
            relation = f"({options.query.strip().rstrip(';')}\n) AS clinker_query"
            part = Part(relation, "query", _estimate(opened, relation), snapshot=snapshot)
            return _in_ranges(opened, connection, [part], options)
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
        return _in_ranges(opened, connection, parts, options)


def _estimate(opened: Any, relation: str) -> int:
    """The bytes of what has no pages of its own, as the database estimates them."""
    ((text,),) = _rows(opened, f"EXPLAIN (FORMAT JSON) SELECT * FROM {relation}", is_copied=False)
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
        raise Unfit(f"`partition_by: {options.partition_by}` is no column of numbers, dates or moments: {what}")
    column, kind, count = quoted(chosen.name), chosen.kind, options.partitions
    kind = "numeric" if kind.startswith("int") else kind
    borders = ", ".join(
        f"(min({column})::{kind} + (max({column})::{kind} - min({column})::{kind}) * {at} / {count})::text"
        for at in range(1, count)
    )
    ((*found,),) = _rows(opened, f"SELECT {borders} FROM {whole.relation}")
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


def _condition(part: Part, start: int, end: int, *, is_last: bool) -> str:
    """What chooses the rows of a part that stand in some of its bytes."""
    found = [part.condition] if part.condition else []
    if part.page_bytes:
        first, last = (-(-place // part.page_bytes) for place in (start, end))
        found.append(f"ctid >= '({first},0)'::tid")
        if not is_last:
            found.append(f"ctid < '({last},0)'::tid")
    return " AND ".join(found)


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
    """The rows of a part that stand in some of its bytes: how many, and their columns.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    names = ", ".join(map(_expression, columns)) or "true AS clinker_row"
    condition = _condition(part, start, end, is_last=is_last)
    text = f"SELECT {names} FROM {part.relation}{f' WHERE {condition}' if condition else ''}"
    with told(connection, part.name):
        opened = _begun(connection, part.snapshot)
        try:
            with opened.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(most_bytes)})
                cursor.execute(text)
                for batch in cursor.fetch_record_batch():
                    pairs = zip(batch.columns, columns, strict=False)
                    yield batch.num_rows, [_found(array, column) for array, column in pairs]
        finally:
            opened.close()


def _found(array: pa.Array, column: Column) -> Found:
    if column.how is not How.JSON:
        return natural.natural(array)
    parsed = (None if text is None else _parsed(text) for text in array.to_pylist())
    return values.to_arrow(parsed, types.ANY), types.ANY


def _parsed(text: str) -> Any:
    """A value of JSON; numbers that no int or float holds stay texts."""
    return json.loads(text, parse_int=numbers.of_int, parse_float=numbers.of_float)


def count(connection: Connection, part: Part, start: int, end: int, *, is_last: bool) -> int:
    """How many rows that are.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    condition = _condition(part, start, end, is_last=is_last)
    with told(connection, part.name):
        opened = _begun(connection, part.snapshot)
        try:
            text = f"SELECT count(*) FROM {part.relation}{f' WHERE {condition}' if condition else ''}"
            return int(_rows(opened, text)[0][0])
        finally:
            opened.close()
