"""Inlines modules into programs: functions where they are called, constants where they are named.

A body is checked again with the types of the arguments, so both engines see plain expressions and nothing of modules.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from spark_jobs import limits
from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking import modules
from spark_jobs.cxl.checking.environment import Binding
from spark_jobs.cxl.checking.scope import Scope
from spark_jobs.cxl.checking.session import Session
from spark_jobs.cxl.syntax import habits
from spark_jobs.diagnostics import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_jobs.cxl.checking.findings import Finding
    from spark_jobs.cxl.checking.session import Expressions
    from spark_jobs.cxl.syntax import ast
    from spark_jobs.cxl.syntax.ast import Place


def use(session: Session, statement: ast.Use) -> None:
    """Import a module under its alias; its errors are reported in its own file."""
    try:
        module = session.scope.library.load(statement.path)
    except modules.ModuleError as error:
        session.unresolved(str(error), statement.place, error.help_text, error.code)
        return
    session.adopt(findings(module, session.expressions))
    if statement.alias in session.modules:
        help_text = "give one of them another name with `as`"
        session.unresolved(f"two modules are imported as '{statement.alias}'", statement.place, help_text)
    session.modules[statement.alias] = module


@lru_cache(maxsize=256)
def findings(module: modules.Module, expressions: Expressions) -> tuple[Finding, ...]:
    """The findings in a module and in its imports, computed once per process and content."""
    imported = module.imports.values()
    inherited = tuple(dict.fromkeys(finding for one in imported for finding in findings(one, expressions)))
    if module.findings or any(finding.is_error for finding in inherited):
        return (*module.findings, *inherited)
    return (*_check(module, expressions), *inherited)


def _check(module: modules.Module, expressions: Expressions) -> list[Finding]:
    """Every constant and every function with arguments of any type, so that mistakes show without a call."""
    session = Session(Scope(), expressions, module=module, text=module.text)
    session.no_aggregates = "is not allowed in module files"
    session.environment.enter(closed=True)
    for name, let in module.constants.items():
        session.calls.append((module.name, name))
        session.check(let.value)
        session.calls.pop()
    for name, function in module.functions.items():
        session.calls.append((module.name, name))
        _body(
            session, function, [typed.Literal(types.ANY, function.place, None) for _ in function.parameters], local=True
        )
        session.calls.pop()
    return session.findings


def _body(
    session: Session, function: ast.Fn, arguments: Sequence[typed.Expression], *, local: bool = False
) -> typed.Expression:
    environment = session.environment
    environment.enter(closed=True)
    for index, name in enumerate(function.parameters):
        value = None if local else arguments[index]
        slot = environment.new_slot() if local else -1
        environment.bind(Binding(name, arguments[index].type, function.name_place, slot, value))
    try:
        return session.check(function.body)
    finally:
        environment.leave()


def member(
    session: Session,
    alias: str,
    found: str,
    arguments: tuple[ast.Expression, ...] | None,
    place: Place,
    name_place: Place,
) -> typed.Expression:
    """`alias::name`, `alias::name(arguments)`, and the same with a dot."""
    module = session.imports.get(alias)
    if module is None:
        help_text = nearest.hint(alias, session.imports, "'") or f"import it first: `use path.to.{alias}`"
        if arguments is None and (conversion := habits.CONVERSIONS.get(found.lower())):
            help_text = f"write `{alias}.{conversion}()`; `::` reads a member of a module"
        return session.unresolved(f"unresolved identifier '{alias}'", place, help_text)
    if any(finding.is_error for finding in findings(module, session.expressions)):
        # The module's own file gets the report of the mistake.
        return typed.Literal(types.ANY, place, None)
    if arguments is None:
        if let := module.constants.get(found):
            return constant(session, module, let, place)
        if found in module.functions:
            return session.unresolved(
                f"'{found}' is a function in module '{alias}', not a constant",
                name_place,
                f"call it: `{alias}::{found}(…)`",
            )
        near = nearest.hint(found, [*module.constants, *module.functions], "'")
        return session.unresolved(f"module '{alias}' has no member '{found}'", name_place, near)
    if function := module.functions.get(found):
        return call(session, module, function, arguments, place)
    if found in module.constants:
        return session.unresolved(
            f"'{found}' is a constant in module '{alias}', not a function", name_place, "leave the parentheses out"
        )
    near = nearest.hint(found, module.functions, "'")
    return session.unresolved(f"module '{alias}' has no function '{found}'", name_place, near)


def call(
    session: Session, module: modules.Module, function: ast.Fn, arguments: Sequence[ast.Expression], place: Place
) -> typed.Expression:
    """A call: the function's body with the arguments in place of its parameters."""
    given = [session.check(argument) for argument in arguments]
    if len(given) != len(function.parameters):
        wanted = len(function.parameters)
        return session.mistyped(
            f"'{function.name}' takes {wanted} argument{'' if wanted == 1 else 's'}, got {len(given)}",
            place,
            f"`{function.name}({', '.join(function.parameters)})`",
        )
    if (module.name, function.name) in session.calls:
        direct = session.calls[-1] == (module.name, function.name)
        way = "itself" if direct else " → ".join([*(name for _, name in session.calls), function.name])
        return session.unresolved(
            f"recursive calls are not supported: function '{function.name}' calls {way}",
            place,
            "CXL has no loops; use .map and .filter",
        )
    return _inline(session, module, (module.name, function.name), place, lambda: _body(session, function, given))


def constant(session: Session, module: modules.Module, let: ast.Let, place: Place) -> typed.Expression:
    """A constant: its expression, which may read other constants only."""
    key = (module.name, let.name)
    if key in session.calls:
        return session.unresolved(f"cyclic dependency detected involving constant '{let.name}'", place)

    def value() -> typed.Expression:
        session.environment.enter(closed=True)
        try:
            return session.check(let.value)
        finally:
            session.environment.leave()

    return _inline(session, module, key, place, value)


def is_exhausted(session: Session, place: Place) -> bool:
    """True if modules have put into programs all that they may, which is reported where it is first found.

    A chain of functions or constants that each use the next twice would double without end.
    """
    library = session.scope.library
    library.inlined += 1
    if library.inlined == limits.INLINED_EXPRESSIONS + 1:
        message = f"modules put more than {limits.INLINED_EXPRESSIONS} expressions into programs, nested calls included"
        session.unresolved(message, place, "compute common parts once, in a `let` or a separate transform")
    return library.inlined > limits.INLINED_EXPRESSIONS


def _inline(
    session: Session, module: modules.Module, key: tuple[str, str], place: Place, check: Callable[[], typed.Expression]
) -> typed.Expression:
    """Check something of a module in the place of a call; its errors are reported at the outermost call."""
    if is_exhausted(session, place):
        return typed.Literal(types.ANY, place, None)
    outer = session.module, session.call_place
    session.calls.append(key)
    if session.text is None:
        session.call_place = session.call_place or place
    session.module = module
    try:
        return check()
    finally:
        session.calls.pop()
        session.module, session.call_place = outer
