"""What steps say of themselves: each type says it or is known to have nothing to say, and has its operators."""

from __future__ import annotations

import importlib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import types
from spark_jobs.formats.database.options import KnownDatabaseWrite
from spark_jobs.formats.database.targets import Constraint, Target, TargetColumn
from spark_jobs.nodes import node, operator
from spark_jobs.nodes.node import Step
from spark_jobs.nodes.output.step import OutputColumn, OutputStep
from spark_jobs.nodes.rules.step import of_indexes
from spark_jobs.nodes.terms.properties import ColumnProperties, MemberProperties, RecordProperties
from spark_jobs.nodes.terms.shape import Role, ShufflePhase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.plan.plan import Plan

PROPERTIES: dict[str, type] = {
    "record_properties": RecordProperties,
    "column_properties": ColumnProperties,
    "member_properties": MemberProperties,
}
#: What a step can say beside its name; all but `kind` are neutral where a type says nothing.
CAN_SAY = {
    "checked_rules",
    "column_properties",
    "member_properties",
    "module",
    "needs",
    "partitions",
    "phases",
    "pruned",
    "record_properties",
    "schedule",
    "stage",
    "unfolded",
}
#: What each type says. Who adds a type decides each of them; who adds something to say decides it for each type.
SAYS = {
    "AcrossStep": {"member_properties", "module"},
    "AggregateStep": {
        "column_properties",
        "member_properties",
        "module",
        "partitions",
        "phases",
        "pruned",
        "record_properties",
    },
    "CheckStep": {"module", "stage"},
    "CombineStep": {
        "column_properties",
        "module",
        "needs",
        "partitions",
        "phases",
        "pruned",
        "record_properties",
    },
    "DistinctStep": {"module"},
    "DistinctValuesStep": {"module", "stage"},
    "MeasureStep": {"module", "stage"},
    "MergeStep": {"module", "needs", "phases", "schedule"},
    "OutputStep": {
        "checked_rules",
        "column_properties",
        "member_properties",
        "module",
        "needs",
        "partitions",
        "phases",
        "record_properties",
    },
    "ReferencesStep": {"module", "stage"},
    "RouteStep": {"stage"},
    "SourceStep": {"checked_rules", "needs", "partitions", "phases", "pruned", "record_properties"},
    "StateStep": {"member_properties", "module", "partitions", "phases", "unfolded"},
    "TransformStep": {
        "checked_rules",
        "column_properties",
        "member_properties",
        "module",
        "needs",
        "partitions",
        "phases",
        "pruned",
        "record_properties",
    },
    "UniqueIndexStep": {"module", "stage"},
    "UniqueStep": {"module", "stage"},
    "WindowStep": {"module"},
}
#: The facts that types state in their properties; a new fact is decided for each type.
STATES = {
    "AcrossStep": {"reads_origins"},
    "AggregateStep": {
        "counters", "group_by", "names_undeclared", "preserves_records", "reads", "reads_undeclared",
    },
    "CombineStep": {"inherited_keys", "may_multiply", "names_undeclared", "reads_undeclared"},
    "OutputStep": {"looked_up", "names_undeclared", "reads", "reads_undeclared"},
    "SourceStep": {"looked_up"},
    "StateStep": {"sets"},
    "TransformStep": {"added", "may_multiply", "partition_by", "pushed_predicates", "reads", "looked_up"},
}  # fmt: skip


def subclasses(base: type[Step]) -> Iterator[type[Step]]:
    """The classes below another one that have no classes below them."""
    for each in base.__subclasses__():
        yield from subclasses(each) if each.__subclasses__() else (each,)


def step_types() -> dict[str, type[Step]]:
    """The steps of all types of nodes."""
    folder = Path(node.__file__).parent
    for path in [*folder.glob("*/step.py"), *folder.glob("*/phases.py")]:
        importlib.import_module(f"spark_jobs.nodes.{path.parent.name}.{path.stem}")
    return {each.__name__: each for each in subclasses(Step) if each.__module__.startswith("spark_jobs.")}


def test_what_steps_can_say_is_known() -> None:
    said = {name for name, value in vars(Step).items() if callable(value) or isinstance(value, property)}
    assert {name for name in said if not name.startswith("_")} == CAN_SAY


def test_what_each_step_says_is_known() -> None:
    assert {
        name: {say for say in CAN_SAY if getattr(each, say) is not getattr(Step, say)}
        for name, each in step_types().items()
    } == SAYS


def test_each_fact_of_the_properties_is_stated_by_some_type() -> None:
    facts = {each.name for kind in PROPERTIES.values() for each in fields(kind)}
    assert set().union(*STATES.values()) == facts


def test_no_step_states_what_its_type_is_not_known_to_state(steps: list[Step]) -> None:
    stated: dict[str, set[str]] = {}
    for whole in steps:
        for step in {whole, *(phase.step for partitions in (1, 3) for phase in whole.phases(partitions))}:
            mine = stated.setdefault(type(step).__name__, set())
            for name, kind in PROPERTIES.items():
                value, neutral = getattr(step, name), kind()
                mine |= {f.name for f in fields(kind) if getattr(value, f.name) != getattr(neutral, f.name)}
    unknown = {name: facts - STATES.get(name, set()) for name, facts in stated.items()}
    assert {name: facts for name, facts in unknown.items() if facts} == {}
    assert stated.keys() >= STATES.keys()


@pytest.fixture
def steps(plans: list[Plan]) -> list[Step]:
    index = Constraint("unique", "t_pkey", ("id",))
    target = Target("t", "t", "s", (TargetColumn("id", "int8", "int8"),), unique_indexes=(index,))
    options = KnownDatabaseWrite("warehouse", "t", known=target)
    indexed = OutputStep(
        "indexed",
        path="",
        format="database",
        options=options,
        columns=(OutputColumn("id", "id", types.INT),),
        writes_undeclared=False,
        rules=of_indexes(options.run_indexes({"id": types.INT}), {"id": ("id", types.INT)}),
    )
    return [indexed, *(planned.step for plan in plans for planned in plan.nodes if planned.step is not None)]


def roles(step: Step) -> dict[Step, set[Role]]:
    """The roles that a step and its parts have, whatever the partitions."""
    found: dict[Step, set[Role]] = {step: {Role.BUILD} if step.needs else set()}
    for partitions in (1, 3):
        for phase in step.phases(partitions):
            mine = found.setdefault(phase.step, set())
            if isinstance(phase, ShufflePhase):
                mine |= {Role.PARTIAL, *(each.role for each in phase.active_exchanges)}
            else:
                mine.add(Role.WHOLE)
                if phase.side_output is not None and phase.side_output.step is not None:
                    found.setdefault(phase.side_output.step, set()).add(phase.side_output.role)
    if step.kind in ("output", "source"):
        # Rules of any source or output may refer to records that are written down.
        found[step].add(Role.BUILD)
    # What a large file gives to one task is written down for others.
    for each in [step for step in found if step.kind == "source"]:
        found[each].add(Role.READ_MATERIALIZED)
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
