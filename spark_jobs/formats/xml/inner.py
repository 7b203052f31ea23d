"""The elements of an array: one for each of its values; a map becomes an element with everything in it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import values
from spark_jobs.formats.xml import options
from spark_jobs.formats.xml.document import MOST_DEPTH
from spark_jobs.formats.xml.options import ATTRIBUTE_PREFIX, DECLARATION, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Characters that no XML document has, in any spelling.
REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
#: Escapes of characters in texts.
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", "\r": "&#13;"}
#: Further escapes in attributes, whose white space is read as blanks.
IN_ATTRIBUTES = {"\n": "&#10;", "\t": "&#9;"}
_IN_TEXTS = str.maketrans(ESCAPES)
_IN_VALUES = str.maketrans(ESCAPES | IN_ATTRIBUTES)


class Unwritable(Exception):
    """A value has no place in XML; says why."""


def elements(name: str, items: Sequence[Any]) -> str:
    """An element for each value of an array.

    Raises:
        Unwritable: a value has no place in XML.
    """
    return "".join(_element(name, item, 1) for item in items)


def character_problem(text: str) -> str | None:
    """The problem of a text's characters; None if a document can have them."""
    found = REFUSED.search(text)
    return f"the character U+{ord(found[0]):04X} cannot be written as XML" if found else None


def _element(name: str, item: Any, depth: int) -> str:
    if isinstance(item, dict):
        return _of_map(name, item, depth)
    text = _text(item) if not isinstance(item, list) else _text(values.json_text(_plain(item)))
    return f"<{name}>{text.translate(_IN_TEXTS)}</{name}>" if text else f"<{name}/>"


def _of_map(name: str, item: dict[str, Any], depth: int) -> str:
    """An element with attributes, a text and elements in it."""
    if depth == MOST_DEPTH - 1:
        raise Unwritable(f"elements are nested more than {MOST_DEPTH} levels deep")
    attributes, text, inner = [], "", []
    for key, value in item.items():
        if key == TEXT:
            text = _text(_scalar(key, value)).translate(_IN_TEXTS)
        elif key.startswith(ATTRIBUTE_PREFIX):
            if value is not None:
                written = _text(_scalar(key, value)).translate(_IN_VALUES)
                attributes.append(f' {_named(key.removeprefix(ATTRIBUTE_PREFIX), is_attribute=True)}="{written}"')
        else:
            several = value if isinstance(value, list) else (value,)
            inner += [_element(_named(key), each, depth + 1) for each in several]
    content = text + "".join(inner)
    start = f"<{name}{''.join(attributes)}"
    return f"{start}>{content}</{name}>" if content else f"{start}/>"


def _text(value: Any) -> str:
    text = values.text_of(value)
    if (problem := character_problem(text)) is not None:
        raise Unwritable(problem)
    return text


def _scalar(key: str, value: Any) -> Any:
    if isinstance(value, (dict, list)):
        what = "a map" if isinstance(value, dict) else "an array"
        raise Unwritable(f"{what} cannot be written as `{key}` of an element of XML")
    return value


def _plain(items: list[Any]) -> list[Any]:
    """An array inside an array, which is written as its JSON text; maps in it are refused."""
    if any(isinstance(item, dict) for item in _all_of(items)):
        raise Unwritable("a map in an array of an array cannot be written as XML")
    return items


def _all_of(items: list[Any]) -> Iterator[Any]:
    for item in items:
        yield item
        if isinstance(item, list):
            yield from _all_of(item)


@lru_cache(4096)
def _named(name: str, *, is_attribute: bool = False) -> str:
    problem = options.name_problem(name)
    if is_attribute and name == DECLARATION:
        problem = f"'{ATTRIBUTE_PREFIX}{name}' would declare a namespace, which readers do not treat as an attribute"
    if problem is not None:
        raise Unwritable(f"a map in it cannot be written as XML: {problem}")
    return name
