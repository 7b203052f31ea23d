"""State under correlation: variables are set by what counts as read, and a failing assignment fails its record."""

from __future__ import annotations

from typing import Any

import pytest

from tests.execute.correlation.test_correlation import output, rows
from tests.execute.correlation.test_retraction import HEAD, ran, refusing, summed

__all__ = ["ran"]

TOP = HEAD.replace("{name: p}", "{name: p, vars: {pipeline: {top: {type: int}}}}")
DATA = "k,a,b,v\nk1,a1,b1,5\nk1,a2,b1,7\nk2,a3,b1,0\nk2,a1,b2,4\nk3,a2,b2,6\n"


def state(cxl: str, phase: str = "runtime", node: str = "s") -> str:
    config = f'{{scope: pipeline, phase: {phase}, set: [{{var: top, cxl: "{cxl}"}}]}}'
    return f"      - {{type: state, name: set, input: {node}, config: {config}}}\n"


READER = '      - {type: transform, name: t, input: NODE, config: {cxl: "emit top = $pipeline.top"}}\n'


@pytest.mark.parametrize(("phase", "node"), [("runtime", "set"), ("init", "s")])
def test_a_variable_is_what_the_records_gave_that_count_as_read(ran: Any, phase: str, node: str) -> None:
    """Record 3 fails in another branch, where record 4 is collateral: that has been read well, and counts."""
    check = "      - {type: transform, name: c, input: s, config: {cxl: emit x = 1 / v}}\n"
    stages = state("sum(v + 1)", phase) + READER.replace("NODE", node) + check
    found = ran(TOP + stages + output("o", "t") + output("p", "c"), DATA)
    assert [(row["v"], row["top"]) for row in rows(found["o.csv"])] == [("5", "26"), ("7", "26"), ("6", "26")]


@pytest.mark.parametrize(("phase", "node"), [("runtime", "set"), ("init", "s")])
def test_a_failing_assignment_rejects_the_group_of_its_record(ran: Any, phase: str, node: str) -> None:
    stages = state("max(100 / v)", phase) + READER.replace("NODE", node)
    found = ran(TOP + stages + output("o", "t") + output("p", "s"), DATA)
    assert [(row["v"], row["top"]) for row in rows(found["o.csv"])] == [("5", "25"), ("7", "25"), ("6", "25")]
    assert [row["v"] for row in rows(found["p.csv"])] == ["5", "7", "6"]
    told = [(row["_cxl_dlq_source_row"], row["_cxl_dlq_stage"]) for row in rows(found["dead.csv"])]
    assert told == [("3", "state:set"), ("4", "correlation_commit")]


def test_a_variable_follows_what_is_taken_back(ran: Any) -> None:
    """The total of a3 is refused; the largest value without its record is 7."""
    data = DATA.replace("k2,a3,b1,0", "k2,a3,b1,30")
    total = summed("x", "s", "a") + refusing("c", "x", 31).replace("t < 31", "t == 30")
    found = ran(
        TOP + state("max(v)") + READER.replace("NODE", "set") + total + output("o", "t") + output("p", "c"), data
    )
    assert [(row["v"], row["top"]) for row in rows(found["o.csv"])] == [("5", "7"), ("7", "7"), ("4", "7"), ("6", "7")]
