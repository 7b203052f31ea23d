"""Rows into tables of MySQL and MariaDB: staging tables that tasks fill, and the statements that publish them.

These databases commit an open transaction when a table is created or dropped. So a staging table is an ordinary InnoDB
table, and its note is one of its rows, without a part. The transaction that publishes its rows removes the note: a
staging table without a note is finished, and any run that finds it drops it. Notes contain no SQL: statements are made
from names and from the catalogue of the database.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.formats import format
from spark_jobs.formats.database import targets
from spark_jobs.formats.database.loading import staging as staging_of
from spark_jobs.formats.database.mysql import columns as kinds
from spark_jobs.formats.database.mysql.reading import connected, quoted, relation_of, translated_errors
from spark_jobs.formats.database.options import KnownDatabaseWrite, WriteMode
from spark_jobs.formats.database.targets import Constraint, Target, TargetColumn
from spark_jobs.formats.staging import Staging
from spark_jobs.scan.connections import FAILED
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from spark_jobs.formats.database.options import DatabaseWrite
    from spark_jobs.scan.connections import Connection

#: See `formats/staging.py:Loader`.
IS_FILLED_BY_TASKS = True
#: The extra columns of a staging table; columns of records have no `$` in their names. The row of the note has no part.
PART, ROW, NOTE = "$part", "$row", "$note"
_PART, _ROW, _NOTE, _AGAIN = "`$part`", "`$row`", "`$note`", "`$again`"
_PREFIX = "clinker_stage_"
#: So long a statement waits for a lock of another session, in seconds.
LOCK_S = 60
#: Settings for values that override the defaults of the server and of option files. Days and months 0 are allowed,
#: because old tables have them as defaults; records with them are refused before (`columns.py`).
_SETTINGS = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,"
    "NO_ENGINE_SUBSTITUTION'",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION foreign_key_checks = 1, unique_checks = 1, sql_safe_updates = 0, sql_select_limit = DEFAULT",
    f"SET SESSION innodb_lock_wait_timeout = {LOCK_S}, lock_wait_timeout = {LOCK_S}",
    "SET SESSION net_read_timeout = 86400, net_write_timeout = 86400",
)
_CHECKED = "SET SESSION check_constraint_checks = 1"
#: A session that shows that a run lives may say nothing for long.
_PATIENT = "SET SESSION wait_timeout = 31536000"
#: Errors: a lock that was waited for in vain, sessions that waited for one another, a value that is there twice.
_LOCKED, _DEADLOCK, _TWICE = 1205, 1213, 1062
#: Errors about a table that is gone, that is no staging table, or that this user may not read.
_NOT_READ = frozenset([1142, 1143, 1054, 1146, 1044])
_DENIED = frozenset([1142, 1143, 1044, 1227, 1370])
#: Statements are about so long, however much the server takes.
_STATEMENT_CHARACTERS = 1 << 20
_RELATION = """
SELECT t.table_schema, t.table_name, t.table_type, t.engine, database() FROM information_schema.tables t
WHERE t.table_schema = coalesce(%s, database()) AND t.table_name = %s"""
_COLUMNS = """
SELECT c.column_name, c.data_type, c.column_type, c.is_nullable, c.column_default, c.extra, c.character_maximum_length,
    c.character_octet_length, c.numeric_precision, c.numeric_scale, c.datetime_precision, c.character_set_name,
    c.collation_name, c.generation_expression
FROM information_schema.columns c WHERE c.table_schema = %s AND c.table_name = %s ORDER BY c.ordinal_position"""
_UNIQUE = """
SELECT s.index_name, s.column_name, s.sub_part FROM information_schema.statistics s
WHERE s.table_schema = %s AND s.table_name = %s AND s.non_unique = 0 ORDER BY s.index_name, s.seq_in_index"""
_FOREIGN = """
SELECT k.constraint_name, k.column_name, k.referenced_table_schema, k.referenced_table_name, k.referenced_column_name
FROM information_schema.key_column_usage k
WHERE k.table_schema = %s AND k.table_name = %s AND k.referenced_table_name IS NOT NULL
ORDER BY k.constraint_name, k.ordinal_position"""
#: Foreign keys of other tables that change or delete rows when the row that they refer to is deleted.
_FOLLOWING = """
SELECT r.constraint_schema, r.table_name, r.delete_rule FROM information_schema.referential_constraints r
WHERE r.unique_constraint_schema = %s AND r.referenced_table_name = %s
    AND (r.constraint_schema, r.table_name) <> (%s, %s) AND r.delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
