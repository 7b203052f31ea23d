"""Rows into tables of PostgreSQL: staging tables that tasks fill by COPY, and the statements that publish them.

A staging table has the columns of the records, the numbers of part and row, and a comment that names its run and its
target. The transaction that publishes its rows drops it, so a missing staging table means that its rows are published.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats import format
from spark_jobs.formats.database import targets
from spark_jobs.formats.database.loading import staging as staging_of
from spark_jobs.formats.database.options import KnownDatabaseWrite, WriteMode
from spark_jobs.formats.database.postgres import columns as kinds
from spark_jobs.formats.database.postgres.reading import translated_errors
from spark_jobs.formats.database.tables import quoted
from spark_jobs.formats.database.targets import Constraint, Target, TargetColumn
from spark_jobs.formats.staging import Staging
from spark_jobs.scan.connections import FAILED
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_jobs.formats.database.options import DatabaseWrite
    from spark_jobs.scan.connections import Connection

#: See `formats/staging.py:Loader`.
IS_FILLED_BY_TASKS = True
#: The extra columns of a staging table; columns of records have no `$` in their names.
PART, ROW = "$part", "$row"
_PART, _ROW, _AGAIN = '"$part"', '"$row"', '"$again"'
_PREFIX = "clinker_stage_"
#: Settings that override the defaults of roles and databases; each statement sees all rows committed by then.
_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL DateStyle = 'ISO, YMD'",
    "SET LOCAL lock_timeout = '{lock}s'",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
#: So long a statement waits for a lock of another session, in seconds.
LOCK_S = 60
#: The state of a statement that has waited for a lock in vain.
_LOCKED = "55P03"
#: The state of a statement that would put a value there twice.
_TWICE = "23505"
_RELATION = """
SELECT c.oid::int8, c.oid::regclass::text, quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.relkind::text,
    n.nspname::text, has_table_privilege(c.oid, 'INSERT'), has_table_privilege(c.oid, 'UPDATE'),
    has_table_privilege(c.oid, 'DELETE'), has_table_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)::oid"""
_SCHEMA = "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1"
#: From here on the names of types have their schemas.
_FULL_NAMES = "SET LOCAL search_path = pg_catalog"
_COLUMNS = """
SELECT a.attname::text, t.typname::text, format_type(a.atttypid, a.atttypmod),
    a.attnotnull OR t.typnotnull, a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL,
    a.attgenerated = '' AND a.attidentity <> 'a', a.atttypmod::int8, d.kind, d.modifier
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN LATERAL (
    WITH RECURSIVE base AS (
        SELECT b.typname, b.typtype, b.typbasetype, b.typtypmod FROM pg_type b
        WHERE b.oid = CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE t.oid END AND b.typtype = 'd'
        UNION ALL
        SELECT n.typname, n.typtype, n.typbasetype, n.typtypmod FROM base JOIN pg_type n ON n.oid = base.typbasetype)
    SELECT max(typname::text) FILTER (WHERE typtype <> 'd') AS kind, max(typtypmod)::int8 AS modifier FROM base
) d ON true
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_UNIQUE = """
SELECT array_to_json(array_agg(a.attname::text))::text, i.indexrelid::regclass::text, i.indimmediate,
    bool_or(coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false)) FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid
    AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indimmediate ORDER BY 2"""
