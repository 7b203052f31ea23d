"""Typed trees as flat lists: pickle recurses, and a chain of operators may be thousands deep."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

#: The form of a field's value in a flat row: as it is, as a node's number, or as numbers of nodes.
_PLAIN, _NODE, _NODES = "v", "n", "t"

#: A node's class, the shapes of its fields, and their values.
Row = tuple[type, str, tuple[Any, ...]]


@cache
def _names(kind: Hashable) -> tuple[str, ...]:
    assert isinstance(kind, type)
    return tuple(one.name for one in fields(kind))


def rows(roots: tuple[Any, ...], kinds: tuple[type, ...]) -> list[Row]:
    """The nodes below some roots, children first, then a row with the roots; a shared node has one row.

    Args:
        roots: nodes, dataclasses whose fields may hold nodes or tuples of them.
        kinds: the classes of nodes.
    """
    listed: list[Row] = []
    numbers: dict[int, int] = {}
    stack: list[tuple[Any, str]] = [(root, "") for root in reversed(roots)]
    while stack:
        node, shapes = stack.pop()
        key = id(node)
        if key in numbers:
            continue
        values = [getattr(node, name) for name in _names(node.__class__)]
        if not shapes:
            shapes = "".join(_shape(value, kinds) for value in values)
            children = [
                child
                for shape, value in zip(shapes, values, strict=True)
                if shape != _PLAIN
                for child in (value if shape == _NODES else (value,))
            ]
            if children:
                stack.append((node, shapes))
                stack.extend((child, "") for child in children if id(child) not in numbers)
                continue
        numbers[key] = len(listed)
        flat = (_numbered(shape, value, numbers) for shape, value in zip(shapes, values, strict=True))
        listed.append((type(node), shapes, tuple(flat)))
    return [*listed, (tuple, _NODES, (tuple(numbers[id(root)] for root in roots),))]


def _shape(value: Any, kinds: tuple[type, ...]) -> str:
    if isinstance(value, kinds):
        return _NODE
    return _NODES if isinstance(value, tuple) and value and isinstance(value[0], kinds) else _PLAIN


def _numbered(shape: str, value: Any, numbers: dict[int, int]) -> Any:
    if shape == _NODE:
        return numbers[id(value)]
    return tuple(numbers[id(item)] for item in value) if shape == _NODES else value


def roots(listed: list[Row]) -> Any:
    """The roots of a flat list, with all that is below them."""
    nodes: list[Any] = []
    for make, shapes, values in listed:
        given = [
            nodes[value] if shape == _NODE else tuple(nodes[number] for number in value) if shape == _NODES else value
            for shape, value in zip(shapes, values, strict=True)
        ]
        nodes.append(make(*given))
    return nodes[-1]
