"""Calls of builtins as Arrow kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import typed, types, values
from spark_jobs.cxl.builtins import array_kernels, declare
from spark_jobs.cxl.builtins.declare import INTERPRETED, Builtin, ByValue, Elementwise, NoKernel
from spark_jobs.cxl.kernels import closures
from spark_jobs.cxl.kernels.frames import Evaluate, Frame, guarded
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl.kernels.compiler import Compiler


def obstacle(node: typed.Call) -> str | None:
    """Why a call has no kernel."""
    builtin = declare.registry()[node.builtin]
    if isinstance(builtin.arrow, INTERPRETED):
        return builtin.arrow.reason
    if isinstance(builtin.arrow, Elementwise):
        return closures.obstacle(node)
    receiver, *others = node.arguments
    if node.builtin == "Any.is_null":
        return None
    for argument in (receiver, *others):
        if isinstance(argument, typed.Closure):
            return "closures run element by element"
        is_taken = argument is receiver and builtin.takes_tagged and argument.type.kind is builtin.receiver.kind
        if argument.type.is_dynamic and not is_taken and not _is_null(argument):
            return f"an argument's type is known at run time only ({argument.type})"
    return None


def _is_null(node: typed.Expression) -> bool:
    return isinstance(node, typed.Literal) and node.value is None


def call(node: typed.Call, compiler: Compiler) -> Evaluate:
    """A builtin on arrays: its kernel, or its body on each distinct value."""
    builtin = declare.registry()[node.builtin]
    if isinstance(builtin.arrow, Elementwise):
        return closures.call(node, compiler)
    nodes = [argument for argument in node.arguments if isinstance(argument, typed.Expression)]
    wanted = [builtin.receiver, *(_parameter_type(builtin, i, nodes[0].type) for i in range(len(nodes) - 1))]
    arguments = [compiler.compile(argument, kind) for argument, kind in zip(nodes, wanted, strict=True)]
    result = values.arrow_type(node.type)
    widens = node.type.kind is Kind.FLOAT and builtin.result.kind is Kind.NUMERIC
    static = node.type
    # The arguments whose null makes the result null.
    decisive = {"propagate": len(arguments), "receiver": 1, "handle": 0}[builtin.nulls]

    def evaluate(frame: Frame) -> Any:
        found = [argument(frame) for argument in arguments]
        if widens:
            found = [pc.cast(value, pa.float64(), safe=False) if value.type == pa.int64() else value for value in found]
        if any(isinstance(value, pa.Scalar) and not value.is_valid for value in found[:decisive]):
            return pa.nulls(frame.count, result)
        if isinstance(found[0], pa.Scalar):
            found[0] = array_kernels.repeated(found[0], frame.count)
        return _cast(_applied(builtin, frame, found, static), result)

    return evaluate


def _parameter_type(builtin: Builtin, index: int, receiver: types.Type) -> types.Type:
    """The type that a null argument takes: the parameter's, or the receiver's where that is a number of either kind."""
    kind = builtin.parameters[min(index, len(builtin.parameters) - 1)].type
    return receiver if kind is None or kind.kind is Kind.NUMERIC else kind


def _cast(array: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == wanted else pc.cast(array, wanted, safe=False)


def _applied(builtin: Builtin, frame: Frame, found: list[Any], static: types.Type) -> pa.Array:
    if isinstance(builtin.arrow, ByValue):
        return mapped(builtin, frame, found, static)
    kernel = builtin.arrow
    assert not isinstance(kernel, INTERPRETED | Elementwise)
    bad: list[pa.Array] = []

    def run(*arguments: Any) -> pa.Array:
        outcome = kernel(pc, *arguments)
        if isinstance(outcome, tuple):
            outcome, mask = outcome
            if mask is not None:
                bad.append(mask)
        return cast("pa.Array", outcome)

    try:
        array = guarded(frame, run, found, values.arrow_type(static))
    except NoKernel:
        return mapped(builtin, frame, found, static)
    if not bad:
        return array
    if len(bad) > 1 or len(bad[0]) != frame.count:
        # The kernel ran on slices, each with its own mask. The body finds the failing rows again.
        return mapped(builtin, frame, found, static)
    mask = pc.fill_null(bad[0], False)
    if not pc.any(mask, min_count=0).as_py():
        return array
    frame.mark(mask)
    # The kernel's result for a failing row may be no valid value, so it is hidden from later operations.
    return pc.if_else(mask, pa.scalar(None, array.type), array)


def mapped(builtin: Builtin, frame: Frame, found: list[Any], static: types.Type) -> pa.Array:
    """The body on the rows' values: on each distinct one when only the receiver differs from row to row."""
    receiver, *others = found
    body = with_nulls(builtin)
    if all(isinstance(value, pa.Scalar) for value in others) and builtin.nulls != "handle":
        constants = [value.as_py() for value in others]
        array, bad = array_kernels.by_value(lambda value: body(value, *constants), receiver, static)
    else:
        lists = [
            [value.as_py()] * frame.count if isinstance(value, pa.Scalar) else value.to_pylist() for value in found
        ]
        array, bad = array_kernels.by_rows(body, zip(*lists, strict=True), static)
    frame.mark(bad)
    return array


def with_nulls(builtin: Builtin) -> Callable[..., Any]:
    """The body with its null rule."""
    body = builtin.body
    if builtin.nulls == "propagate":
        return lambda *values: None if any(value is None for value in values) else body(*values)
    if builtin.nulls == "receiver":
        return lambda value, *others: None if value is None else body(value, *others)
    return body