#: Unique indexes whose values only the database computes or compares: of expressions, of some rows, of a partition, and
#: of types and collations by which values are equal that differ. Each with its columns, values, collations and rows.
_COMPUTED = """
SELECT i.indexrelid::regclass::text, a.names, k.keys, k.collations, coalesce(pg_get_expr(i.indpred, i.indrelid), ''),
    CASE WHEN i.indrelid <> $1::oid THEN coalesce(pg_get_partition_constraintdef(i.indrelid), '') ELSE '' END,
    coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false),
    i.indpred IS NULL AND i.indexprs IS NULL AND i.indrelid = $1::oid
FROM pg_index i
JOIN LATERAL (
    SELECT json_agg(a.attname::text ORDER BY a.attnum)::text AS names,
        bool_or(a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1]) AND a.atttypid IN (SELECT t.oid FROM pg_type t
            WHERE t.typtype = 'd' OR t.typname IN ('interval', 'jsonb', 'timetz'))) AS is_of_type
    FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum > 0 AND (
        a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1]) OR a.attnum IN (
            SELECT d.refobjsubid FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid)
        OR i.indrelid <> $1::oid AND a.attname IN (
            SELECT k.attname FROM pg_partition_ancestors(i.indrelid) up
            JOIN pg_partitioned_table p ON p.partrelid = up.relid
            JOIN pg_attribute k ON k.attrelid = p.partrelid AND k.attnum = ANY (p.partattrs)))
) a ON true
JOIN LATERAL (
    SELECT json_agg(pg_get_indexdef(i.indexrelid, place, true) ORDER BY place)::text AS keys,
        json_agg(quote_ident(n.nspname) || '.' || quote_ident(l.collname) ORDER BY place)::text AS collations,
        bool_or(to_jsonb(l) ->> 'collisdeterministic' = 'false') AS is_of_collation
    FROM generate_series(1, i.indnkeyatts) place
    LEFT JOIN pg_collation l ON l.oid = i.indcollation[place - 1] LEFT JOIN pg_namespace n ON n.oid = l.collnamespace
) k ON true
WHERE i.indisunique AND i.indisvalid
    AND i.indrelid IN (SELECT $1::oid UNION SELECT relid FROM pg_partition_tree($1::oid))
    AND NOT EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)
    AND (i.indpred IS NOT NULL OR i.indexprs IS NOT NULL OR i.indrelid <> $1::oid OR a.is_of_type OR k.is_of_collation)
ORDER BY 1"""
_KINDS = {"c": "check", "f": "foreign key"}
#: Constraints that are checked against the record alone, or against existing rows if the user may read the table.
_CONSTRAINTS = """
SELECT c.contype::text, c.conname::text, coalesce(f.oid::regclass::text, ''),
    coalesce((SELECT json_agg(a.attname::text ORDER BY k.place)
        FROM unnest(c.conkey) WITH ORDINALITY AS k(number, place)
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number), '[]')::text,
    coalesce((SELECT json_agg(a.attname::text ORDER BY k.place)
        FROM unnest(c.confkey) WITH ORDINALITY AS k(number, place)
        JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.number), '[]')::text,
    coalesce(pg_get_expr(c.conbin, c.conrelid), ''), c.confmatchtype = 'f'
FROM pg_constraint c LEFT JOIN pg_class f ON f.oid = c.confrelid
WHERE c.conrelid = $1::oid AND (c.contype = 'c'
    OR (c.contype = 'f' AND c.confrelid <> c.conrelid AND has_table_privilege(c.confrelid, 'SELECT')))
ORDER BY c.contype, c.conname"""
#: Foreign keys of other tables that change or delete rows when the row that they refer to is deleted.
_FOLLOWING = """
SELECT DISTINCT c.conrelid::regclass::text, CASE c.confdeltype::text
    WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' ELSE 'SET DEFAULT' END
FROM pg_constraint c WHERE c.contype = 'f' AND c.confrelid = $1::oid AND c.conrelid <> c.confrelid
    AND c.confdeltype IN ('c', 'n', 'd') AND c.conparentid = 0 ORDER BY 1, 2"""
_STAGED = """
SELECT n.nspname::text, c.relname::text, obj_description(c.oid, 'pg_class'), pg_get_userbyid(c.relowner) = current_user
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND starts_with(c.relname, $1) AND obj_description(c.oid, 'pg_class') IS NOT NULL
ORDER BY n.nspname, c.relname"""


