"""Rows into tables of SQLite: they wait in files beside the database, and one transaction puts them into their tables.

One process at a time can write a SQLite database, and only on the machine that has its file, so the driver's process
does it. Rows wait as Arrow batches, which take no space in the database. The database itself has only the note of a
staging table, a table with one row, which the transaction that publishes the rows drops. Rows without a note are
finished: the next run removes them, unless a lock beside them shows that their run is alive.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.disk import durable
from spark_jobs.disk.locks import FileLock
from spark_jobs.formats import format
from spark_jobs.formats.database import targets
from spark_jobs.formats.database.loading import staging as staging_of
from spark_jobs.formats.database.options import KnownDatabaseWrite, WriteMode
from spark_jobs.formats.database.sqlite import columns as kinds
from spark_jobs.formats.database.sqlite import indexes
from spark_jobs.formats.database.sqlite.reading import named, path_of
from spark_jobs.formats.database.sqlite.session import identity, reading, translated_errors, writing
from spark_jobs.formats.database.tables import quoted
from spark_jobs.formats.database.targets import Constraint, Target, TargetColumn
from spark_jobs.formats.staging import Staging
from spark_jobs.scan.connections import FAILED
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.database.options import DatabaseWrite
    from spark_jobs.scan.connections import Connection

#: See `formats/staging.py:Loader`.
IS_FILLED_BY_TASKS = False
_PREFIX = "clinker_stage_"
_SCHEMA = "main"
_LOCK = "lock"
#: From this version on there are strict tables.
_STRICT_SINCE = (3, 37, 0)
#: Foreign keys of other tables that change or delete rows when the row that they refer to is deleted.
_FOLLOWING = """
SELECT DISTINCT m.name, f.on_delete FROM main.sqlite_master m, pragma_foreign_key_list(m.name) f
WHERE m.type = 'table' AND f."table" = ?1 COLLATE NOCASE AND m.name <> ?1 COLLATE NOCASE
    AND f.on_delete IN ('CASCADE', 'SET NULL', 'SET DEFAULT') ORDER BY 1"""
_CHECK = re.compile(r"\bCHECK\b", re.IGNORECASE)


def _digest(run: str, connection: str) -> str:
    return hashlib.sha256(json.dumps([run, connection]).encode()).hexdigest()[:24]


def name_of(run: str, connection: str, number: int | str = "") -> str:
    """Give the name of a staging table of a run: a prefix, a digest of the run and connection, and a number."""
    return f"{_PREFIX}{_digest(run, connection)}_{number}"


def _real(path: str) -> Path:
    """Resolve the links on the way to the file of a database."""
    return Path(os.path.realpath(path))


def _folder(database: Path, digest: str) -> Path:
    """Where the rows of a run wait, and its lock is."""
    return database.with_name(f".{database.name}.clinker_{digest}")


def _rows(database: Path, name: str) -> Path:
    """Where the rows of a staging table wait."""
    digest, _, number = name.removeprefix(_PREFIX).partition("_")
    return _folder(database, digest) / number


@dataclass
class Session:
    """A session that reads until something is to be written, and then has a transaction of its own.

    Args:
        path: the file of the database.
        raw: the driver's session; None before the first statement.
        is_writing: whether it has begun to write.
        gone: the rows that are removed once the transaction is committed.
        moved: how many rows of the staging table that is published are in its table.
    """

    path: str
    raw: sqlite3.Connection | None = None
    is_writing: bool = False
    gone: list[Path] = field(default_factory=list)
    moved: int = 0

    @property
    def database(self) -> Path:
        """The file, with links resolved."""
        return _real(self.path)

    def write(self) -> None:
        """Begin to write, where that is not so already: nobody else writes from here on."""
        if not self.is_writing:
            self.close()
            self.raw = writing(self.path)
            run(self, "BEGIN IMMEDIATE")
            self.is_writing = True

    def close(self) -> None:
        """Close the session, and roll back an open transaction."""
        if self.raw is not None:
            self.raw.close()
            self.raw = None


@contextmanager
def transaction(connection: Connection, name: str = "") -> Iterator[Session]:
    """A transaction that is committed at the end, and rolled back on errors.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    with translated_errors(connection, name), closing(Session(path_of(connection))) as found:
        yield found
        if found.is_writing:
            run(found, "COMMIT")
        for each in found.gone:
            shutil.rmtree(each, ignore_errors=True)  # files that remain have no note; the next run removes them
            if [beside.name for beside in each.parent.glob("*")] == [_LOCK]:
                _sweep(each.parent)


@contextmanager
def rolled_back_transaction(connection: Connection) -> Iterator[Session]:
    """A transaction that is rolled back in any case. Deferred foreign keys are not checked.

    Raises:
        FormatError: the database refuses or fails (E911).
    """
    with transaction(connection) as found:
        yield found
        found.close()
        found.is_writing = False
        found.gone.clear()


