"""The options of database sources and outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Between, Listed, Options
from spark_jobs.formats.typed import counterparts
from spark_jobs.scan.bookmarks import Growth

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.database.targets import Target
    from spark_jobs.formats.database.unique_indexes import RunIndex


class WriteMode(StrEnum):
    """The ways to write records to a table: add rows, add or update by key, or replace all rows."""

    INSERT = "insert"
    UPSERT = "upsert"
    REPLACE = "replace"


def _connection_problems(name: str) -> Iterator[tuple[str, str]]:
    if not name:
        yield "connection", "the name of a connection is needed"
    elif not name.replace("-", "_").isidentifier() or not name.isascii():
        # It may be a URI with a password, which no message shows.
        yield "connection", "is no name; a connection is a name of letters, digits, `_` and `-`"


def _dataset(connection: str, table: str) -> str:
    return f"database:{connection}/{table}"


@dataclass(frozen=True)
class DatabaseRead(Options):
    """`options:` of a database source.

    Args:
        connection: The name of the connection: `[connections.NAME]` in `clinker.toml`, or the variable
            `CLINKER_CONNECTION_NAME` with its URI. Never a URI itself.
        table: The table or view that is read, with its schema where it needs one.
        query: The statement whose rows are read, in place of a table.
        partition_by: The column of numbers, dates or moments whose values are cut into ranges, which tasks read in
            parallel. Tables of PostgreSQL and SQLite are read in parallel without it, by the places of their rows;
            tables of MySQL and MariaDB are not.
        partitions: How many ranges there are.
    """

    connection: str = ""
    table: str = ""
    query: str = ""
    partition_by: str = ""
    partitions: Annotated[int, Between(1, 10_000)] = 1

    @property
    def dataset(self) -> str | None:
        """The table as lineage has it; None for a statement."""
        return _dataset(self.connection, self.table) if self.table else None

    @property
    def shown(self) -> str:
        """The table or statement that is read, as plans show it."""
        ranges = f", in {self.partitions} ranges of `{self.partition_by}`" if self.partition_by else ""
        return f"{self.table or 'rows of a statement'} of connection '{self.connection}'{ranges}"

    def problems(self) -> list[tuple[str, str]]:
        """A connection has a name, and either a table or a statement is read."""
        found: list[tuple[str, str]] = []
        found += _connection_problems(self.connection)
        if bool(self.table) == bool(self.query):
            found.append(("query" if self.query else "table", "exactly one of `table` and `query` is needed"))
        if (self.partitions > 1) != bool(self.partition_by):
            found.append(("partitions", "`partition_by` and `partitions` go together"))
        return found


@dataclass(frozen=True)
class DatabaseWrite(Options):
    """`options:` of a database output.

    Args:
        connection: The name of the connection, as in sources.
        table: The table that gets the records, with its schema where it needs one. It has to be there.
        mode: Whether records become new rows (`insert`), change the rows that have their keys and else become new ones
            (`upsert`), or take the place of all rows (`replace`).
        key: With `upsert`, the columns whose values tell rows apart. The table needs a unique index of just these,
            and a record without a value in one of them is a dead letter.
        staging_schema: The schema, in MySQL the database, in which the run keeps its rows until they are published; the
            table's own when absent. SQLite has none.
    """

    connection: str = ""
    table: str = ""
    mode: WriteMode = WriteMode.INSERT
    key: Listed = ()
    staging_schema: str = ""

    @property
    def target(self) -> Target | None:
        """The columns and constraints of the table, once the run has looked at it; None before."""
        return None

    @property
    def is_checked_upstream(self) -> bool:
        """Whether only records come that the table takes, each for itself."""
        return False

    @property
    def place(self) -> str:
        """The table, for messages."""
        return f"{self.connection}:{self.table}"

    @property
    def dataset(self) -> str:
        """The table as lineage has it."""
        return _dataset(self.connection, self.table)

    @property
    def shown(self) -> str:
        """The table, connection and mode, as plans show them."""
        keys = f" by {', '.join(self.key)}" if self.key else ""
        return f"table {self.table} of connection '{self.connection}' ({self.mode}{keys})"

    @property
    def run_time_shuffle(self) -> str:
        """The shuffles that a run adds when it knows the table, as plans show them."""
        shuffled = "shuffles records once for each unique index of the table"
        if self.key:
            return f"a run {shuffled} but the `key`, and then into their order"
        return f"a run that the table refuses begins again, {shuffled}, and then into their order"

    def type_problem(self, static: Type) -> str | None:
        """Say why a type has no counterpart among the columns of a table; None where it has one."""
        return counterparts.problem(static)

    def problems(self) -> list[tuple[str, str]]:
        """A connection has a name, and upserts have keys."""
        found = list(_connection_problems(self.connection))
        if not self.table:
            found.append(("table", "the name of a table is needed"))
        if (self.mode is WriteMode.UPSERT) != bool(self.key):
            found.append(("key", "`mode: upsert` and `key` go together"))
        return found


@dataclass(frozen=True)
class KnownDatabaseWrite(DatabaseWrite):
    """The options of an output whose table the run has looked at.

    Args:
        known: the table as the database describes it.
        is_checked_upstream: whether only records come that the table takes, each for itself.
    """

    known: Any = None
    is_checked_upstream: bool = False

    @property
    def target(self) -> Target | None:
        """The table as the database describes it; None before the database was asked."""
        found: Target | None = self.known
        return found

    def run_indexes(self, columns: Mapping[str, Type]) -> list[RunIndex]:
        """The unique indexes that records with some columns tell of; see `unique_indexes.py:of`."""
        from spark_jobs.formats.database import unique_indexes  # planning loads no Arrow

        return unique_indexes.of(self, columns)

    def beside(self, relations: Collection[str]) -> KnownDatabaseWrite:
        """The options of a run that writes some tables, whose rows nobody can ask for before they are there."""
        constraints = tuple(each for each in self.known.constraints if each.other not in relations)
        return replace(self, known=replace(self.known, constraints=constraints))


FORMAT = Format(
    "database",
    "database",
    chapter=8.6,
    read_options=DatabaseRead,
    write_options=DatabaseWrite,
    is_typed=True,
    has_files=False,
    known_as=("postgres", "postgresql", "sqlite", "mysql", "mariadb", "sql", "jdbc", "table"),
    growth=Growth.COLUMN,
)
