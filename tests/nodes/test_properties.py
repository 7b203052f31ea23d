"""Generated inputs through whole pipelines, any cut of the files, against the same computed row by row in Python."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.execute import pipelines, without_spark
from tests.few import FEW

if TYPE_CHECKING:
    import pytest

KEYS = st.sampled_from(["a", "b", "c", ""])
NUMBERS = st.one_of(st.none(), st.integers(-3, 3))
ROWS = st.lists(st.tuples(NUMBERS, KEYS, NUMBERS), max_size=14)
SPLITS = st.integers(8, 60)
SOURCE = """
  - type: source
    name: {0}
    config:
      {{name: {0}, type: csv, path: {0}.csv, schema: {{n: int, k: string, v: int}}}}
"""

Row = tuple[int | None, str, int | None]


def text(value: object) -> str:
    return "" if value is None else str(value)


def file_of(rows: list[Row]) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["n", "k", "v"])
    writer.writerows([[text(cell) for cell in row] for row in rows])
    return sink.getvalue()


def run(monkeypatch: pytest.MonkeyPatch, nodes: str, inputs: dict[str, list[Row]], split: int) -> list[list[str]]:
    """The rows of `out/o.csv`."""
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, split)
    folder = Path(tempfile.mkdtemp(prefix="clinker-property-"))
    try:
        sources = "".join(SOURCE.format(name) for name in inputs)
        files = {f"{name}.csv": file_of(rows) for name, rows in inputs.items()}
        pipelines.write(folder, {**files, "pipeline.yaml": f"pipeline: {{name: p}}\nnodes:{sources}{nodes}"})
        outcome = pipelines.run(folder).result
        assert outcome.exit_code == 0, outcome.error
        return list(csv.reader(io.StringIO((folder / "out" / "o.csv").read_text())))[1:]
    finally:
        shutil.rmtree(folder)


def output(name: str) -> str:
    return f"\n  - {{type: output, name: o, input: {name}, config: {{name: o, type: csv, path: out/o.csv}}}}\n"


@FEW
@given(
    match=st.sampled_from(["first", "all"]),
    on_miss=st.sampled_from(["null_fields", "skip"]),
    drivers=ROWS,
    builds=ROWS,
    split=SPLITS,
)
def test_combine(
    monkeypatch: pytest.MonkeyPatch, match: str, on_miss: str, drivers: list[Row], builds: list[Row], split: int
) -> None:
    nodes = f"""
  - type: combine
    name: c
    input: {{d: d, b: b}}
    config:
      where: d.n == b.n and d.k == b.k and d.v >= b.v
      match: {match}
      on_miss: {on_miss}
      cxl: "emit n = d.n\\nemit k = d.k\\nemit v = d.v\\nemit w = b.v"
"""
    expected = []
    for n, k, v in drivers:
        found = [w for m, j, w in builds if n is not None and n == m and k == j and None not in (v, w) and v >= w]
        found = found[:1] if match == "first" else found
        expected += [[n, k, v, w] for w in found] or ([[n, k, v, None]] if on_miss == "null_fields" else [])
    found_rows = run(monkeypatch, nodes + output("c"), {"d": drivers, "b": builds}, split)
    assert found_rows == [[text(cell) for cell in row] for row in expected]


@FEW
@given(first=ROWS, second=ROWS, split=SPLITS)
def test_aggregate_behind_a_merge(
    monkeypatch: pytest.MonkeyPatch, first: list[Row], second: list[Row], split: int
) -> None:
    nodes = """
  - {type: merge, name: m, inputs: [s, r], config: {}}
  - type: aggregate
    name: g
    input: m
    config:
      group_by: [k, n]
      cxl: |
        emit rows = count(*)
        emit total = sum(v)
        emit least = min(v)
        emit newest = last(v)
        emit all = collect(v)
"""
    groups: dict[tuple[str, int | None], list[int | None]] = {}
    for n, k, v in [*second, *first]:
        groups.setdefault((k, n), []).append(v)
    expected = []
    for (k, n), values in groups.items():
        known = [value for value in values if value is not None]
        listed = "[" + ",".join("null" if value is None else str(value) for value in values) + "]"
        expected.append(
            [k, n, len(values), sum(known) if known else None, min(known, default=None), values[-1], listed]
        )
    found = run(monkeypatch, nodes + output("g"), {"r": first, "s": second}, split)
    assert found == [[text(cell) for cell in row] for row in expected]


@FEW
@given(rows=ROWS, split=SPLITS)
def test_distinct_and_routes(monkeypatch: pytest.MonkeyPatch, rows: list[Row], split: int) -> None:
    nodes = """
  - {type: transform, name: once, input: r, config: {cxl: "filter v != 0\\ndistinct by n\\nemit twice = v * 2"}}
  - {type: route, name: size, input: once, config: {conditions: {high: twice > 0}, default: low}}
  - {type: merge, name: m, inputs: [size.low, size.high], config: {}}
"""
    seen: set[int | None] = set()
    kept = []
    for n, k, v in rows:
        if v not in (None, 0) and n not in seen:
            seen.add(n)
            kept.append([n, k, v, 2 * v])
    expected = [row for row in kept if row[3] <= 0] + [row for row in kept if row[3] > 0]
    assert run(monkeypatch, nodes + output("m"), {"r": rows}, split) == [
        [text(cell) for cell in row] for row in expected
    ]