@dataclass(frozen=True)
class RunLock:
    """The lock of a run that lives, in the folder where its rows wait."""

    lock: FileLock

    def close(self) -> None:
        """Release it. Rows that are not settled stay."""
        folder = self.lock.path.parent
        self.lock.path.unlink(missing_ok=True)
        self.lock.close()
        if not any(folder.iterdir()):
            folder.rmdir()


def lock_run(connection: Connection, run_name: str, name: str) -> RunLock | None:
    """Take the lock that marks a run as alive; None if another process holds it.

    Raises:
        FormatError: the folder beside the database cannot be written (E911).
    """
    with translated_errors(connection):
        folder = _folder(_real(path_of(connection)), _digest(run_name, name))
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock.exclusive(folder / _LOCK)
    return None if lock is None else RunLock(lock)


def run(opened: Session, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement; returns its rows, none for a statement that has no result."""
    if opened.raw is None:
        opened.raw = reading(opened.path)
    return opened.raw.execute(text, values).fetchall()


def look(connection: Connection, options: DatabaseWrite) -> KnownDatabaseWrite:
    """Complete the options of an output with the columns and constraints of its table.

    Raises:
        FormatError: the database refuses or fails (E911).
        format.UnwritableFile: there is no such table, or the run may not write it as it is to.
    """
    path = path_of(connection)
    with translated_errors(connection, options.table), closing(Session(path)) as found:
        found.raw = reading(path)
        schema, table = named(found.raw, options.table)
        if options.staging_schema:
            raise format.UnwritableFile(
                "SQLite has no schemas: leave `staging_schema` out; rows wait beside the database"
            )
        known = run(
            found, "SELECT name, sql FROM main.sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", table
        )
        if schema not in ("", _SCHEMA) or not known:
            raise format.UnwritableFile(f"there is no table `{options.table}` in {path}")
        ((name, definition),) = known
        if not definition or definition.lower().startswith("create virtual") or name.lower().startswith("sqlite_"):
            raise format.UnwritableFile(f"`{options.table}` is no table that rows can be put into")
        for each in (found.database, found.database.parent):
            if not os.access(each, os.W_OK):
                raise format.UnwritableFile(
                    f"the right to write {each} is missing: SQLite writes the file, and others beside it"
                )
        if options.mode is WriteMode.REPLACE:
            targets.refuse_following(name, run(found, _FOLLOWING, name))
        is_strict, has_no_row_ids = _form(found, name)
        columns, row_id = _columns(found, name, is_strict=is_strict, has_no_row_ids=has_no_row_ids)
        constraints = _unique(found, name, definition, columns)
        if row_id is not None:
            constraints.append(Constraint("unique", f"{name}.{row_id}", (row_id,)))
        unique_indexes = tuple(constraints)
        unique = [each.columns for each in unique_indexes if each.is_of_columns]
        if options.key and frozenset(options.key) not in map(frozenset, unique):
            listed = "; ".join(", ".join(each) for each in unique) or "none"
            raise format.UnwritableFile(
                f"no unique index of table {name} has just the columns of `key`: there is {listed}"
            )
        constraints += _foreign(found, name)
        if is_strict or _CHECK.search(definition):
            constraints.append(Constraint("check", name, (), text=definition))
        relation = f"{_SCHEMA}.{quoted(name)}"
        if options.key:
            _explain(found, relation, options.key)
    target = Target(
        name,
        relation,
        _SCHEMA,
        columns,
        options.key,
        tuple(constraints),
        connection,
        "sqlite",
        seen=identity(path),
        unique_indexes=unique_indexes,
    )
    return KnownDatabaseWrite(**vars(options), known=target)


def _explain(found: Session, relation: str, key: tuple[str, ...]) -> None:
    """Have the index found by its columns, which must be compared as the index compares them."""
    names = ", ".join(map(quoted, key))
    marks = ", ".join("?" * len(key))
    statement = f"EXPLAIN INSERT OR ABORT INTO {relation} ({names}) VALUES ({marks}) ON CONFLICT ({names}) DO NOTHING"
    try:
        run(found, statement, *(None for _ in key))
    except sqlite3.OperationalError as problem:
        if "ON CONFLICT" not in str(problem):
            raise
        raise format.UnwritableFile(
            f"the unique index of {', '.join(key)} compares values in another way than its columns do: {problem}"
        ) from None


def _form(found: Session, table: str) -> tuple[bool, bool]:
    """Whether a table is strict, and whether it has no row ids."""
    if sqlite3.sqlite_version_info < _STRICT_SINCE:
        return False, False
    text = "SELECT strict, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?"
    ((strict, without),) = run(found, text, table)
    return bool(strict), bool(without)


def _columns(
    found: Session, table: str, *, is_strict: bool, has_no_row_ids: bool
) -> tuple[tuple[TargetColumn, ...], str | None]:
    """The columns, and the name of the one that is another name of the row id."""
    columns = []
    row_id = None
    rows = run(found, 'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)', table)
    keys = [name for name, _, _, _, place, _ in rows if place]
    for name, declared, needs_value, default, place, hidden in rows:
        if hidden == 1:
            continue
        is_row_id = keys == [name] and declared.upper() == "INTEGER" and not has_no_row_ids
        row_id = name if is_row_id else row_id
        columns.append(
            TargetColumn(
                name=name,
                kind=kinds.kind_of_column(declared, is_strict=is_strict),
                type=declared or "BLOB",
                needs_value=bool(needs_value) or is_row_id or bool(place and has_no_row_ids),
                has_default=default is not None or is_row_id,
                is_written=not hidden,
            )
        )
    return tuple(columns), row_id


def _unique(found: Session, table: str, definition: str, columns: Sequence[TargetColumn]) -> list[Constraint]:
    """The unique indexes, but those with a collation that SQLite itself does not have among others' keys."""
    constraints = []
    names_of_table = [column.name for column in columns]
    listed = run(found, 'SELECT name, partial FROM pragma_index_list(?) WHERE "unique" ORDER BY name', table)
    for index, is_partial in listed:
        rows = run(found, "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno", index)
        names, collations = zip(*rows, strict=True)
        if not is_partial and None not in names:
            constraints.append(Constraint("unique", index, names, collations=collations))
        elif {collation.upper() for collation in collations} <= indexes.COLLATIONS:
            ((statement,),) = run(found, "SELECT sql FROM main.sqlite_master WHERE type = 'index' AND name = ?", index)
            keys, condition = indexes.parts(statement)
            named = indexes.named_in([*keys, condition], names_of_table)
            if named and len(keys) == len(names):
                constraints.append(
                    Constraint("unique", index, named, text=definition, collations=collations, keys=tuple(keys),
                               condition=condition, is_of_columns=False)
                )  # fmt: skip
    return constraints


def _foreign(found: Session, table: str) -> list[Constraint]:
    listed: dict[int, tuple[str, list[str], list[str | None]]] = {}
    text = 'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq'
    for number, other, own, there in run(found, text, table):
        if other.lower() != table.lower():
            _, columns, others = listed.setdefault(number, (other, [], []))
            columns.append(own)
            others.append(there)
    constraints = []
    for number, (other, columns, others) in listed.items():
        if None in others:  # the primary key of the other table
            text = "SELECT name FROM pragma_table_xinfo(?) WHERE pk > 0 ORDER BY pk"
            others = [name for (name,) in run(found, text, other)]
        if len(others) == len(columns):
            there = f"{_SCHEMA}.{quoted(other)}"
            name = f"{table}.{number}"
            constraints.append(Constraint("foreign key", name, tuple(columns), there, tuple(map(str, others))))
    return constraints


def begin(
    connection: Connection, options: KnownDatabaseWrite, run_name: str, number: int, schema: pa.Schema
) -> Staging:
    """Make the note of a staging table, and the folder for its rows; see `formats/staging.py:Loader`."""
    known = {column.name: column for column in options.known.columns}
    staging = staging_of(
        connection,
        options,
        run_name,
        name_of(run_name, connection.name, number),
        ((each.name, known[each.name].to_json()) for each in schema),
    )
    with transaction(connection, staging.target) as found:
        found.write()
        rows = _rows(found.database, staging.name)
        shutil.rmtree(rows, ignore_errors=True)
        rows.mkdir(mode=0o700)
        run(found, f"CREATE TABLE {staging.table} (note TEXT NOT NULL)")
        run(found, f"INSERT INTO {staging.table} VALUES (?)", staging.comment)
    return staging


def write_note(found: Session, staging: Staging) -> None:
    """Write the note of a staging table."""
    found.write()
    run(found, f"UPDATE {staging.table} SET note = ?", staging.comment)


def make_durable(found: Session, staging: Staging) -> None:
    """Flush the files of the rows to disk, so that they survive a crash of the machine."""
    rows = _rows(found.database, staging.name)
    durable.sync_files([str(each) for each in sorted(rows.iterdir())])
    durable.sync_folders(map(str, (rows, rows.parent, rows.parent.parent)))


def drop(found: Session, staging: Staging) -> None:
    """Remove a staging table."""
    found.write()
    run(found, f"DROP TABLE {staging.table}")
    found.gone.append(_rows(found.database, staging.name))


def fill(
    connection: Connection, staging: Staging, part: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> int:
    """Write the rows of a part to a file in the staging folder, and return their number.

    Raises:
        FormatError: they cannot be written (E911).
    """
    count = 0
    with translated_errors(connection, staging.target):
        path = _rows(_real(path_of(connection)), staging.name) / f"{part:08d}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                count += batch.num_rows
    return count


def lock_publication(found: Session, run_name: str, connection: str) -> None:
    """Nothing to do: an open transaction keeps all other writers out."""
    found.write()


def publish(found: Session, staging: Staging) -> None:
    """Put the rows of a staging table into its table, and remove it; not committed yet."""
    found.moved = 0
    found.write()
    with _translated_publication_errors(staging):
        if staging.mode == "replace":
            run(found, f"DELETE FROM {staging.target}")
        statement = _statement(staging)
        columns = [TargetColumn.from_json(name, text) for name, text in staging.columns]
        for batch in _waiting(found, staging):
            values = [kinds.values(each, array) for each, array in zip(columns, batch.columns, strict=True)]
            assert found.raw is not None
            found.raw.executemany(statement, zip(*values, strict=True))
            found.moved += batch.num_rows
    if found.moved != staging.rows:
        raise FormatError(
            f"{_rows(found.database, staging.name)} has {found.moved} rows, and {staging.rows} were put there: "
            "somebody has removed them; run again",
            staging.target,
            FAILED,
        )
    drop(found, staging)


def is_twice(problem: FormatError) -> bool:
    """See `formats/staging.py:Loader`."""
    return "UNIQUE constraint failed" in problem.message


def published_rows(found: Session) -> int | None:
    """See `formats/staging.py:Loader`."""
    return found.moved


def _waiting(found: Session, staging: Staging) -> Iterator[pa.RecordBatch]:
    folder = _rows(found.database, staging.name)
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        with pa.memory_map(str(path)) as mapped:
            try:
                reader = pa.ipc.open_file(mapped)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
            except pa.ArrowInvalid as problem:
                raise FormatError(f"{path} is damaged ({problem}); run again", staging.target, FAILED) from None


@contextmanager
def _translated_publication_errors(staging: Staging) -> Iterator[None]:
    """Translates errors of SQLite: the message names the table, and says why no check has refused the record."""
    try:
        yield
    except sqlite3.Error as problem:
        hint = ""
        if "UNIQUE" in str(problem) or "PRIMARY KEY" in str(problem):
            hint = (
                "; no row had this value when the records were looked at: either two records have it (keep one of them "
                "with `distinct`, or use `mode: upsert`), or another program has put it there since (run again)"
            )
        raise type(problem)(f"table {staging.target}: {problem}{hint}") from None


def _statement(staging: Staging) -> str:
    """Give the SQL statement that inserts a row; it overrides the conflict clauses of the table's constraints."""
    names = [quoted(name) for name, _ in staging.columns]
    marks = ", ".join("?" * len(names))
    text = f"INSERT OR ABORT INTO {staging.target} ({', '.join(names)}) VALUES ({marks})"
    if staging.mode != "upsert":
        return text
    # Of several records with the same key the last one counts, for they come one after the other.
    keys = [quoted(key) for key in staging.keys]
    others = [name for name in names if name not in keys]
    change = f"DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "DO NOTHING"
    return f"{text} ON CONFLICT ({', '.join(keys)}) {change}"


def all_stagings(found: Session) -> list[Staging]:
    """The staging tables of all runs in a database. Removes rows without a note, unless their run is alive."""
    noted = _noted(found, _PREFIX)
    names = {each.name.removeprefix(_PREFIX).partition("_")[0] for each in noted}
    start = f".{found.database.name}.clinker_"
    for folder in found.database.parent.glob(f"{_escaped(start)}*"):
        if folder.name.removeprefix(start) not in names:
            _sweep(folder)
    return noted


def _escaped(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def _sweep(folder: Path) -> None:
    """Remove the files of a dead run beside the database."""
    lock = FileLock.exclusive(folder / _LOCK)
    if lock is not None:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            lock.close()


def stagings_of(found: Session, run_name: str, connection: str) -> list[Staging]:
    """The staging tables of a run in a connection."""
    noted = _noted(found, name_of(run_name, connection))
    return [each for each in noted if (each.run, each.connection) == (run_name, connection)]


def _noted(found: Session, prefix: str) -> list[Staging]:
    tables = run(
        found, "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name GLOB ? ORDER BY name", f"{prefix}*"
    )
    stagings = []
    for (name,) in tables:
        try:
            notes = run(found, f"SELECT note FROM {_SCHEMA}.{quoted(name)}")
        except sqlite3.OperationalError:
            continue  # somebody else's table
        staging = Staging.of(_SCHEMA, name, notes[0][0]) if len(notes) == 1 else None
        if staging is not None:
            stagings.append(staging)
    return stagings
