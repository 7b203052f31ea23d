"""What is said of correlation groups and retraction: keys, what a failure takes along, what is computed again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.plan.explain import explain
from tests.plan import test_correlation
from tests.plan.pipelines import NAMED, planned

if TYPE_CHECKING:
    from pathlib import Path


def test_retraction_shows_where_a_key_is_left_out(tmp_path: Path) -> None:
    keyed = NAMED.replace("      path: orders", "      correlation_key: id\n      path: orders")
    text = explain.text(planned(tmp_path, keyed))
    assert "retraction enabled — 1 relaxed aggregates" in text
    assert "Reversible accumulator path" in text
    assert "Deferred Region: sums → [large]" in text


def test_correlation_shows_the_keys_of_each_node_and_what_a_failure_takes_along(tmp_path: Path) -> None:
    keyed = NAMED.replace("      path: orders", "      correlation_key: id\n      path: orders")
    keyed += "error_handling: { strategy: continue, correlation_fanout_policy: primary, max_group_buffer: 9 }\n"
    plan = planned(tmp_path, keyed)
    text = explain.text(plan)
    assert "=== Correlation ===\n\nGroups: at most 9 records; a rejected group is dead letters\n" in text
    blocks = text[text.index("=== Correlation") : text.index("=== Retraction")].strip().split("\n\n")
    found = {block.splitlines()[0].strip(":"): block for block in blocks[2:]}
    assert (
        "takes along the records of its source with the same key (orders by id, but at 'large' none)"
        in found["source 'orders'"]
    )
    assert "retractable: group_by leaves out id, so a row mixes correlation groups" in found["aggregate 'sums'"]
    assert "takes the row's records back out of every output and aggregate" in found["output 'large'"]
    assert "fan-out: primary: of no effect: its rows are of no group" in found["output 'large'"]
    form = json.loads(explain.as_json(plan))["correlation"]
    assert form["sources"] == {"orders": ["id"]}
    assert form["fanout_policies"] == dict.fromkeys(plan.outputs, "primary")
    assert form["nodes"]["sums"]["grouping"] == "relaxed"
    assert [region["producer"] for region in form["deferred_regions"]] == ["sums"]
    boundless = planned(tmp_path, keyed.replace("max_group_buffer: 9", "max_group_buffer: 0"))
    assert "\nGroups: of any size; a rejected group is dead letters\n" in explain.text(boundless)


@pytest.mark.parametrize("carried", ["driver", "all"])
def test_a_combine_says_with_whose_groups_its_rows_leave(tmp_path: Path, carried: str) -> None:
    nodes = [
        test_correlation.source("a", "id"),
        test_correlation.source("b", "id"),
        test_correlation.combine("c", {"x": "a", "y": "b"}, propagate_ck=carried),
        test_correlation.output("c"),
    ]
    plan = test_correlation.planned(tmp_path, *nodes, strategy="continue")
    line = "  joined: a row leaves with the groups of the records of 'b' that it was joined to"
    assert explain.text(plan).count(line) == (2 if carried == "all" else 0)
    joined = {name: each["joined"] for name, each in json.loads(explain.as_json(plan))["correlation"]["nodes"].items()}
    assert joined == {"a": [], "b": [], "c": ["b"] if carried == "all" else [], "out": joined["c"]}


def test_without_keys_nothing_is_said_of_correlation(tmp_path: Path) -> None:
    plan = planned(tmp_path, NAMED)
    assert "Correlation" not in explain.text(plan)
    assert json.loads(explain.as_json(plan))["correlation"] is None


def test_a_failure_is_said_to_take_along_what_it_does(tmp_path: Path) -> None:
    def said(*nodes: dict[str, Any], strategy: str = "continue") -> dict[str, str]:
        plan = test_correlation.planned(tmp_path, *nodes, strategy=strategy)
        form = json.loads(explain.as_json(plan))["correlation"]
        return {name: node["failure"] for name, node in form["nodes"].items()}

    a, b = test_correlation.source("a", "id"), test_correlation.source("b")
    strict = test_correlation.total("sums", "a", ["id"])
    merge = test_correlation.node("merge", "m", ["a", "b"])
    out = test_correlation.output
    found = said(a, b, strict, merge, out("sums"), out("m", "other"))
    assert (
        found["out"]
        == "of a row of 'sums': takes along the correlation group of the row, of all sources of its records"
    )
    assert (
        found["other"] == "takes along the records of its source with the same key (a by id, but at 'other' none); "
        "of 'b', without key: alone"
    )
    assert said(a, out("a"), strategy="fail_fast")["out"] == "ends the run"


def test_a_failure_is_said_to_take_along_what_has_less_of_its_key(tmp_path: Path) -> None:
    """Behind a merge, or a combine with `named`, rows are of larger groups: by what is left of the key."""
    wide, narrow = test_correlation.source("a", ["id", "reg"]), test_correlation.source("b", "id")
    cut = test_correlation.combine("c", {"x": "a", "y": "b"}, propagate_ck={"named": ["reg"]})
    nodes = [
        wide,
        narrow,
        test_correlation.node("merge", "m", ["a", "b"]),
        test_correlation.total("sums", "m", ["id"]),
        cut,
        *(test_correlation.output(given, f"to_{given}") for given in ("a", "b", "m", "sums", "c")),
    ]
    plan = test_correlation.planned(tmp_path, *nodes, strategy="continue")
    found = {name: node["failure"] for name, node in json.loads(explain.as_json(plan))["correlation"]["nodes"].items()}
    of_a = "a by id, reg, but at 'to_m', 'to_sums' by id alone, at 'to_c' by reg alone"
    along = "takes along the records of its source with the same key"
    assert found["a"] == found["to_a"] == found["c"] == f"{along} ({of_a})"
    assert found["b"] == found["to_b"] == f"{along} (b by id)"
    assert found["m"] == f"{along} ({of_a}; b by id)"
    assert explain.text(plan).count(of_a) == 6


def test_the_rows_of_time_windows_are_of_the_groups_that_are_left(tmp_path: Path) -> None:
    """A run rejects them with their groups by what `group_by` has of the key, and those with them."""
    watched = test_correlation.source("a", ["id", "reg"], watermark={"column": "at"})
    hourly = {"tumbling": {"size": "1h"}}
    some, none = (test_correlation.total(f"by_{key}", "a", [key], time_window=hourly) for key in ("id", "v"))
    outs = [test_correlation.output(f"by_{key}", f"to_{key}") for key in ("id", "v")]
    plan = test_correlation.planned(tmp_path, watched, some, none, *outs, strategy="continue")
    text = explain.text(plan)
    kept = "group_by leaves out reg, and time windows are not computed again"
    assert f"  groups: a row is rejected with its groups by id alone: {kept}\n" in text
    lost = "group_by leaves out id, reg, and time windows are not computed again"
    assert f"  groups: mixed for good: {lost}\n" in text
    found = {name: node["failure"] for name, node in json.loads(explain.as_json(plan))["correlation"]["nodes"].items()}
    along = "of a row of 'by_id': takes along its groups by id, of all sources of its records"
    assert found["by_id"] == found["to_id"] == along
    assert found["by_v"] == found["to_v"] == "of a row of 'by_v': stays alone"
    assert found["a"].endswith("(a by id, reg, but at 'to_id' by id alone, at 'to_v' none)")


def test_rows_of_rows_are_retractable_for_what_they_are_made_of(tmp_path: Path) -> None:
    a, hour = test_correlation.source("a", ["id", "reg"], watermark={"column": "at"}), {"tumbling": {"size": "1h"}}
    total = test_correlation.total
    first, second = total("x", "a", ["reg", "v"]), total("y", "x", ["reg"])
    second["config"]["cxl"] = "emit n = count(*)"
    nodes = [a, first, second, total("z", "a", ["v"], time_window=hour)]
    plan = test_correlation.planned(tmp_path, *nodes, *(test_correlation.output(name, f"o{name}") for name in "xyz"))
    text = explain.text(plan)
    mixes = "so a row mixes correlation groups"
    for lines in (
        ["ends here: $ck.id", f"groups: retractable: group_by leaves out id, {mixes}"],
        ["ends here: $ck.aggregate.x", f"groups: retractable: it is made of rows of 'x', {mixes}"],
        [
            "ends here: $ck.id, $ck.reg",
            "groups: mixed for good: group_by leaves out id, reg, and time windows are not computed again",
        ],
        ["memory: none for each row; a round computes the groups again, from the records that stay."],
    ):
        assert "".join(f"  {line}\n" for line in lines) in text
    assert "bytes/row" not in text


@pytest.mark.parametrize("key", ["id", ["id", "reg"]])
def test_no_policy_decides_of_rows_without_groups(key: Any, tmp_path: Path) -> None:
    a, b = test_correlation.source("a", key), test_correlation.source("b")
    mixed = test_correlation.total("sums", "a", ["reg"])
    out = test_correlation.output
    plan = test_correlation.planned(tmp_path, a, b, mixed, out("a", "x"), out("b", "y"), out("sums", "z"))
    lines = [line for line in explain.text(plan).splitlines() if line.startswith("  fan-out: ")]
    nothing = "  fan-out: any: of no effect: its rows are of no group"
    assert lines == ["  fan-out: any: a group is rejected when any of its records fails", nothing, nothing]


def test_windows_behind_a_retractable_aggregate_are_computed_again(tmp_path: Path) -> None:
    window = {"group_by": ["reg"], "sort_by": [{"field": "total"}]}
    nodes = [
        test_correlation.source("a", "id"),
        test_correlation.total("sums", "a", ["reg"]),
        test_correlation.node("transform", "w", "sums", cxl="emit n = $window.row_number()", analytic_window=window),
        test_correlation.output("w"),
    ]
    text = explain.text(test_correlation.planned(tmp_path, *nodes))
    assert "1 relaxed aggregates, 1 buffer-mode windows" in text
    assert "Window 'w' (partition_by [\"reg\"]):" in text
