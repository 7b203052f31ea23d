"""What plans say of windows: their partitions and orders, and which source a column of a window comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan as planning
from spark_jobs.plan.explain import explain, lineage
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.plan.plan import Plan

PIPELINE = """
pipeline: {name: p, include_provenance: true}
nodes:
  - {type: source, name: s, config: {type: csv, path: s.csv, schema: {id: int, k: string, n: int}}}
  - {type: source, name: r, config: {type: csv, path: r.csv, schema: {id: int, c: string, n: int}}}
  - type: transform
    name: own
    input: s
    config:
      analytic_window: {group_by: [k], sort_by: [{field: n, order: desc, null_order: drop}, {field: id}]}
      cxl: |
        let twice = n * 2
        emit before = $window.lag(id % 2, n)
        emit first = $window.first().k
        emit total = $window.sum(twice)
        emit count = $window.count()
  - type: transform
    name: other
    input: own
    config:
      analytic_window: {source: r, on: k == c, group_by: [c]}
      cxl: |
        let limit = n
        emit top = $window.last(id)
        emit some = $window.any(n > limit)
        emit there = $window.sum(n)
        emit file = $window.first_value($meta.source_file)
  - type: transform
    name: everything
    input: other
    config: {analytic_window: {}, cxl: emit nth = $window.row_number()}
  - {type: output, name: o, input: everything, config: {type: csv, path: out/o.csv}}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "s.csv": "id,k,n\n", "r.csv": "id,c,n\n"})
    return planning.load(tmp_path / "pipeline.yaml")


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("before", {("s", "n"), ("s", "id")}),
        ("first", {("s", "k")}),
        ("total", {("s", "n")}),
        ("count", set()),
        ("top", {("r", "id")}),
        ("some", {("r", "n"), ("s", "n")}),
        ("there", {("r", "n")}),
        ("file", {("r", "$meta.source_file")}),
    ],
)
def test_columns_of_windows_come_from_the_rows_that_they_range_over(
    plan: Plan, column: str, wanted: set[tuple[str, str]]
) -> None:
    found = lineage.of_column(plan, "o", column)
    assert found is not None
    assert set(found.sources()) == wanted


def test_explain_says_what_a_window_ranges_over(plan: Plan) -> None:
    told = explain.text(plan)
    assert (
        "  window: partitions of k, from the first row to the current one\n  sort_by: n desc (nulls dropped), id\n"
        in told
    )
    assert "  window: over the rows of r where k = c, the whole group\n  sort_by: <input order>\n" in told
    assert "  window: partitions <all records>, from the first row to the current one\n" in told
