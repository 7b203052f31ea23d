"""What steps say of themselves: each type says it or is known to have nothing to say, and has its operators."""

from __future__ import annotations

import importlib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.nodes import node, operator
from spark_jobs.nodes.node import Step
from spark_jobs.nodes.terms.shape import Role, ShufflePhase

if TYPE_CHECKING:
    from spark_jobs.plan.plan import Plan

#: What a step can say beside its name; all but `kind` are neutral where a type says nothing.
CAN_SAY = {
    "pruned",
    "groups_by",
    "hands_on",
    "lays_over",
    "looks_around_in",
    "may_multiply",
    "module",
    "names_undeclared",
    "needs",
    "pushed_predicates",
    "partitions",
    "phases",
    "ranges_over",
    "reads_origins",
    "reads_undeclared",
    "schedule",
    "sets",
    "inherited_keys",
    "shown",
    "stage",
    "told",
    "unfolded",
}
#: What each type says. Who adds a type decides each of them; who adds something to say decides it for each type.
SAYS = {
    "AcrossStep": {"module", "reads_origins"},
    "AggregateStep": {
        "pruned",
        "groups_by",
        "hands_on",
        "module",
        "names_undeclared",
        "partitions",
        "phases",
        "shown",
        "told",
    },
    "CombineStep": {
        "pruned",
        "may_multiply",
        "module",
        "names_undeclared",
        "needs",
        "partitions",
        "phases",
        "inherited_keys",
    },
    "DistinctStep": {"module"},
    "MergeStep": {"module", "needs", "phases", "schedule"},
    "OutputStep": {"module", "names_undeclared", "phases", "reads_undeclared", "shown"},
    "RouteStep": {"stage"},
    "SourceStep": {"pruned"},
    "StateStep": {"module", "partitions", "phases", "sets", "unfolded"},
    "TransformStep": {
        "pruned",
        "lays_over",
        "looks_around_in",
        "may_multiply",
        "module",
        "needs",
        "pushed_predicates",
        "partitions",
        "phases",
        "ranges_over",
        "shown",
    },
    "WindowStep": {"module"},
}


def step_types() -> dict[str, type[Step]]:
    """The steps of all types of nodes."""
    folder = Path(node.__file__).parent
    for path in [*folder.glob("*/step.py"), *folder.glob("*/phases.py")]:
        importlib.import_module(f"spark_jobs.nodes.{path.parent.name}.{path.stem}")
    return {each.__name__: each for each in Step.__subclasses__() if each.__module__.startswith("spark_jobs.")}


def test_what_steps_can_say_is_known() -> None:
    said = {name for name, value in vars(Step).items() if callable(value) or isinstance(value, property)}
    assert {name for name in said if not name.startswith("_")} == CAN_SAY


def test_what_each_step_says_is_known() -> None:
    assert {name: {say for say in CAN_SAY if say in vars(each)} for name, each in step_types().items()} == SAYS


@pytest.fixture
def steps(plans: list[Plan]) -> list[Step]:
    return [planned.step for plan in plans for planned in plan.nodes if planned.step is not None]


def roles(step: Step) -> dict[Step, set[Role]]:
    """The roles that a step and its parts have, whatever the partitions."""
    found: dict[Step, set[Role]] = {step: {Role.BUILD} if step.needs else set()}
    for partitions in (1, 3):
        for phase in step.phases(partitions):
            mine = found.setdefault(phase.step, set())
            if isinstance(phase, ShufflePhase):
                mine |= {Role.PARTIAL, *(stop.role for stop in phase.route)}
            else:
                mine.add(Role.WHOLE)
    # What a large file gives to one task is written down for others.
    for each in [step for step in found if step.kind == "source"]:
        found[each].add(Role.KEPT)
    return found


def test_there_is_an_operator_for_each_role_and_for_no_other(steps: list[Step]) -> None:
    seen = set()
    for whole in steps:
        for step, wanted in roles(whole).items():
            # State nodes do not run yet.
            if wanted and step.kind != "state":
                assert set(node.runner(step).OPERATORS) == wanted, step
                seen.add(type(step).__name__)
    assert seen == set(SAYS) - {"StateStep"}


def test_operators_are_given_all_that_they_need(steps: list[Step]) -> None:
    given = {"step", *(each.name for each in fields(operator.Wiring))}
    for whole in steps:
        for step in roles(whole) if whole.kind != "state" else ():
            opened: dict[Role, Any] = node.runner(step).OPERATORS
            for made in opened.values():
                needed = {
                    each.name for each in fields(made) if each.default is MISSING and each.default_factory is MISSING
                }
                assert needed <= given, made
