"""What a window may range over: rows that are there, values that have an order, sources that its file knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.nodes.transform.step import TransformStep
from tests.plan.pipelines import CUSTOMERS, ORDERS, found, planned, problems, write

if TYPE_CHECKING:
    from pathlib import Path

STATE = """
  - type: state
    name: remember
    input: ranked
    config: { scope: pipeline, phase: init, set: [{ var: top, cxl: n }] }
"""
DECLARED = ORDERS.replace("name: shop", "name: shop, vars: { pipeline: { top: { type: int } } }")


def window(settings: str, cxl: str = "emit n = $window.count()", reads: str = "orders") -> str:
    return f"""
  - type: transform
    name: ranked
    input: {reads}
    config:
      analytic_window: {settings}
      cxl: {cxl}
"""


def output(reads: str) -> str:
    return f"  - {{ type: output, name: out_{reads}, input: {reads}, config: {{ type: json, path: {reads}.json }} }}\n"


CROSS = window("{ source: customers, on: id, group_by: [id] }")


def test_an_init_node_reads_no_source_of_the_runtime_phase(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, DECLARED + CUSTOMERS + CROSS + STATE + output("customers"))
    assert problem.code.id == "E150c"
    assert "source 'customers' whose ingestion tier is downstream of 'ranked'" in problem.message
    assert problem.span
    assert problem.span.file.text[problem.span.start : problem.span.end] == "customers"


@pytest.mark.parametrize(
    "text",
    [
        DECLARED + CUSTOMERS + CROSS + STATE,
        DECLARED + CUSTOMERS + CROSS + STATE.replace("init", "runtime") + output("customers"),
        DECLARED + CUSTOMERS + CROSS + STATE + STATE.replace("remember", "second").replace("ranked", "customers"),
    ],
    ids=["nobody else reads it", "the window is of the runtime phase", "the init phase reads it too"],
)
def test_a_source_that_the_windows_phase_reads_is_there(tmp_path: Path, text: str) -> None:
    assert "E150c" not in [code for code, _ in found(tmp_path, text.replace("cxl: n }", "cxl: id }"))]


def test_a_window_that_looks_rows_up_says_in_which_source(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, ORDERS + window("{ on: id, group_by: [id] }") + output("ranked"))
    assert problem.code.id == "E150d"
    assert "`on: id` looks them up in another source" in problem.message


def test_a_window_on_a_merge_ranges_over_all_its_rows(tmp_path: Path) -> None:
    merge = "  - { type: merge, name: both, inputs: [orders, orders] }\n"
    assert found(tmp_path, ORDERS + merge + window("{ group_by: [id] }", reads="both") + output("ranked")) == []


COLLECTED = """
  - type: combine
    name: joined
    input: { o: orders, c: customers }
    config: { where: o.customer == c.id, match: collect }
  - { type: transform, name: passed, input: joined, config: { cxl: emit twice = id * 2 } }
"""


@pytest.mark.parametrize(
    ("settings", "cxl", "place"),
    [
        ("{ group_by: [c] }", "emit n = $window.count()", "c"),
        ("{ group_by: [id], sort_by: [{ field: c }] }", "emit n = $window.count()", "c"),
        ("{ group_by: [id] }", "emit n = $window.lag(1, c)", "$window.lag(1, c)"),
        ("{ group_by: [id] }", "emit n = $window.any(c.length() > 1)", "c"),
    ],
)
def test_a_window_reads_no_collected_array(tmp_path: Path, settings: str, cxl: str, place: str) -> None:
    text = ORDERS + CUSTOMERS + COLLECTED + window(settings, cxl, "passed") + output("ranked")
    (problem,) = problems(tmp_path, text)
    assert problem.code.id == "E150e"
    assert "references field 'c' typed as Array; the combine 'joined' collects" in problem.message
    assert problem.span
    assert problem.span.file.text[problem.span.start : problem.span.end] == place


def test_other_arrays_and_what_is_made_of_collected_ones_may_be_read(tmp_path: Path) -> None:
    made = "  - { type: transform, name: sized, input: passed, config: { cxl: emit size = c.length() } }\n"
    text = ORDERS.replace("type: string", "type: array") + CUSTOMERS + COLLECTED + made
    cxl = "\n        emit n = $window.first(note)\n        emit m = $window.sum(size)"
    assert found(tmp_path, text + window("{ group_by: [size] }", f"|{cxl}", "sized") + output("ranked")) == []


BODY = """
_compose:
  name: body
  inputs: { rows: { schema: [{ name: id, type: int }] } }
  outputs: { all: ranked }
nodes:
"""
CALL = """
  - { type: composition, name: call, use: body.comp.yaml, inputs: { rows: orders } }
  - { type: output, name: result, input: call, config: { type: csv, path: result.csv } }
"""


def test_a_window_of_a_body_ranges_over_a_source_of_the_body(tmp_path: Path) -> None:
    write(tmp_path, BODY + CUSTOMERS + CROSS.replace("input: orders", "input: rows"), "body.comp.yaml")
    plan = planned(tmp_path, ORDERS + CALL)
    assert plan.by_name["call/ranked"].step.window.source == "call/customers"  # type: ignore[union-attr]


def test_a_window_of_a_body_does_not_reach_into_the_calling_pipeline(tmp_path: Path) -> None:
    write(tmp_path, BODY + CROSS.replace("input: orders", "input: rows"), "body.comp.yaml")
    unread, problem = problems(tmp_path, ORDERS + CUSTOMERS + CALL)
    assert (unread.code.id, problem.code.id) == ("W004", "E003")
    assert problem.help == "sources here: none"


@pytest.mark.parametrize(
    ("cxl", "left_out", "spare"),
    [
        ("emit n = $window.sum(amount)", "[id, customer, amount]", {"amount", "customer", "id"}),
        ("emit n = $window.sum(amount) + amount", "[id, customer, amount]", {"customer", "id"}),
        ("emit n = $window.sum(amount)", "[customer, amount]", {"amount", "customer"}),
        ("emit amount = $window.sum(amount)", "[id]", {"amount", "id"}),
    ],
)
def test_columns_that_only_a_window_reads_go_no_further(
    tmp_path: Path, cxl: str, left_out: str, spare: set[str]
) -> None:
    settings = "{ group_by: [customer], sort_by: [{ field: id }] }"
    only = output("ranked").replace("ranked.json", f"ranked.json, exclude: {left_out}")
    found_plan = planned(tmp_path, ORDERS + window(settings, cxl) + only)
    step = found_plan.by_name["ranked"].step
    assert isinstance(step, TransformStep)
    assert step.window is not None
    assert step.window.spare == spare
