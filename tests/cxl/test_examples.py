"""Every example in a builtin's docstring holds in both engines, for a constant and for a column."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pytest

from spark_jobs.cxl import typed, types, values
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.types import Kind
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


_SAMPLES: dict[Kind, list[Any]] = {
    Kind.BOOL: [True],
    Kind.INT: [0, -1, 40, values.MIN_INT, values.MAX_INT],
    Kind.FLOAT: [0.0, -2.5, 1e300, float("nan"), float("inf")],
    Kind.NUMERIC: [values.MIN_INT, -2.5, float("-inf")],
    Kind.STRING: ["", "x", "[", "%Q", "2024-02-29"],
    Kind.DATE: [date(1, 1, 1), date(9999, 12, 31)],
    Kind.DATETIME: [datetime(1, 1, 1), datetime(9999, 12, 31, 23)],
    Kind.ARRAY: [[], [1, None]],
    Kind.MAP: [{}, {"a": 1}],
    Kind.ANY: [1, "x", 2.5, [1], {"a": None}, date(2024, 1, 1)],
}


def _fails(builtin: declare.Builtin) -> bool:
    """Whether the body raises `Failure` for some of the sample arguments."""
    kinds = [builtin.receiver, *(one.type for one in builtin.parameters)]
    samples = [[lambda item: True] if kind is None else _SAMPLES[kind.kind] for kind in kinds]
    for arguments in itertools.product(*samples):
        try:
            builtin.body(*arguments)
        except Failure:
            return True
    return False


@pytest.mark.parametrize("key", sorted(declare.registry()))
def test_builtin_says_whether_it_fails(key: str) -> None:
    builtin = declare.registry()[key]
    assert _fails(builtin) is builtin.fails


def test_examples_are_found() -> None:
    assert len(EXAMPLES) > 100