ORDER BY 1, 2"""
#: MariaDB says the table of a check, and checks all of them; MySQL says whether it does.
_CHECKS_OF_MARIADB = """
SELECT c.constraint_name, c.check_clause FROM information_schema.check_constraints c
WHERE c.constraint_schema = %s AND c.table_name = %s ORDER BY 1"""
_CHECKS_OF_MYSQL = """
SELECT c.constraint_name, c.check_clause FROM information_schema.check_constraints c
JOIN information_schema.table_constraints t USING (constraint_schema, constraint_name)
WHERE t.table_schema = %s AND t.table_name = %s AND t.constraint_type = 'CHECK' AND t.enforced = 'YES' ORDER BY 1"""
_STAGED = r"""
SELECT t.table_schema, t.table_name FROM information_schema.tables t WHERE t.table_name LIKE %s ORDER BY 1, 2"""
_NAME_IN_CHECK = re.compile(r"`((?:[^`]|``)+)`")
#: A member of an enumeration in the text of a type, and the escapes in it.
_MEMBER, _ESCAPED = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL), re.compile(r"''|\\(.)", re.DOTALL)
_CHARACTERS = {"0": "\0", "n": "\n", "r": "\r", "Z": "\x1a", None: "'"}


def _digest(*names: str) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:24]


def name_of(run: str, connection: str, number: int | str = "") -> str:
    """Give the name of a staging table of a run: a prefix, a digest of the run and connection, and a number."""
    return f"{_PREFIX}{_digest(run, connection)}_{number}"


def _lock_of(name: str) -> str:
    """The lock of the run that a staging table belongs to."""
    return f"clinker_run_{name.removeprefix(_PREFIX).partition('_')[0]}"


@dataclass
class Session:
    """A session, and the staging tables to drop once its transaction is committed.

    Args:
        raw: the driver's.
        published: staging tables whose rows are in their tables.
        removed: staging tables that are given up.
    """

    raw: Any
    published: list[Staging] = field(default_factory=list)
    removed: list[Staging] = field(default_factory=list)

    def close(self) -> None:
        """End it."""
        # Closing fails if the server has ended the session already.
        with contextlib.suppress(Exception):
            self.raw.close()


def session(connection: Connection, isolation: str) -> Session:
    """A session with the settings of this package; errors are the driver's."""
    found = Session(connected(connection))
    try:
        for setting in _SETTINGS:
            run(found, setting)
        if _is_mariadb(found):
            run(found, _CHECKED)
        run(found, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
        run(found, "SET SESSION TRANSACTION READ WRITE")
    except BaseException:
        found.close()
        raise
    return found


def _is_mariadb(found: Session) -> bool:
    return "MariaDB" in _text(run(found, "SELECT VERSION()")[0][0])


@contextmanager
def transaction(connection: Connection, name: str = "", *, isolation: str = "REPEATABLE READ") -> Iterator[Session]:
    """A session with a transaction that is committed at the end, and rolled back on errors.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    with waiting(connection), translated_errors(connection, name):
        found = session(connection, isolation)
        try:
            run(found, "START TRANSACTION")
            yield found
            run(found, "COMMIT")
            for each in found.removed:
                run(found, f"DROP TABLE IF EXISTS {each.table}")
            _forget(found)
        finally:
            found.close()


def _forget(found: Session) -> None:
    """Drop published staging tables. If this fails, the next run drops them, because they have no note any more."""
    import pymysql

    with contextlib.suppress(pymysql.Error, OSError):
        for each in found.published:
            run(found, f"DROP TABLE IF EXISTS {each.table}")


@contextmanager
def waiting(connection: Connection) -> Iterator[None]:
    """Turns the error of waiting too long for another session's lock into a message with a remedy.

    Raises:
        FormatError: it does (E911).
    """
    try:
        yield
    except FormatError as problem:
        if f"({_LOCKED})" in problem.message:
            text = (
                f"another session has held a lock for {LOCK_S} s (lock wait timeout, {_LOCKED}); SHOW PROCESSLIST and "
                "information_schema.innodb_trx say which: end it, or wait for it, and run again"
            )
        elif f"({_DEADLOCK})" in problem.message:
            text = f"this run and another session waited for one another (deadlock, {_DEADLOCK}): run again"
        else:
            raise
        raise FormatError(f"connection '{connection.name}': {text}", problem.path, problem.code) from None


@contextmanager
def rolled_back_transaction(connection: Connection) -> Iterator[Session]:
    """A transaction that is rolled back in any case; all constraints are checked by each statement.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    with transaction(connection) as found:
        yield found
        run(found, "ROLLBACK")
        found.published.clear()


def lock_run(connection: Connection, run_name: str, name: str) -> Session | None:
    """A session that holds the lock of a live run; None if another session holds it.

    Args:
        connection: where.
        run_name: the execution id.
        name: the name of the connection.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    with translated_errors(connection):
        found = session(connection, "READ COMMITTED")
        try:
            run(found, _PATIENT)
            is_mine = _locked(found, _lock_of(name_of(run_name, name)), 0)
        except BaseException:
            found.close()
            raise
    if is_mine:
        return found
    found.close()
    return None


def _locked(found: Session, name: str, seconds: int) -> bool:
    """Whether the session has got a lock by name, which it holds until it ends."""
    return run(found, "SELECT GET_LOCK(%s, %s)", name, seconds) == [(1,)]


def _lock(found: Session, name: str, what: str) -> None:
    if not _locked(found, name, LOCK_S):
        text = f"another session has held the lock {name} for {LOCK_S} s, {what}: wait for it, and run again"
        raise FormatError(text, what, FAILED)


def run(opened: Session, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement; returns its rows, none for a statement that has no result."""
    with opened.raw.cursor() as cursor:
        cursor.execute(text, values or None)
        return [*cursor.fetchall()]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def look(connection: Connection, options: DatabaseWrite) -> KnownDatabaseWrite:
    """Complete the options of an output with the columns and constraints of its table.

    Raises:
        FormatError: the database refuses or fails (E911).
        format.UnwritableFile: there is no such table, or the run may not write it as it is to.
    """
    wanted = relation_of(options.table)
    with transaction(connection, options.table) as found:
        known = run(found, _RELATION, *wanted)
        if not known:
            raise format.UnwritableFile(f"there is no table `{options.table}`, or no right to see it")
        schema, table, kind, engine, current = (None if each is None else _text(each) for each in known[0])
        assert schema is not None
        assert table is not None
        name, relation = table if schema == current else f"{schema}.{table}", _relation(schema, table)
        if kind not in ("BASE TABLE", "SYSTEM VERSIONED"):
            raise format.UnwritableFile(f"`{options.table}` is no table that rows can be put into")
        if engine != "InnoDB":
            raise format.UnwritableFile(
                f"table {name} is of the engine {engine}, which has no transactions, so a run could not publish all "
                f"records or none: ALTER TABLE {relation} ENGINE=InnoDB"
            )
        is_mariadb = _is_mariadb(found)
        checks = _checks(found, schema, table, is_mariadb=is_mariadb)
        columns = tuple(_column(row, checks) for row in run(found, _COLUMNS, schema, table))
        _refuse_without_rights(
            found, options, name, relation, next((each.name for each in columns if each.is_written), columns[0].name)
        )
        staging_schema = options.staging_schema or schema
        _refuse_without_staging(found, staging_schema)
        if options.mode is WriteMode.REPLACE:
            following = run(found, _FOLLOWING, schema, table, schema, table)
            targets.refuse_following(name, [(_relation(*map(_text, each)), _text(rule)) for *each, rule in following])
        unique_indexes = tuple(_unique(found, schema, table, columns))
        whole = [index.columns for index in unique_indexes if index.is_of_columns]
        if options.key and frozenset(options.key) not in map(frozenset, whole):
            listed = "; ".join(", ".join(each) for each in whole) or "none"
            raise format.UnwritableFile(
                f"no unique index of table {name} has just the columns of `key`: there is {listed}"
            )
        constraints = [*unique_indexes]
        constraints += _foreign(found, schema, table)
        constraints += checks
        ((most,),) = run(found, "SELECT @@max_allowed_packet")
    target = Target(
        name,
        relation,
        staging_schema,
        columns,
        options.key,
        tuple(constraints),
        connection,
        "mysql",
        int(most),
        unique_indexes=unique_indexes,
    )
    return KnownDatabaseWrite(**vars(options), known=target)


def _relation(schema: str, table: str) -> str:
    return f"{quoted(schema)}.{quoted(table)}"


def _column(row: tuple[Any, ...], checks: list[Constraint]) -> TargetColumn:
    name, kind, type, nullable, default, extra, *rest = (None if each is None else _text(each) for each in row)
    characters, octets, precision, scale, moment, charset, collation, made = rest
    assert name is not None
    assert kind is not None
    assert type is not None
    extra = (extra or "").upper()
    # MariaDB keeps JSON as texts, and says by a check that they are.
    if kind == "longtext" and any(each.text == f"json_valid({quoted(name)})" for each in checks):
        kind = "json"
    is_counted = kind in ("char", "varchar")
    length = characters if is_counted else octets
    if kind == "bit":
        length, precision = precision, None
    if kind in ("float", "double") and scale is None:
        precision = None
    return TargetColumn(
        name=name,
        kind=kind,
        type=type,
        needs_value=nullable == "NO",
        has_default=default not in (None, "NULL") or "AUTO_INCREMENT" in extra or "DEFAULT_GENERATED" in extra,
        is_written=not made and "GENERATED" not in extra.replace("DEFAULT_GENERATED", ""),
        length=None if length is None else int(length),
        precision=int(moment or 0) if kind in ("datetime", "timestamp", "time") else _int(precision),
        scale=_int(scale),
        is_unsigned="unsigned" in type,
        choices=_members(type) if kind in ("enum", "set") else (),
        charset=(charset, collation) if charset and collation else None,
    )


def _members(type: str) -> tuple[str, ...]:
    """The texts that an enumeration has."""

    def meant(found: re.Match[str]) -> str:
        return _CHARACTERS.get(found[1], found[1])

    return tuple(_ESCAPED.sub(meant, each) for each in _MEMBER.findall(type))


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)


