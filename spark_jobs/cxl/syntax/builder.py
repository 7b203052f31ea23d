"""Builds syntax tree nodes while the parser reduces; its methods are named after the rules of `grammar.lark`.

Lark calls each method with the values of the rule's parts: nodes, and the tokens that the grammar keeps. Trees grow
bottom-up, so nothing here recurses.
"""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import decimals
from spark_jobs.cxl.syntax import ast, names

if TYPE_CHECKING:
    from lark import Token

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t", "r": "\r"}
_CONSTANTS = {"true": (True, "bool"), "false": (False, "bool"), "null": (None, "null")}


def unescape(quoted: str) -> str:
    """The text of a string literal; an unknown escape stays as it is."""
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[0]), quoted[1:-1])


def _place(part: Any) -> ast.Place:
    place = getattr(part, "place", None)
    return place if place is not None else (part.start_pos, part.end_pos)


def _across(first: Any, last: Any) -> ast.Place:
    return _place(first)[0], _place(last)[1]


def _deepest(*inner: ast.Expression) -> int:
    """The depth of a node that holds these one level down."""
    return 1 + max((part.depth for part in inner), default=0)


def _depth_at_level(left: ast.Expression, *inner: ast.Expression) -> int:
    """The depth of a node whose left operand or receiver is at its own level."""
    return max(left.depth, _deepest(*inner) if inner else 1)


