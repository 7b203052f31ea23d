"""Required columns, and for arrays of maps the required members of their elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True)
class RequiredColumns:
    """Columns that are read.

    Args:
        names: the columns.
        parts: for each array of maps that is not read whole, the members of its elements that are read.
    """

    names: frozenset[str] = frozenset()
    parts: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __or__(self, other: RequiredColumns) -> RequiredColumns:
        parts = {}
        for name in self.parts.keys() | other.parts.keys():
            sides = [each.members(name) for each in (self, other)]
            known = [side for side in sides if side is not None]
            if len(known) == len(sides):
                parts[name] = frozenset[str]().union(*known)
        return RequiredColumns(self.names | other.names, parts)

    def members(self, name: str) -> frozenset[str] | None:
        """The members of a column's elements that are read; None if it is read whole."""
        return self.parts.get(name) if name in self.names else frozenset()

    def only(self, names: Collection[str]) -> RequiredColumns:
        """The requirements for some columns only."""
        kept = self.names.intersection(names)
        return RequiredColumns(kept, {name: parts for name, parts in self.parts.items() if name in kept})

    def without(self, names: Collection[str]) -> RequiredColumns:
        """The requirements for all other columns."""
        return self.only(self.names.difference(names))


#: No columns.
NOTHING = RequiredColumns()
