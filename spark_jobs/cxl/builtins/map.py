"""Map methods: keys keep their order, and a changed map is a new one."""

from __future__ import annotations

import re
from typing import Any

from spark_jobs.cxl import types
from spark_jobs.cxl.builtins.declare import INTERPRETED, Anything, Array, Map, String, method

_DYNAMIC = INTERPRETED("maps hold values of any kind")
_SEGMENT = re.compile(r"([^\[\]]*)((?:\[[0-9]+\])*)", re.ASCII)


@method(arrow=_DYNAMIC, result=lambda arguments: types.array_of(types.STRING))
def keys(entries: Map) -> Array:
    """The keys, in order."""
    return list(entries)


@method(arrow=_DYNAMIC)
def values(entries: Map) -> Array:
    """The values, in the order of their keys."""
    return list(entries.values())


@method(arrow=_DYNAMIC)
def merge(entries: Map, other: Map) -> Map:
    """Both maps in one: the other's values win, keys keep their place, new ones come last."""
    return {**entries, **other}


@method(arrow=_DYNAMIC)
def remove_field(entries: Map, key: String) -> Map:
    """The map without a key; dots in the key mean nothing here."""
    return {name: value for name, value in entries.items() if name != key}


def _steps(path: str) -> list[str | int] | None:
    """A path's keys and positions; None if a bracket is wrong."""
    steps: list[str | int] = []
    for segment in path.split("."):
        found = _SEGMENT.fullmatch(segment)
        if found is None:
            return None
        steps.append(found.group(1))
        steps.extend(int(number) for number in re.findall("[0-9]+", found.group(2)))
    return steps


class _NoSuchPlace(Exception):
    pass


def _placed(container: Any, steps: list[str | int], value: Any) -> Any:
    """The container with a value put at the end of the steps."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        if container.__class__ is not dict:
            raise _NoSuchPlace
        inner = container.get(step, {} if rest else None)
        return {**container, step: _placed(inner, rest, value)}
    if container.__class__ is not list or step >= len(container):
        raise _NoSuchPlace
    return [*container[:step], _placed(container[step], rest, value), *container[step + 1 :]]


@method(arrow=_DYNAMIC, nulls="handle", result=lambda arguments: types.MAP.or_null())
def set_(entries: Map, path: String, value: Anything) -> Map:
    """The map with a value at a path such as `address.city` or `items[0].sku`; missing keys on the way become maps.

    Null if the path is malformed, leads through anything but maps and arrays, or goes past an array's end.
    """
    if entries is None or path is None:
        return None
    steps = _steps(path)
    if steps is None:
        return None  # type: ignore[return-value]
    try:
        return _placed(entries, steps, value)  # type: ignore[no-any-return]
    except _NoSuchPlace:
        return None  # type: ignore[return-value]