def name_of(run: str, connection: str, number: int | str = "") -> str:
    """Give the name of a staging table of a run: a prefix, a digest of the run and connection, and a number."""
    return f"{_PREFIX}{_digest(run, connection).hex()[:24]}_{number}"


def _digest(*names: str) -> bytes:
    return hashlib.sha256(json.dumps(names).encode()).digest()


def lock_of(*names: str) -> int:
    """The advisory lock that has some names."""
    return int.from_bytes(_digest("clinker", *names)[:8], "big", signed=True)


@contextmanager
def transaction(connection: Connection, name: str = "") -> Iterator[Any]:
    """A connection with a transaction that is committed at the end, and rolled back on errors.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    with waiting(connection), translated_errors(connection, name):
        found = importlib.import_module("adbc_driver_postgresql.dbapi").connect(connection.uri)
        try:
            for setting in _SETTINGS:
                run(found, setting.format(lock=LOCK_S))
            yield found
            found.commit()
        finally:
            found.close()


@contextmanager
def waiting(connection: Connection) -> Iterator[None]:
    """Turns the error of waiting too long for another session's lock into a message with a remedy.

    Raises:
        FormatError: it does (E911).
    """
    try:
        yield
    except FormatError as problem:
        if _LOCKED not in problem.message:
            raise
        text = (
            f"connection '{connection.name}': another session has held a lock for {LOCK_S} s (lock timeout, "
            f"{_LOCKED}); pg_locks says which: end it, or wait for it, and run again"
        )
        raise FormatError(text, problem.path, problem.code) from None


@contextmanager
def rolled_back_transaction(connection: Connection) -> Iterator[Any]:
    """A transaction that is rolled back in any case, after all constraints have been checked.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    with transaction(connection) as found:
        yield found
        run(found, "SET CONSTRAINTS ALL IMMEDIATE")
        found.rollback()


def lock_run(connection: Connection, run_name: str, name: str) -> Any:
    """A session that holds the lock of a live run; None if another session holds it.

    Args:
        connection: where.
        run_name: the execution id.
        name: the name of the connection.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    with translated_errors(connection):
        found = importlib.import_module("adbc_driver_postgresql.dbapi").connect(connection.uri, autocommit=True)
        try:
            if run(found, "SELECT 1 FROM pg_settings WHERE name = 'idle_session_timeout'"):
                run(found, "SET idle_session_timeout = 0")
            ((is_mine,),) = run(found, f"SELECT pg_try_advisory_lock({lock_of('run', run_name, name)})")
        except BaseException:
            found.close()
            raise
    if is_mine:
        return found
    found.close()
    return None


def run(opened: Any, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement; returns its rows, none for a statement that has no result."""
    with opened.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        cursor.execute(text, values or None)
        return [*cursor.fetchall()] if cursor.description else []


