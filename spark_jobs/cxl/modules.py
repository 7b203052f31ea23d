"""Modules: files of functions and constants that programs import with `use` (decision 19).

A module is read and checked once per process and content. Functions are inlined where they are called: the body is
checked again with the types of the arguments, so both engines see plain expressions and nothing of modules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_jobs.cxl import ast, checker_expressions, parser, typed, types
from spark_jobs.cxl.environment import Binding
from spark_jobs.cxl.findings import Finding, Stage
from spark_jobs.diagnostics import nearest
from spark_jobs.diagnostics.source import SourceFile, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from spark_jobs.cxl.ast import Place
    from spark_jobs.cxl.session import Session

MAX_BYTES = 1_048_576
#: Calls that one program may inline; a chain of functions that each call the next twice would double without end.
MAX_INLINED = 10_000
_NOT_ALLOWED = {
    ast.Emit: "emit",
    ast.EmitMeta: "emit",
    ast.EmitSystem: "emit",
    ast.EmitEach: "emit",
    ast.Trace: "trace",
    ast.Filter: "filter",
    ast.Distinct: "distinct",
}


@dataclass(frozen=True, eq=False)
class Module:
    """A module's functions and constants by name, and what is wrong with it."""

    name: str
    text: Text
    functions: dict[str, ast.Fn] = field(default_factory=dict)
    constants: dict[str, ast.Let] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def use(session: Session, statement: ast.Use) -> None:
    """Import a module under its alias; what is wrong with it is reported in its own file."""
    name = ".".join(statement.path)
    folder = session.scope.rules_path
    if folder is None:
        session.unresolved(
            f"module '{name}' not found: there is no rules path here", statement.place, "set `rules_path`"
        )
        return
    path = folder.joinpath(*statement.path).with_suffix(".cxl")
    try:
        data = path.read_bytes()
    except OSError:
        session.unresolved(
            f"module '{name}' not found at {path}", statement.place, f"modules are searched in the rules path {folder}"
        )
        return
    if len(data) > MAX_BYTES:
        session.unresolved(f"module '{name}' has {len(data)} bytes (max {MAX_BYTES})", statement.place, "split it")
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        session.unresolved(f"module '{name}' is not UTF-8 text", statement.place)
        return
    module = _load(name, text, _shown(path))
    session.findings += [finding for finding in module.findings if finding not in session.findings]
    if statement.alias in session.modules:
        session.unresolved(
            f"two modules are imported as '{statement.alias}'",
            statement.place,
            "give one of them another name with `as`",
        )
    session.modules[statement.alias] = module


def _shown(path: Path) -> str:
    import os

    try:
        return os.path.relpath(path)
    except ValueError:
        return str(path)


@lru_cache(maxsize=256)
def _load(name: str, source: str, shown: str) -> Module:
    """A module by its content, parsed and checked on its own."""
    text = Text(source, SourceFile(shown, source))
    parsed = parser.parse(source)
    findings = [Finding(Stage.PARSE, one.message, one.place, one.help, text=text) for one in parsed.problems]
    module = Module(name, text)
    for statement in parsed.tree.statements:
        findings += [Finding(Stage.PARSE, *problem, text=text) for problem in _declare(module, statement)]
    if not findings:
        findings += _check(module)
    return Module(name, text, module.functions, module.constants, tuple(findings))


def _declare(module: Module, statement: ast.Statement) -> Iterator[tuple[str, Place]]:
    match statement:
        case ast.Fn(name=name, name_place=place):
            if name in module.functions:
                yield f"duplicate function '{name}' in module '{module.name}'", place
            module.functions.setdefault(name, statement)
        case ast.Let(name=name, name_place=place):
            if name in module.constants:
                yield f"duplicate constant '{name}' in module '{module.name}'", place
            module.constants.setdefault(name, statement)
        case ast.Use():
            yield "modules cannot import other modules", statement.place
        case ast.Evaluate():
            yield "unexpected expression in module file", statement.place
        case _:
            yield f"{_NOT_ALLOWED[type(statement)]} is not allowed in module files", statement.place


def _check(module: Module) -> list[Finding]:
    """Every constant and every function with arguments of any type, so that mistakes show without a call."""
    from spark_jobs.cxl.scope import Scope
    from spark_jobs.cxl.session import Session

    session = Session(Scope(), module=module, text=module.text)
    session.no_aggregates = "is not allowed in module files"
    session.environment.enter(closed=True)
    for name, let in module.constants.items():
        session.calls.append((module.name, name))
        checker_expressions.check(session, let.value)
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
        return checker_expressions.check(session, function.body)
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
    module = session.modules.get(alias)
    if module is None:
        help_text = nearest.hint(alias, session.modules, "'") or f"import it first: `use path.to.{alias}`"
        return session.unresolved(f"unresolved identifier '{alias}'", place, help_text)
    if arguments is None:
        if let := module.constants.get(found):
            return constant(session, module, let, place)
        if found in module.functions:
            return session.unresolved(
                f"'{found}' is a function in module '{alias}', not a constant",
                name_place,
                f"call it: `{alias}::{found}(…)`",
            )
        help_text = nearest.hint(found, [*module.constants, *module.functions], "'")
        return session.unresolved(f"module '{alias}' has no member '{found}'", name_place, help_text)
    if function := module.functions.get(found):
        return call(session, module, function, arguments, place)
    if found in module.constants:
        return session.unresolved(
            f"'{found}' is a constant in module '{alias}', not a function", name_place, "leave the parentheses out"
        )
    help_text = nearest.hint(found, module.functions, "'")
    return session.unresolved(f"module '{alias}' has no function '{found}'", name_place, help_text)


def call(
    session: Session, module: Module, function: ast.Fn, arguments: Sequence[ast.Expression], place: Place
) -> typed.Expression:
    """A call: the function's body with the arguments in place of its parameters."""
    given = [checker_expressions.check(session, argument) for argument in arguments]
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
    session.inlined += 1
    if session.inlined > MAX_INLINED:
        if session.inlined == MAX_INLINED + 1:
            session.unresolved(
                f"module functions are called too often (max {MAX_INLINED} calls, nested ones included)", place
            )
        return typed.Literal(types.ANY, place, None)
    return _inline(session, module, (module.name, function.name), place, lambda: _body(session, function, given))


def constant(session: Session, module: Module, let: ast.Let, place: Place) -> typed.Expression:
    """A constant: its expression, which may read other constants only."""
    key = (module.name, let.name)
    if key in session.calls:
        return session.unresolved(f"cyclic dependency detected involving constant '{let.name}'", place)

    def value() -> typed.Expression:
        session.environment.enter(closed=True)
        try:
            return checker_expressions.check(session, let.value)
        finally:
            session.environment.leave()

    return _inline(session, module, key, place, value)


def _inline(
    session: Session, module: Module, key: tuple[str, str], place: Place, check: Callable[[], typed.Expression]
) -> typed.Expression:
    """Check something of a module in the place of a call; its errors are reported at the outermost call."""
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