def _unique(found: Session, schema: str, table: str, columns: Sequence[TargetColumn]) -> Iterator[Constraint]:
    """The unique indexes of columns, and of the first characters of texts; not of the first bytes of a column."""
    texts = {column.name for column in columns if column.charset}
    listed: dict[str, list[tuple[str, int]] | None] = {}
    for index, column, part in run(found, _UNIQUE, schema, table):
        name, prefix = None if column is None else _text(column), int(part or 0)
        known = listed.setdefault(_text(index), [])
        if name is None or (prefix and name not in texts):
            listed[_text(index)] = None
        elif known is not None:
            known.append((name, prefix))
    for index, pairs in listed.items():
        if pairs is not None:
            names, prefixes = zip(*pairs, strict=True)
            is_whole = not any(prefixes)
            yield Constraint("unique", index, names, prefixes=() if is_whole else prefixes, is_of_columns=is_whole)


def _foreign(found: Session, schema: str, table: str) -> list[Constraint]:
    listed: dict[str, tuple[str, list[str], list[str]]] = {}
    for row in run(found, _FOREIGN, schema, table):
        name, own, other_schema, other_table, other = map(_text, row)
        if (other_schema, other_table) != (schema, table):
            _, columns, others = listed.setdefault(name, (_relation(other_schema, other_table), [], []))
            columns.append(own)
            others.append(other)
    return [
        Constraint("foreign key", name, tuple(columns), other, tuple(others))
        for name, (other, columns, others) in listed.items()
    ]