def literal(text: str) -> str:
    """A text as statements have it."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def look(connection: Connection, options: DatabaseWrite) -> KnownDatabaseWrite:
    """Complete the options of an output with the columns and constraints of its table.

    Raises:
        FormatError: the database refuses or fails (E911).
        format.UnwritableFile: there is no such table, or the run may not write it as it is to.
    """
    with transaction(connection, options.table) as found:
        known = run(found, _RELATION, options.table)
        if not known:
            raise format.UnwritableFile(f"there is no table `{options.table}`, or no right to see its schema")
        ((oid, name, relation, kind, schema, *rights),) = known
        if kind not in ("r", "p"):
            raise format.UnwritableFile(f"`{options.table}` is no table that rows can be put into")
        _refuse_without_rights(options, name, dict(zip(("INSERT", "UPDATE", "DELETE", "SELECT"), rights, strict=True)))
        schema = options.staging_schema or schema
        may_create = run(found, _SCHEMA, schema)
        if not may_create:
            raise format.UnwritableFile(f"there is no schema `{schema}`, which `staging_schema` names")
        if may_create != [(True,)]:
            raise format.UnwritableFile(
                f"the right CREATE on schema {schema} is missing, where rows wait until they are published: "
                f"GRANT CREATE ON SCHEMA {quoted(schema)}, or name another one by `staging_schema`"
            )
        if options.mode is WriteMode.REPLACE:
            targets.refuse_following(name, run(found, _FOLLOWING, oid))
        run(found, _FULL_NAMES)
        columns = tuple(_column(*each) for each in run(found, _COLUMNS, oid))
        indexes = [(tuple(json.loads(text)), *others) for text, *others in run(found, _UNIQUE, oid)]
        unique = [frozenset(names) for names, _, is_now, _ in indexes if is_now]
        if options.key and frozenset(options.key) not in unique:
            listed = "; ".join(", ".join(sorted(each)) for each in unique) or "none"
            raise format.UnwritableFile(
                f"no unique index of table {name} has just the columns of `key`: there is {listed}"
            )
        computed = {}
        if run(found, "SELECT 1 FROM pg_proc WHERE proname = 'hash_record_extended'"):
            computed = {str(each[0]): _computed(*each) for each in run(found, _COMPUTED, oid)}
        plain = {
            index: Constraint("unique", index, names, nulls_are_equal=nulls_are_equal)
            for names, index, _, nulls_are_equal in indexes
        }
        unique_indexes = tuple(each for _, each in sorted((plain | computed).items()))
        constraints = [*unique_indexes] if rights[-1] else []
        constraints += [
            Constraint(_KINDS[kind], index, tuple(json.loads(own)), other, tuple(json.loads(others)), text,
                       is_full=is_full)
            for kind, index, other, own, others, text, is_full in run(found, _CONSTRAINTS, oid)
        ]  # fmt: skip
        known_target = Target(
            name, relation, schema, columns, options.key, tuple(constraints), connection, unique_indexes=unique_indexes
        )
    return KnownDatabaseWrite(**vars(options), known=known_target)


def _computed(
    index: str,
    columns: str,
    keys: str,
    collations: str,
    predicate: str,
    partition: str,
    nulls_are_equal: bool,
    is_of_columns: bool,
) -> Constraint:
    """A unique index whose values the database has to compute, or to compare."""
    values = tuple(
        f"({key})" if collation is None else f"(({key}) COLLATE {collation})"
        for key, collation in zip(json.loads(keys), json.loads(collations), strict=True)
    )
    condition = " AND ".join(f"({each})" for each in (predicate, partition) if each)
    return Constraint("unique", index, tuple(json.loads(columns)), nulls_are_equal=nulls_are_equal, keys=values,
                      condition=condition, is_of_columns=is_of_columns)  # fmt: skip


def _refuse_without_rights(options: DatabaseWrite, name: str, has: dict[str, bool]) -> None:
    needed = {"insert": ("INSERT",), "upsert": ("INSERT", "UPDATE", "SELECT"), "replace": ("INSERT", "DELETE")}
    lacking = [right for right in needed[str(options.mode)] if not has[right]]
    if lacking:
        raise format.UnwritableFile(
            f"the right {lacking[0]} on table {name} is missing: GRANT {', '.join(lacking)} ON {name}"
        )


def _column(
    name: str,
    kind: str,
    type: str,
    needs_value: bool,
    has_default: bool,
    is_written: bool,
    modifier: int,
    base: str | None,
    base_modifier: int | None,
) -> TargetColumn:
    one = kind.removeprefix("_")  # lengths and digits of arrays belong to their elements
    if base in ("varchar", "bpchar") and base_modifier is not None:
        one, modifier = base, base_modifier  # a cast to a domain cuts as one to its type does
    length = modifier - 4 if one in ("varchar", "bpchar") and modifier >= 4 else None
    if one in ("bit", "varbit") and modifier > 0:
        length = modifier
    precision = scale = None
    if one == "numeric" and modifier >= 4:
        precision, scale = ((modifier - 4) >> 16) & 0xFFFF, ((modifier - 4) & 0x7FF ^ 1024) - 1024
    return TargetColumn(name, kind, type, needs_value, has_default, is_written, length, precision, scale)


def begin(
    connection: Connection, options: KnownDatabaseWrite, run_name: str, number: int, schema: pa.Schema
) -> Staging:
    """Make an unlogged staging table: fast to fill, lost in a crash; see `formats/staging.py:Loader`."""
    known = {column.name: column for column in options.known.columns}
    staging = staging_of(
        connection,
        options,
        run_name,
        name_of(run_name, connection.name, number),
        ((each.name, kinds.converted(quoted(each.name), known[each.name], each.type)) for each in schema),
    )
    columns = [f"{quoted(each.name)} {kinds.staged(each.type)}" for each in schema]
    columns += [f"{_PART} int8", f"{_ROW} int8"]
    with transaction(connection, staging.target) as found:
        run(found, f"CREATE UNLOGGED TABLE {staging.table} ({', '.join(columns)})")
        # One entry for each part: whether it is there already is found without reading all others.
        run(found, f"CREATE INDEX ON {staging.table} ({_PART}) WHERE {_ROW} = 0")
        write_note(found, staging)
    return staging


def write_note(found: Any, staging: Staging) -> None:
    """Write the note of a staging table."""
    run(found, f"COMMENT ON TABLE {staging.table} IS {literal(staging.comment)}")


def make_durable(found: Any, staging: Staging) -> None:
    """Make a staging table survive a crash of the server."""
    run(found, f"ALTER TABLE {staging.table} SET LOGGED")


def drop(found: Any, staging: Staging) -> None:
    """Remove a staging table."""
    run(found, f"DROP TABLE {staging.table}")


def fill(
    connection: Connection, staging: Staging, part: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> int:
    """Put the rows of a part into a staging table by COPY, and return their number.

    A repeated attempt adds no row twice.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    sent = pa.schema([(each.name, kinds.sent(pa.nulls(0, each.type)).type) for each in schema])
    whole = sent.append(pa.field(PART, pa.int64())).append(pa.field(ROW, pa.int64()))
    count = 0

    def numbered() -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in batches:
            rows = batch.num_rows
            numbers = [pa.array(np.full(rows, part)), pa.array(np.arange(count, count + rows))]
            count += rows
            yield pa.RecordBatch.from_arrays([*map(kinds.sent, batch.columns), *numbers], schema=whole)

    with transaction(connection, staging.target) as found:
        # Another attempt at the same part may be on its way: it waits here, and its rows are seen once it is done.
        run(found, f"SELECT pg_advisory_xact_lock({lock_of('part', staging.run, staging.table, str(part))})")
        run(found, "SET LOCAL enable_seqscan = off")
        if run(found, f"SELECT 1 FROM {staging.table} WHERE {_PART} = {part} AND {_ROW} = 0"):
            run(found, f"DELETE FROM {staging.table} WHERE {_PART} = {part}")
        with found.cursor() as cursor:
            reader = pa.RecordBatchReader.from_batches(whole, numbered())
            cursor.adbc_ingest(staging.name, reader, mode="append", db_schema_name=staging.schema)
    return count


