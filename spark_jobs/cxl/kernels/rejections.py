"""Reports failures that kernels determine exactly as columns, so that no row runs again for them.

Two failures are frequent: a text that does not convert, and a division by zero. The masks of their kernels are exact,
and the operands determine the message. If nothing before them in the statement can fail, their failure is the row's
failure. Other rows that a statement cannot decide are deferred to the interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure, fallibility, hints, tree_walk, typed
from spark_jobs.cxl.builtins import conversion_kernels, declare
from spark_jobs.cxl.failure import Category
from spark_jobs.cxl.failure_columns import Reason, hints_of
from spark_jobs.cxl.kernels import operators
from spark_jobs.cxl.kernels.frames import as_array
from spark_jobs.cxl.typed import Operator
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl.builtins.conversion_kernels import Strict
    from spark_jobs.cxl.kernels.expressions import ExpressionCompiler
    from spark_jobs.cxl.kernels.frames import Evaluate, Frame
    from spark_jobs.cxl.kernels.state import State, Step


#: In a statement with more of such operations only the first ones are handled here.
_MOST = 16


class Rejection(Protocol):
    """An operation of a statement whose failures need no interpreter."""

    def refused(self, frame: Frame) -> tuple[pa.BooleanArray, pa.StringArray] | None:
        """A mask of the rows that fail if no earlier operation does, and the text to show for each row or null."""

    def reasons(self, texts: pa.StringArray) -> Iterator[tuple[pa.Array, Reason]]:
        """Why rows with these texts fail: disjoint masks, each with a reason."""


@dataclass(frozen=True)
class _Conversion:
    """A conversion: its operand, its kernel, and the failure of unconvertible texts."""

    argument: Evaluate
    convert: Strict
    others: tuple[pa.Scalar, ...]
    reason: Reason
    kind: Kind

    def refused(self, frame: Frame) -> tuple[pa.BooleanArray, pa.StringArray] | None:
        texts = as_array(self.argument(frame), frame.count)
        assert isinstance(texts, pa.StringArray)
        try:
            _, refused = self.convert(pc, texts, *self.others)
        except pa.ArrowInvalid:
            return None
        return None if refused is None else (refused, texts)

    def reasons(self, texts: pa.StringArray) -> Iterator[tuple[pa.Array, Reason]]:
        for chosen, words in hints_of(texts, hints.IN_PROGRAMS, self.kind):
            yield chosen, replace(self.reason, after=f"{self.reason.after}{words}")


@dataclass(frozen=True)
class _Division:
    """A division or a remainder: its operands, and the failure of zeros as divisors."""

    left: Evaluate
    right: Evaluate
    reason: Reason

    def refused(self, frame: Frame) -> tuple[pa.BooleanArray, pa.StringArray] | None:
        left, right = (as_array(side(frame), frame.count) for side in (self.left, self.right))
        return pc.and_(pc.equal(right, 0), left.is_valid()), pa.nulls(frame.count, pa.string())

    def reasons(self, texts: pa.StringArray) -> Iterator[tuple[pa.Array, Reason]]:
        yield pa.repeat(True, len(texts)), self.reason


def rejections_of(
    statement: typed.Statement, expression: tuple[str, str], compiler: ExpressionCompiler
) -> list[Rejection]:
    """The operations of a statement whose failures can be rejected here, in the order of their evaluation.

    Args:
        statement: the statement, not yet compiled: its operations read the earlier value of its slot.
        expression: its text and place.
        compiler: compiles their operands.
    """
    match statement:
        case typed.Let() | typed.Emit() | typed.EmitMeta() | typed.Evaluate():
            value = statement.value
        case typed.Filter(predicate=value):
            pass
        case _:
            return []
    operations: list[typed.Call | typed.Binary] = []
    _list(value, operations)
    slot = statement.slot if isinstance(statement, typed.Let | typed.Emit | typed.EmitMeta) else None
    if slot is not None and any(
        isinstance(node, typed.Local) and node.slot == slot for each in operations for node in tree_walk.walk(each)
    ):
        return []
    # A name with a dollar sign is a value on its way to another part of the node, not a field.
    field = statement.name if isinstance(statement, typed.Emit) and not statement.name.startswith("$") else None
    noted = len(compiler.interpreted)
    found: list[Rejection] = [
        _conversion(each, field, expression, compiler)
        if isinstance(each, typed.Call)
        else _division(each, field, expression, compiler)
        for each in operations
    ]
    # Parts without a kernel are noted when the statement itself is compiled.
    del compiler.interpreted[noted:]
    return found


def with_rejections(step: Step, rejections: Sequence[Rejection]) -> Step:
    """A statement's step, followed by the rejection of the rows that fail for known reasons."""

    def run(state: State) -> None:
        step(state)
        reject(state, rejections)

    return run


