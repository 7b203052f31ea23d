"""Reports texts that do not convert as columns: the mask of the conversion's kernel is exact, so no row runs again.

A strict conversion fails where the lenient one, which nobody checks, gives null. When nothing that may fail is
evaluated before it in its statement, its failure is the row's, with the text that the kernel saw. Other rows that a
statement cannot judge go to the interpreter as ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns, fallibility, hints, tree_walk, typed
from spark_jobs.cxl.builtins import conversion_kernels, declare
from spark_jobs.cxl.failure import Category
from spark_jobs.cxl.failure_columns import hints_of
from spark_jobs.cxl.kernels.frames import as_array
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from spark_jobs.cxl.builtins.conversion_kernels import Strict
    from spark_jobs.cxl.kernels.expressions import ExpressionCompiler
    from spark_jobs.cxl.kernels.frames import Evaluate
    from spark_jobs.cxl.kernels.state import State, Step


#: In a statement with more conversions only the first ones are handled here.
_MOST = 16


@dataclass(frozen=True)
class Conversion:
    """A conversion in a statement: its operand, its kernel, and the failure of unconvertible texts."""

    argument: Evaluate
    convert: Strict
    others: tuple[pa.Scalar, ...]
    reason: failure_columns.Reason
    kind: Kind


def conversions_of(
    statement: typed.Statement, expression: tuple[str, str], compiler: ExpressionCompiler
) -> list[Conversion]:
    """The conversions of a statement whose failures can be rejected here, in the order of their evaluation.

    Args:
        statement: the statement, which is not compiled yet: its conversions read what its slot has before.
        expression: its text and place.
        compiler: compiles what they convert.
    """
    if not isinstance(statement, typed.Let | typed.Emit | typed.EmitMeta | typed.Evaluate):
        return []
    calls: list[typed.Call] = []
    _conversions(statement.value, calls)
    slot = None if isinstance(statement, typed.Evaluate) else statement.slot
    if any(isinstance(node, typed.Local) and node.slot == slot for call in calls for node in tree_walk.walk(call)):
        return []
    # A name with a dollar sign is a value on its way to another part of the node, not a field.
    field = statement.name if isinstance(statement, typed.Emit) and not statement.name.startswith("$") else None
    return [_conversion(call, field, expression, compiler) for call in calls]


def with_rejections(step: Step, conversions: list[Conversion]) -> Step:
    """A statement's step, followed by the rejection of the rows whose texts did not convert."""

    def run(state: State) -> None:
        step(state)
        for conversion in conversions:
            if state.frame.bad is None:
                return
            _reject(state, conversion)

    return run


def _conversions(node: typed.Expression, found: list[typed.Call]) -> bool:
    """List the conversions of texts that come first of all that may fail; tells whether they are all of it."""
    match node:
        case typed.Widen(operand=operand):
            return _conversions(operand, found)
        case typed.Negate(operand=operand):
            return _conversions(operand, found) and not fallibility.may_fail_itself(node)
        case typed.Binary(left=left, right=right):
            # Both sides are evaluated, whatever the left one is.
            return _conversions(left, found) and _conversions(right, found) and not fallibility.may_fail_itself(node)
        case typed.Call(arguments=(typed.Expression() as receiver, *others)):
            if not _conversions(receiver, found):
                return False
            if _is_conversion(node) and len(found) < _MOST:
                found.append(node)
                return True
            return not (fallibility.may_fail_itself(node) or any(map(_may_fail, others)))
    return not fallibility.may_fail(node)


def _may_fail(argument: typed.Expression | typed.Closure) -> bool:
    return isinstance(argument, typed.Closure) or fallibility.may_fail(argument)


def _is_conversion(node: typed.Call) -> bool:
    """Whether a call converts a text, which can be computed twice without a trace of that."""
    receiver, *others = node.arguments
    return (
        isinstance(receiver, typed.Expression)
        and receiver.type.kind is Kind.STRING
        and isinstance(declare.registry()[node.builtin].arrow, conversion_kernels.Strict)
        and all(isinstance(other, typed.Literal) for other in others)
        and not fallibility.logs(receiver)
    )


def _conversion(
    call: typed.Call, field: str | None, expression: tuple[str, str], compiler: ExpressionCompiler
) -> Conversion:
    receiver, *others = call.arguments
    kernel: Any = declare.registry()[call.builtin].arrow
    noted = len(compiler.interpreted)
    argument = compiler.compile(receiver)  # type: ignore[arg-type]
    # What has no kernel here is noted where the statement itself is compiled.
    del compiler.interpreted[noted:]
    texts = ("conversion failed: cannot convert '", f"' to {call.type.kind}")
    reason = failure_columns.Reason(Category.TYPE_COERCION, field, *texts, expression=expression)
    forms = tuple(pa.scalar(other.value, pa.string()) for other in others if isinstance(other, typed.Literal))
    return Conversion(argument, kernel, forms, reason, call.type.kind)


def _reject(state: State, conversion: Conversion) -> None:
    """Remove the rows whose text does not convert, and note their failures."""
    bad = state.frame.bad
    assert bad is not None
    indices = pc.indices_nonzero(bad)
    child = state.frame.child(indices)
    texts = as_array(conversion.argument(child), child.count)
    try:
        _, refused = conversion.convert(pc, texts, *conversion.others)
    except pa.ArrowInvalid:
        return
    if refused is None:
        return
    refused = pc.fill_null(refused if child.bad is None else pc.and_not(refused, child.bad), False)
    if not pc.any(refused, min_count=0).as_py():
        return
    failing_texts = texts.filter(refused)
    assert isinstance(failing_texts, pa.StringArray)
    positions = child.positions().filter(refused)
    for chosen, words in hints_of(failing_texts, hints.IN_PROGRAMS, conversion.kind):
        reason = replace(conversion.reason, after=f"{conversion.reason.after}{words}")
        state.deferred.reject(positions.filter(chosen), failing_texts.filter(chosen), reason)
    gone = np.zeros(state.frame.count, dtype=bool)
    gone[indices.filter(refused).to_numpy()] = True
    kept = pa.array(~gone)
    state.frame.bad = None
    state.keep(kept)
    state.frame.mark(bad.filter(kept))
