"""Checks `$window.function(…)`; `docs/semantics/windows.md` has the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.builtins.declare import Takes
from spark_jobs.cxl.syntax import ast
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.checking.session import Session
    from spark_jobs.cxl.syntax.ast import Place

_REACHING = (Takes.POSITION, Takes.OFFSET)


def is_positional(name: str) -> bool:
    """True if a function reaches for one row and gives the value of a field there."""
    return declare.windows()[name].takes in _REACHING


def call(
    session: Session, name: str, arguments: Sequence[ast.Expression], place: Place, name_place: Place
) -> typed.Expression:
    """Check `$window.name(arguments)`."""
    window = session.scope.window
    if window is None and session.scope.is_alone:
        return session.unresolved(
            "a window function ranges over several records, and here is one alone",
            place,
            "put the program into a transform with `analytic_window:` and run that; `cxl check` checks it as it is",
            codes.E003,
        )
    if window is None:
        return session.unresolved(
            "uses window.* functions but declares no analytic_window",
            place,
            "add `analytic_window:` to the node",
            codes.E003,
        )
    function = declare.windows().get(name)
    if function is None:
        help_text = nearest.hint(name, declare.windows(), "'")
        if name == "all":
            help_text = "write `$window.every(…)`"
        return session.mistyped(f"unknown window function $window.{name}()", name_place, help_text)
    if session.in_window:
        return session.mistyped(
            f"$window.{name}() cannot be called inside a $window.{session.in_window} argument",
            place,
            "give it a name with `let`",
        )
    if function.takes in _REACHING:
        return _positional(session, name, arguments, place)
    wanted = 0 if function.takes is Takes.NOTHING else 1
    if len(arguments) != wanted:
        return session.mistyped(
            f"window.{name}() takes exactly {wanted} argument{'' if wanted == 1 else 's'}, got {len(arguments)}", place
        )
    if not wanted:
        return typed.WindowCall(function.result(()), place, name, (), None)
    argument = _in_frame(session, name, arguments[0])
    kind = argument.type.kind
    if function.takes is Takes.NUMBER and not argument.type.is_numeric and kind not in (Kind.ANY, Kind.NULL):
        return session.mistyped(f"window.{name}() requires a Numeric argument, got {kind}", arguments[0].place)
    if function.takes is Takes.PREDICATE and kind not in (Kind.BOOL, Kind.ANY, Kind.NULL):
        return session.mistyped(f"window.{name}() requires a Bool argument, got {kind}", arguments[0].place)
    return typed.WindowCall(function.result((argument.type,)), place, name, (argument,), None)


def _in_frame(session: Session, name: str, node: ast.Expression) -> typed.Expression:
    """An expression over a row of the frame: bare names are that row's columns, lets keep their values."""
    assert session.scope.window is not None
    row = session.scope.window.row

    def column(found: str, place: Place) -> typed.Expression | None:
        known = row.get(found)
        if known is None and session.scope.is_open:
            return None
        if known is None or known.is_engine:
            help_text = session.suggest(found, lambda: [one.name for one in row.user_columns])
            return session.unresolved(
                f"references field '{found}' that the upstream operator does not emit", place, help_text, codes.E150B
            )
        session.columns.add(found)
        return typed.Column(known.type.or_null(), place, found)

    outer, session.column = session.column, column
    session.in_window = name
    try:
        return session.check(node)
    finally:
        session.column, session.in_window = outer, None


def _positional(session: Session, name: str, arguments: Sequence[ast.Expression], place: Place) -> typed.Expression:
    """`lag(n)`, `lag(n, field)`, `first()`, `first(field)`; the field may follow as a member instead."""
    steps = declare.windows()[name].takes is Takes.OFFSET
    offsets, fields = list(arguments[: 1 if steps else 0]), list(arguments[1 if steps else 0 :])
    if (
        steps
        and len(offsets) == 1
        and not fields
        and isinstance(offsets[0], ast.Name)
        and _is_column(session, offsets[0].name)
    ):
        offsets, fields = [], offsets
    if len(fields) > 1 or (fields and not isinstance(fields[0], ast.Name)):
        return session.mistyped(f"window.{name}() takes {'an offset and ' if steps else ''}a field's name", place)
    offset = session.check(offsets[0]) if offsets else typed.Literal(types.INT, place, 1)
    if offset.type.kind not in (Kind.INT, Kind.ANY, Kind.NULL):
        return session.mistyped(f"window.{name}() requires an Int offset, got {offset.type.kind}", offset.place)
    bound = (offset,) if steps else ()
    bare = typed.WindowCall(types.ANY, place, name, bound, None)
    if fields and isinstance(fields[0], ast.Name):
        return _field_named(session, bare, fields[0].name, fields[0].place, place)
    return bare


def _is_column(session: Session, name: str) -> bool:
    assert session.scope.window is not None
    return session.environment.local(name) is None and name in session.scope.window.row


def field(session: Session, base: typed.WindowCall, node: ast.Member) -> typed.Expression:
    """Check the field after a call, as in `$window.lag(1).name`."""
    return _field_named(session, base, node.name, node.name_place, node.place)


def _field_named(
    session: Session, base: typed.WindowCall, name: str, name_place: Place, place: Place
) -> typed.Expression:
    assert session.scope.window is not None
    column = session.scope.window.row.get(name)
    if column is None or column.is_engine:
        help_text = nearest.hint(name, [one.name for one in session.scope.window.row.user_columns], "'")
        return session.unresolved(
            f"field '{name}' is not in the upstream row schema for $window.{base.function}()",
            name_place,
            help_text,
            codes.E150B,
        )
    session.columns.add(name)
    return typed.WindowCall(column.type.or_null(), place, base.function, base.arguments, name)


def completed(session: Session, value: typed.Expression) -> typed.Expression:
    """A bare `$window.lag(1)` means the column named like the emit's target; without such a column it is an error."""
    if not isinstance(value, typed.WindowCall) or value.field is not None or not is_positional(value.function):
        return value
    target = session.target
    assert session.scope.window is not None
    if target is not None and target in session.scope.window.row:
        return _field_named(session, value, target, value.place, value.place)
    shown = "1, <field>" if value.arguments else "<field>"
    return session.mistyped(
        f"$window.{value.function}() does not say which field it reads, and no column is named like the output field",
        value.place,
        f"write `$window.{value.function}({shown})`",
    )
