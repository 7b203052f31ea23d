"""The sort order that users ask for: fields, directions and the position of nulls."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.cxl import types


class NullOrder(StrEnum):
    """The position of nulls, whatever the direction. `drop` removes the record."""

    FIRST = "first"
    LAST = "last"
    DROP = "drop"


@dataclass(frozen=True)
class Field:
    """A field of the record, written or not. A `type` of None marks an undeclared column."""

    name: str
    type: types.Type | None


@dataclass(frozen=True)
class SortField(Field):
    """A field of `sort_order` or `sort_by`.

    Args:
        descending: large values come first.
        nulls: the position of nulls; with `drop` their records are left out.
    """

    descending: bool = False
    nulls: NullOrder = NullOrder.LAST

    @property
    def declared_type(self) -> types.Type:
        """The type of a field that a schema declares."""
        assert self.type is not None, self.name
        return self.type

    @property
    def text(self) -> str:
        """The field in the form that plans show."""
        direction = " desc" if self.descending else ""
        nulls = {NullOrder.LAST: "", NullOrder.FIRST: " (nulls first)", NullOrder.DROP: " (nulls dropped)"}
        return f"{self.name}{direction}{nulls[self.nulls]}"

    @property
    def nulls_first(self) -> bool:
        """True if nulls come before all values."""
        return self.nulls is NullOrder.FIRST

    @property
    def drops_nulls(self) -> bool:
        """True if records without a value are left out."""
        return self.nulls is NullOrder.DROP
