"""The syntax tree of a program, before any name is bound.

Nodes are frozen and compare by meaning: places, depths and the spelling of literals do not count, so that
`parse(format(program)) == parse(program)` is a fair test of the formatter. Places are character offsets into the
program's text. Parentheses leave no node of their own; they count for the depth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime
    import decimal

Place = tuple[int, int]

#: The value of an integer literal whose negation is the smallest Int; alone it is out of range.
INT_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class Expression:
    """Any expression: its place, and how deeply it is nested (left operands and receivers do not count)."""

    place: Place = field(compare=False)
    depth: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant; `text` is how it was written. A Decimal with too many digits has None for its value."""

    value: bool | int | float | decimal.Decimal | str | datetime.date | None
    text: str = field(compare=False)
    #: `1 == 1.0 == True` in Python, so the kind takes part in the comparison.
    kind: str


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """A bare name, `it` included."""

    name: str


@dataclass(frozen=True, slots=True)
class Now(Expression):
    """The clock."""


@dataclass(frozen=True, slots=True)
class Star(Expression):
    """The argument of `count(*)`."""


@dataclass(frozen=True, slots=True)
class Dollar(Expression):
    """A system namespace, `$pipeline`."""

    namespace: str


@dataclass(frozen=True, slots=True)
class Member(Expression):
    """`base.name` without parentheses: a step of a path, or a method without arguments."""

    base: Expression
    name: str
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Method(Expression):
    """`base.name(arguments)`."""

    base: Expression
    name: str
    arguments: tuple[Expression, ...]
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class ModuleMember(Expression):
    """`alias::name`, and `alias::name(arguments)` where `arguments` is not None."""

    alias: str
    name: str
    arguments: tuple[Expression, ...] | None
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class FunctionCall(Expression):
    """`name(arguments)`: an aggregate, or a sibling function inside a module."""

    name: str
    arguments: tuple[Expression, ...]
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Index(Expression):
    """`base[index]`."""

    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Negate(Expression):
    """Unary minus."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """`not operand`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """Any infix operator, `and`, `or` and `??` included."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class If(Expression):
    """`if condition then … else …`; `otherwise` is None where no `else` was written."""

    condition: Expression
    then: Expression
    otherwise: Expression | None


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of a match; `pattern` is None for `_`."""

    place: Place = field(compare=False)
    pattern: Expression | None
    value: Expression


@dataclass(frozen=True, slots=True)
class Match(Expression):
    """`match subject { … }`, or without subject."""

    subject: Expression | None
    arms: tuple[Arm, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a map."""

    place: Place = field(compare=False)
    key: str
    value: Expression
    key_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class MapLiteral(Expression):
    """`{name: value, "any key": value}`, `{}`."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Closure(Expression):
    """`it => body`."""

    body: Expression


@dataclass(frozen=True, slots=True)
class Statement:
    """Any statement and its place."""

    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Let(Statement):
    """`let name = value`."""

    name: str
    value: Expression
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Emit(Statement):
    """`emit name = value`."""

    name: str
    value: Expression
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class EmitMeta(Statement):
    """`emit meta key = value`."""

    key: str
    value: Expression
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class EmitSystem(Statement):
    """`emit $namespace.key = value`, which transforms cannot do. The checker names the alternative."""

    namespace: str
    keys: tuple[str, ...]
    value: Expression
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class EmitEach(Statement):
    """`emit each name in source [outer] { body }`."""

    name: str
    source: Expression
    outer: bool
    body: tuple[Statement, ...]
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Filter(Statement):
    """`filter predicate`."""

    predicate: Expression


@dataclass(frozen=True, slots=True)
class Distinct(Statement):
    """`distinct`, or `distinct by key`."""

    key: str | None
    key_place: Place | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class Trace(Statement):
    """`trace [level] [if guard] message`."""

    level: str
    guard: Expression | None
    message: Expression


@dataclass(frozen=True, slots=True)
class Use(Statement):
    """`use path [as alias]`."""

    path: tuple[str, ...]
    alias: str


@dataclass(frozen=True, slots=True)
class Fn(Statement):
    """`fn name(parameters) = body`, in modules."""

    name: str
    parameters: tuple[str, ...]
    body: Expression
    name_place: Place = field(compare=False)


@dataclass(frozen=True, slots=True)
class Evaluate(Statement):
    """A bare expression as a statement."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Program:
    """The statements in order."""

    statements: tuple[Statement, ...]