def _checks(found: Session, schema: str, table: str, *, is_mariadb: bool) -> list[Constraint]:
    import pymysql

    try:
        rows = run(found, _CHECKS_OF_MARIADB if is_mariadb else _CHECKS_OF_MYSQL, schema, table)
    except pymysql.Error as problem:
        if problem.args and problem.args[0] in (1109, 1054):
            return []  # a server without checks
        raise
    constraints = []
    for name, clause in rows:
        names = dict.fromkeys(each.replace("``", "`") for each in _NAME_IN_CHECK.findall(_text(clause)))
        constraints.append(Constraint("check", _text(name), tuple(names), text=_text(clause)))
    return constraints


def _refuse_without_rights(found: Session, options: DatabaseWrite, name: str, relation: str, column: str) -> None:
    """Have the statements explained that will be executed: that asks for the same rights."""
    import pymysql

    needed = {"insert": ("INSERT",), "upsert": ("INSERT", "UPDATE", "SELECT"), "replace": ("INSERT", "DELETE")}
    texts = {
        "INSERT": f"EXPLAIN INSERT INTO {relation} () VALUES ()",
        "UPDATE": f"EXPLAIN UPDATE {relation} SET {quoted(column)} = {quoted(column)} WHERE false",
        "DELETE": f"EXPLAIN DELETE FROM {relation} WHERE false",
        "SELECT": f"SELECT 1 FROM {relation} WHERE false",
    }
    rights = needed[str(options.mode)]
    for right in rights:
        try:
            run(found, texts[right])
        except pymysql.Error as problem:
            if not problem.args or problem.args[0] not in _DENIED:
                raise
            raise format.UnwritableFile(
                f"the right {right} on table {name} is missing: GRANT {', '.join(rights)} ON {relation}"
            ) from None


