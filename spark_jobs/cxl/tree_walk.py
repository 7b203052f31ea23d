"""Walks over typed trees: their nodes, reads and depth."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import typed, types

if TYPE_CHECKING:
    from collections.abc import Iterator

_NODES = (typed.Expression, typed.Statement, typed.Closure, typed.Arm)
#: Trees deeper than this need more room on Python's stack than it grants by default.
_DEEP = 100
#: Frames for the deepest programs. A chain of a thousand operators takes a few frames each; checking takes up to a
#: dozen for each of the 256 levels that the parser allows, and functions are inlined.
_FRAMES = 20_000


#: The fields of node classes that may hold nodes.
_FIELDS: dict[type[Any], tuple[str, ...]] = {}


def _fields(kind: type[Any]) -> tuple[str, ...]:
    found = _FIELDS.get(kind)
    if found is None:
        leaves = ("type", "place", "value") if issubclass(kind, typed.Literal) else ("type", "place")
        found = _FIELDS[kind] = tuple(field.name for field in fields(kind) if field.name not in leaves)
    return found


def parts(node: object) -> Iterator[object]:
    """The nodes directly inside a node, in order."""
    kind: type[Any] = type(node)
    for name in _fields(kind):
        value = getattr(node, name)
        if isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, _NODES))
        elif isinstance(value, _NODES):
            yield value


def walk(node: object) -> Iterator[object]:
    """A node and all nodes inside it."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(parts(found))


def columns_of(node: object) -> dict[str, types.Type]:
    """The columns that a tree reads, with their types."""
    found = {part.name: part.type for part in walk(node) if isinstance(part, typed.Column)}
    for part in walk(node):
        if isinstance(part, typed.Windowed):
            found |= {part.column: part.type, part.failure: types.STRING}
    return found


def systems_of(node: object) -> dict[str, types.Type]:
    """The system values that a tree reads, with their types."""
    return {part.path: part.type for part in walk(node) if isinstance(part, typed.System)}


def slots_of(node: object) -> dict[int, types.Type]:
    """The slots that a tree reads and does not bind itself, with their types."""
    bound = {part.slot for part in walk(node) if isinstance(part, typed.Closure)}
    return {part.slot: part.type for part in walk(node) if isinstance(part, typed.Local) and part.slot not in bound}


def reads_clock(node: object) -> bool:
    """True if `now` occurs in a tree."""
    return any(isinstance(part, typed.Now) for part in walk(node))


def is_deep(node: object) -> bool:
    """True if a tree is so deep that walking or evaluating it needs `room`."""
    waiting = [(node, 1)]
    while waiting:
        found, depth = waiting.pop()
        if depth > _DEEP:
            return True
        waiting.extend((part, depth + 1) for part in parts(found))
    return False


@contextmanager
def room() -> Iterator[None]:
    """Room on Python's stack for deep trees; Python calls take none of the C stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
