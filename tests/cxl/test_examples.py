"""Every example in a builtin's docstring holds in both engines, for a constant and for a column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.cxl import typed, types, values
from spark_jobs.cxl.builtins import declare
from tests.cxl.both_engines import Outcome, by_interpreter, by_kernels, program_of, same

EXAMPLES = [
    pytest.param(example, result, id=f"{builtin.key}-{number}")
    for builtin in declare.registry().values()
    for number, (example, result) in enumerate(builtin.examples)
]


def _shown(outcome: Outcome) -> str:
    if outcome.failure is not None:
        return f"error: {outcome.failure[1]}"
    return values.json_text(outcome.outputs[0][0]["result"])


@pytest.mark.parametrize(("example", "result"), EXAMPLES)
def test_example_holds_in_both_engines(example: str, result: str) -> None:
    program = program_of(f"emit result = {example}")
    assert _shown(by_interpreter(program, [{}])[0]) == result
    assert _shown(by_kernels(program, {}, [{}])[0]) == result


def _on_a_column(node: typed.Expression) -> tuple[typed.Expression, types.Type, Any]:
    """The expression with its innermost receiver as a column, which kernels cannot fold; its type and value."""
    if isinstance(node, typed.Call):
        receiver = node.arguments[0]
        assert isinstance(receiver, typed.Expression)
        inner, static, value = _on_a_column(receiver)
        return replace(node, type=node.type.or_null(), arguments=(inner, *node.arguments[1:])), static, value
    if isinstance(node, typed.Negate):
        operand, static, value = _on_a_column(node.operand)
        return replace(node, operand=operand), static, value
    if isinstance(node, typed.Coalesce):
        left, static, value = _on_a_column(node.left)
        return replace(node, type=node.type.or_null(), left=left), static, value
    assert isinstance(node, typed.Literal)
    static = types.STRING if node.value is None else node.type
    return typed.Column(static.or_null(), node.place, "receiver"), static, node.value


@pytest.mark.parametrize(("example", "result"), EXAMPLES)
def test_example_holds_for_a_column(example: str, result: str) -> None:
    program = program_of(f"emit result = {example}")
    emit = program.statements[0]
    assert isinstance(emit, typed.Emit)
    expression, static, value = _on_a_column(emit.value)
    program = replace(
        program,
        statements=(replace(emit, value=expression),),
        emits=(("result", expression.type),),
        columns=frozenset({"receiver"}),
    )
    records = [{"receiver": value}, {"receiver": None}, {"receiver": value}]
    wanted = by_interpreter(program, records)
    got = by_kernels(program, {"receiver": static}, records)
    assert _shown(wanted[0]) == _shown(wanted[2]) == result
    for one, other in zip(wanted, got, strict=True):
        assert one.failure == other.failure
        assert same([fields for fields, _ in one.outputs], [fields for fields, _ in other.outputs])


@pytest.mark.parametrize("key", sorted(declare.registry()))
def test_builtin_has_an_example_or_needs_a_map(key: str) -> None:
    builtin = declare.registry()[key]
    assert builtin.examples or builtin.receiver.kind == "Map", "there is no map literal to show it with"


def test_examples_are_found() -> None:
    assert len(EXAMPLES) > 100
