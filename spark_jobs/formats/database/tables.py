"""Metadata of the tables of a source, known before their rows are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.format import MOST_RECORD_BYTES

if TYPE_CHECKING:
    from spark_jobs.scan.connections import Connection


class How(StrEnum):
    """The form in which the values of a column arrive: unchanged, as ints, as texts, or as JSON."""

    PLAIN = "plain"
    INT = "int"
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True)
class Column:
    """A column: its name, its type in the database, and the form in which its values arrive."""

    name: str
    kind: str
    how: How


@dataclass(frozen=True)
class Part:
    """The rows of a table that are read like a file.

    Args:
        relation: the text after `FROM`.
        name: its name in messages.
        size: its bytes, about; where it has pages, exactly those.
        page_bytes: the bytes of a page, where rows are found by their pages; else 0.
        condition: the SQL condition that selects its rows; empty for all rows.
        snapshot: which state of the database is read.
        span: the first and the last row id, where rows have one.
        order: the SQL sort key of its rows, where they do not arrive in order by themselves.
    """

    relation: str
    name: str
    size: int = 0
    page_bytes: int = 0
    condition: str = ""
    snapshot: str = ""
    span: tuple[int, int] | None = None
    order: str = ""

    def ranged(self, condition: str, number: int, count: int) -> Part:
        """The part of these rows for which a condition holds; `number` of `count` such parts."""
        name = self.name if count == 1 else f"{self.name} ({number} of {count})"
        both = " AND ".join(filter(None, [self.condition, condition]))
        return replace(self, condition=both, name=name, size=-(-self.size // count))


@dataclass(frozen=True)
class Table:
    """A part with its connection and columns, as tasks get it."""

    connection: Connection
    part: Part
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Slice:
    """The rows of a part that stand in some of its bytes, which a task reads or counts.

    Args:
        connection: where the table is.
        part: the part.
        start: where they begin.
        end: where they end.
        is_last: whether the part ends there.
        most_bytes: the size at which a batch is complete.
        row_bytes: the maximum size of a row.
    """

    connection: Connection
    part: Part
    start: int
    end: int
    is_last: bool
    most_bytes: int = MOST_RECORD_BYTES
    row_bytes: int = MOST_RECORD_BYTES


class TooLong(Exception):
    """A row is longer than it may be."""


@dataclass(frozen=True)
class DiscoveredTables:
    """The tables that a source reads, and the end of its incremental column in them; None if that has not moved."""

    tables: tuple[Table, ...]
    through: Any = None


@dataclass(frozen=True)
class IncrementalColumn:
    """A column whose values only grow, and which of them are wanted.

    Args:
        column: its name.
        after: the greatest value that was read; None: none was.
        since: the smallest wanted value as text, whatever was read before; None: the values after `after`.
        until: the smallest value as text that is no longer wanted.
        delay_s: the age in seconds that timestamps must have to be wanted.
    """

    column: str
    after: Any = None
    since: str | None = None
    until: str | None = None
    delay_s: float = 0.0


class UnfitOptions(Exception):
    """Options that do not fit the table; the message says why."""


def without_value(column: str) -> UnfitOptions:
    """Make the error for rows with a null in the incremental column, which no run would ever find new."""
    return UnfitOptions(
        f"rows have no value in `{column}`, so no run would find them new: read a `query` that leaves them out, or "
        f"gives them one by COALESCE"
    )


def boundless(column: str, value: object) -> UnfitOptions:
    """Make the error for a greatest value, such as infinity, that no other value can follow."""
    return UnfitOptions(
        f"the greatest value of `{column}` is {value}, which nothing follows: mend that row, or leave it out"
    )


def quoted(name: str) -> str:
    """A name as statements have it."""
    return '"' + name.replace('"', '""') + '"'
