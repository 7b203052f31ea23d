"""Checks expressions: every name bound, every type known, Ints widened where they meet Floats.

Chains (`a + b + c`, `s.trim().upper()`) are walked in a loop, so recursion follows nesting alone, which the parser has
bounded.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from spark_jobs.cxl import decimals, typed, types
from spark_jobs.cxl.checking import calls, inlining, operators, paths
from spark_jobs.cxl.checking.environment import Binding
from spark_jobs.cxl.syntax import ast
from spark_jobs.cxl.types import Kind, Type
from spark_jobs.diagnostics import codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl.checking.session import Session

#: Operands in one unbroken chain. Far beyond any program; engines hold a chain on their stacks.
MAX_CHAIN = 3000

#: The kind of index for each container.
_INDEXED = {Kind.ARRAY: Kind.INT, Kind.MAP: Kind.STRING}
_LITERALS: dict[str, Type] = {
    "null": types.NULL,
    "bool": types.BOOL,
    "int": types.INT,
    "float": types.FLOAT,
    "decimal": types.DECIMAL,
    "string": types.STRING,
    "date": types.DATE,
}


def check(session: Session, node: ast.Expression) -> typed.Expression:
    """The typed tree of an expression."""
    if session.calls and inlining.is_exhausted(session, node.place):
        return typed.Literal(types.ANY, node.place, None)
    value = partial(session, node)
    return paths.complete(session, value)


def partial(session: Session, node: ast.Expression) -> typed.Expression | paths.Partial:
    """Like `check`, but a system namespace or a qualifier that still lacks its member stays as it is."""
    spine: list[ast.Expression] = []
    while isinstance(node, (ast.Binary, ast.Member, ast.Method, ast.Index)):
        spine.append(node)
        node = node.left if isinstance(node, ast.Binary) else node.base
    if len(spine) > MAX_CHAIN:
        return session.mistyped(
            f"expression is a chain of {len(spine)} operations (max {MAX_CHAIN})",
            spine[0].place,
            "give parts names with `let`",
        )
    value = _head(session, node)
    is_path = isinstance(node, ast.Name)
    for step in reversed(spine):
        value = _step(session, step, value, is_path=is_path)
        is_path = isinstance(step, ast.Index) or (is_path and isinstance(step, ast.Member))
    return value


def _head(session: Session, node: ast.Expression) -> typed.Expression | paths.Partial:
    return _HEADS[type(node)](session, node)


def _step(
    session: Session, node: ast.Expression, base: typed.Expression | paths.Partial, *, is_path: bool
) -> typed.Expression | paths.Partial:
    match node:
        case ast.Member():
            return paths.member(session, node, base, is_path=is_path)
        case ast.Method():
            return paths.method(session, node, base)
        case ast.Index():
            value = paths.complete(session, base)
            return _index(session, node, value)
        case ast.Binary():
            left = paths.complete(session, base)
            return operators.binary(session, node.operator, left, check(session, node.right), node.place)
        case _:
            raise TypeError(f"no step of a chain: {node!r}")


def _index(session: Session, node: ast.Index, base: typed.Expression) -> typed.Expression:
    index = check(session, node.index)
    kind, by = base.type.kind, index.type.kind
    wanted = _INDEXED.get(kind)
    found = by in (wanted, Kind.ANY, Kind.NULL) or (wanted is Kind.INT and by is Kind.NUMERIC)
    if kind not in (Kind.ANY, Kind.NULL) and not found:
        # An index of the wrong kind gives null, like one out of range, but nobody means it.
        help_text = f"the index of {kind} is {wanted}" if wanted else "`[ ]` reads an element of an array or a map"
        what = f"indexing {kind} with {by} is always null" if wanted else f"indexing {kind} is always null"
        session.warn(codes.W205, what, node.place, help_text)
        return typed.Index(types.ANY, node.place, base, index)
    result = types.ANY
    if kind is Kind.ARRAY and base.type.element is not None:
        result = base.type.element.or_null()
    elif kind is Kind.MAP and base.type.fields is not None and isinstance(index, typed.Literal):
        result = dict(base.type.fields).get(index.value, types.NULL).or_null()
    return typed.Index(result, node.place, base, index)


def _literal(session: Session, node: ast.Literal) -> typed.Expression:
    if node.kind == "int" and isinstance(node.value, int) and node.value >= ast.INT_LIMIT:
        return session.mistyped(
            f"integer literal {node.text[:40]} is out of range", node.place, "Int has 64 bits; write a Float with `.0`"
        )
    if node.kind == "decimal":
        if node.value is None:
            help_text = f"a Decimal has {decimals.MAX_DIGITS} digits at most"
            return session.mistyped(f"decimal literal {node.text[:60]} has too many digits", node.place, help_text)
        assert isinstance(node.value, Decimal)
        return typed.Literal(types.decimal_of(None, decimals.scale_of(node.value)), node.place, node.value)
    return typed.Literal(_LITERALS[node.kind], node.place, node.value)


def _negate(session: Session, node: ast.Negate) -> typed.Expression:
    inner = node.operand
    if isinstance(inner, ast.Literal) and inner.kind == "int" and inner.value == ast.INT_LIMIT:
        return typed.Literal(types.INT, node.place, -ast.INT_LIMIT)
    return operators.negate(session, check(session, inner), node.place)


def _not(session: Session, node: ast.Not) -> typed.Expression:
    return operators.invert(session, check(session, node.operand), node.place)


def _now(session: Session, node: ast.Now) -> typed.Expression:
    return typed.Now(types.DATETIME, node.place)


def _if(session: Session, node: ast.If) -> typed.Expression:
    condition = check(session, node.condition)
    operators.condition(session, condition, "if condition")
    then = check(session, node.then)
    place = node.place
    otherwise = check(session, node.otherwise) if node.otherwise else typed.Literal(types.NULL, place, None)
    (then, otherwise), result = operators.meet((then, otherwise))
    return typed.If(result, place, condition, then, otherwise)


def _match(session: Session, node: ast.Match) -> typed.Expression:
    subject = check(session, node.subject) if node.subject else None
    seen: set[tuple[str, object]] = set()
    arms: list[tuple[typed.Expression | None, typed.Expression]] = []
    closed = False
    for arm in node.arms:
        pattern = check(session, arm.pattern) if arm.pattern else None
        value = check(session, arm.value)
        if closed:
            session.warn(
                codes.W201, "arm is never reached: `_` before it takes everything", arm.place, "move `_` to the end"
            )
            continue
        if pattern is None:
            closed = True
        elif not _may_match(session, pattern, subject, seen):
            session.warn(codes.W201, "arm is never reached", arm.place)
        arms.append((pattern, value))
    if not closed:
        return session.mistyped(
            "match expression must have a '_' (wildcard) catch-all arm", node.place, "add an arm `_ => null`"
        )
    values, result = operators.meet([value for _, value in arms])
    patterns = [pattern for pattern, _ in arms]
    if subject and any(pattern and pattern.type.kind is Kind.FLOAT for pattern in patterns):
        subject = operators.widened(subject)
    if subject and subject.type.kind is Kind.FLOAT:
        patterns = [pattern and operators.widened(pattern) for pattern in patterns]
    return typed.Match(result, node.place, subject, tuple(map(typed.Arm, patterns, values)))


def _may_match(
    session: Session, pattern: typed.Expression, subject: typed.Expression | None, seen: set[tuple[str, object]]
) -> bool:
    """True if an arm can be taken; a guard that is no Bool is an error."""
    if subject is None:
        operators.condition(session, pattern, "match condition")
        return not (isinstance(pattern, typed.Literal) and pattern.value in (False, None))
    kinds = (pattern.type.kind, subject.type.kind)
    unlike = kinds[0] is not kinds[1] and not (pattern.type.is_numeric and subject.type.is_numeric)
    if unlike and not set(kinds) & {Kind.ANY, Kind.NULL}:
        return False
    if not isinstance(pattern, typed.Literal):
        return True
    key = ("number" if pattern.type.is_numeric else str(pattern.type.kind), pattern.value)
    if key in seen:
        return False
    seen.add(key)
    return True


def closure(session: Session, node: ast.Closure, element: Type) -> typed.Closure:
    """A closure over elements of this type."""
    environment = session.environment
    environment.enter()
    slot = environment.new_slot()
    environment.bind(Binding("it", element, node.place, slot))
    body = check(session, node.body)
    environment.leave()
    return typed.Closure(slot, body)


def _map(session: Session, node: ast.MapLiteral) -> typed.Expression:
    values: dict[str, typed.Expression] = {}
    for entry in node.entries:
        value = check(session, entry.value)
        if entry.key in values:
            session.mistyped(f"key '{entry.key}' occurs twice in a map", entry.key_place, "write each key once")
        values[entry.key] = value
    # A map that starts empty is filled by `set` and `merge`, so its fields are unknown.
    fields = tuple((key, value.type) for key, value in values.items()) or None
    return typed.MapOf(Type(Kind.MAP, fields=fields), node.place, tuple(values), tuple(values.values()))


def _name(session: Session, node: ast.Name) -> typed.Expression | paths.Partial:
    return paths.name(session, node)


def _dollar(session: Session, node: ast.Dollar) -> typed.Expression | paths.Partial:
    return paths.namespace(session, node)


def _module_member(session: Session, node: ast.ModuleMember) -> typed.Expression:
    return inlining.member(session, node.alias, node.name, node.arguments, node.place, node.name_place)


def _function(session: Session, node: ast.FunctionCall) -> typed.Expression:
    return calls.function(session, node)


def _stray_closure(session: Session, node: ast.Closure) -> typed.Expression:
    return session.unresolved(
        "closures only valid as arguments to .filter/.map/.find/.any/.flat_map",
        node.place,
        "write the expression itself",
    )


def _stray_star(session: Session, node: ast.Star) -> typed.Expression:
    return session.unresolved("`*` is the argument of count(*) alone", node.place)


_HEADS: dict[type, Callable[..., typed.Expression | paths.Partial]] = {
    ast.Literal: _literal,
    ast.Name: _name,
    ast.Now: _now,
    ast.Star: _stray_star,
    ast.Dollar: _dollar,
    ast.ModuleMember: _module_member,
    ast.FunctionCall: _function,
    ast.Negate: _negate,
    ast.Not: _not,
    ast.If: _if,
    ast.Match: _match,
    ast.MapLiteral: _map,
    ast.Closure: _stray_closure,
}
