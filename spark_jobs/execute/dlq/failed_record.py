"""The message about the record that ended a run: its place, the expression that failed, and its values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs import credentials
from spark_jobs.contract import ExitCode
from spark_jobs.cxl import values
from spark_jobs.cxl.failure import Category
from spark_jobs.execute.dlq import reread
from spark_jobs.execute.report import FirstFailure
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.nodes.records import columns, guarded
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from spark_jobs.execute.dlq.buffer import DlqEntries, Site
    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.plan import plan as plans

#: Failures of a file: it cannot be read, or cannot be written because of a record.
_OF_FILES = (Category.MALFORMED, "E900")
#: How much of a value, and how many columns, a message shows.
_MOST_CHARACTERS, _MOST_COLUMNS = 100, 40
#: The encoding in batches of a Decimal, and of a date of a dynamic type; see `values.encode`.
_TAGGED = re.compile(r'^\{"\$(?:decimal|date|datetime)":"([^"]*)"\}$')


def blamed(first: FirstFailure, inputs: Inputs, rows_before: Mapping[int, int], strategy: plans.Strategy) -> RunFailed:
    """The end of a run by a record."""
    name = f"field '{first.field}': " if first.field else ""
    parts = [f"{_place(first, inputs, rows_before)}{name}{first.detail} (stage {first.stage}; strategy {strategy})"]
    if first.expression:
        parts.append(f"expression: {first.expression}")
    record = _read_again(first, inputs) if first.record is None else first.record
    if record:
        parts.append(f"record: {_shown(record)}")
    exit_code = ExitCode.IO if first.code in _OF_FILES else ExitCode.EVALUATION
    return RunFailed(exit_code, first.code or "E302", "; ".join(parts), first.place or None)


def first(entries: DlqEntries, site: Site, data: pa.RecordBatch | None) -> FirstFailure:
    """The first of some failing records; `data` is the input of the node, where it is at hand."""
    at = np.zeros(len(entries.failing), dtype=np.int64) if entries.causes is None else entries.causes[-1].to_numpy()
    number = int(np.lexsort((at, *(column.to_numpy() for column in reversed(entries.places))))[0])
    source, split, row = (column[number].as_py() for column in entries.places)
    item, stage = entries.failing[number], site.stages[entries.failing.reason[number]]
    found, (expression, place) = item.failure, item.failure.expression or ("", "")
    record = None if data is None else at_hand(data, item.row, site.guard)
    value = None if found.value is None else values.text_of(found.value)
    detail = guarded.detail(found.detail, value) if site.guard.hides(found.field) else found.detail
    return FirstFailure(
        source, split, row, stage, detail, found.field, found.category, expression, place, record,
        number=site.number, at=int(at[number]),
    )  # fmt: skip


def at_hand(
    data: pa.RecordBatch | pa.Table, row: int, guard: guarded.Guard = guarded.OPEN
) -> list[tuple[str, str | None]]:
    """A record of a batch in the form of messages: without credentials, engine columns, and undeclared nulls.

    A batch has the undeclared columns of any of its records, so most of them are null.
    """
    found: list[tuple[str, str | None]] = []
    values_of: Sequence[pa.Array | pa.ChunkedArray] = data.columns
    for name, column in zip(data.schema.names, values_of, strict=True):
        shown = columns.UNDECLARED.key(name)
        if columns.is_engine(shown):
            continue
        if len(found) == _MOST_COLUMNS:
            break
        value = column[row].as_py()
        if value is None and shown != name:
            continue
        text = None if value is None else _TAGGED.sub(r"\1", values.text_of(value))[: _MOST_CHARACTERS + 1]
        found.append((shown, text and credentials.HIDDEN if guard.hides(shown) else text))
    return found


def _place(first: FirstFailure, inputs: Inputs, rows_before: Mapping[int, int]) -> str:
    row = rows_before.get(first.split, 0) + first.row + 1
    return f"{inputs.file_name(first.split, first.source)}, row {row}: "


def _read_again(first: FirstFailure, inputs: Inputs) -> list[tuple[str, str | None]]:
    """The record of a source, by its place; none where it cannot be had."""
    if first.split < 0 or first.code == Category.MALFORMED:
        return []
    try:
        _, texts = reread.Rereader(inputs).texts(first.split, np.array([first.row]))
    except (OSError, FormatError):
        return []  # the failure is what ends the run, not that its record cannot be shown
    return at_hand(texts, 0) if texts.num_rows else []


def _shown(record: Sequence[tuple[str, str | None]]) -> str:
    return "{" + ", ".join(f"{name}: {_value(text)}" for name, text in record) + "}"


def _value(text: str | None) -> str:
    if text is None:
        return "null"
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"
