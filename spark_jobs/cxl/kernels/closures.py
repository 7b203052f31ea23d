"""Arrow kernels of methods on typed arrays: a closure is evaluated on the elements of all rows at once.

The elements form a child frame, in which each row of the frame is repeated once per element, so that the closure sees
the row's columns and slots. A failing element defers its row: the interpreter decides whether it is evaluated at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import typed, values
from spark_jobs.cxl.builtins import conversion_kernels
from spark_jobs.cxl.kernels.frames import Evaluate, Frame, as_array
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl.kernels.compiler import Compiler


def obstacle(node: typed.Call) -> str | None:
    """Why a method on an array has no kernel."""
    receiver = node.arguments[0]
    assert isinstance(receiver, typed.Expression)
    if receiver.type.is_dynamic or receiver.type.kind is not Kind.ARRAY:
        return f"the elements' type is known at run time only ({receiver.type})"
    for argument in node.arguments[1:]:
        static = argument.body.type if isinstance(argument, typed.Closure) else argument.type
        if static.is_dynamic:
            return f"the closure's value has a type that is known at run time only ({static})"
    return None


def call(node: typed.Call, compiler: Compiler) -> Evaluate:
    """Evaluate a method that takes a function, over the elements of all rows."""
    receiver = node.arguments[0]
    assert isinstance(receiver, typed.Expression)
    items = compiler.compile(receiver)
    name = node.builtin.split(".")[1]
    if name == "join":
        assert isinstance(node.arguments[1], typed.Expression)
        separator = compiler.compile(node.arguments[1])
        return lambda frame: _join(as_array(items(frame), frame.count), separator(frame))
    closure = node.arguments[1]
    assert isinstance(closure, typed.Closure)
    is_predicate = name in ("filter", "find", "any")
    body = compiler.condition(closure.body) if is_predicate else compiler.compile(closure.body)
    assemble, slot, result = _METHODS[name], closure.slot, values.arrow_type(node.type)

    def evaluate(frame: Frame) -> pa.Array:
        lists = as_array(items(frame), frame.count)
        elements, parents = lists.flatten(), pc.list_parent_indices(lists)
        inside = frame.child(parents)
        inside.set_slot(slot, elements)
        found = as_array(body(inside), inside.count)
        frame.adopt(inside)
        return assemble(lists, elements, parents.to_numpy(), found, result)

    return evaluate


def _lists(like: pa.Array, lengths: Any, elements: pa.Array, result: pa.DataType) -> pa.Array:
    """Lists of these lengths, null where `like` is."""
    offsets = np.zeros(len(like) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = like.is_null() if like.null_count else None
    elements = elements if elements.type == result.value_type else elements.cast(result.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=result, mask=mask)


def _counts(parents: Any, rows: int) -> Any:
    return np.bincount(parents, minlength=rows)


def _true(found: pa.Array) -> pa.Array:
    return pc.fill_null(found, False)


def _map(lists: pa.Array, elements: pa.Array, parents: Any, found: pa.Array, result: pa.DataType) -> pa.Array:
    return _lists(lists, _counts(parents, len(lists)), found, result)


def _filter(lists: pa.Array, elements: pa.Array, parents: Any, found: pa.Array, result: pa.DataType) -> pa.Array:
    kept = _true(found)
    counts = _counts(parents[kept.to_numpy(zero_copy_only=False)], len(lists))
    return _lists(lists, counts, elements.filter(kept), result)


def _any(lists: pa.Array, elements: pa.Array, parents: Any, found: pa.Array, result: pa.DataType) -> pa.Array:
    hits = _counts(parents[_true(found).to_numpy(zero_copy_only=False)], len(lists)) > 0
    return pa.array(hits, mask=lists.is_null().to_numpy(zero_copy_only=False))


def _find(lists: pa.Array, elements: pa.Array, parents: Any, found: pa.Array, result: pa.DataType) -> pa.Array:
    places = np.flatnonzero(_true(found).to_numpy(zero_copy_only=False))
    rows, first = np.unique(parents[places], return_index=True)
    chosen = np.full(len(lists), -1, dtype=np.int64)
    chosen[rows] = places[first]
    return elements.take(pa.array(chosen, mask=chosen < 0))


def _flat_map(lists: pa.Array, elements: pa.Array, parents: Any, found: pa.Array, result: pa.DataType) -> pa.Array:
    if not pa.types.is_list(found.type):
        kept = found.is_valid()
        counts = _counts(parents[kept.to_numpy(zero_copy_only=False)], len(lists))
        return _lists(lists, counts, found.filter(kept), result)
    lengths = pc.fill_null(pc.list_value_length(found), 0).to_numpy()
    counts = np.bincount(parents, weights=lengths, minlength=len(lists)).astype(np.int64)
    return _lists(lists, counts, found.flatten(), result)


_METHODS: dict[str, Callable[[pa.Array, pa.Array, Any, pa.Array, pa.DataType], pa.Array]] = {
    "map": _map,
    "filter": _filter,
    "any": _any,
    "find": _find,
    "flat_map": _flat_map,
}


def _join(lists: pa.Array, separator: Any) -> pa.Array:
    """The elements' texts, null ones empty, joined."""
    texts = pc.fill_null(conversion_kernels.to_string(pc, lists.flatten()), "")
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return pc.binary_join(_lists(lists, lengths, texts, pa.list_(pa.string())), separator)