def _refuse_without_staging(found: Session, schema: str) -> None:
    """Create, change and drop staging tables, to find missing rights before the run reads anything."""
    import pymysql

    name = f"{_PREFIX}{_digest('probe', str(run(found, 'SELECT UUID()')[0][0]))}_probe"
    table = _relation(schema, name)
    try:
        # Servers may want a primary key in every table.
        run(found, f"CREATE TEMPORARY TABLE {table} ({_PART} int PRIMARY KEY) ENGINE=InnoDB")
        run(found, f"DROP TEMPORARY TABLE {table}")
        run(found, f"CREATE TABLE {table} ({_PART} int PRIMARY KEY, {_ROW} int, {_NOTE} int) ENGINE=InnoDB")
        run(found, f"DELETE FROM {table}")
        run(found, f"INSERT INTO {table} SELECT * FROM {table} WHERE false")
        run(found, f"UPDATE {table} SET {_NOTE} = 1")
        run(found, f"DROP TABLE {table}")
    except pymysql.Error as problem:
        number = problem.args[0] if problem.args else None
        if number == 1049:
            raise format.UnwritableFile(f"there is no database `{schema}`, which `staging_schema` names") from None
        if number not in _DENIED:
            raise
        raise format.UnwritableFile(
            f"{problem.args[1]}: rows wait in the database {schema} until they are published: GRANT CREATE, DROP, "
            f"SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON {quoted(schema)}.*, or name another one by "
            "`staging_schema`"
        ) from None


def column_definition(column: TargetColumn) -> str:
    """A column like one of the table, for statements, which takes nulls and has no default."""
    characters = f" CHARACTER SET {column.charset[0]} COLLATE {column.charset[1]}" if column.charset else ""
    return f"{quoted(column.name)} {column.type}{characters} NULL DEFAULT NULL"


def begin(
    connection: Connection, options: KnownDatabaseWrite, run_name: str, number: int, schema: pa.Schema
) -> Staging:
    """Make a staging table whose columns have the types of the table's columns; see `formats/staging.py:Loader`."""
    known = {column.name: column for column in options.known.columns}
    staging = staging_of(
        connection,
        options,
        run_name,
        name_of(run_name, connection.name, number),
        ((each.name, known[each.name].to_json()) for each in schema),
        quote="`",
    )
    definitions = [column_definition(known[each.name]) for each in schema]
    definitions += [f"{_PART} bigint NOT NULL", f"{_ROW} bigint NOT NULL", f"{_NOTE} longtext CHARACTER SET utf8mb4"]
    definitions.append(f"PRIMARY KEY ({_PART}, {_ROW})")
    with transaction(connection, staging.target) as found:
        run(found, f"CREATE TABLE {staging.table} ({', '.join(definitions)}) ENGINE=InnoDB")
        relation = _in_pattern(staging.table)
        run(found, f"INSERT INTO {relation} ({_PART}, {_ROW}, {_NOTE}) VALUES (-1, 0, %s)", staging.comment)
    return staging


