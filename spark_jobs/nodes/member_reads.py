"""Finds the members of arrays of maps that a program reads: `orders.map(it => it.amount)` reads one.

Arrays are followed through lets, emitted fields, closures and loops, from the use of a value back to its columns. An
unknown use reads the whole value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import tree_walk, typed
from spark_jobs.cxl.types import Kind
from spark_jobs.nodes.terms.required_columns import RequiredColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: The members of an array's elements, or of a map, that are read; None if any may be read.
    Members = frozenset[str] | None

_NONE: frozenset[str] = frozenset()
#: Methods that read no element of their array.
_LOOK_AT_NONE = frozenset({"Array.length", "Any.is_empty", "Any.is_null"})
#: Methods that call a closure with each element. The results of some are an element or elements of the array.
_CALL_CLOSURES = frozenset({"Array.map", "Array.any", "Array.flat_map", "Array.filter", "Array.find"})
_GIVE_ELEMENTS = frozenset({"Array.filter", "Array.find"})


def read(program: typed.Program, downstream: RequiredColumns | None = None) -> RequiredColumns:
    """The columns that a program reads.

    Args:
        program: the program.
        downstream: the members read of the fields that it emits; None if they are read whole.
    """
    found = _Reading(
        RequiredColumns(frozenset(name for name, _ in program.emits)) if downstream is None else downstream
    )
    found.take(program.statements)
    parts = {name: members for name, members in found.columns.items() if members is not None}
    return RequiredColumns(program.columns, {name: parts[name] for name in program.columns & parts.keys()})


class _Reading:
    """Tracks required columns and slots. The readers of a slot are known before its value is visited."""

    def __init__(self, downstream: RequiredColumns) -> None:
        self.columns: dict[str, Members] = {}
        self._slots: dict[int, Members] = {}
        self._downstream = downstream

    def take(self, statements: Sequence[typed.Statement]) -> None:
        """Analyze statements, the last one first."""
        for statement in reversed(statements):
            match statement:
                case typed.Let(slot=slot, value=value):
                    self._follow(value, self._of_slot(slot))
                case typed.Emit(slot=slot, name=name, value=value):
                    self._follow(value, _both(self._of_slot(slot), self._downstream.members(name)))
                case typed.Each(slot=slot, source=source, body=body):
                    self.take(body)
                    self._follow(source, self._of_slot(slot))
                case _:
                    for part in tree_walk.parts(statement):
                        self._follow(part, None)

    def _of_slot(self, slot: int) -> Members:
        return self._slots.get(slot, _NONE)

    def _follow(self, node: object, members: Members) -> None:
        """Record the reads of an expression, given the members that are read of its value."""
        waiting: list[tuple[object, Callable[[], Members]]] = [(node, lambda: members)]
        while waiting:
            # Trees may be too deep for recursion. The expression on top is finished before the next one is looked at.
            part, asked = waiting.pop()
            waiting += reversed(self._inside(part, asked()))

    def _inside(self, node: object, members: Members) -> list[tuple[object, Callable[[], Members]]]:
        """The parts of an expression with the members that are read of each, in the order in which these are known."""

        def known() -> Members:
            return members

        match node:
            case typed.Column(name=name, type=type_):
                of_elements = members if type_.kind is Kind.ARRAY else None
                self.columns[name] = _both(self.columns.get(name, _NONE), of_elements)
                return []
            case typed.Local(slot=slot):
                self._slots[slot] = _both(self._of_slot(slot), members)
                return []
            case typed.Index(base=base, index=typed.Literal(value=str() as key)):
                return [(base, lambda: frozenset([key]))]
            case typed.Index(base=base, index=index) if base.type.kind is Kind.ARRAY:
                return [(index, _whole), (base, known)]
            case typed.Coalesce(left=left, right=right):
                return [(left, known), (right, known)]
            case typed.If(condition=condition, then=then, otherwise=otherwise):
                return [(condition, _whole), (then, known), (otherwise, known)]
            case typed.Call() if (found := self._called(node, members)) is not None:
                return found
            case _:
                return [(part, _whole) for part in tree_walk.parts(node)]

    def _called(self, node: typed.Call, members: Members) -> list[tuple[object, Callable[[], Members]]] | None:
        """The reads of an array method that does not need its whole array; None for other calls."""
        receiver, *others = node.arguments
        if not isinstance(receiver, typed.Expression) or receiver.type.kind is not Kind.ARRAY:
            return None
        if node.builtin in _LOOK_AT_NONE:
            return [(receiver, lambda: _NONE)]
        if node.builtin not in _CALL_CLOSURES or not isinstance(closure := others[0], typed.Closure):
            return None
        given = members if node.builtin in _GIVE_ELEMENTS else _NONE
        return [(closure.body, _whole), (receiver, lambda: _both(given, self._of_slot(closure.slot)))]


def _whole() -> Members:
    return None


def _both(one: Members, other: Members) -> Members:
    return None if one is None or other is None else one | other
