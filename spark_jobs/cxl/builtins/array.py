"""Array methods; the closure's parameter is `it`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import dynamic_arrays, types, values
from spark_jobs.cxl.builtins.declare import (
    ELEMENTWISE,
    INTERPRETED,
    Anything,
    Array,
    Bool,
    ClosureOf,
    ExactInt,
    Int,
    String,
    method,
)
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence


def _element(array: types.Type) -> types.Type:
    return (array.element or types.ANY) if array.kind is Kind.ARRAY else types.ANY


def _same(arguments: Sequence[types.Type]) -> types.Type:
    return arguments[0].non_null() if arguments[0].kind is Kind.ARRAY else types.ARRAY


def _length(pc: Any, items: Any) -> Any:
    return (
        dynamic_arrays.lengths(items) if str(items.type) == "string" else pc.cast(pc.list_value_length(items), "int64")
    )


@method(name="length", arrow=_length, takes_tagged=True)
def array_length(items: Array) -> Int:
    """The number of elements.

    >>> "a,b,c".split(",").length()
    3
    """
    return len(items)


@method(arrow=ELEMENTWISE)
def join(items: Array, separator: String) -> String:
    """The elements' texts with a separator between them; null elements are empty.

    >>> "a,b,c".split(",").join(" - ")
    "a - b - c"
    """
    return separator.join(map(values.text_of, items))


@method(name="filter", arrow=ELEMENTWISE, result=_same)
def filter_(items: Array, predicate: ClosureOf) -> Array:
    """The elements for which the closure is true.

    >>> "a,bb,c".split(",").filter(it => it.length() == 1)
    ["a","c"]
    """
    return [item for item in items if predicate(item) is True]


@method(name="map", arrow=ELEMENTWISE, result=lambda arguments: types.array_of(arguments[1]))
def map_(items: Array, transform: ClosureOf) -> Array:
    """The closure's value for each element; nulls stay.

    >>> "a,b".split(",").map(it => it.upper())
    ["A","B"]
    """
    return [transform(item) for item in items]


@method(name="find", arrow=ELEMENTWISE, result=lambda arguments: _element(arguments[0]).or_null())
def find_(items: Array, predicate: ClosureOf) -> Anything:
    """The first element for which the closure is true, or null; later elements are not looked at.

    >>> "a,bb,cc".split(",").find(it => it.length() > 1)
    "bb"
    """
    return next((item for item in items if predicate(item) is True), None)


@method(name="any", arrow=ELEMENTWISE)
def any_(items: Array, predicate: ClosureOf) -> Bool:
    """Whether the closure is true for some element; later ones are not looked at.

    >>> "a,bb".split(",").any(it => it == "bb")
    true
    """
    return any(predicate(item) is True for item in items)


def _flat(arguments: Sequence[types.Type]) -> types.Type:
    body = arguments[1]
    if body.kind is Kind.ARRAY:
        return types.array_of(body.element) if body.element else types.ARRAY
    return types.ARRAY if body.is_dynamic else types.array_of(body.non_null())


@method(arrow=ELEMENTWISE, result=_flat)
def flat_map(items: Array, transform: ClosureOf) -> Array:
    """The closure's values in one array: arrays are spliced in, nulls left out.

    >>> "a b,c".split(",").flat_map(it => it.split(" "))
    ["a","b","c"]
    """
    result: list[Any] = []
    for item in items:
        value = transform(item)
        if value.__class__ is list:
            result.extend(value)
        elif value is not None:
            result.append(value)
    return result


@method(arrow=INTERPRETED("Arrow has no list slicing by position"), result=_same)
def remove(items: Array, index: ExactInt) -> Array:
    """The array without the element at a 0-based position; unchanged if there is no such position.

    >>> "a,b,c".split(",").remove(1)
    ["a","c"]
    """
    return items[:index] + items[index + 1 :] if 0 <= index < len(items) else items
