"""Plans shown as text, JSON and DOT; lineage; the JSON Schema of pipeline files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from spark_jobs.plan.explain import explain, lineage
from spark_jobs.plan.reading import json_schema
from tests.plan import test_correlation
from tests.plan.pipelines import CUSTOMERS, ORDERS, planned

ROOT = Path(__file__).resolve().parents[2]
NODES = """
  - type: combine
    name: named
    input: { o: orders, c: customers }
    config:
      where: o.customer == c.id
      cxl: |
        emit name = c.name
        emit net = o.amount / 1.2
  - type: aggregate
    name: sums
    input: named
    config:
      group_by: [name]
      cxl: |
        let half = net / 2.0
        emit total = sum(half) + sum(net)
  - type: route
    name: size
    input: sums
    config: { conditions: { big: total > 10.0 }, default: small }
  - { type: output, name: large, input: size.big, config: { type: csv, path: big.csv, mapping: { Sum: total } } }
"""
PIPELINE = ORDERS + CUSTOMERS + NODES


def test_the_text_names_nodes_edges_and_where_records_are_kept(tmp_path: Path) -> None:
    text = explain.text(planned(tmp_path, PIPELINE))
    for line in (
        "Execution Plan: shop",
        "  -> [big] large",
        "edge source.orders -> combine.named as o:",
        "  buffer: streaming (pipelined); records stay in the task that read them",
        "  buffer: materialized (shuffled by key); equal keys meet; partial groups are built before the shuffle",
        "  Branch 'big' → 'large'",
        "  Default: 'small' → nothing",
        "    - o.customer == c.id",
        "output.large writes: name: Nullable(String), Sum: Nullable(Float), undeclared columns",
        "Spill disk cap: unlimited (default)",
    ):
        assert line in text.splitlines(), line
    assert "=== Retraction ===" not in text


def test_outputs_say_how_they_are_written(tmp_path: Path) -> None:
    settings = """
  - type: output
    name: all
    input: orders
    config:
      type: csv
      path: out/{source_file}.csv
      sort_order: [{field: amount, order: desc, null_order: first}, {field: id, null_order: drop}, customer]
      split: {max_records: 5}
"""
    text = explain.text(planned(tmp_path, ORDERS + settings))
    expected = """
  'all' → out/{source_file}.csv (split, naming="{stem}_{seq:04}.{ext}")
      [if_exists=error, write_meta=false]
      one file for each input file of 'orders'
      sorted by amount desc (nulls first), id (nulls dropped), customer: tasks write sorted runs
"""
    assert expected.strip("\n") in text


def test_retraction_shows_where_a_key_is_left_out(tmp_path: Path) -> None:
    keyed = PIPELINE.replace("      path: orders", "      correlation_key: id\n      path: orders")
    text = explain.text(planned(tmp_path, keyed))
    assert "retraction enabled — 1 relaxed aggregates" in text
    assert "Reversible accumulator path" in text
    assert "Deferred Region: sums → [large]" in text


def test_correlation_shows_the_keys_of_each_node_and_what_a_failure_takes_along(tmp_path: Path) -> None:
    keyed = PIPELINE.replace("      path: orders", "      correlation_key: id\n      path: orders")
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
    plan = planned(tmp_path, PIPELINE)
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


def test_the_json_form_is_versioned_and_complete(tmp_path: Path) -> None:
    plan = planned(tmp_path, PIPELINE)
    form = json.loads(explain.as_json(plan))
    assert form["schema_version"] == explain.SCHEMA_VERSION
    assert [node["name"] for node in form["nodes"]] == [node.name for node in plan.nodes]
    assert {edge["passage"] for edge in form["edges"]} == {"pipelined", "shuffled", "broadcast"}
    assert form["nodes"][-1]["depends_on"] == ["size.big"]


def test_the_graph_can_be_drawn(tmp_path: Path) -> None:
    drawn = explain.dot(planned(tmp_path, PIPELINE.replace("name: large", 'name: "la\\"rge"')))
    assert re.search(r'\d+ -> \d+ \[ label="big" \]', drawn)
    assert '\\"' in drawn
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=drawn.encode(), check=True, capture_output=True)


def test_lineage_leads_back_to_the_columns_of_sources(tmp_path: Path) -> None:
    plan = planned(tmp_path, PIPELINE)
    origins = {origin.column: origin.sources() for origin in lineage.of_outputs(plan)}
    assert origins == {"name": [("customers", "name")], "Sum": [("orders", "amount")]}
    assert lineage.of_column(plan, "sums", "nothing") is None


UNDECLARED = """
pipeline: { name: p, include_provenance: true }
nodes:
  - type: source
    name: left
    config: &config { type: csv, path: in.csv, schema: { a: int }, on_unmapped: auto_widen }
  - { type: source, name: right, config: { <<: *config } }
  - type: combine
    name: pairs
    input: { l: left, r: right }
    config: { where: l.a == r.a, cxl: "emit a = l.a\\nemit x = r.b + l.c" }
  - { type: aggregate, name: groups, input: pairs, config: { group_by: [a, d], cxl: "emit n = count(*)" } }
  - { type: output, name: o, input: pairs, config: { type: csv, path: o.csv, include_unmapped: true } }
  - { type: output, name: p, input: groups, config: { type: csv, path: p.csv } }
