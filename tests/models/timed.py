"""Aggregates with time windows in plain Python, row by row: a late record is in no window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.cxl.engine import EvaluationContext
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.cxl.interpreter import interpreter
from tests.models import rows as plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.models.rows import Node, Row

#: Something that has come: the row, its arguments, its key, and how far all sources had come before it.
Came = tuple["Row", dict[str, Any], Any, int | None]
Span = tuple[int, int]


def aggregate(node: Node, rows: Iterable[Row], given: Iterable[str]) -> Iterator[Row]:
    """The rows of an aggregate with a time window, by the windows' starts; `given` are the key fields of its input."""
    step: Any = node.planned.step
    kept = [name for name in given if name in step.group_by]
    came = list(_came(node, rows, kept))
    spans = _sessions(step, came) if step.time_window.is_session else [_fixed(step, row) for row, *_ in came]
    groups: dict[Any, list[tuple[int, Row, dict[str, Any]]]] = {}
    for number, (row, seen, key, reached) in enumerate(came):
        lateness = step.time_window.lateness_us
        opened = [span for span in spans[number] if reached is None or reached < span[1] + lateness]
        for start, _ in opened:
            groups.setdefault((start, key), []).append((number, row, seen))
        if spans[number] and not opened:
            late = Failure("late", Category.LATE_RECORD)
            node.late.append(plain.Trouble(step.name, f"time_window:{step.name}", row, late))
        elif not spans[number]:
            node.ended.append(row)
    after = interpreter.compile(step.program.after)
    for key, members in sorted(groups.items(), key=lambda item: (item[0][0], item[1][0][0])):
        made = plain.group(step, key, [row for _, row, _ in members], kept, is_mixed=False)
        results = {call.result: plain.computed(call, [seen for *_, seen in members]) for call in step.program.calls}
        result = node.trying(made, lambda r=made.fields | results: after(r, EvaluationContext()), own_result=True)  # type: ignore[misc]
        if result is not None:
            yield plain.replace(made, fields=made.fields | result.outputs[0], at=None)


def _came(node: Node, rows: Iterable[Row], kept: list[str]) -> Iterator[Came]:
    step: Any = node.planned.step
    before = interpreter.compile(step.program.before)
    seen: dict[str, int] = {}
    for row in rows:
        if row.at is None or row.record is None:
            node.ended.append(row)
            continue
        reached = min(seen.values()) if len(seen) == step.time_window.sources else None
        seen[row.record[0]] = max(seen.get(row.record[0], row.at), row.at)
        result = node.trying(row, lambda row=row: before(row.fields, EvaluationContext(node.system_values(row))))  # type: ignore[misc]
        if result is not None and not result.filtered:
            values = [row.fields.get(name) for name in step.group_by] + [row.keys.get(name) for name in kept]
            yield row, row.fields | result.outputs[0], tuple(map(plain.comparable, values)), reached


def _fixed(step: Any, row: Row) -> list[Span]:
    window = step.time_window
    assert row.at is not None
    last = row.at // window.slide_us * window.slide_us
    starts = []
    while last > row.at - window.size_us:
        starts.append(last)
        last -= window.slide_us
    return [(start, start + window.size_us) for start in reversed(starts)]


def _sessions(step: Any, came: list[Came]) -> list[list[Span]]:
    gap = step.time_window.size_us
    of_key: dict[Any, list[tuple[int, int]]] = {}
    for number, (row, _, key, _) in enumerate(came):
        of_key.setdefault(key, []).append((row.at or 0, number))
    found: list[list[Span]] = [[] for _ in came]
    for members in of_key.values():
        session: list[tuple[int, int]] = []
        for each in [*sorted(members), None]:
            if session and (each is None or each[0] - session[-1][0] > gap):
                for _, number in session:
                    found[number] = [(session[0][0], session[-1][0] + gap)]
                session = []
            if each is not None:
                session.append(each)
    return found
