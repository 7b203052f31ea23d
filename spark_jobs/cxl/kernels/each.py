"""`emit each` on batches: the elements of all rows form a child frame, on which the block's statements run once.

A nested block does the same with the elements' frame. An innermost block makes a record of each row of its frame; after
the block its values are dropped, and the following statements run on the original rows again.

A row is left to the interpreter as a whole if an element fails, if it makes too many records, if its source is no
array, or if a block writes log lines for it, because the lines of its elements have an order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import tree_walk, typed, types, values
from spark_jobs.cxl.kernels.frames import Evaluate, Frame, as_array
from spark_jobs.cxl.kernels.state import EmittedRecords, Names, concatenated

if TYPE_CHECKING:
    from spark_jobs.cxl.kernels.state import State, Step

#: Statements that no block may have; the interpreter says so of each record that comes to them.
_MISPLACED = (typed.Filter, typed.Distinct)


def is_native(program: typed.Program) -> bool:
    """True if the blocks of a program have the form that runs on batches."""
    blocks = [statement for statement in program.statements if isinstance(statement, typed.Each)]
    return not any(isinstance(node, _MISPLACED) for block in blocks for node in tree_walk.walk(block))


@dataclass(frozen=True)
class _Elements:
    """Elements of the rows of a frame: for each its row, ascending, and its value."""

    parents: Any
    items: pa.Array | list[Any]

    def counts(self, rows: int) -> Any:
        """The number of elements of each row."""
        return np.bincount(self.parents, minlength=rows)


def each(statement: typed.Each, source: Evaluate, body: list[Step], names: Names) -> Step:
    """The block as a step; `body` are its statements as steps on the state of the elements."""
    elements = _dynamic if statement.source.type.is_dynamic else _typed
    nests = any(isinstance(inner, typed.Each) for inner in statement.body)

    def step(state: State) -> None:
        frame = state.frame
        array = as_array(source(frame), frame.count)
        found = elements(statement, _without(array, frame.bad), frame)
        if not nests:
            state.expansion.mark(frame, found.counts(frame.count), statement.limit)
        if frame.bad is not None:
            found = elements(statement, _without(array, frame.bad), frame)
        if not nests:
            state.expansion.add(frame, found.counts(frame.count))
        indices = pa.array(found.parents)
        children = state.of_children(frame.child(indices), indices)
        children.frame.set_slot(statement.slot, found.items)
        for inner in body:
            inner(children)
        frame.adopt(children.frame)
        records = (
            concatenated(children.made, names)
            if nests
            else EmittedRecords.of(np.arange(children.frame.count), children.emits, children.metas, names)
        )
        state.made.append(records.up(found.parents))

    return step


def _without(array: pa.Array, bad: pa.Array | None) -> pa.Array:
    """The array, null on bad rows: nothing is made of those."""
    if bad is None:
        return array
    return array.take(pa.array(np.arange(len(array)), mask=bad.to_numpy(zero_copy_only=False)))


def _parents(counts: Any) -> Any:
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def _typed(statement: typed.Each, lists: pa.Array, frame: Frame) -> _Elements:
    """The elements of typed arrays."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    elements = lists.flatten()
    if not statement.outer or counts.all():
        return _Elements(_parents(counts), elements)
    parents = _parents(np.maximum(counts, 1))
    present = counts[parents] > 0
    places = np.cumsum(present) - 1
    return _Elements(parents, elements.take(pa.array(places, mask=~present)))


def _dynamic(statement: typed.Each, array: pa.Array, frame: Frame) -> _Elements:
    """The elements of values of which it is known at run time only that they are arrays."""
    found = values.from_arrow(array, types.ANY)
    wrong = [value is not None and value.__class__ is not list for value in found]
    frame.mark(pa.array(wrong, pa.bool_()))
    lists = [value if value.__class__ is list else [] for value in found]
    if statement.outer:
        lists = [items or [None] for items in lists]
    counts = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    return _Elements(_parents(counts), [item for items in lists for item in items])
