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
from tests.plan.pipelines import NAMED, ORDERS, planned

ROOT = Path(__file__).resolve().parents[2]


def test_the_text_names_nodes_edges_and_where_records_are_kept(tmp_path: Path) -> None:
    text = explain.text(planned(tmp_path, NAMED))
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


def test_the_json_form_is_versioned_and_complete(tmp_path: Path) -> None:
    plan = planned(tmp_path, NAMED)
    form = json.loads(explain.as_json(plan))
    assert form["schema_version"] == explain.SCHEMA_VERSION
    assert [node["name"] for node in form["nodes"]] == [node.name for node in plan.nodes]
    assert {edge["passage"] for edge in form["edges"]} == {"pipelined", "shuffled", "broadcast"}
    assert form["nodes"][-1]["depends_on"] == ["size.big"]


def test_the_graph_can_be_drawn(tmp_path: Path) -> None:
    drawn = explain.dot(planned(tmp_path, NAMED.replace("name: large", 'name: "la\\"rge"')))
    assert re.search(r'\d+ -> \d+ \[ label="big" \]', drawn)
    assert '\\"' in drawn
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=drawn.encode(), check=True, capture_output=True)


def test_lineage_leads_back_to_the_columns_of_sources(tmp_path: Path) -> None:
    plan = planned(tmp_path, NAMED)
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