"""


def test_lineage_leads_to_undeclared_columns_as_well(tmp_path: Path) -> None:
    plan = planned(tmp_path, UNDECLARED)
    origins = {(origin.node, origin.column): origin.sources() for origin in lineage.of_outputs(plan)}
    assert origins == {
        ("o", "a"): [("left", "a")],
        ("o", "x"): [("right", "b"), ("left", "c")],
        ("p", "a"): [("left", "a")],
        ("p", "d"): [("left", "d")],
        ("p", "n"): [],
    }
    found = lineage.of_column(plan, "p", "d")
    assert found is not None
    assert lineage.text("p.d", found).splitlines()[2:] == [
        "  p.d (written)",
        "    groups.d (grouped by)",
        "      pairs.d (combined)",
        "        left.d (read; undeclared)",
    ]


VARIABLES = """
pipeline:
  name: p
  vars:
    pipeline: { top: { type: int }, seen: { type: int, default: 0 }, early: { type: int } }
    source: { label: { type: string } }
    record: { score: { type: int } }
nodes:
  - { type: source, name: a, config: { type: csv, path: a.csv, schema: { k: string, v: int, w: int } } }
  - { type: source, name: b, config: { type: csv, path: b.csv, schema: { k: string, v: int, w: int } } }
  - { type: source, name: limits, config: { type: csv, path: limits.csv, schema: { limit: int } } }
  - type: state
    name: init
    input: limits
    config: { scope: pipeline, phase: init, set: [{ var: early, cxl: max(limit) }] }
  - type: state
    name: totals
    input: a
    config:
      scope: pipeline
      set: [{ var: top, cxl: max(v * w) + 1 }, { var: seen, cxl: $pipeline.seen + this.w }]
  - { type: state, name: labels, input: totals, config: { scope: source, set: [{ var: label, cxl: first(this.k) }] } }
  - { type: state, name: scores, input: labels, config: { scope: record, set: [{ var: score, cxl: this.v * 2 }] } }
  - { type: merge, name: both, inputs: [scores, b] }
  - type: transform
    name: read
    input: both
    config:
      cxl: |
        let top = $pipeline.top
        emit t = top + 1
        emit n = $pipeline.seen
        emit e = $pipeline.early ?? 0
        emit l = $source.scores.label
        emit s = $record.score
        emit name = $pipeline.name
        emit lone = w
  - { type: aggregate, name: groups, input: read, config: { group_by: [k], cxl: "emit s = sum($record.score + v)" } }
  - type: combine
    name: pairs
    input: { d: read, g: groups }
    config: { where: d.k == g.k, cxl: "emit t = d.w * $pipeline.top\nemit s = $record.score" }
  - { type: output, name: o, input: read, config: { type: csv, path: o.csv, include_unmapped: false } }
  - { type: output, name: p, input: groups, config: { type: csv, path: p.csv } }
  - { type: output, name: q, input: pairs, config: { type: csv, path: q.csv } }
