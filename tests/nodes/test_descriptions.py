"""Every node type says what there is to say of its steps, and what it has nothing to say of, it says by name."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_jobs import plan as planning
from spark_jobs.cxl import typed
from spark_jobs.nodes import registry, tree
from spark_jobs.nodes.terms import description
from spark_jobs.nodes.terms.description import Description

if TYPE_CHECKING:
    from spark_jobs.plan.plan import Plan

#: What types have nothing to say of: a new type, or a new field of descriptions, has something to say, or stands here.
NEUTRAL = {
    ("aggregate", "details", None),
    ("aggregate", "files", description.no_files),
    ("combine", "files", description.no_files),
    ("combine", "unready", description.runs),
    ("merge", "details", None),
    ("merge", "files", description.no_files),
    ("merge", "programs", description.no_programs),
    ("output", "programs", description.no_programs),
    ("output", "unready", description.runs),
    ("route", "facts", description.no_facts),
    ("route", "files", description.no_files),
    ("route", "trace", description.passed_on),
    ("route", "unready", description.runs),
    ("source", "details", None),
    ("source", "programs", description.no_programs),
    ("state", "details", None),
    ("state", "facts", description.no_facts),
    ("state", "files", description.no_files),
    ("state", "trace", description.passed_on),
    ("state", "unready", description.runs),
    ("transform", "details", None),
    ("transform", "facts", description.no_facts),
    ("transform", "files", description.no_files),
}
NEUTRAL_VALUES = {
    None,
    description.no_facts,
    description.no_files,
    description.no_programs,
    description.passed_on,
    description.runs,
}
#: Programs that no description shows: conditions of log lines, and the parts of a residual that is shown as a whole.
UNSHOWN = {("transform", "log"), ("combine", "residuals")}

PIPELINE = """
pipeline: {name: all, vars: {pipeline: {last: {type: int, default: 3}}}}
nodes:
  - {type: source, name: o, config: {name: o, type: csv, path: o.csv, schema: {k: string, v: int}}}
  - {type: source, name: c, config: {name: c, type: csv, path: c.csv, schema: {k: string, v: int}}}
  - {type: state, name: s, input: o, config: {scope: pipeline, set: [{var: last, cxl: max(v)}]}}
  - type: transform
    name: t
    input: s
    config:
      cxl: |
        emit w = v + 1
        distinct by k
      validations: [{name: positive, check: v > 0}]
      log: [{level: info, when: per_record, condition: v > 2, message: large}]
  - {type: combine, name: j, input: {d: t, b: c}, config: {where: d.k == b.k and d.v > b.v, cxl: emit k = d.k}}
  - {type: merge, name: m, inputs: [o, c]}
  - {type: aggregate, name: g, input: m, config: {group_by: [k], cxl: "emit n = sum(v + 1) + 1"}}
  - {type: route, name: r, input: g, config: {conditions: {low: n < 3}, default: high}}
  - {type: output, name: x, input: r.low, config: {name: x, type: csv, path: out/x.csv}}
  - {type: output, name: y, input: r.high, config: {name: y, type: csv, path: out/y.csv}}
  - {type: output, name: z, input: j, config: {name: z, type: csv, path: out/z.csv}}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path = tmp_path_factory.mktemp("all") / "pipeline.yaml"
    path.write_text(PIPELINE)
    return planning.load(path)


def described() -> dict[str, Description]:
    return {kind: each.description for kind, each in registry.node_types().items() if each.description is not None}


def test_the_pipeline_has_a_node_of_each_type(plan: Plan) -> None:
    assert {planned.kind for planned in plan.nodes} == set(described())
    assert [kind for kind in registry.node_types() if kind not in described()] == ["composition"]


def test_what_a_type_says_nothing_of_is_known() -> None:
    found = {
        (kind, each.name, getattr(given, each.name))
        for kind, given in described().items()
        for each in fields(Description)
        if each.name not in ("parallel", "slug") and getattr(given, each.name) in NEUTRAL_VALUES
    }
    assert found == NEUTRAL


def programs(value: Any) -> set[int]:
    """The programs within a value, by their identities."""
    found = [part for part in tree.parts(value) if isinstance(part, typed.Program)]
    return {id(program) for program in found}


@pytest.mark.parametrize("kind", sorted(described()))
def test_explain_shows_every_program_of_a_step(kind: str, plan: Plan) -> None:
    for planned in plan.nodes:
        if planned.kind == kind:
            step: Any = planned.step
            shown = {id(each.program) for each in described()[kind].programs(step)}
            of_step = [getattr(step, field.name) for field in fields(step) if (kind, field.name) not in UNSHOWN]
            assert programs(tuple(of_step)) == shown


@pytest.mark.parametrize("kind", sorted(described()))
def test_every_column_can_be_traced(kind: str, plan: Plan) -> None:
    for planned in plan.nodes:
        if planned.kind != kind:
            continue
        for row in planned.outputs.values():
            for column in row.user_columns:
                made = described()[kind].trace(planned.step, column.name)
                assert made.how
                assert made.reads or kind == "source"
                for number, name in made.reads:
                    edge = planned.inputs[number]
                    assert name in plan.by_name[edge.node].outputs[edge.port]


def test_all_cases_of_nodes_are_described(plan: Plan) -> None:
    """A type without a case would be described by nobody's example."""
    cases = Path(__file__).parent / "cases"
    used = {
        node["type"]
        for path in cases.glob("*.yaml")
        for case in yaml.safe_load_all(path.read_text())
        for node in case["nodes"]
    }
    assert used >= set(described()) - {"state"}
