"""What is known of the tables of a source before their rows are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.scan.connections import Connection


class How(StrEnum):
    """How the values of a column come: as they are, as ints, as texts, or as JSON."""

    PLAIN = "plain"
    INT = "int"
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True)
class Column:
    """A column: its name, what the database calls its type, and how its values come."""

    name: str
    kind: str
    how: How


@dataclass(frozen=True)
class Part:
    """The rows of a table that are read like a file.

    Args:
        relation: what stands behind `FROM`.
        name: what messages call it.
        size: its bytes, about; where it has pages, exactly those.
        page_bytes: the bytes of a page, where rows are found by their pages; else 0.
        condition: what chooses its rows among those of the table.
        snapshot: which state of the database is read.
        span: the first and the last row id, where rows have one.
    """

    relation: str
    name: str
    size: int = 0
    page_bytes: int = 0
    condition: str = ""
    snapshot: str = ""
    span: tuple[int, int] | None = None

    def ranged(self, condition: str, number: int, count: int) -> Part:
        """Some of its rows."""
        name = self.name if count == 1 else f"{self.name} ({number} of {count})"
        return replace(self, condition=condition, name=name, size=self.size // count)


@dataclass(frozen=True)
class Table:
    """A part with its connection and columns: what tasks know of it."""

    connection: Connection
    part: Part
    columns: tuple[Column, ...]


class Unfit(Exception):
    """Options that do not fit the table; the message says why."""


def quoted(name: str) -> str:
    """A name as statements have it."""
    return '"' + name.replace('"', '""') + '"'
