"""`emit each` on batches: the elements of all rows stand in a child frame, on which the block's statements run once.

This holds for a block that ends its program and has no other block inside; other programs run record by record. A row
with a failing element, too many elements, or a source that is no array is left to the interpreter as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import typed, types, values
from spark_jobs.cxl.kernels.frames import Evaluate, Frame, as_array

if TYPE_CHECKING:
    from spark_jobs.cxl.kernels.state import State, Step

_INSIDE = (typed.Let, typed.Emit, typed.EmitMeta, typed.Evaluate)


def is_native(program: typed.Program) -> bool:
    """Whether a program with `emit each` has the form that runs on batches."""
    blocks = [statement for statement in program.statements if isinstance(statement, typed.Each)]
    return blocks == [program.statements[-1]] and all(isinstance(inner, _INSIDE) for inner in blocks[0].body)


def each(statement: typed.Each, number: int, source: Evaluate, body: list[Step]) -> Step:
    """The block as a step; `body` are its statements as steps on the state of the elements."""
    explode = _explode_dynamic if statement.source.type.is_dynamic else _explode_typed

    def step(state: State) -> None:
        array = as_array(source(state.frame), state.frame.count)
        good = state.defer_bad(number)
        if good is not None:
            array = array.filter(good)
        elements = explode(statement, array, state.frame)
        good = state.defer_bad(number)
        if good is not None:
            elements = explode(statement, array.filter(good), state.frame)
        children = _run(state, elements, statement.slot, body)
        if children.frame.bad is not None:
            state.frame.adopt(children.frame)
            assert state.frame.bad is not None
            children.frame.bad = None
            children.keep(pc.invert(state.frame.bad).take(pa.array(elements[0])))
            state.deferred.add(state.frame.positions().filter(state.frame.bad).to_pylist(), number)
            state.frame.bad = None
        state.frame, state.emits, state.metas = children.frame, children.emits, children.metas
        state.is_exploded = True

    return step


def _run(state: State, elements: tuple[Any, Any], slot: int, body: list[Step]) -> State:
    """The state of the elements after the block's statements."""
    parents, items = elements
    indices = pa.array(parents)
    children = state.of_children(state.frame.child(indices), indices)
    children.frame.set_slot(slot, items)
    for step in body:
        step(children)
    return children


def _parents(counts: Any) -> Any:
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def _explode_typed(statement: typed.Each, lists: pa.Array, frame: Frame) -> tuple[Any, pa.Array]:
    """Parents and elements of typed arrays."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    frame.mark(pa.array(counts > statement.limit))
    elements = lists.flatten()
    if not statement.outer or counts.all():
        return _parents(counts), elements
    parents = _parents(np.maximum(counts, 1))
    present = counts[parents] > 0
    places = np.cumsum(present) - 1
    return parents, elements.take(pa.array(places, mask=~present))


def _explode_dynamic(statement: typed.Each, array: pa.Array, frame: Frame) -> tuple[Any, list[Any]]:
    """Parents and elements of values of which it is known at run time only that they are arrays."""
    found = values.from_arrow(array, types.ANY)
    wrong = [value is not None and value.__class__ is not list for value in found]
    lists = [value if value.__class__ is list else [] for value in found]
    counts = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    frame.mark(pa.array(np.array(wrong, dtype=bool) | (counts > statement.limit)))
    if statement.outer:
        lists = [items or [None] for items in lists]
        counts = np.maximum(counts, 1)
    return _parents(counts), [item for items in lists for item in items]
