"""Databases: what their options are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Between, Options
from spark_jobs.scan.bookmarks import Growth


@dataclass(frozen=True)
class DatabaseRead(Options):
    """`options:` of a database source.

    Args:
        connection: The name of the connection: `[connections.NAME]` in `clinker.toml`, or the variable
            `CLINKER_CONNECTION_NAME` with its URI. Never a URI itself.
        table: The table or view that is read, with its schema where it needs one.
        query: The statement whose rows are read, in place of a table.
        partition_by: The column of numbers, dates or moments whose values are cut into ranges, which tasks read in
            parallel. Tables of PostgreSQL and SQLite are read in parallel without it, by their places.
        partitions: How many ranges there are.
    """

    connection: str = ""
    table: str = ""
    query: str = ""
    partition_by: str = ""
    partitions: Annotated[int, Between(1, 10_000)] = 1

    @property
    def shown(self) -> str:
        """What is read, for plans."""
        ranges = f", in {self.partitions} ranges of `{self.partition_by}`" if self.partition_by else ""
        return f"{self.table or 'rows of a statement'} of connection '{self.connection}'{ranges}"

    def problems(self) -> list[tuple[str, str]]:
        """A connection has a name, and either a table or a statement is read."""
        found = []
        if not self.connection:
            found.append(("connection", "the name of a connection is needed"))
        elif not self.connection.replace("-", "_").isidentifier() or not self.connection.isascii():
            # It may be a URI with a password, which no message shows.
            found.append(("connection", "is no name; a connection is a name of letters, digits, `_` and `-`"))
        if bool(self.table) == bool(self.query):
            found.append(("query" if self.query else "table", "exactly one of `table` and `query` is needed"))
        if (self.partitions > 1) != bool(self.partition_by):
            found.append(("partitions", "`partition_by` and `partitions` go together"))
        return found


@dataclass(frozen=True)
class DatabaseWrite(Options):
    """`options:` of a database output: there are none."""


FORMAT = Format(
    "database",
    "database",
    chapter=8.6,
    read_options=DatabaseRead,
    write_options=DatabaseWrite,
    is_typed=True,
    has_files=False,
    known_as=("postgres", "postgresql", "sqlite", "mysql", "sql", "jdbc", "table"),
    growth=Growth.COLUMN,
)
