"""The order of records that users ask for: by which fields, in which directions, and where nulls go."""

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
    """A field of the record, whether it is written or not; `type` None is an undeclared column."""

    name: str
    type: types.Type | None


@dataclass(frozen=True)
class SortField(Field):
    """A field of `sort_order` or `sort_by`.

    Args:
        descending: whether large values come first.
        nulls: where nulls stand; with `drop` in no output and no partition.
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
        """The field as plans show it."""
        direction = " desc" if self.descending else ""
        nulls = {NullOrder.LAST: "", NullOrder.FIRST: " (nulls first)", NullOrder.DROP: " (nulls dropped)"}
        return f"{self.name}{direction}{nulls[self.nulls]}"

    @property
    def nulls_first(self) -> bool:
        """Whether nulls come before all values."""
        return self.nulls is NullOrder.FIRST

    @property
    def drops_nulls(self) -> bool:
        """Whether records without a value take no part."""
        return self.nulls is NullOrder.DROP
