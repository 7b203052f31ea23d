"""Decomposes a program with window functions into the calls, and a program that reads their results.

The argument of a call is an expression over a row of the frame. A let in it stands for its expression there, so that
`let total = price * n` and `$window.sum(total)` add up each row's own total. In a predicate a let keeps its value for
the current record, unless it is the same for all records.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import tree_walk, typed, types
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.builtins.declare import Takes
from spark_jobs.nodes.records.columns import OWN, RANGED
from spark_jobs.nodes.windows.call import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The emit of a program with one value. The dollar sign marks it as no field, so that it may be NaN.
VALUE = "$value"
#: System values that are the same for all records.
_CONSTANT = ("vars.", "config.", "pipeline.name", "pipeline.execution_id", "pipeline.batch_id", "pipeline.start_time")


class Unbound(Exception):
    """A call reads a value that depends on an element of an array, and so has no single value for the record.

    Args:
        name: the name that it reads.
        place: the place of the name in the program.
    """

    def __init__(self, name: str, place: typed.Place) -> None:
        super().__init__(name)
        self.name = name
        self.place = place


@dataclass(frozen=True)
class DecomposedProgram:
    """The calls in the order in which they are computed, and the program with the calls replaced by their columns."""

    calls: tuple[Call, ...]
    program: typed.Program


def decomposed(
    program: typed.Program, columns: Mapping[str, types.Type], *, in_frame: bool = True
) -> DecomposedProgram:
    """Decompose a program into its window calls and a program over their results.

    Args:
        program: the program.
        columns: the types of the columns that the window ranges over.
        in_frame: the record is itself a row of its frame, so that lets can be computed for each row of it.

    Raises:
        Unbound: a call reads an element of an array.
    """
    taken = _Decomposer(program, columns, in_frame)
    with tree_walk.room():
        statements = tuple(taken.statement(one) for one in program.statements)
    changed = replace(program, statements=statements)
    return DecomposedProgram(
        tuple(taken.calls.values()), replace(changed, columns=frozenset(tree_walk.columns_of(changed)))
    )


class _Decomposer:
    def __init__(self, program: typed.Program, columns: Mapping[str, types.Type], in_frame: bool) -> None:
        self.program = program
        self.columns = columns
        self.in_frame = in_frame
        self.calls: dict[Any, Call] = {}
        #: The expression of each slot that has the same value for all rows of a record.
        self.given: dict[int, typed.Expression] = {}

    def statement(self, statement: typed.Statement) -> typed.Statement:
        """Record the expression of a statement's slot, and return the statement without calls."""
        if isinstance(statement, typed.Each):
            source = self.changed(statement.source)
            self.given.pop(statement.slot, None)
            return replace(statement, source=source, body=tuple(self.statement(one) for one in statement.body))
        changed: typed.Statement = self.changed(statement)
        if isinstance(changed, typed.Let | typed.Emit | typed.EmitMeta):
            try:
                self.given[changed.slot] = self.bound(changed.value)
            except Unbound:
                self.given.pop(changed.slot, None)
        return changed

    def changed(self, node: Any) -> Any:
        """A tree with calls replaced by columns."""
        return _mapped(node, lambda part: self.computed(part) if isinstance(part, typed.WindowCall) else None)

    def computed(self, node: typed.WindowCall) -> typed.Windowed:
        """Replace a window call by a reference to its result."""
        takes = declare.windows()[node.function].takes
        own: dict[str, typed.Expression] = {}
        given: typed.Expression | None = None
        offset: int | typed.Expression = 1
        if takes is Takes.OFFSET and self.in_frame:
            offset = self.offset(node.arguments[0])
        elif node.arguments and takes not in (Takes.POSITION, Takes.OFFSET):
            is_own = takes is Takes.PREDICATE or not self.in_frame
            given = self.with_lets(node.arguments[0], own) if is_own else self.bound(node.arguments[0])
        key = (node.function, node.field, _mapped((given, offset, *own.items()), _without_place))
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = self.call(node, given, offset, own)
        return typed.Windowed(node.type, node.place, call.column, call.failure)

    def call(
        self,
        node: typed.WindowCall,
        given: typed.Expression | None,
        offset: int | typed.Expression,
        own: Mapping[str, typed.Expression],
    ) -> Call:
        """The call for a node, shared with equal calls."""
        field = given.name if isinstance(given, typed.Column) and given.name not in own else node.field
        static = given.type if given is not None else self.columns.get(field or "", types.NULL)
        start, end = node.place
        number = str(len(self.calls))
        return Call(
            function=node.function,
            column=RANGED.of(number),
            failure=RANGED.of(f"{number}.failure"),
            type=node.type,
            argument=None if given is None or field is not None else self.value(given),
            field=field,
            argument_type=static,
            offset=offset if isinstance(offset, int) else self.value(offset),
            own=tuple((name, self.value(expression)) for name, expression in own.items()),
            text=" ".join(self.program.text[start:end].split()),
        )

    def offset(self, node: typed.Expression) -> int | typed.Expression:
        """A constant offset, or a program for each record's own offset."""
        found = self.bound(node)
        match found:
            case typed.Literal(value=value):
                return value if isinstance(value, int) else 1
            case typed.Negate(operand=typed.Literal(value=int())):
                return 0
        return found

    def with_lets(self, node: typed.Expression, own: dict[str, typed.Expression]) -> typed.Expression:
        """Replace lets in an expression by columns with their values for the current record."""
        inside = _closures(node)

        def held(part: Any) -> typed.Expression | None:
            if not isinstance(part, typed.Local) or part.slot in inside:
                return None
            value = self.bound(part)
            if _is_constant(value):
                return value
            name = OWN.of(str(part.slot))
            own[name] = value
            return typed.Column(value.type, part.place, name)

        found: typed.Expression = _mapped(node, held)
        return found

    def bound(self, node: typed.Expression) -> typed.Expression:
        """An expression with lets replaced by their expressions."""
        inside = _closures(node)

        def held(part: Any) -> typed.Expression | None:
            if not isinstance(part, typed.Local) or part.slot in inside:
                return None
            if part.slot not in self.given:
                raise Unbound(part.name, part.place)
            return self.given[part.slot]

        found: typed.Expression = _mapped(node, held)
        return found

    def value(self, expression: typed.Expression) -> typed.Program:
        """A program with one emit."""
        statement = typed.Emit(expression.place, self.program.slots, VALUE, expression)
        found = replace(
            self.program,
            statements=(statement,),
            slots=self.program.slots + 1,
            emits=((VALUE, expression.type),),
            metas=(),
            system=frozenset(tree_walk.systems_of(expression)),
        )
        return replace(found, columns=frozenset(tree_walk.columns_of(expression)))


