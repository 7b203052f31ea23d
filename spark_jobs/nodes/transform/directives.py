"""`log:` directives: lines about records, as they pass or as they fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from spark_jobs.credentials import HIDDEN
from spark_jobs.cxl import engine, values
from spark_jobs.cxl.failure import Category
from spark_jobs.nodes.records import batches, guarded
from spark_jobs.nodes.transform.step import ON_ERROR, PER_RECORD, PLACEHOLDER, SHOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_jobs.cxl import failure, types
    from spark_jobs.nodes.operator import Operator, Text
    from spark_jobs.nodes.records.batches import Batch
    from spark_jobs.nodes.transform.step import LogDirective, TransformStep


#: The level of a line, and a function that formats it: a run takes some lines of each task, and most are never written.
#: If the line is about a failing row, the batch and the row follow.
Line: TypeAlias = "tuple[str, Callable[[], Text]] | tuple[str, Callable[[], Text], tuple[Batch, int]]"
#: The placeholder for the reason of a record's failure, with its row, as in the dead-letter file.
_DETAIL = "_cxl_dlq_error_detail"


class Logged(Protocol):
    """A transform, or a phase of one."""

    @property
    def name(self) -> str:
        """The transform's name."""

    @property
    def log(self) -> tuple[LogDirective, ...]:
        """The log directives of the transform."""


def log(operator: Operator, lines: Iterable[Line | tuple[str, Text]]) -> None:
    """Add lines to the run's log, unless an earlier job has."""
    for line in lines:
        operator.log(*line)


def once(step: TransformStep, when: str, system_values: Mapping[str, Any]) -> list[tuple[str, Text]]:
    """The (level, line) of the directives before or after the whole transform."""
    known = _of_step(step) | {name: system_values[path] for name, path in SHOWN.items() if path in system_values}
    return [(entry.level, _filled(entry, known)) for entry in step.log if entry.when == when]


def per_record(operator: Operator, step: TransformStep, batch: Batch, seen: int) -> Iterable[Line]:
    """The lines about a batch of output records. `seen` is the number of the task's records before it.

    `every: N` takes records 1, 1+N, … of each task. Sampling comes before `condition`.
    """
    system_values: dict[str, Any] = {}
    for entry in step.log:
        if entry.when != PER_RECORD:
            continue
        system_values = system_values or operator.system_values(batch)
        rows = [row for row in range(batch.count) if (seen + row) % entry.every == 0]
        if entry.condition is not None and rows:
            rows = _holding(operator, entry, batch, rows)
        for row in rows:
            yield entry.level, partial(_line, entry, step, operator.guard, batch, system_values, row, entry.made)


def on_error(
    operator: Operator, step: Logged, batch: Batch, failures: Iterable[engine.RowFailure], *, are_made: bool
) -> Iterable[Line]:
    """The lines about failing records: input records, or output records if `are_made`."""
    entries = [entry for entry in step.log if entry.when == ON_ERROR]
    if entries:
        system_values = operator.system_values(batch)
        for item in failures:
            for entry in entries:
                shown = entry.made if are_made else entry.came
                line = partial(_line, entry, step, operator.guard, batch, system_values, item.row, shown, item.failure)
                yield entry.level, line, (batch, item.row)


def _holding(operator: Operator, entry: LogDirective, batch: Batch, rows: list[int]) -> list[int]:
    """The rows for which the directive's condition is true."""
    from spark_jobs.nodes import operator as operators

    assert entry.condition is not None
    result = operator.run(operators.compiled(entry.condition), batch, engine.EvaluationContext())
    true = set(range(batch.count) if result.rows is None else result.rows.to_pylist())
    return [row for row in rows if row in true]


def _line(
    entry: LogDirective,
    step: Logged,
    guard: guarded.Guard,
    batch: Batch,
    system_values: Mapping[str, Any],
    row: int,
    shown: Sequence[tuple[str, types.Type]],
    failed: failure.Failure | None = None,
) -> Text:
    """A line about a record, without credentials. Counters are null because they are unknown so far."""
    names = batch.data.schema.names
    known = {
        name: HIDDEN if guard.hides(name) else batches.value_at(batch, name, row, static)
        for name, static in shown
        if name in names
    }
    for name, path in SHOWN.items():
        value = system_values.get(path)
        known[name] = value[row].as_py() if isinstance(value, (pa.Array, pa.ChunkedArray)) else value
    if failed is not None:
        field = f"field '{failed.field}': " if failed.field else ""
        is_plain = failed.category == Category.VALIDATION
        known["_cxl_dlq_error_category"] = str(failed.category)
        is_hidden = guard.hides(failed.field) and not is_plain
        text = None if failed.value is None else values.text_of(failed.value)
        detail = guarded.detail(failed.detail, text) if is_hidden else failed.detail
        known[_DETAIL] = detail if is_plain else field + detail
        return _filled(entry, known | _of_step(step), has_row=not is_plain)
    return _filled(entry, known | _of_step(step))


def _of_step(step: Logged) -> dict[str, Any]:
    """The values that log lines of a transform can show. The duration of a single transform is not measured."""
    return {"_transform_name": step.name, "_transform_duration_ms": None}


def _filled(entry: LogDirective, known: dict[str, Any], *, has_row: bool = False) -> Text:
    """The message with its placeholders filled in (unknown ones stay), and ` name=value` for each of `fields`.

    `has_row`: the line shows the record's row, which is known only after all rows have been counted. It is then split
    where the row is inserted.
    """
    pieces = [""]

    def put(name: str, text: str) -> None:
        if has_row and name == _DETAIL:
            pieces.append("")
        pieces[-1] += text

    at = 0
    for found in PLACEHOLDER.finditer(entry.message):
        name = found.group(1)
        pieces[-1] += entry.message[at : found.start()]
        put(name, values.text_of(known[name]) if name in known else found.group(0))
        at = found.end()
    pieces[-1] += entry.message[at:]
    for name in entry.fields:
        pieces[-1] += f" {name}="
        put(name, values.text_of(known.get(name)))
    return pieces[0] if len(pieces) == 1 else tuple(pieces)