def lock_publication(found: Any, run_name: str, connection: str) -> None:
    """Take the publication lock of a run until the transaction ends: no other one publishes or removes its rows."""
    run(found, f"SELECT pg_advisory_xact_lock({lock_of('publish', run_name, connection)})")


def publish(found: Any, staging: Staging) -> None:
    """Put the rows of a staging table into its table, and remove it; not committed yet."""
    run(found, f"LOCK TABLE {staging.table} IN ACCESS EXCLUSIVE MODE")
    ((rows,),) = run(found, f"SELECT count(*) FROM {staging.table}")
    if rows != staging.rows:
        raise FormatError(
            f"{staging.table} has {rows} rows, and {staging.rows} were put into it: the server has lost them, or "
            "somebody has changed them; run again",
            staging.target,
            FAILED,
        )
    with _translated_publication_errors(staging):
        for text in statements(staging):
            run(found, text)
    drop(found, staging)


def is_twice(problem: FormatError) -> bool:
    """See `formats/staging.py:Loader`."""
    return f"SQLSTATE: {_TWICE}" in problem.message


def published_rows(found: Any) -> int | None:
    """See `formats/staging.py:Loader`: a single statement publishes all rows."""


@contextmanager
def _translated_publication_errors(staging: Staging) -> Iterator[None]:
    """Translates errors of the driver: the message names the table, and says why no check has refused the record."""
    import adbc_driver_manager

    try:
        yield
    except adbc_driver_manager.Error as problem:
        hint = ""
        if (problem.sqlstate or "") == _TWICE:
            hint = (
                "; no row had this value when the records were looked at: either two records have it (keep one of them "
                "with `distinct`, or use `mode: upsert`), or another session has put it there since (run again)"
            )
        text = f"table {staging.target}: {problem}{hint}"
        raise type(problem)(text, status_code=problem.status_code, sqlstate=problem.sqlstate) from None


