"""Checks programs: the result is the typed program, with the findings.

Aggregates are taken apart by `aggregates.py`; all others are statements, or one expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking import aggregates, expressions, operators, records
from spark_jobs.cxl.checking.checker import Statements, unused
from spark_jobs.cxl.checking.environment import Binding
from spark_jobs.cxl.checking.scope import Mode
from spark_jobs.cxl.checking.session import Session
from spark_jobs.cxl.syntax import ast
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics import codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.checking.scope import Scope

#: The name of the field that a VALUE program emits.
VALUE = "value"
_CONSTANTS = {bool: types.BOOL, int: types.INT, float: types.FLOAT, str: types.STRING}


def check(tree: ast.Program, scope: Scope, text: str) -> tuple[typed.Program | typed.AggregateProgram, Session]:
    """Check a tree without syntax errors; returns the typed program and the session with the findings."""
    session = Session(scope, expressions)
    if scope.mode is Mode.AGGREGATE:
        return aggregates.check(session, tree, text), session
    if scope.mode in (Mode.PREDICATE, Mode.VALUE):
        statements: Sequence[typed.Statement] = _single(session, tree)
    else:
        statements = Statements(session).check(tree.statements)
    for let in session.environment.lets:
        unused(session, let)
    return records.program(session, statements, text), session


def _single(session: Session, tree: ast.Program) -> list[typed.Statement]:
    """A predicate becomes a filter, a value an emit named `value`."""
    statement = tree.statements[0]
    assert isinstance(statement, ast.Evaluate)
    for name, constant in session.scope.constants.items():
        literal = typed.Literal(_CONSTANTS[type(constant)], statement.place, constant)
        session.environment.bind(Binding(name, literal.type, statement.place, value=literal))
    value = session.check(statement.value)
    if session.scope.mode is Mode.VALUE:
        wanted = session.scope.expected
        if wanted is not None and types.unify(wanted, value.type) is None:
            session.mistyped(f"expression must be type {wanted.kind}, got {value.type.kind}", value.place)
        if wanted is not None and wanted.kind is Kind.FLOAT:
            value = operators.widened(value)
        slot = session.environment.new_slot()
        return [typed.Emit(value.place, slot, VALUE, value)]
    if value.type.kind not in (Kind.BOOL, Kind.ANY, Kind.NULL):
        if session.scope.inputs:
            session.mistyped(f"got {value.type.kind}", value.place, "write a comparison", codes.E303)
        else:
            session.mistyped(f"condition must be type Bool, got {value.type.kind}", value.place, "write a comparison")
    return [typed.Filter(value.place, value)]
