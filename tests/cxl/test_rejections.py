"""Frequent failures are told as columns: what is said is what the interpreter says, which is not asked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.cxl import engine, tracing, types, values
from spark_jobs.cxl.kernels import kernels, rejections
from spark_jobs.cxl.kernels.deferred import Deferred
from tests.cxl.both_engines import check_agreement, program_of

COLUMNS = {"s": types.STRING, "t": types.STRING, "n": types.INT, "z": types.INT, "f": types.FLOAT}
FLOATS = [0.0, -0.0, 1.5, None, 1e308, -2.0, 1e-308]
TEXTS = [
    None, "", "1", "-7", "x", "true", "NO", "2024-02-30", "2024-02-29", "nan", "1e400", " 1", "+5", "0x1F", "é",
    "9223372036854775808", "9223372036854775807", "31/12/2024", "2024-02-29T10:00:00", "1.5", "a'b", "1(",
]  # fmt: skip
RECORDS = [
    {
        "s": text,
        "t": TEXTS[-1 - number % len(TEXTS)],
        "n": (number % 5) - 2 or None,
        "z": (None, 0, 3, -(1 << 63), -1, 0)[number % 6],
        "f": FLOATS[number % len(FLOATS)],
    }
    for number, text in enumerate(TEXTS * 3)
]  # fmt: skip
#: Programs, and whether the interpreter is asked for nothing at all.
PROGRAMS = [
    ("emit a = s.to_int()", True),
    ("emit a = s.trim().to_int()", True),
    ("let x = s.to_bool()\nemit a = x", True),
    ("emit meta m = s.to_date()\nemit a = 1", True),
    ('emit a = s.to_date("%d/%m/%Y")', True),
    ("emit a = s.to_datetime()", True),
    ("emit a = s.to_int()\nemit b = t.to_int()\nfilter b > 1", True),
    ("emit a = s.to_int() == t.to_int()", True),
    ("emit a = s.to_int().to_string() + t", True),
    ("emit a = s.to_bool().to_string().to_int()", True),
    ('emit a = "x".to_int()', True),
    ("let a = s\nlet a = a.to_int()\nemit b = a", None),
    ("emit a = s.to_float()", False),
    ("emit a = s.to_float() * 2", False),
    ("emit a = s.to_int() + t.to_int()", True),
    ("emit a = 1 / n + s.to_int()", None),
    ("emit a = 1 / z", True),
    ("emit a = 7 % z", True),
    ("let q = z / z\nemit a = q", True),
    ("emit meta m = n / z\nemit a = 1", True),
    ("emit a = z / n", False),
    ("emit a = z / n / z", False),
    ("emit a = n / z / n", True),
    ("emit a = (1.5 / f) / z", True),
    ("emit a = 2 % f", True),
    ("emit a = f % f + n / z", True),
    ("emit a = (n / z) / (n % z)", False),
    ("emit a = s.to_int() / z", True),
    ("emit a = 5 / z * s.to_int()", False),
    ("emit a = -(n / z)", True),
    ("emit a = n / 0", True),
    ("emit a = z * z / 0", False),
    ("emit a = if n > 0 then n / z else 0", None),
    ("emit a = (n / z) ?? 7", None),
    ("let z2 = z\nlet z2 = 1 / z2\nemit a = z2", None),
    ("emit a = z\nemit z = 1 / z\nemit b = z", None),
    ("filter 5 / z > 1\nemit a = n", True),
    ("filter s.to_int() > 0\nemit a = t.to_int()", True),
    ("filter s.to_int() > 0 and n > 0\nemit a = n", True),
    ("filter not (5 % z > 1) or n > 0\nemit a = n", True),
    ("filter n > 0 and 5 / z > 0\nemit a = n", None),
    ("filter 5 / z > 1 and s.to_int() > 0\nemit a = n", None),
    ("distinct by z\nfilter 5 / z > 1\ndistinct by n\nemit a = 1 / z", None),
    ("filter s.to_int() == t.to_int()\nemit a = n", True),
    ("filter z / n > 0\nemit a = 1 / z", None),
    ("emit a = s.to_int() / n", True),
    ("emit a = -s.to_int()", True),
    ("emit a = if n > 0 then s.to_int() else 0", None),
    ("emit a = s.to_int() ?? 7", None),
    ("emit a = 9223372036854775807 + s.to_int()", False),
    ("distinct by s\nemit a = s.to_int()\nemit b = t.to_int()", None),
    ("emit a = s.to_int()\ndistinct by a", None),
    ('emit a = s.split(",").map(it => it.to_int())', None),
    ("emit each x in s.split(\",\") {\n  emit a = x.to_int()\n}", None),
]  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that were left to the interpreter."""
    found: list[int] = []
    real = Deferred.add

    def add(self: Deferred, positions: list[int], number: int) -> None:
        found.extend(positions)
        real(self, positions, number)

    monkeypatch.setattr(Deferred, "add", add)
    return found


def batch() -> pa.RecordBatch:
    arrays = {
        name: values.to_arrow([record[name] for record in RECORDS], kind.or_null()) for name, kind in COLUMNS.items()
    }
    return pa.record_batch(arrays)


def told(text: str) -> list[Any]:
    """Everything that is said of failing rows, and what became of the others."""
    result = kernels.compile(program_of(text, COLUMNS))(batch(), engine.EvaluationContext())
    failing = [
        (one.row, str(one.failure), one.failure.category, one.failure.field, one.failure.expression)
        for one in result.failures
    ]
    shown = [None if one.failure.value is None else values.text_of(one.failure.value) for one in result.failures]
    rows = None if result.rows is None else result.rows.to_pylist()
    return [failing, shown, rows, {name: str(array) for name, array in result.emits.items()}, result.duplicates]


@pytest.mark.parametrize(("text", "is_settled"), PROGRAMS)
def test_what_is_said_is_what_the_interpreter_says(
    text: str, is_settled: bool | None, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = told(text)
    assert quick[0], "nothing fails"
    if is_settled is not None:
        assert (asked == []) is is_settled
    monkeypatch.setattr(rejections, "rejections_of", lambda *others: [])
    assert quick == told(text)


@pytest.mark.parametrize("batch_rows", [None, 3])
@pytest.mark.parametrize("text", [text for text, _ in PROGRAMS])
def test_both_engines_agree(text: str, batch_rows: int | None) -> None:
    check_agreement(text, COLUMNS, RECORDS, batch_rows)


def test_lines_of_the_log_are_written_once() -> None:
    lines: list[str] = []

    class Catcher:
        level = 0

        def handle(self, record: Any) -> None:
            lines.append(record.getMessage())

    handler = Catcher()
    before = tracing.LOG.level
    tracing.LOG.setLevel(1)
    tracing.LOG.addHandler(handler)  # type: ignore[arg-type]
    try:
        told('emit a = s.debug("s").to_int()')
    finally:
        tracing.LOG.removeHandler(handler)  # type: ignore[arg-type]
        tracing.LOG.setLevel(before)
    assert len(lines) == sum(record["s"] is not None for record in RECORDS) or len(lines) == len(RECORDS)


def test_a_long_chain_of_conversions_compiles_soon() -> None:
    text = "emit a = s" + ".to_int().to_string()" * 200
    result = kernels.compile(program_of(text, COLUMNS))(batch(), engine.EvaluationContext())
    assert len(result.failures) > len(TEXTS)