def statements(staging: Staging) -> list[str]:
    """Give the SQL statements that move staged rows into their table, in the order in which they run."""
    names = ", ".join(quoted(name) for name, _ in staging.columns)
    values = ", ".join(text for _, text in staging.columns)
    order = f"{_PART}, {_ROW}"
    # Two runs that replace one another's rows follow one another.
    emptied = [f"LOCK TABLE {staging.target} IN SHARE ROW EXCLUSIVE MODE", f"DELETE FROM {staging.target}"]
    found = emptied if staging.mode == "replace" else []
    if staging.mode != "upsert":
        return [*found, f"INSERT INTO {staging.target} ({names}) SELECT {values} FROM {staging.table} ORDER BY {order}"]
    keys = ", ".join(map(quoted, staging.keys))
    converted = dict(staging.columns)
    equal = ", ".join(converted[key] for key in staging.keys)
    others = [quoted(name) for name, _ in staging.columns if name not in staging.keys]
    change = f"DO UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in others)}" if others else "DO NOTHING"
    # Of several records with the same key the last one counts, as if they had come one after the other.
    last = (
        f"SELECT *, row_number() OVER (PARTITION BY {equal} ORDER BY {_PART} DESC, {_ROW} DESC) AS {_AGAIN} "
        f"FROM {staging.table}"
    )
    return [
        f"INSERT INTO {staging.target} ({names}) SELECT {values} FROM ({last}) s WHERE {_AGAIN} = 1 "
        f"ORDER BY {order} ON CONFLICT ({keys}) {change}"
    ]


def all_stagings(found: Any) -> list[Staging]:
    """The staging tables of all runs in a database that the role of the connection may complete or remove.

    Comments are acted on with the rights of this role, so those on tables of other roles are ignored.
    """
    each = _staged(found, _PREFIX)
    return [staging for staging, is_own in each if is_own]


def stagings_of(found: Any, run_name: str, connection: str) -> list[Staging]:
    """The staging tables of a run in a connection.

    Raises:
        FormatError: some belong to a role that this one is not (E911).
    """
    staged = []
    for staging, is_own in _staged(found, name_of(run_name, connection)):
        if (staging.run, staging.connection) != (run_name, connection):
            continue
        if not is_own:
            raise FormatError(
                f"staging table {staging.table} belongs to another role, and only a connection of this role settles it",
                staging.target,
                FAILED,
            )
        staged.append(staging)
    return staged


def _staged(found: Any, prefix: str) -> Iterator[tuple[Staging, bool]]:
    for schema, name, comment, is_own in run(found, _STAGED, prefix):
        staging = Staging.of(schema, name, comment)
        if staging is not None:
            yield staging, is_own
