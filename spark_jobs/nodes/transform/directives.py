"""`log:` directives: lines about records, as they pass or as they fail (book: transform; spec/exec.md 2.7)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import engine, values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.nodes.operator import Batch, Operator
    from spark_jobs.nodes.transform.step import LogDirective, TransformStep

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.]*)\}")
BEFORE, AFTER, PER_RECORD, ON_ERROR = "before_transform", "after_transform", "per_record", "on_error"


def once(step: TransformStep, when: str, surroundings: dict[str, Any]) -> list[tuple[str, str]]:
    """(level, line) of the directives that stand before or after the whole transform."""
    known = {"_transform_name": step.name, **surroundings}
    return [(entry.level, _filled(entry, known)) for entry in step.log if entry.when == when]


def per_record(operator: Operator, step: TransformStep, batch: Batch, seen: int) -> Iterable[tuple[str, str]]:
    """The lines of a batch of output records; `seen` records of the task came before it.

    `every: N` takes records 1, 1+N, … of each task: sampling comes before `condition`.
    """
    for entry in step.log:
        if entry.when != PER_RECORD:
            continue
        rows = [row for row in range(batch.count) if (seen + row) % entry.every == 0]
        if entry.condition is not None and rows:
            rows = _holding(operator, entry, batch, rows)
        for row in rows:
            yield entry.level, _filled(entry, _record(batch, row, step.name))


def on_error(step: TransformStep, batch: Batch, failures: Iterable[engine.RowFailure]) -> Iterable[tuple[str, str]]:
    """The lines of failing records."""
    entries = [entry for entry in step.log if entry.when == ON_ERROR]
    if entries:
        for item in failures:
            known = _record(batch, item.row, step.name)
            known["_cxl_dlq_error_category"] = str(item.failure.category)
            known["_cxl_dlq_error_detail"] = item.failure.detail
            for entry in entries:
                yield entry.level, _filled(entry, known)


def _holding(operator: Operator, entry: LogDirective, batch: Batch, rows: list[int]) -> list[int]:
    """The rows for which the directive's condition is true."""
    from spark_jobs.nodes import operator as operators

    assert entry.condition is not None
    result = operator.run(operators.compiled(entry.condition), batch, engine.Surroundings())
    true = set(range(batch.count) if result.rows is None else result.rows.to_pylist())
    return [row for row in rows if row in true]


def _record(batch: Batch, row: int, name: str) -> dict[str, Any]:
    known: dict[str, Any] = {column: batch.data.column(column)[row].as_py() for column in batch.data.schema.names}
    file = batch.origin.surroundings(batch).get("source.file")
    _, _, place = batch.origin.identify(batch, pa.array([row]))
    known["_source_file"] = file[row].as_py() if isinstance(file, pa.Array) else file
    known["_source_row"] = place[0].as_py() + 1
    known["_transform_name"] = name
    return known


def _filled(entry: LogDirective, known: dict[str, Any]) -> str:
    """The message with its placeholders filled in (unknown ones stay), and ` name=value` for each of `fields`."""
    text = _PLACEHOLDER.sub(
        lambda m: values.text_of(known[m.group(1)]) if m.group(1) in known else m.group(0), entry.message
    )
    return text + "".join(f" {name}={values.text_of(known.get(name))}" for name in entry.fields)
