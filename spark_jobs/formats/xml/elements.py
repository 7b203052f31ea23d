"""The columns of an output as elements: which stand in which, and which are attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.formats.xml.options import ATTRIBUTE_PREFIX, TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Element:
    """An element of records.

    Args:
        name: what it is called.
        text: the column that is its text, by its place.
        attributes: the names of its attributes and their columns.
        children: the elements in it, in order.
    """

    name: str
    text: int | None = None
    attributes: list[tuple[str, int]] = field(default_factory=list)
    children: list[Element] = field(default_factory=list)


def record(name: str, columns: Sequence[str]) -> Element:
    """A record's element: `a.b` is `b` in `a`, all columns below `a` stand in one `a` where the first of them is.

    `a` and `a.b` are two elements, for a column has text alone, and so are `a` and `a.#text`; attributes (`a.@c`) go to
    the former.
    """
    root = Element(name)
    holders = {"": root}
    leaves: dict[str, Element] = {}
    plain = {column for column in columns if not column.rpartition(".")[2].startswith((ATTRIBUTE_PREFIX, TEXT))}
    for place, column in enumerate(columns):
        path, _, last = column.rpartition(".")
        if column in plain:
            _leaf(column, holders, leaves).text = place
        elif last == TEXT:
            _holder(path, holders).text = place
        else:
            element = _leaf(path, holders, leaves) if path in plain else _holder(path, holders)
            element.attributes.append((last.removeprefix(ATTRIBUTE_PREFIX), place))
    return root


def _holder(path: str, holders: dict[str, Element]) -> Element:
    """The element that others stand in."""
    if path not in holders:
        parent, _, name = path.rpartition(".")
        holders[path] = Element(name)
        _holder(parent, holders).children.append(holders[path])
    return holders[path]


def _leaf(path: str, holders: dict[str, Element], leaves: dict[str, Element]) -> Element:
    """The element of a column."""
    if path not in leaves:
        parent, _, name = path.rpartition(".")
        leaves[path] = Element(name)
        _holder(parent, holders).children.append(leaves[path])
    return leaves[path]