def _closures(node: typed.Expression) -> set[int]:
    """The slots that an expression binds itself."""
    return {part.slot for part in tree_walk.walk(node) if isinstance(part, typed.Closure)}


def _is_constant(node: typed.Expression) -> bool:
    """True if an expression has the same value for all records."""
    for part in tree_walk.walk(node):
        if isinstance(part, typed.Column | typed.Windowed | typed.Now):
            return False
        if isinstance(part, typed.System) and not part.path.startswith(_CONSTANT):
            return False
    return True


def _without_place(part: Any) -> Any:
    if isinstance(part, typed.Expression) and part.place != (0, 0):
        return _mapped(replace(part, place=(0, 0)), _without_place)
    return None


def _mapped(node: Any, change: Callable[[Any], Any]) -> Any:
    """A tree with nodes replaced by the results of `change` that are not None. Unchanged parts are shared."""
    if isinstance(node, tuple):
        changed = tuple(_mapped(item, change) for item in node)
        return node if all(new is old for new, old in zip(changed, node, strict=True)) else changed
    if not is_dataclass(node) or isinstance(node, type | types.Type):
        return node
    found = change(node)
    if found is not None:
        return found
    old = {field.name: getattr(node, field.name) for field in fields(node)}
    new = {name: _mapped(value, change) for name, value in old.items()}
    return node if all(new[name] is old[name] for name in old) else replace(node, **new)
