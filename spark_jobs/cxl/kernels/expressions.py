"""Expressions as Arrow kernels over a frame.

A compiled expression returns an array with one value per row, or a scalar if it is constant. Expressions without a
kernel run row by row in the interpreter; `explain` shows the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import decimal_columns, decimal_units, engine, typed, types, values
from spark_jobs.cxl.builtins import array_kernels
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.interpreter import expressions
from spark_jobs.cxl.kernels import analysis, branches, calls, operators, rows
from spark_jobs.cxl.kernels.frames import as_array
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl.kernels.frames import Evaluate, Frame

#: Expressions that only hand a value on: they are at home in Arrow whatever the type.
_SOURCES = (typed.Literal, typed.Column, typed.Local, typed.System, typed.Windowed)


class ExpressionCompiler:
    """Compiles the expressions of one program, a `Compiler`.

    `interpreted` collects what has no kernel; `repeated` has the keys of computations that stand in several places;
    `constants` has the slots that hold a literal.
    """

    def __init__(self, program: typed.Program) -> None:
        self.text = program.text
        self.slots = program.slots
        self.interpreted: list[tuple[str, str]] = []
        self.repeated: set[Any] = set()
        self.analysis = analysis.Analysis()
        self.constants: dict[int, typed.Literal] = {}

    def assigned(self, slot: int, value: typed.Expression) -> None:
        """Note that a slot has a new value."""
        self.analysis.versions[slot] = self.analysis.versions.get(slot, 0) + 1
        self.constants.pop(slot, None)
        if isinstance(value, typed.Literal) and value.value is not None:
            self.constants[slot] = value

    def compile(self, node: typed.Expression, wanted: types.Type | None = None) -> Evaluate:
        """An evaluation; `wanted` is the type that a null literal takes."""
        node = self._simplified(node)
        if isinstance(node, typed.Literal):
            return _literal(node, wanted or node.type)
        evaluate = self._native(node)
        key = self.analysis.facts(node).key
        if isinstance(node, _SOURCES) or key not in self.repeated:
            return evaluate
        return lambda frame: frame.shared(key, evaluate)

    def _simplified(self, node: typed.Expression) -> typed.Expression:
        """A literal in place of an expression with the same value for every record; one that always fails stays."""
        if isinstance(node, typed.Local) and node.slot in self.constants:
            return self.constants[node.slot]
        if isinstance(node, _SOURCES) or not self.analysis.facts(node).is_constant:
            return node
        row = expressions.Row(lambda name: None, engine.EvaluationContext(), self.slots)
        try:
            return typed.Literal(node.type, node.place, expressions.compile(node)(row))
        except Failure:
            return node

    def _native(self, node: typed.Expression) -> Evaluate:
        reason = self.obstacle(node)
        if reason is not None:
            return self.row_by_row(node, reason)
        return _COMPILERS[type(node)](node, self)

    def row_by_row(self, node: typed.Expression, reason: str, adapt: Callable[[Any], Any] | None = None) -> Evaluate:
        """The interpreter's evaluation of an expression, noted with its reason."""
        start, end = node.place
        note = (" ".join(self.text[start:end].split()), reason)
        if note not in self.interpreted:
            self.interpreted.append(note)
        return rows.compile(node, adapt, self.slots)

    def obstacle(self, node: typed.Expression) -> str | None:
        """Why an expression has no kernel, None when it has one."""
        if isinstance(node, _SOURCES):
            return None
        if self.analysis.facts(node).is_constant:
            return "a constant that fails"
        if node.type.is_dynamic and not isinstance(node, typed.Coalesce | typed.If):
            return f"the value's type is known at run time only ({node.type})"
        match node:
            case typed.Call():
                return calls.obstacle(node)
            case typed.Binary():
                return operators.obstacle(node)
            case typed.Index():
                return _index_obstacle(node)
            case typed.Match() | typed.If() | typed.Coalesce():
                return branches.obstacle(node)
            case typed.Negate(operand=operand) | typed.Widen(operand=operand) if operand.type.is_dynamic:
                return f"the operand's type is known at run time only ({operand.type})"
            case typed.WindowCall():
                return "window functions are computed before"
        return None

    def condition(self, node: typed.Expression) -> Evaluate:
        """A Bool evaluation; dynamic values of other kinds count as null."""
        if node.type.kind is Kind.BOOL:
            return self.compile(node)
        node = self._simplified(node)
        if isinstance(node, typed.Literal):
            value = node.value if node.value.__class__ is bool else None
            return _literal(typed.Literal(types.BOOL, node.place, value), types.BOOL)
        return self._as_bool(node)

    def _as_bool(self, node: typed.Expression) -> Evaluate:
        """A dynamic column holds Bools as the texts `true` and `false`, which nothing else encodes to."""
        evaluate = self.compile(node)
        if not node.type.is_dynamic:
            return lambda frame: (evaluate(frame), pa.nulls(frame.count, pa.bool_()))[1]

        def bools(frame: Frame) -> pa.Array:
            encoded = evaluate(frame)
            true = pc.equal(encoded, "true")
            return pc.if_else(pc.or_(true, pc.equal(encoded, "false")), true, pa.scalar(None, pa.bool_()))

        return bools