def write_note(found: Session, staging: Staging) -> None:
    """Write the note of a staging table."""
    run(found, f"UPDATE {_in_pattern(staging.table)} SET {_NOTE} = %s WHERE {_PART} = -1", staging.comment)


def _in_pattern(name: str) -> str:
    """A name in a statement with values, into which the driver puts these by `%`."""
    return name.replace("%", "%%")


def make_durable(found: Session, staging: Staging) -> None:
    """Nothing to do: InnoDB tables survive a crash of the server."""


def drop(found: Session, staging: Staging) -> None:
    """Remove a staging table, once the transaction is committed."""
    found.removed.append(staging)


def fill(
    connection: Connection, staging: Staging, part: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> int:
    """Put the rows of a part into a staging table, and return their number. A repeated attempt adds no row twice.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    columns = [TargetColumn.from_json(name, text) for name, text in staging.columns]
    names = ", ".join([*(quoted(each.name) for each in columns), _PART, _ROW])
    count = 0

    def lines() -> Iterator[str]:
        nonlocal count
        for batch in batches:
            values = [kinds.literals(each, array) for each, array in zip(columns, batch.columns, strict=True)]
            for each in zip(*values, strict=True):
                yield f"({','.join(each)},{part},{count})"
                count += 1

    with transaction(connection, staging.target, isolation="READ COMMITTED") as found:
        # Another attempt at the same part may be on its way: it waits here, and its rows are seen once it is done.
        _lock(found, f"clinker_part_{_digest(staging.run, staging.table, str(part))}", staging.target)
        run(found, f"DELETE FROM {staging.table} WHERE {_PART} = {part}")
        ((most,),) = run(found, "SELECT @@max_allowed_packet")
        for text in statements_of(f"INSERT INTO {staging.table} ({names}) VALUES ", lines(), int(most)):
            run(found, text)
    return count


def statements_of(start: str, lines: Iterable[str], most_bytes: int | None) -> Iterator[str]:
    """Statements with many rows each, that the server takes.

    Args:
        start: how each begins.
        lines: the rows; a row that is larger than a statement may be is alone.
        most_bytes: the most that the server takes.
    """
    # A character has four bytes at most.
    most = min(_STATEMENT_CHARACTERS, max(1, (most_bytes or 4 * _STATEMENT_CHARACTERS) // 4 - len(start) - 64))
    held: list[str] = []
    size = 0
    for line in lines:
        if held and size + len(line) > most:
            yield start + ",".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line) + 1
    if held:
        yield start + ",".join(held)


def lock_publication(found: Session, run_name: str, connection: str) -> None:
    """Take the publication lock of a run until the session ends: no other session publishes or removes its rows."""
    _lock(found, f"clinker_publish_{_digest(run_name, connection)}", connection)


def publish(found: Session, staging: Staging) -> None:
    """Put the rows of a staging table into its table, and remove its note; not committed yet."""
    # Runs that write one table follow one another, so that a replacement has the rows of one of them.
    _lock(found, f"clinker_into_{_digest(staging.target)}", staging.target)
    ((rows,),) = run(found, f"SELECT count(*) FROM {staging.table} WHERE {_PART} >= 0")
    if rows != staging.rows:
        raise FormatError(
            f"{staging.table} has {rows} rows, and {staging.rows} were put into it: somebody has changed them; run "
            "again",
            staging.target,
            FAILED,
        )
    with _translated_publication_errors(staging):
        for text in statements(staging):
            run(found, text)
    run(found, f"DELETE FROM {staging.table} WHERE {_PART} = -1")
    found.published.append(staging)


def is_twice(problem: FormatError) -> bool:
    """See `formats/staging.py:Loader`."""
    return f"({_TWICE})" in problem.message


def published_rows(found: Any) -> int | None:
    """See `formats/staging.py:Loader`: a single statement publishes all rows."""


@contextmanager
def _translated_publication_errors(staging: Staging) -> Iterator[None]:
    """Translates errors of the driver: the message names the table, and says why no check has refused the record."""
    import pymysql

    try:
        yield
    except pymysql.Error as problem:
        if len(problem.args) < 2:
            raise
        hint = ""
        if problem.args[0] == _TWICE:
            hint = (
                "; no row had this value when the records were looked at: either two records have it (keep one of them "
                "with `distinct`, or use `mode: upsert`), or another session has put it there since (run again)"
            )
        raise type(problem)(problem.args[0], f"table {staging.target}: {problem.args[1]}{hint}") from None


def statements(staging: Staging) -> list[str]:
    """Give the SQL statements that move staged rows into their table, in the order in which they run."""
    named = [quoted(name) for name, _ in staging.columns]
    names, order = ", ".join(named), f"{_PART}, {_ROW}"
    if staging.mode != "upsert":
        emptied = [f"DELETE FROM {staging.target}"] if staging.mode == "replace" else []
        text = f"INSERT INTO {staging.target} ({names}) SELECT {names} FROM {staging.table}"
        return [*emptied, f"{text} WHERE {_PART} >= 0 ORDER BY {order}"]
    keys = [quoted(key) for key in staging.keys]
    others = [name for name in named if name not in keys]
    # Of several records with the same key the last one counts, as if they had come one after the other.
    last = (
        f"(SELECT * FROM (SELECT {names}, {order}, row_number() OVER (PARTITION BY {', '.join(keys)} "
        f"ORDER BY {_PART} DESC, {_ROW} DESC) AS {_AGAIN} FROM {staging.table} WHERE {_PART} >= 0) a "
        f"WHERE {_AGAIN} = 1) s"
    )
    same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    # `ON DUPLICATE KEY UPDATE` would also change rows that have a value of another unique index.
    change = (
        f"UPDATE {staging.target} t JOIN {last} ON {same} SET {', '.join(f't.{each} = s.{each}' for each in others)}"
    )
    add = (
        f"INSERT INTO {staging.target} ({names}) SELECT {', '.join(f's.{each}' for each in named)} FROM {last} "
        f"WHERE NOT EXISTS (SELECT 1 FROM {staging.target} t WHERE {same}) ORDER BY {order}"
    )
    return [*([change] if others else []), add]


def all_stagings(found: Session) -> list[Staging]:
    """The staging tables of all runs that this user sees. Drops tables without a note, unless their run is alive."""
    return [*_noted(found, _PREFIX)]


def stagings_of(found: Session, run_name: str, connection: str) -> list[Staging]:
    """The unfinished staging tables of a run in a connection."""
    return [
        staging
        for staging in _noted(found, name_of(run_name, connection), is_own=True)
        if (staging.run, staging.connection) == (run_name, connection)
    ]


def _noted(found: Session, prefix: str, *, is_own: bool = False) -> Iterator[Staging]:
    import pymysql

    pattern = prefix.replace("_", r"\_") + "%"
    for schema, name in [tuple(map(_text, row)) for row in run(found, _STAGED, pattern)]:
        try:
            notes = run(found, f"SELECT {_NOTE} FROM {_relation(schema, name)} WHERE {_PART} = -1")
        except pymysql.Error as problem:
            if problem.args and problem.args[0] in _NOT_READ:
                continue
            raise
        if notes:
            staging = Staging.of(schema, name, _text(notes[0][0]))
            if staging is not None:
                yield staging
        elif not is_own:
            _sweep(found, schema, name)


def _sweep(found: Session, schema: str, name: str) -> None:
    """Drop a staging table that is done with, or was never begun, unless its run lives."""
    import pymysql

    lock = _lock_of(name)
    if not _locked(found, lock, 0):
        return
    # Without the right to drop it, leave it to a run that has it.
    with contextlib.suppress(pymysql.OperationalError, pymysql.ProgrammingError):
        run(found, f"DROP TABLE IF EXISTS {_relation(schema, name)}")
    run(found, "SELECT RELEASE_LOCK(%s)", lock)
