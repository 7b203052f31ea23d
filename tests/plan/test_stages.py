"""Planning is a row of stages, each of which gets what stages before it have made."""

from __future__ import annotations

import inspect

import pytest

from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.plan import planner, stage
from spark_jobs.plan.stage import Stage

GIVEN = {"read": "Document", "path": "Path", "base_dir": "Path", "options": "PlanOptions", "found": "Diagnostics"}


def kind(annotation: str) -> str:
    """A type as it is written, without its module."""
    return " | ".join(part.strip().rpartition(".")[2] for part in annotation.split(" | "))


def test_every_stage_gets_what_an_earlier_one_makes() -> None:
    known = dict(GIVEN)
    for one in planner.STAGES:
        signature = inspect.signature(one.run)
        wanted = {name: kind(parameter.annotation) for name, parameter in signature.parameters.items()}
        assert wanted == {name: known.get(name) for name in wanted}, one.makes
        assert set(one.after) <= known.keys()
        assert one.makes not in known
        known[one.makes] = kind(signature.return_annotation)
    assert known["plan"] == "Plan"


def test_every_value_is_used_or_is_a_check() -> None:
    used = {name for one in planner.STAGES for name in (*one.needs, *one.after)}
    for one in planner.STAGES:
        makes = inspect.signature(one.run).return_annotation
        assert (one.makes in used) == (makes != "None") or one.makes == "plan"


@pytest.fixture
def found() -> Diagnostics:
    return Diagnostics()


def problem(found: Diagnostics) -> int:
    found.add(codes.E000.at(None, "wrong"))
    return 1


def test_a_stage_does_not_run_without_what_it_needs_or_behind_errors_unless_it_says_so(found: Diagnostics) -> None:
    stages = (
        Stage("one", problem),
        Stage("two", lambda one: one + 1),
        Stage("three", lambda one: one + 2, after_errors=True),
        Stage("four", lambda two: two, after_errors=True),
        Stage("five", lambda: 5, after=("two",), after_errors=True),
        Stage("six", lambda: 6, after=("three",), after_errors=True),
    )
    made = stage.run(stages, {"found": found}, found)
    assert {name: value for name, value in made.items() if name != "found"} == {"one": 1, "three": 3, "six": 6}
