"""Staging tables: they hold the records of an output for a database table until the run publishes them.

Each kind of database implements `Loader` in its module `loading.py`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import IO, TYPE_CHECKING, Any, Protocol

from spark_jobs.formats.format import ColumnWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from spark_jobs.scan.connections import Connection
    from spark_jobs.scan.files import FormatError


@dataclass(frozen=True)
class Staging:
    """A staging table, as described by its note.

    Args:
        schema: the schema that it is in.
        name: its name.
        run: the execution id.
        connection: the name of the run's connection.
        target: the qualified, quoted name of the table that gets its rows.
        mode: `insert`, `upsert` or `replace`.
        keys: the key columns of upserts.
        columns: the written columns, each with the SQL expression of its staged value.
        rows: the number of its rows once it is filled; -1 before.
        home: the address of the run's journal as JSON; None if the database is the run's only output, or if the run has
            not prepared yet.
        quote: the quote character around names in statements of the database.
    """

    schema: str
    name: str
    run: str
    connection: str
    target: str
    mode: str
    keys: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    rows: int = -1
    home: dict[str, str] | None = field(default=None, hash=False)
    quote: str = '"'

    @property
    def table(self) -> str:
        """Its qualified, quoted name."""
        mark = self.quote
        return ".".join(f"{mark}{each.replace(mark, mark * 2)}{mark}" for each in (self.schema, self.name))

    @property
    def comment(self) -> str:
        """The text of its note, which PostgreSQL stores as the table's comment."""
        return json.dumps({key: value for key, value in asdict(self).items() if key not in ("schema", "name")})

    @classmethod
    def of(cls, schema: str, name: str, comment: str) -> Staging | None:
        """The staging table that a note describes; None if the text is no such note."""
        try:
            found = json.loads(comment)
            keys, columns = tuple(found.pop("keys")), tuple((column, text) for column, text in found.pop("columns"))
            return cls(schema, name, keys=keys, columns=columns, **found)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


class TableWriter(ColumnWriter, Protocol):
    """Converts the records of an output to batches for a table."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the written batches."""

    def batches(self, source: IO[bytes], *, moved: bool) -> Iterator[pa.RecordBatch]:
        """The records in a stream, as batches."""


class Loader(Protocol):
    """Moves rows into staging tables, and from there into their tables.

    A `transaction` yields a session, which most other functions take. All functions raise FormatError (E911) if the
    database refuses or fails. Some databases cannot drop a table within a transaction: there the transaction removes
    the note of the staging table, which marks it as finished, and the table is dropped after the commit.
    """

    #: Whether tasks fill staging tables, because all machines can connect to the database; else the driver fills them.
    IS_FILLED_BY_TASKS: bool

    def look(self, connection: Connection, options: Any) -> Any:
        """The options of an output, completed by its table (`options.target.relation`); Unfit if that is impossible."""

    def transaction(self, connection: Connection, name: str = "") -> AbstractContextManager[Any]:
        """A transaction that is committed at the end, and rolled back on errors."""

    def rolled_back_transaction(self, connection: Connection) -> AbstractContextManager[Any]:
        """A transaction that is rolled back in any case, after all constraints have been checked."""

    def lock_run(self, connection: Connection, run_name: str, name: str) -> Any:
        """Take the lock that marks a run as alive, until the result is closed; None if another session has it."""

    def begin(
        self, connection: Connection, options: Any, run_name: str, number: int, schema: pa.Schema
    ) -> Staging:  # fmt: skip
        """Make a staging table for an output.

        Args:
            connection: the connection of the output.
            options: the options of the output, as `look` returns them.
            run_name: the execution id.
            number: the number of the staging table among those of the run in the connection.
            schema: the columns of the records.
        """

    def fill(
        self, connection: Connection, staging: Staging, part: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> int:
        """Put the rows of a part into a staging table, and return their number. A second attempt adds no row twice."""

    def write_note(self, found: Any, staging: Staging) -> None:
        """Write the note of a staging table: how it is published, and the home of its run."""

    def make_durable(self, found: Any, staging: Staging) -> None:
        """Make a staging table survive a crash of the server."""

    def lock_publication(self, found: Any, run_name: str, connection: str) -> None:
        """Lock a run's staged rows against publication and removal by others until the transaction ends."""

    def publish(self, found: Any, staging: Staging) -> None:
        """Put the rows of a staging table into its table, and remove it."""

    def is_twice(self, problem: FormatError) -> bool:
        """Whether the database has refused a value because it has it already."""

    def published_rows(self, found: Any) -> int | None:
        """The number of rows published so far from the staging table; None if a single statement publishes them all."""

    def drop(self, found: Any, staging: Staging) -> None:
        """Remove a staging table."""

    def all_stagings(self, found: Any) -> list[Staging]:
        """The staging tables of all runs that this session may complete or remove."""

    def stagings_of(self, found: Any, run_name: str, connection: str) -> list[Staging]:
        """The staging tables of a run. Also raises FormatError if one of them belongs to another user."""
