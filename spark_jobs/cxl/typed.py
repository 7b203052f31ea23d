"""The typed tree, which the checker makes for both engines.

Few node kinds, each frozen, picklable, with its type. Every name is bound: a `Local` is a numbered slot (lets, emitted
values, closure parameters and `emit each` bindings alike), a `Column` is an input column. Numbers of
other kinds that meet Floats or Decimals are wrapped in `Widen`, so an expression of type Float always has a Float
value. Places are character offsets into the program's text.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import tree_pickling

if TYPE_CHECKING:
    from spark_jobs.cxl import types

Place = tuple[int, int]


class Operator(StrEnum):
    """The strict binary operators; `and`, `or` and `??` have nodes of their own: they do not always look right."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"
    EQUAL = "=="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="


@dataclass(frozen=True)
class Expression:
    """Any expression: the type of its values and its place in the text."""

    type: types.Type
    place: Place


@dataclass(frozen=True)
class Literal(Expression):
    """A constant."""

    value: Any


@dataclass(frozen=True)
class Column(Expression):
    """A column of the input record; in a combine the name is `qualifier.column`."""

    name: str


@dataclass(frozen=True)
class Local(Expression):
    """The value in a slot."""

    slot: int
    name: str


@dataclass(frozen=True)
class System(Expression):
    """A system value, by its path without the dollar sign.

    `pipeline.name`, `source.row`, `vars.limit`, `meta.k`, `record.k`, `doc.section.field`, `config.param`.
    """

    path: str


@dataclass(frozen=True)
class Now(Expression):
    """The clock, in UTC; each record reads it anew."""


@dataclass(frozen=True)
class Widen(Expression):
    """A number as another one: an Int or a Decimal as a Float, an Int as a Decimal, a Decimal with a larger scale."""

    operand: Expression


@dataclass(frozen=True)
class Negate(Expression):
    """Unary minus."""

    operand: Expression


@dataclass(frozen=True)
class Not(Expression):
    """Three-valued negation."""

    operand: Expression


@dataclass(frozen=True)
class Binary(Expression):
    """A strict operator: both sides are evaluated; null in, null out."""

    operator: Operator
    left: Expression
    right: Expression


@dataclass(frozen=True)
class And(Expression):
    """Three-valued conjunction; the right side is evaluated unless the left is false."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Or(Expression):
    """Three-valued disjunction; the right side is evaluated unless the left is true."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Coalesce(Expression):
    """`left ?? right`, and `left.catch(right)`: the right side is evaluated only where the left is null."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class If(Expression):
    """The first branch when the condition is true, else the second (a null Literal where none was written)."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True)
class Arm:
    """An arm of a match; `pattern` is None for `_`."""

    pattern: Expression | None
    value: Expression


@dataclass(frozen=True)
class Match(Expression):
    """The first arm whose pattern equals the subject (the literal `null` matches null), or is true without subject."""

    subject: Expression | None
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class Index(Expression):
    """`base[index]` and every step of a dotted path: an element, a map's value, or null if there is no such element."""

    base: Expression
    index: Expression


@dataclass(frozen=True)
class MapOf(Expression):
    """A map of these keys; all values are evaluated, in order."""

    keys: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Closure:
    """`it => body`, an argument of a call; `slot` is the parameter's."""

    slot: int
    body: Expression


@dataclass(frozen=True)
class Call(Expression):
    """A builtin applied; `arguments` has the receiver first and every optional argument filled in.

    `builtin` is the registry's key (the checker tells `String.upper` and the like apart): trees are pickled by name.
    Where the receiver is dynamic, it is the key of any overload that the arguments fit: engines choose again by the
    value's kind.
    """

    builtin: str
    arguments: tuple[Expression | Closure, ...]


@dataclass(frozen=True)
class WindowCall(Expression):
    """`$window.function(arguments)`; `field` is the column of `.field` or the checker's choice for the bare form."""

    function: str
    arguments: tuple[Expression, ...]
    field: str | None


@dataclass(frozen=True)
class Windowed(Expression):
    """The result of a window call for the record: the value in one column, or the packed failure in another one.

    It stands in programs in place of a `WindowCall` once rows of a partition have met.
    """

    column: str
    failure: str


