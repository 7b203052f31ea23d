"""What windows mean, row by row: each record looks at the rows of its frame, one after the other."""

from __future__ import annotations

from fractions import Fraction
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Record = dict[str, Any]
#: A field of `sort_by`: its name, whether large values come first, where nulls go.
Sort = tuple[str, bool, str]


class Failed(Exception):
    """The record is a dead letter."""


def partitions(records: list[Record], group_by: list[str], sort_by: list[Sort]) -> list[list[int]]:
    """The rows of each partition, sorted; those that `drop` takes out are in none."""
    found: dict[Any, list[int]] = {}
    for row, record in enumerate(records):
        if not any(nulls == "drop" and record[name] is None for name, _, nulls in sort_by):
            found.setdefault(tuple(_key(record[name]) for name in group_by), []).append(row)
    for rows in found.values():
        rows.sort(key=cmp_to_key(lambda one, other: compared(records[one], records[other], sort_by)))
    return list(found.values())


def _key(value: Any) -> Any:
    """1 is 1.0 to Python and to CXL, but only to Python it is True."""
    return isinstance(value, bool), value


def compared(one: Record, other: Record, sort_by: list[Sort]) -> int:
    for name, descending, nulls in sort_by:
        left, right = one[name], other[name]
        if left is None or right is None:
            if (left is None) != (right is None):
                return (-1 if left is None else 1) * (1 if nulls == "first" else -1)
        elif left != right:
            return (-1 if left < right else 1) * (-1 if descending else 1)
    return 0


def windows(
    records: list[Record],
    group_by: list[str],
    sort_by: list[Sort],
    calls: dict[str, Callable[[Frame], Any]],
) -> list[Record | None]:
    """Each record with what the calls give for it; None where one fails."""
    found: list[Record | None] = [{**record, **dict.fromkeys(calls)} for record in records]
    for rows in partitions(records, group_by, sort_by):
        members = [records[row] for row in rows]
        for position, row in enumerate(rows):
            frame = Frame(members, position, sort_by)
            try:
                found[row] = {**records[row], **{name: call(frame) for name, call in calls.items()}}
            except Failed:
                found[row] = None
    return found


class Frame:
    """What a record sees: the rows of its partition up to itself."""

    def __init__(self, members: list[Record], position: int, sort_by: list[Sort]) -> None:
        self.members = members
        self.position = position
        self.rows = members[: position + 1]
        self.sort_by = sort_by

    @property
    def own(self) -> Record:
        return self.members[self.position]

    def values(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows if row[name] is not None]

    def total(self, name: str) -> Any:
        found = self.values(name)
        if not found:
            return None
        if isinstance(found[0], float):
            return float(sum(map(Fraction, found)))
        total = sum(found)
        if not -(2**63) <= total < 2**63:
            raise Failed
        return total

    def mean(self, name: str) -> float | None:
        found = self.values(name)
        return float(sum(map(Fraction, found)) / len(found)) if found else None

    def least(self, name: str) -> Any:
        return min(self.values(name), default=None)

    def most(self, name: str) -> Any:
        return max(self.values(name), default=None)

    def distinct(self, name: str) -> list[Any]:
        return list(dict.fromkeys(self.values(name)))

    def rank(self) -> int:
        ties = [i for i, row in enumerate(self.rows) if compared(row, self.own, self.sort_by) == 0]
        return ties[0] + 1

    def dense_rank(self) -> int:
        changes = zip(self.rows, self.rows[1:], strict=False)
        return 1 + sum(compared(one, other, self.sort_by) != 0 for one, other in changes)

    def reach(self, offset: int, name: str) -> Any:
        place = self.position + offset
        return self.members[place][name] if 0 <= place < len(self.members) else None

    def some(self, holds: Callable[[Record], bool | None]) -> bool | None:
        doubtful = False
        for row in self.rows:
            verdict = holds(row)
            if verdict:
                return True
            doubtful = doubtful or verdict is None
        return None if doubtful else False

    def every(self, holds: Callable[[Record], bool | None]) -> bool | None:
        def fails(row: Record) -> bool | None:
            verdict = holds(row)
            return None if verdict is None else not verdict

        some = self.some(fails)
        return None if some is None else not some