def _literal(node: typed.Literal, wanted: types.Type) -> Evaluate:
    if node.value is None:
        value = array_kernels.scalar(None, wanted)
    else:
        value = array_kernels.scalar(float(node.value) if node.type.kind is Kind.FLOAT else node.value, node.type)
    return lambda frame: value


def _column(node: typed.Column, compiler: ExpressionCompiler) -> Evaluate:
    name, static = node.name, node.type
    return lambda frame: frame.column(name, static)


def _local(node: typed.Local, compiler: ExpressionCompiler) -> Evaluate:
    slot = node.slot
    return lambda frame: frame.slot(slot)


def _system(node: typed.System, compiler: ExpressionCompiler) -> Evaluate:
    path, static = node.path, node.type
    return lambda frame: frame.system(path, static)


def _windowed(node: typed.Windowed, compiler: ExpressionCompiler) -> Evaluate:
    name, problem, static = node.column, node.failure, node.type

    def computed(frame: Frame) -> pa.Array:
        failed = frame.column(problem, types.STRING)
        if failed.null_count < len(failed):
            frame.mark(failed.is_valid())
        return frame.column(name, static)

    return computed


def _now(node: typed.Now, compiler: ExpressionCompiler) -> Evaluate:
    return lambda frame: array_kernels.filled(frame.count, frame.clock(), types.DATETIME)


def _widen(node: typed.Widen, compiler: ExpressionCompiler) -> Evaluate:
    operand = compiler.compile(node.operand, types.INT)
    if node.type.kind is Kind.DECIMAL:
        return _widen_decimal(operand, node.type.scale)
    if node.operand.type.kind is Kind.DECIMAL:
        return lambda frame: decimal_units.floats(as_array(operand(frame), frame.count))
    return lambda frame: pc.cast(operand(frame), pa.float64(), safe=False)


def _widen_decimal(operand: Evaluate, scale: int | None) -> Evaluate:
    assert scale is not None

    def widened(frame: Frame) -> Any:
        found, failed = decimal_columns.rescaled(as_array(operand(frame), frame.count), scale)
        if failed is not None:
            frame.mark(pa.array(failed))
        return found

    return widened


def _not(node: typed.Not, compiler: ExpressionCompiler) -> Evaluate:
    operand = compiler.condition(node.operand)
    return lambda frame: pc.invert(operand(frame))


def _index_obstacle(node: typed.Index) -> str | None:
    if node.base.type.is_dynamic:
        return f"the container's type is known at run time only ({node.base.type})"
    constant = isinstance(node.index, typed.Literal) and node.index.value.__class__ is int
    return None if constant else "the position differs from record to record"


def _index(node: typed.Index, compiler: ExpressionCompiler) -> Evaluate:
    base = compiler.compile(node.base)
    assert isinstance(node.index, typed.Literal)
    position = node.index.value
    result = values.arrow_type(node.type)

    def element(frame: Frame) -> pa.Array:
        items = base(frame)
        inside = pc.fill_null(pc.greater(pc.list_value_length(items), position), False)
        if position < 0 or not pc.any(inside, min_count=0).as_py():
            return pa.nulls(frame.count, result)
        return pc.replace_with_mask(
            pa.nulls(frame.count, result), inside, pc.list_element(items.filter(inside), position)
        )

    return element


_COMPILERS: dict[type[typed.Expression], Callable[[Any, ExpressionCompiler], Evaluate]] = {
    typed.Column: _column,
    typed.Local: _local,
    typed.System: _system,
    typed.Windowed: _windowed,
    typed.Now: _now,
    typed.Widen: _widen,
    typed.Not: _not,
    typed.Index: _index,
    typed.Negate: operators.negate,
    typed.Binary: operators.binary,
    typed.And: branches.conjunction,
    typed.Or: branches.disjunction,
    typed.Coalesce: branches.coalesce,
    typed.If: branches.conditional,
    typed.Match: branches.match,
    typed.Call: calls.call,
}
