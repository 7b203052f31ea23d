"""Every node type says what there is to say of its steps, and what it has nothing to say of, it says by name."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import typed
from spark_jobs.nodes import program_reads, registry
from spark_jobs.nodes.records.columns import is_engine
from spark_jobs.nodes.terms.description import Description, PlanContext
from spark_jobs.plan.explain import explain

if TYPE_CHECKING:
    from spark_jobs.plan.plan import Plan, PlannedNode

#: Programs that no description shows: conditions of log lines, and the parts of a residual that is shown as a whole.
UNSHOWN = {("transform", "log"), ("combine", "residuals")}


def described() -> dict[str, Description]:
    """The descriptions of all types that a plan can have; a type leaves none out, it says that there is nothing."""
    return {kind: each.description for kind, each in registry.node_types().items() if each.description is not None}


def test_only_calls_have_no_description() -> None:
    assert [kind for kind in registry.node_types() if kind not in described()] == ["composition"]


def nodes(plans: list[Plan], kind: str) -> list[tuple[Plan, PlannedNode]]:
    """All nodes of a type; there is one at least."""
    found = [(plan, planned) for plan in plans for planned in plan.nodes if planned.kind == kind]
    assert found, f"write a case for {kind}: cases/{kind}.yaml"
    return found


def programs(value: Any) -> set[int]:
    """The programs within a value, by their identities."""
    found = [part for part in program_reads.parts(value) if isinstance(part, typed.Program)]
    return {id(program) for program in found}


@pytest.mark.parametrize("kind", sorted(described()))
def test_explain_shows_every_program_of_a_step(kind: str, plans: list[Plan]) -> None:
    for _, planned in nodes(plans, kind):
        step: Any = planned.step
        shown = {id(each.program) for each in described()[kind].programs(step)}
        of_step = [getattr(step, field.name) for field in fields(step) if (kind, field.name) not in UNSHOWN]
        assert programs(tuple(of_step)) == shown


@pytest.mark.parametrize("kind", sorted(described()))
def test_every_column_can_be_traced(kind: str, plans: list[Plan]) -> None:
    for plan, planned in nodes(plans, kind):
        for row in planned.outputs.values():
            for column in row.user_columns:
                made = described()[kind].trace(planned.step, column.name)
                assert made.how
                for number, name in made.reads:
                    edge = planned.inputs[number]
                    assert is_engine(name) or name in plan.by_name[edge.node].outputs[edge.port]


@pytest.mark.parametrize("kind", sorted(described()))
def test_every_type_is_shown_in_explain(kind: str, plans: list[Plan]) -> None:
    for plan, planned in nodes(plans, kind):
        assert described()[kind].parallel(planned.step)
        facts = json.loads(explain.as_json(plan))["nodes"]
        (mine,) = [each for each in facts if each["name"] == planned.name]
        for name in described()[kind].facts(planned.step, PlanContext(None, {}, {})):
            assert name in mine["properties"]
