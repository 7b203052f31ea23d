"""The schema of records: columns, in order, with their types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl.types import Type


@dataclass(frozen=True)
class Column:
    """A column: its name, its type, and the node that gave it its present value (`origin`, for `explain`).

    Names that start with `$` are engine columns (`$ck.<field>`, `$meta.<key>`, `$widened`): hidden from CXL's bare
    names and from default outputs.
    """

    name: str
    type: Type
    origin: str = ""

    @property
    def is_engine(self) -> bool:
        """True if this column is the engine's own."""
        return self.name.startswith("$")


@dataclass(frozen=True)
class Schema:
    """Ordered columns with distinct names."""

    columns: tuple[Column, ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @property
    def names(self) -> tuple[str, ...]:
        """All names in order."""
        return tuple(self._by_name)

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """The dotted beginnings of the columns' names: `m` and `m.d` of `m.d.t`."""
        names = [column.name.split(".") for column in self.user_columns if "." in column.name]
        return frozenset(".".join(parts[:count]) for parts in names for count in range(1, len(parts)))

    @cached_property
    def engine_columns(self) -> tuple[Column, ...]:
        """The engine's own columns."""
        return tuple(column for column in self.columns if column.name[:1] == "$")

    @property
    def user_columns(self) -> tuple[Column, ...]:
        """The columns that CXL and default outputs see."""
        return tuple(column for column in self.columns if not column.is_engine)

    def get(self, name: str) -> Column | None:
        """The column of this name, if there is one."""
        return self._by_name.get(name)

    def with_columns(self, *columns: Column) -> Schema:
        """The schema with more columns: a known name is replaced in place, a new one is appended."""
        merged = dict(self._by_name)
        for column in columns:
            merged[column.name] = column
        result = Schema(tuple(merged.values()))
        # Set the cached property at once, since wide pipelines create schemas by the thousand.
        result.__dict__["_by_name"] = merged
        return result

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)
