"""The columns of an output as elements: how they are nested, and which are attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.formats.xml.options import TEXT, attribute_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass
class Element:
    """An element of records.

    Args:
        name: its name.
        text: the column that is its text, by its place.
        attributes: the names of its attributes and their columns.
        children: the elements in it, in order.
    """

    name: str
    text: int | None = None
    attributes: list[tuple[str, int]] = field(default_factory=list)
    children: list[Element] = field(default_factory=list)


def record(name: str, columns: Sequence[str]) -> Element:
    """A record's element: `a.b` is `b` in `a`; `a`, and all columns below it, are one `a` where the first of them is.

    `a` and `a.#text` are two elements, for an element has one text.
    """
    root = Element(name)
    holders = {"": root}
    plain = {column for column in columns if attribute_of(column)[1] is None and not _is_text(column)}
    for place, column in enumerate(columns):
        path, attribute = attribute_of(column)
        if attribute is not None:
            _holder(path, holders).attributes.append((attribute, place))
        elif column in plain:
            _holder(column, holders).text = place
        elif (path := column.removesuffix(TEXT).removesuffix(".")) in plain:
            parent, _, own = path.rpartition(".")
            _holder(parent, holders).children.append(Element(own, place))
        else:
            _holder(path, holders).text = place
    return root


def _is_text(column: str) -> bool:
    return column == TEXT or column.endswith(f".{TEXT}")


def _holder(path: str, holders: dict[str, Element]) -> Element:
    """The element that contains others."""
    if path not in holders:
        parent, _, name = path.rpartition(".")
        holders[path] = Element(name)
        _holder(parent, holders).children.append(holders[path])
    return holders[path]


def places_in(element: Element) -> Iterator[int]:
    """The columns of an element's attributes, and of all that stands in it."""
    for _, place in element.attributes:
        yield place
    for child in element.children:
        if child.text is not None:
            yield child.text
        yield from places_in(child)


def repeated(element: Element) -> Iterator[Element]:
    """The elements that an array repeats: they are a column, and other columns stand in them."""
    for child in element.children:
        if child.text is not None and (child.attributes or child.children):
            yield child
        yield from repeated(child)