@dataclass(frozen=True)
class Statement:
    """Any statement and its place in the text."""

    place: Place


@dataclass(frozen=True)
class Let(Statement):
    """A value put into a slot."""

    slot: int
    name: str
    value: Expression


@dataclass(frozen=True)
class Emit(Statement):
    """A field of the output record; the value is also put into a slot, for later statements."""

    slot: int
    name: str
    value: Expression


@dataclass(frozen=True)
class EmitMeta(Statement):
    """An entry of the record's metadata; readable afterwards through its slot."""

    slot: int
    key: str
    value: Expression


@dataclass(frozen=True)
class Filter(Statement):
    """The record goes on only when the predicate is true."""

    predicate: Expression


@dataclass(frozen=True)
class Distinct(Statement):
    """The record goes on only when no earlier record had these values."""

    keys: tuple[Expression, ...]
    number: int


@dataclass(frozen=True)
class Trace(Statement):
    """A log line, when the guard (if any) is true."""

    level: str
    guard: Expression | None
    message: Expression


@dataclass(frozen=True)
class Each(Statement):
    """`emit each`: one record per element of the source."""

    slot: int
    name: str
    source: Expression
    outer: bool
    body: tuple[Statement, ...]
    #: The cap on the records that one input record may become.
    limit: int = 10_000


@dataclass(frozen=True)
class Evaluate(Statement):
    """An expression for its errors alone."""

    value: Expression


@dataclass(frozen=True)
class TextPlaces:
    """Places of a program's text in its file: the file's name, and the lines and columns of some offsets.

    From each of these offsets on, until the next, characters stand one after another.
    """

    file: str
    starts: tuple[tuple[int, int, int], ...]

    def place(self, offset: int) -> str:
        """`path:line:column` of a character."""
        index = bisect_right(self.starts, (offset, sys.maxsize, 0)) - 1
        start, line, column = self.starts[max(index, 0)]
        return f"{self.file}:{line}:{column + offset - start}"


@dataclass(frozen=True)
class Program:
    """A checked program: its statements, their slots, and the columns and values that it reads.

    `emits` are the output columns in order of first emission; `slots` counts the slots; `columns` are the input columns
    read, `system` the system values read. `text` is the source, for messages and `explain`, and `places` its place
    if it comes from a file.
    """

    text: str
    statements: tuple[Statement, ...]
    slots: int
    emits: tuple[tuple[str, types.Type], ...]
    metas: tuple[tuple[str, types.Type], ...]
    columns: frozenset[str]
    system: frozenset[str]
    places: TextPlaces | None = None

    def expression(self, number: int) -> tuple[str, str]:
        """A statement on one line, and its place; empty if that is not known."""
        start, end = self.statements[number].place
        return " ".join(self.text[start:end].split()), self.places.place(start) if self.places else ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tree as a flat list: pickle recurses, and a chain of operators may be thousands deep."""
        rest = tuple(getattr(self, one.name) for one in fields(self) if one.name != "statements")
        return _program, (rest, tree_pickling.rows(self.statements, NODES))


#: The classes of nodes in a program.
NODES = (Expression, Closure, Arm, Statement)


def _program(rest: tuple[Any, ...], listed: list[tree_pickling.Row]) -> Program:
    text, *others = rest
    return Program(text, tree_pickling.roots(listed), *others)


@dataclass(frozen=True)
class AggregateCall:
    """An accumulator of an aggregate: the function's name and the columns of `before` that hold its arguments.

    The result is the column `result` of the record that `after` sees; equal calls share one accumulator.
    """

    function: str
    arguments: tuple[str, ...]
    argument_types: tuple[types.Type, ...]
    result: str
    type: types.Type


@dataclass(frozen=True)
class AggregateProgram:
    """An aggregate node's program, taken apart at the accumulators.

    `before` runs per input record: lets and filters, and an emit `$arg.N` for each accumulator argument that is not a
    plain column.
    `after` runs per group on a record of the group keys and the `$agg.N` results, and has the node's emits.
    """

    before: Program
    calls: tuple[AggregateCall, ...]
    after: Program
