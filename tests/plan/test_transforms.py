"""Transforms in plans: the arguments of validations, and what an output chooses behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import ORDERS, output, planned, problems

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.plan.plan import Plan

ROUTE = """
  - type: route
    name: size
    input: t
    config:
      conditions: { large: amount > 100.0 }
      default: small
"""


def written(plan: Plan, name: str) -> list[tuple[str, str]]:
    return [(column.source, column.name) for column in plan.by_name[name].step.columns]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("check", "codes"),
    [
        ("check: amount < most, args: { most: 5 }", []),
        ("check: amount < most, args: { most: five }", ["E200"]),
        ("check: amount < most, args: { least: 5 }", ["E200"]),
        ("check: amount < most, args: { most: [5] }", ["E007"]),
        ("check: amount < most, args: { most: 9223372036854775808 }", ["E007"]),
        ("check: not_null, field: amount, args: { most: 5 }", ["W003"]),
    ],
)
def test_arguments_of_validations_are_single_values_and_typed(tmp_path: Path, check: str, codes: list[str]) -> None:
    config = f"{{ cxl: emit a = 1, validations: [{{ {check} }}] }}"
    step = f"  - {{ type: transform, name: t, input: orders, config: {config} }}\n"
    assert [item.code.id for item in problems(tmp_path, ORDERS + step + output("t"))] == codes


@pytest.mark.parametrize("cxl", ["filter amount > 0", "distinct by id", "let a = 1", "emit meta grade = note"])
def test_a_program_without_emits_chooses_no_columns(tmp_path: Path, cxl: str) -> None:
    """As it is behind such a program's route, too."""
    check = f"  - {{ type: transform, name: t, input: orders, config: {{ cxl: {cxl} }} }}\n"
    outputs = output("t", ", include_unmapped: false") + output("size.large", ", include_unmapped: false", name="x")
    plan = planned(tmp_path, ORDERS + check + ROUTE + outputs)
    declared = [(name, name) for name in ("id", "customer", "amount", "note")]
    assert written(plan, "out") == written(plan, "x") == declared