def reject(state: State, rejections: Sequence[Rejection]) -> pa.Array | None:
    """Remove the rows that fail for known reasons, and note their failures. Returns the mask of the others, if any."""
    kept: np.ndarray | None = None
    for rejection in rejections:
        if state.frame.bad is None:
            break
        gone = _reject(state, rejection)
        if gone is None:
            continue
        if kept is None:
            kept = ~gone
        else:
            kept[np.flatnonzero(kept)[gone]] = False
    return None if kept is None else pa.array(kept)


def _list(node: typed.Expression, found: list[typed.Call | typed.Binary]) -> bool:
    """List the operations that come first of all that may fail; tells whether they are all of it."""
    match node:
        case typed.Widen(operand=operand):
            return _list(operand, found) and not fallibility.may_fail_itself(node)
        case typed.Not(operand=operand):
            return _list(operand, found)
        case typed.Negate(operand=operand):
            return _list(operand, found) and not fallibility.may_fail_itself(node)
        case typed.And(left=left, right=right) | typed.Or(left=left, right=right):
            return _list(left, found) and not fallibility.may_fail(right)
        case typed.Binary(left=left, right=right):
            # Both sides are evaluated, whatever the left one is.
            if not (_list(left, found) and _list(right, found)):
                return False
            if _is_division(node) and len(found) < _MOST:
                found.append(node)
                # Ints can overflow as well.
                return left.type.kind is Kind.FLOAT
            return not fallibility.may_fail_itself(node)
        case typed.Call(arguments=(typed.Expression() as receiver, *others)):
            if not _list(receiver, found):
                return False
            if _is_conversion(node) and len(found) < _MOST:
                found.append(node)
                return True
            return not (fallibility.may_fail_itself(node) or any(map(_may_fail, others)))
    return not fallibility.may_fail(node)


def _may_fail(argument: typed.Expression | typed.Closure) -> bool:
    return isinstance(argument, typed.Closure) or fallibility.may_fail(argument)


def _is_conversion(node: typed.Call) -> bool:
    """True if a call converts a text, which can be computed twice without a trace of that."""
    receiver, *others = node.arguments
    return (
        isinstance(receiver, typed.Expression)
        and receiver.type.kind is Kind.STRING
        and isinstance(declare.registry()[node.builtin].arrow, conversion_kernels.Strict)
        and all(isinstance(other, typed.Literal) for other in others)
        and not fallibility.logs(receiver)
    )


def _is_division(node: typed.Binary) -> bool:
    """True if an operator divides numbers, which can be computed twice without a trace of that."""
    return (
        node.operator in (Operator.DIVIDE, Operator.MODULO)
        and node.left.type.kind in (Kind.INT, Kind.FLOAT)
        and operators.obstacle(node) is None
        and not fallibility.logs(node)
    )


def _conversion(
    call: typed.Call, field: str | None, expression: tuple[str, str], compiler: ExpressionCompiler
) -> _Conversion:
    receiver, *others = call.arguments
    kernel: Any = declare.registry()[call.builtin].arrow
    argument = compiler.compile(receiver)  # type: ignore[arg-type]
    texts = ("conversion failed: cannot convert '", f"' to {call.type.kind}")
    reason = Reason(Category.TYPE_COERCION, field, *texts, expression=expression)
    forms = tuple(pa.scalar(other.value, pa.string()) for other in others if isinstance(other, typed.Literal))
    return _Conversion(argument, kernel, forms, reason, call.type.kind)


def _division(
    node: typed.Binary, field: str | None, expression: tuple[str, str], compiler: ExpressionCompiler
) -> _Division:
    known = failure.division_by_zero()
    reason = Reason(known.category, field, known.detail, expression=expression)
    left = compiler.compile(node.left, node.right.type)
    return _Division(left, compiler.compile(node.right, node.left.type), reason)


def _reject(state: State, rejection: Rejection) -> np.ndarray | None:
    """Remove the rows in which an operation fails, and note their failures. Returns the mask of these, if any."""
    bad = state.frame.bad
    assert bad is not None
    indices = pc.indices_nonzero(bad)
    child = state.frame.child(indices)
    found = rejection.refused(child)
    if found is None:
        return None
    refused, texts = found
    refused = pc.fill_null(refused if child.bad is None else pc.and_not(refused, child.bad), False)
    if not pc.any(refused, min_count=0).as_py():
        return None
    failing_texts = texts.filter(refused)
    positions = child.positions().filter(refused)
    for chosen, reason in rejection.reasons(failing_texts):
        state.deferred.reject(positions.filter(chosen), failing_texts.filter(chosen), reason)
    gone = np.zeros(state.frame.count, dtype=bool)
    gone[indices.filter(refused).to_numpy()] = True
    kept = pa.array(~gone)
    state.frame.bad = None
    state.keep(kept)
    state.frame.mark(bad.filter(kept))
    return gone
