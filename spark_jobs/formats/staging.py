"""Staging tables: where records of an output wait that go into a table, until the run publishes them.

What the package of such a format has for them is its module `loading.py` (`Loader`).
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
    """A staging table, as its note says.

    Args:
        schema: the schema that it is in.
        name: its name.
        run: the execution id.
        connection: the name of the connection that the run reaches it by.
        target: the table that gets its rows, as statements have it.
        mode: `insert`, `upsert` or `replace`.
        keys: the key columns of upserts.
        columns: the columns that are written, each with the SQL expression of its staged value.
        rows: how many rows it has once it is filled; -1 before.
        home: where the run decides, as JSON has addresses; None where it decides by itself, or has not prepared yet.
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
        """Its name as statements have it."""
        mark = self.quote
        return ".".join(f"{mark}{each.replace(mark, mark * 2)}{mark}" for each in (self.schema, self.name))

    @property
    def comment(self) -> str:
        """The text of its note, which PostgreSQL keeps as a comment."""
        return json.dumps({key: value for key, value in asdict(self).items() if key not in ("schema", "name")})

    @classmethod
    def of(cls, schema: str, name: str, comment: str) -> Staging | None:
        """The one that a note is about; None where it is about something else."""
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

    `opened` is a transaction. All functions raise FormatError (E911) where the database refuses or fails. What a
    database cannot do within its transaction, such as dropping a table, is done once it is committed: a staging table
    without a note is none any more.
    """

    #: Whether all machines reach the database; else the process of the driver fills its staging tables.
    IS_FILLED_BY_TASKS: bool

    def look(self, connection: Connection, options: Any) -> Any:
        """Options of an output that know their table (`options.target.relation`); Unfit where it is not to be had."""

    def opened(self, connection: Connection, name: str = "") -> AbstractContextManager[Any]:
        """A transaction that is committed at the end, and rolled back where something fails."""

    def tried(self, connection: Connection) -> AbstractContextManager[Any]:
        """A transaction that is rolled back in any case, after all constraints have been checked."""

    def held(self, connection: Connection, run_name: str, name: str) -> Any:
        """A sign that a run lives, valid until it is closed; None if something else shows that."""

    def begin(
        self, connection: Connection, options: Any, run_name: str, number: int, schema: pa.Schema
    ) -> Staging:  # fmt: skip
        """Make a staging table for an output."""

    def fill(
        self, connection: Connection, staging: Staging, part: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> int:
        """Put the rows of a part into a staging table, once however often this is tried; gives their number."""

    def note(self, found: Any, staging: Staging) -> None:
        """Write the note of a staging table: how it is published, and its run's home."""

    def keep(self, found: Any, staging: Staging) -> None:
        """Have a staging table outlive the server."""

    def alone(self, found: Any, run_name: str, connection: str) -> None:
        """Lock a run's staged rows against publication and removal by others until the transaction ends."""

    def publish(self, found: Any, staging: Staging) -> None:
        """Put the rows of a staging table into its table, and remove it."""

    def is_twice(self, problem: FormatError) -> bool:
        """Whether the database has refused a value that it has already."""

    def moved(self, found: Any) -> int | None:
        """Count the rows of the table that come from a staging table being published; None: only the database knows."""

    def drop(self, found: Any, staging: Staging) -> None:
        """Remove a staging table."""

    def left(self, found: Any) -> list[Staging]:
        """The staging tables of all runs that this connection may settle."""

    def left_of(self, found: Any, run_name: str, connection: str) -> list[Staging]:
        """The staging tables of a run. Raises FormatError also if some belong to somebody else."""
