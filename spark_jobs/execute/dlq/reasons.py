"""Why records died: dead letters grouped by stage, field and category, with their number and one example each.

A task groups what it gathers by columns and reports some groups; the driver adds them up. The example of a group is the
first in the order of the records, so it does not depend on how the inputs were cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from spark_jobs import credentials
from spark_jobs.cxl.failure import Category
from spark_jobs.diagnostics.printable import printable
from spark_jobs.nodes.records import guarded, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from spark_jobs.cxl.failure_columns import Rows
    from spark_jobs.execute.dlq.buffer import ReasonKey

    #: Stage, category and field.
    Key = tuple[str, str, str]
    Column = pa.Array | pa.ChunkedArray

#: So many groups are kept apart in a task and on the driver, and so many are shown; the others are counted.
MOST_KEPT, MOST_SHOWN = 1_000, 20
#: Values and details are shown up to this length.
_MOST_VALUE, _MOST_DETAIL = 100, 300
_SHOWN = {"value": _MOST_VALUE, "detail": _MOST_DETAIL}
#: The group of all that there is no room for.
_OTHERS = ("", "", "")


@dataclass
class Reason:
    """Dead letters with one reason: their number, and the place, value and detail of the first."""

    stage: str
    category: str
    field: str
    count: int = 0
    source: int = -1
    split: int = -1
    row: int = -1
    is_made: bool = False
    value: str | None = None
    detail: str = ""

    @property
    def key(self) -> Key:
        """The reason that it shares with others of its kind."""
        return self.stage, self.category, self.field

    @property
    def place(self) -> tuple[int, int]:
        """The place of its example in record order; a reason without a record comes last."""
        return (self.split, self.row) if self.split >= 0 else (1 << 31, self.row)


@dataclass
class Reasons:
    """The reasons so far."""

    known: dict[Key, Reason] = field(default_factory=dict)

    def note(self, entries: Mapping[str, Column], reason: Rows, whys: Sequence[ReasonKey]) -> None:
        """Take in entries by columns: `source`, `split`, `row`, `detail`, `value`, and `group` where there are groups.

        `reason` counts `whys`.
        """
        if not len(reason):
            return
        counts = np.bincount(reason, minlength=len(whys))
        first = _firsts(identity.record_numbers(entries["split"], entries["row"]), reason, len(whys))
        for number in np.flatnonzero(counts).tolist():
            found = self._of(whys[number].stage, whys[number].category, whys[number].field or "")
            at = int(first[number])
            mine = Reason("", "", "", 0, *(entries[name][at].as_py() for name in ("source", "split", "row")))
            if found.key != _OTHERS and (not found.count or mine.place < found.place):
                found.source, found.split, found.row = mine.source, mine.split, mine.row
                found.is_made = "group" in entries and entries["group"][at].as_py() != 0
                found.value, found.detail = _texts(entries, at, whys[number])
            found.count += int(counts[number])

    def add(self, others: Iterable[Reason]) -> None:
        """Add the reasons of a task."""
        for other in others:
            found = self._of(*other.key)
            count = found.count + other.count
            if found.key != _OTHERS and (not found.count or other.place < found.place):
                found = self.known[found.key] = replace(other)
            found.count = count

    def _of(self, stage: str, category: str, name: str) -> Reason:
        key = (stage, category, name)
        if key not in self.known and len(self.known) >= MOST_KEPT:
            key = _OTHERS
        return self.known.setdefault(key, Reason(*key))


def _firsts(places: Rows, reason: Rows, count: int) -> Rows:
    """The row of the first entry of each reason, in the order of the records."""
    is_sorted = bool((places[1:] >= places[:-1]).all())
    rows = np.arange(len(reason)) if is_sorted else np.argsort(places, kind="stable")
    first = np.zeros(count, dtype=np.int64)
    first[reason[rows[::-1]]] = rows[::-1]  # of several that are written to one place the last stays
    return first


def _texts(entries: Mapping[str, Column], at: int, why: ReasonKey) -> tuple[str | None, str]:
    """The value of an entry, and what is said of it, without its place; bounded, and no credential."""
    value, detail = (_cut(entries[name].slice(at, 1), most) for name, most in _SHOWN.items())
    if why.category == Category.CORRELATED:
        value = None if value is None else guarded.cause(value, is_open=not why.is_hidden)
    elif why.is_hidden:
        detail = "" if detail is None else guarded.detail(detail, value)
        value = None if value is None else credentials.HIDDEN
    said = (detail, why.before, value if why.after is not None else None, why.after)
    text = "".join(each for each in said if each)
    is_good = why.category in (Category.CORRELATED, Category.GROUP_SIZE)
    return None if is_good else value, text if len(text) <= _MOST_DETAIL else text[:_MOST_DETAIL] + "…"


def _cut(column: Column, most: int) -> str | None:
    """A text, or its beginning; a long one is cut before it becomes a Python text."""
    text: str | None = pc.utf8_slice_codeunits(column, 0, most + 1)[0].as_py()
    return text if text is None or len(text) <= most else text[:most] + "…"


@dataclass(frozen=True)
class ReasonSummary:
    """The reasons of a run as people and programs read them, the commonest first."""

    reasons: tuple[Mapping[str, Any], ...] = ()
    #: The number of further reasons, and of the dead letters that have them.
    more: int = 0
    more_count: int = 0


def summary(
    known: Reasons,
    file_of: Callable[[int, int], str],
    source_of: Callable[[int], str],
    rows_before: Mapping[int, int],
    masked: Callable[[str], str],
    columns_of: Callable[[int], Sequence[str]],
) -> ReasonSummary:
    """The most frequent reasons with the places of their examples; `masked` takes secrets of the run out of texts.

    A record that could not be read is no example where one of its source's columns is called like a secret.
    """
    others = known.known.get(_OTHERS, Reason(*_OTHERS))
    found = [each for each in known.known.values() if each.key != _OTHERS and each.count]
    found.sort(key=lambda each: (-each.count, each.place, each.key))
    rest = found[MOST_SHOWN:]
    shown = tuple(_shown(each, file_of, source_of, rows_before, masked, columns_of) for each in found[:MOST_SHOWN])
    return ReasonSummary(shown, len(rest) + bool(others.count), sum(each.count for each in rest) + others.count)


def _shown(
    reason: Reason,
    file_of: Callable[[int, int], str],
    source_of: Callable[[int], str],
    rows_before: Mapping[int, int],
    masked: Callable[[str], str],
    columns_of: Callable[[int], Sequence[str]],
) -> dict[str, Any]:
    is_whole = reason.category == Category.MALFORMED and reason.value is not None
    is_hidden = is_whole and guarded.has_secret(columns_of(reason.source))
    row = rows_before.get(reason.split, 0) + reason.row + 1
    example = {
        "file": file_of(reason.split, reason.source),
        "source": source_of(reason.source),
        "row": row if reason.split >= 0 and row > 0 else None,
        "is_aggregated": reason.is_made,
        "value": credentials.HIDDEN if is_hidden else reason.value,
        "detail": reason.detail,
    }
    both = {"stage": reason.stage, "field": reason.field, "category": reason.category, "count": reason.count}
    return {name: _safe(value, masked) for name, value in both.items()} | {
        "example": {name: _safe(value, masked) for name, value in example.items()}
    }


def _safe(value: Any, masked: Callable[[str], str]) -> Any:
    return printable(masked(value)) if isinstance(value, str) else value