"""


def test_lineage_leads_through_variables_to_what_sets_them(tmp_path: Path) -> None:
    plan = planned(tmp_path, VARIABLES)
    found = {f"{origin.node}.{origin.column}": set(origin.sources()) for origin in lineage.of_outputs(plan)}
    assert found == {
        "o.t": {("a", "v"), ("a", "w")},
        "o.n": {("a", "w")},
        "o.e": {("limits", "limit")},
        "o.l": {("a", "k")},
        "o.s": {("a", "v")},
        "o.name": set(),
        "o.lone": {("a", "w"), ("b", "w")},
        "p.k": {("a", "k"), ("b", "k")},
        "p.s": {("a", "v"), ("b", "v")},
        "q.t": {("a", "v"), ("a", "w"), ("b", "w")},
        "q.s": set(),
    }
    origin = lineage.of_column(plan, "o", "s")
    assert origin is not None
    assert lineage.text("o.s", origin).splitlines()[2:] == [
        "  o.s (written)",
        "    read.s (emitted)",
        "      both.$record.score (merged)",
        "        scores.$record.score (set)",
        "          labels.v (passed on)",
        "            totals.v (passed on)",
        "              a.v (read)",
    ]


PARALLEL = """
pipeline: { name: p, vars: { pipeline: { n: { type: int }, f: { type: float } }, source: { g: { type: float } } } }
nodes:
  - { type: source, name: a, config: { type: csv, path: a.csv, schema: { k: string, v: float } } }
  - { type: source, name: b, config: { type: csv, path: b.csv, schema: { k: string, v: float } } }
  - { type: transform, name: plain, input: a, config: { cxl: emit w = v } }
  - type: transform
    name: window
    input: plain
    config: { analytic_window: { group_by: [k] }, cxl: "distinct by k\nemit s = $window.sum(v)" }
  - type: transform
    name: across
    input: window
    config: { analytic_window: { source: b, on: k }, cxl: emit m = $window.max(v) }
  - { type: transform, name: once, input: across, config: { cxl: distinct by k } }
  - { type: state, name: count, input: once, config: { scope: pipeline, set: [{ var: n, cxl: count(*) }] } }
  - type: state
    name: run
    input: count
    config: { scope: pipeline, set: [{ var: f, cxl: "($pipeline.f ?? 0.0) * 2.0 + this.v" }] }
  - type: state
    name: files
    input: run
    config: { scope: source, set: [{ var: g, cxl: "($source.g ?? 0.0) * 2.0 + this.v" }] }
  - { type: aggregate, name: all, input: files, config: { group_by: [k], cxl: emit n = count(*) } }
  - { type: output, name: o, input: all, config: { type: csv, path: o.csv } }
"""


def test_the_text_says_what_the_tasks_of_each_node_divide_among_them(tmp_path: Path) -> None:
    plan = planned(tmp_path, PARALLEL)
    found = dict(re.findall(r"^Node \d+: (\w+) \(\w+, parallel: ([\w-]+)", explain.text(plan), re.MULTILINE))
    assert found == {
        "a": "file-split", "b": "file-split", "plain": "record", "window": "partition", "across": "record",
        "once": "key", "count": "record", "run": "nothing", "files": "file", "all": "key", "o": "part-file",
    }  # fmt: skip
    assert "window\\nparallel: partition" in explain.dot(plan)


def examples() -> list[Any]:
    files = sorted(ROOT.glob("examples/**/pipeline.yaml")) + sorted(ROOT.glob("examples/book/*.yaml"))
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in files if ".comp." not in path.name]


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json_schema.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", examples())
def test_examples_fit_the_json_schema(path: Path, validator: jsonschema.Draft202012Validator) -> None:
    values = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CBaseLoader)
    # BaseLoader leaves all scalars texts; only the structure is compared.
    problems = [one for one in validator.iter_errors(values) if one.validator in ("additionalProperties", "required")]
    assert problems == []


@pytest.mark.parametrize(
    "change",
    [
        {"pipeline": {"name": "p", "memry": 1}},
        {"nodes": [{"type": "source", "name": "s", "confg": {}}]},
        {"nodes": [{"type": "tranform", "name": "t", "input": "s"}]},
        {"error_handling": {"strategy": "continu"}},
    ],
)
def test_the_json_schema_refuses_what_the_loader_refuses(
    change: dict[str, Any], validator: jsonschema.Draft202012Validator
) -> None:
    good: dict[str, Any] = {"pipeline": {"name": "p"}, "nodes": []}
    assert validator.is_valid(good)
    assert not validator.is_valid(good | change)
