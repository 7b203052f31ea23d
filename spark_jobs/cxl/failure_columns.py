"""Failing rows as columns: few shared reasons, and per row the number of its reason and its text.

A column of texts that do not convert fails for one reason, however many rows it has: each row adds only its place and
its text. Failures from the interpreter come one by one, and become columns here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.cxl.hints import of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl.hints import Hint
    from spark_jobs.cxl.types import Kind

    Rows = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Reason:
    """The common properties of failing rows.

    Args:
        category: the dead-letter category.
        field: the field that was being computed or read.
        before: the detail, or its text before the value; None if each row has a detail of its own.
        after: what follows the value; None if the detail does not have it.
        expression: the failing statement and its place, where it is one.
    """

    category: Category
    field: str | None = None
    before: str | None = None
    after: str | None = None
    expression: tuple[str, str] | None = None


@dataclass(frozen=True)
class Failures:
    """Failing rows as columns, in ascending order of the rows.

    Args:
        rows: their indices in a batch, or their places in a split.
        reasons: why, and `reason` which of them holds for each row.
        values: the offending values as texts, null where there is none.
        details: the details of rows whose reason has none, null for the others; None if all are so.
    """

    rows: Rows
    reasons: tuple[Reason, ...]
    reason: Rows
    values: pa.StringArray
    details: pa.StringArray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RowFailure]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> RowFailure:
        reason = self.reasons[self.reason[index]]
        value = self.values[index].as_py()
        if reason.before is None:
            assert self.details is not None
            detail = self.details[index].as_py()
        else:
            detail = reason.before if reason.after is None else f"{reason.before}{value}{reason.after}"
        failure = Failure(detail, reason.category, value, reason.field)
        failure.expression = reason.expression
        return RowFailure(int(self.rows[index]), failure)

    @property
    def are_late(self) -> bool:
        """True if nothing is wrong with the records but that they came late: that ends no run."""
        return all(reason.category is Category.LATE_RECORD for reason in self.reasons)

    def take(self, indices: Rows) -> Failures:
        """Some of them, in this order."""
        chosen = pa.array(indices, pa.int64())
        details = None if self.details is None else self.details.take(chosen)
        return Failures(self.rows[indices], self.reasons, self.reason[indices], self.values.take(chosen), details)

    def slice(self, start: int, count: int) -> Failures:
        """A range of consecutive failures, without copying."""
        details = None if self.details is None else self.details.slice(start, count)
        part = slice(start, start + count)
        return Failures(self.rows[part], self.reasons, self.reason[part], self.values.slice(start, count), details)


def none() -> Failures:
    """Failures without any row."""
    empty = np.empty(0, dtype=np.int64)
    return Failures(empty, (), empty, pa.array([], pa.string()))


def alike(rows: Rows, reason: Reason, texts: pa.StringArray | None = None) -> Failures:
    """Rows that fail for one reason."""
    if texts is None:
        texts = pa.nulls(len(rows), pa.string())
    return Failures(rows, (reason,), np.zeros(len(rows), dtype=np.int64), texts)


def of(items: Sequence[RowFailure] | Failures) -> Failures:
    """Failures that were found one by one, as columns."""
    if isinstance(items, Failures):
        return items
    known: dict[tuple[str, str | None, tuple[str, str] | None], int] = {}
    reason, texts, details = [], [], []
    for item in items:
        why = item.failure
        key = (why.category, why.field, why.expression)
        reason.append(known.setdefault(key, len(known)))
        texts.append(None if why.value is None else values.text_of(why.value))
        details.append(why.detail)
    return Failures(
        np.array([item.row for item in items], dtype=np.int64),
        tuple(Reason(Category(category), field, expression=at) for category, field, at in known),
        np.array(reason, dtype=np.int64),
        pa.array(texts, pa.string()),
        pa.array(details, pa.string()),
    )


def remarked(failing: Failures, remarks: pa.StringArray | None) -> Failures:
    """The failures with a remark appended to the details of those rows that have one."""
    if remarks is None:
        return failing
    whole = pc.binary_join_element_wise(details(failing), pc.fill_null(remarks, ""), "")
    reasons = tuple(replace(each, before=None, after=None) for each in failing.reasons)
    return replace(failing, reasons=reasons, details=whole)


def details(failing: Failures) -> pa.StringArray:
    """The message of each row's failure."""
    own = pa.nulls(len(failing), pa.string()) if failing.details is None else failing.details
    reason = pa.array(failing.reason, pa.int64())
    before, after = (
        pa.array([getattr(each, name) for each in failing.reasons], pa.string()).take(reason)
        for name in ("before", "after")
    )
    whole = pc.binary_join_element_wise(before, pc.fill_null(failing.values, ""), after, "")
    texts = pc.coalesce(own, whole, before)
    field = pa.array([f"field '{each.field}': " if each.field else "" for each in failing.reasons], pa.string())
    return pc.binary_join_element_wise(field.take(reason), texts, "")


def concatenated(parts: Sequence[Failures]) -> Failures:
    """Failures of several kinds, by their rows."""
    parts = [part for part in parts if len(part)]
    if len(parts) <= 1:
        return parts[0] if parts else none()
    known: dict[Reason, int] = {}
    reason = []
    for part in parts:
        numbers = [known.setdefault(each, len(known)) for each in part.reasons]
        reason.append(np.array(numbers, dtype=np.int64)[part.reason])
    details = None
    if any(part.details is not None for part in parts):
        details = pa.concat_arrays(
            [pa.nulls(len(part), pa.string()) if part.details is None else part.details for part in parts]
        )
    whole = Failures(
        np.concatenate([part.rows for part in parts]),
        tuple(known),
        np.concatenate(reason),
        pa.concat_arrays([part.values for part in parts]),
        details,
    )
    order = np.argsort(whole.rows, kind="stable")
    return whole.take(order)


def hints_of(texts: pa.StringArray, hints: tuple[Hint, ...], kind: Kind) -> Iterator[tuple[pa.Array, str]]:
    """Group failing texts by their hint: disjoint masks with the words, which are empty for most texts."""
    known = of_kind(hints, kind)
    # One search for all hints first: there are many hints, and most texts match none.
    any_hint = "|".join(f"(?:{hint.pattern})" for hint in known)
    fits = pc.fill_null(pc.match_substring_regex(texts, any_hint), False) if known else pa.repeat(False, len(texts))
    rest = np.flatnonzero(fits.to_numpy(zero_copy_only=False))
    for hint in known:
        if not len(rest):
            break
        has = pc.match_substring_regex(texts.take(pa.array(rest)), hint.pattern).to_numpy(zero_copy_only=False)
        if has.any():
            yield _mask(len(texts), rest[has]), hint.words
            rest = rest[~has]
    if pc.any(pc.invert(fits), min_count=0).as_py():
        yield pc.invert(fits), ""


def _mask(count: int, rows: Rows) -> pa.BooleanArray:
    found = np.zeros(count, dtype=bool)
    found[rows] = True
    return cast("pa.BooleanArray", pa.array(found))


def without(count: int, failing: Failures) -> pa.Int64Array:
    """The rows of a batch that do not fail."""
    keep = np.ones(count, dtype=bool)
    keep[failing.rows] = False
    return pa.array(np.flatnonzero(keep), pa.int64())


def chosen(column: pa.StringArray, rows: Rows) -> pa.StringArray:
    """The texts of some rows of a column."""
    return pc.take(column, pa.array(rows, pa.int64()))