class Builder:
    """The callbacks of the grammar's rules."""

    def program(self, parts: list[Any]) -> ast.Program:
        """All statements."""
        return ast.Program(parts[0] if parts else ())

    def single(self, parts: list[Any]) -> Any:
        """The one expression of a predicate or a value."""
        return parts[0]

    def statements(self, parts: list[Any]) -> tuple[ast.Statement, ...]:
        """Statements in order."""
        return tuple(parts)

    def let(self, parts: list[Any]) -> ast.Let:
        """`let name = value`."""
        word, name, value = parts
        return ast.Let(_across(word, value), names.read(name), value, _place(name))

    def emit(self, parts: list[Any]) -> ast.Emit:
        """`emit name = value`."""
        word, name, value = parts
        return ast.Emit(_across(word, value), names.read(name), value, _place(name))

    def emit_meta(self, parts: list[Any]) -> ast.EmitMeta:
        """`emit meta key = value`."""
        word, _, key, value = parts
        return ast.EmitMeta(_across(word, value), names.read(key), value, _place(key))

    def emit_system(self, parts: list[Any]) -> ast.EmitSystem:
        """`emit $namespace.key = value`."""
        word, dollar, namespace, *keys, value = parts
        return ast.EmitSystem(
            _across(word, value), str(namespace), tuple(map(str, keys)), value, _across(dollar, keys[-1])
        )

    def emit_each(self, parts: list[Any]) -> ast.EmitEach:
        """`emit each name in source [outer] { body }`."""
        word, name, source, *rest, brace = parts
        outer = any(getattr(part, "type", "") == "OUTER" for part in rest)
        body = rest[-1] if rest and isinstance(rest[-1], tuple) else ()
        return ast.EmitEach(_across(word, brace), str(name), source, outer, body, _place(name))

    def filter(self, parts: list[Any]) -> ast.Filter:
        """`filter predicate`."""
        word, predicate = parts
        return ast.Filter(_across(word, predicate), predicate)

    def distinct(self, parts: list[Token]) -> ast.Distinct:
        """`distinct [by key]`."""
        if len(parts) == 1:
            return ast.Distinct(_place(parts[0]), None, None)
        return ast.Distinct(_across(*parts), names.read(parts[1]), _place(parts[1]))

    def trace(self, parts: list[Any]) -> ast.Trace:
        """`trace [level] message`; `if c then m` without `else` is a guard, and `then` may be missing."""
        message = parts[-1]
        level = str(parts[1]) if len(parts) == 3 else "trace"
        place = _across(parts[0], message)
        if isinstance(message, ast.If) and message.otherwise is None:
            return ast.Trace(place, level, message.condition, message.then)
        return ast.Trace(place, level, None, message)

    def guarded_trace(self, parts: list[Any]) -> ast.Trace:
        """`trace [level] if guard message`."""
        level = str(parts[1]) if len(parts) == 5 else "trace"
        return ast.Trace(_across(parts[0], parts[-1]), level, parts[-2], parts[-1])

    def use(self, parts: list[Token]) -> ast.Use:
        """`use path [as alias]`."""
        word, *path = parts
        alias = path[-1]
        if len(path) > 2 and path[-2].type == "AS":
            path = path[:-2]
        return ast.Use(_across(word, alias), tuple(map(str, path)), str(alias))

    def fn(self, parts: list[Any]) -> ast.Fn:
        """`fn name(parameters) = body`."""
        word, name, _, *parameters, _, body = parts
        return ast.Fn(_across(word, body), str(name), tuple(map(str, parameters)), body, _place(name))

    def evaluate(self, parts: list[Any]) -> ast.Evaluate:
        """An expression that stands alone."""
        return ast.Evaluate(_place(parts[0]), parts[0])

    def binary(self, parts: list[Any]) -> ast.Binary:
        """An infix operator; a chain to the left is one level."""
        left, operator, right = parts
        return ast.Binary(_across(left, right), _depth_at_level(left, right), str(operator), left, right)

    def negation(self, parts: list[Any]) -> ast.Not:
        """`not operand`."""
        word, operand = parts
        return ast.Not(_across(word, operand), _deepest(operand), operand)

    def minus(self, parts: list[Any]) -> ast.Negate:
        """`-operand`."""
        sign, operand = parts
        return ast.Negate(_across(sign, operand), _deepest(operand), operand)

    def member(self, parts: list[Any]) -> ast.Member:
        """`base.name`."""
        base, name = parts
        return ast.Member(_across(base, name), _depth_at_level(base), base, names.read(name), _place(name))

    def method(self, parts: list[Any]) -> ast.Method:
        """`base.name(arguments)`."""
        base, name, _, arguments, end = parts
        return ast.Method(
            _across(base, end), _depth_at_level(base, *arguments), base, str(name), arguments, _place(name)
        )

    def index(self, parts: list[Any]) -> ast.Index:
        """`base[index]`."""
        base, index, end = parts
        return ast.Index(_across(base, end), _depth_at_level(base, index), base, index)

    def module_member(self, parts: list[Token]) -> ast.ModuleMember:
        """`alias::name`."""
        alias, name = parts
        return ast.ModuleMember(_across(alias, name), 1, str(alias), str(name), None, _place(name))

    def module_call(self, parts: list[Any]) -> ast.ModuleMember:
        """`alias::name(arguments)`."""
        alias, name, _, arguments, end = parts
        return ast.ModuleMember(
            _across(alias, end), _deepest(*arguments), str(alias), str(name), arguments, _place(name)
        )

    def number(self, parts: list[Token]) -> ast.Literal:
        """An Int, Float or Decimal literal; the checker looks at the range of Ints and the digits of Decimals."""
        token = parts[0]
        if token.type == "DECIMAL":
            return ast.Literal(_place(token), 1, decimals.of_text(token[:-1]), str(token), "decimal")
        if token.type == "FLOAT":
            return ast.Literal(_place(token), 1, float(token), str(token), "float")
        # Digits beyond any Int are cut short: Python refuses to convert very long ones, and an excess shows anyway.
        value = int(token.lstrip("0")[:25] or "0")
        return ast.Literal(_place(token), 1, value, str(token), "int")

    def string(self, parts: list[Token]) -> ast.Literal:
        """A string literal."""
        return ast.Literal(_place(parts[0]), 1, unescape(parts[0]), str(parts[0]), "string")

    def date(self, parts: list[Token]) -> ast.Literal:
        """A date literal; the parser has already refused malformed ones."""
        return ast.Literal(_place(parts[0]), 1, datetime.date.fromisoformat(parts[0][1:-1]), str(parts[0]), "date")

    def constant(self, parts: list[Token]) -> ast.Literal:
        """`true`, `false`, `null`."""
        value, kind = _CONSTANTS[str(parts[0])]
        return ast.Literal(_place(parts[0]), 1, value, str(parts[0]), kind)

    def now(self, parts: list[Token]) -> ast.Now:
        """`now`."""
        return ast.Now(_place(parts[0]), 1)

    def name(self, parts: list[Token]) -> ast.Name:
        """A bare name."""
        return ast.Name(_place(parts[0]), 1, names.read(parts[0]))

    def function_call(self, parts: list[Any]) -> ast.FunctionCall:
        """`name(arguments)`."""
        name, _, arguments, end = parts
        return ast.FunctionCall(_across(name, end), _deepest(*arguments), str(name), arguments, _place(name))

    def dollar(self, parts: list[Token]) -> ast.Dollar:
        """`$namespace`."""
        sign, namespace = parts
        return ast.Dollar(_across(sign, namespace), 1, str(namespace))

    def parenthesised(self, parts: list[Any]) -> ast.Expression:
        """`(expression)`: the expression, one level deeper and with the parentheses in its place."""
        start, inner, end = parts
        # The inner node has no other references yet, and copying it would cost a copy per parenthesis.
        object.__setattr__(inner, "place", _across(start, end))
        object.__setattr__(inner, "depth", inner.depth + 1)
        return inner  # type: ignore[no-any-return]

    def if_(self, parts: list[Any]) -> ast.If:
        """`if condition then … [else …]`."""
        word, condition, *branches = parts
        return ast.If(
            _across(word, branches[-1]),
            _deepest(condition, *branches),
            condition,
            branches[0],
            branches[1] if len(branches) > 1 else None,
        )

    def match(self, parts: list[Any]) -> ast.Match:
        """`match [subject] { arms }`."""
        arms = tuple(part for part in parts if isinstance(part, ast.Arm))
        subject = parts[1] if isinstance(parts[1], ast.Expression) else None
        inner = [arm.value for arm in arms] + [arm.pattern for arm in arms if arm.pattern]
        return ast.Match(_across(parts[0], parts[-1]), _deepest(*inner, *([subject] if subject else [])), subject, arms)

    def arm(self, parts: list[Any]) -> ast.Arm:
        """`pattern => value`."""
        pattern, value = parts
        return ast.Arm(_across(pattern, value), pattern if isinstance(pattern, ast.Expression) else None, value)

    def map_literal(self, parts: list[Any]) -> ast.MapLiteral:
        """`{name: value, "any key": value}`."""
        start, *entries, end = parts
        return ast.MapLiteral(_across(start, end), _deepest(*(entry.value for entry in entries)), tuple(entries))

    def entry(self, parts: list[Any]) -> ast.Entry:
        """`name: value`."""
        key, value = parts
        name = unescape(key) if key.type == "STRING" else names.read(key)
        return ast.Entry(_across(key, value), name, value, _place(key))

    def arguments(self, parts: list[ast.Expression]) -> tuple[ast.Expression, ...]:
        """The arguments of a method."""
        return tuple(parts)

    def function_arguments(self, parts: list[ast.Expression]) -> tuple[ast.Expression, ...]:
        """The arguments of an aggregate."""
        return tuple(parts)

    def closure(self, parts: list[Any]) -> ast.Closure:
        """`it => body`."""
        name, body = parts
        return ast.Closure(_across(name, body), body.depth, body)

    def star(self, parts: list[Token]) -> ast.Star:
        """The `*` of `count(*)`."""
        return ast.Star(_place(parts[0]), 1)
