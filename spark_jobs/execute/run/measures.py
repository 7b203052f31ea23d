"""The measures of splits: a few bytes for each split, because there may be a million."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from spark_jobs.execute.report import Measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The measure of a split that has reported nothing.
_NOTHING = 0


class ByNumber(Mapping[int, int]):
    """A number for each split, by the split's number; 0 for those that nothing is known of."""

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._known = array("q")
        for number, value in pairs:
            self[number] = value

    def __getitem__(self, number: int) -> int:
        return self._known[number] if 0 <= number < len(self._known) else _NOTHING

    def __setitem__(self, number: int, value: int) -> None:
        missing = number + 1 - len(self._known)
        if missing > 0:
            self._known.extend(array("q", [_NOTHING]) * missing)
        self._known[number] = value

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._known)))

    def __len__(self) -> int:
        return len(self._known)


class Measures:
    """The measures of splits, one column for each field of `Measure`."""

    def __init__(self) -> None:
        self._columns = {field.name: ByNumber() for field in fields(Measure) if field.name != "number"}

    def add(self, measure: Measure) -> None:
        """Add the measure of a split; it replaces an earlier one."""
        for name, column in self._columns.items():
            column[measure.number] = getattr(measure, name)

    def of(self, name: str) -> ByNumber:
        """A field of the measures, by the numbers of the splits."""
        return self._columns[name]
