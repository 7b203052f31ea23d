"""The rows that kernels work on: a batch, or a selection of another frame's rows, with the values computed so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import engine, types, values
from spark_jobs.cxl.builtins import array_kernels

Evaluate = Callable[["Frame"], Any]

#: Slices of this size are no longer halved in search of a failing row: the interpreter looks at all their rows.
SMALLEST_SLICE = 16


class Clock:
    """`now` for a batch: read when it is first asked for, and the same for all of its rows."""

    def __init__(self) -> None:
        self._moment: datetime | None = None

    def __call__(self) -> datetime:
        """The moment, UTC without zone."""
        if self._moment is None:
            self._moment = datetime.now(UTC).replace(tzinfo=None)
        return self._moment


#: The rows of a frame that has all rows of its batch.
_NO_ROWS = pa.nulls(0, pa.int64())


class Frame:
    """The rows that an expression is evaluated on, with their bad rows.

    A frame has `count` rows. A child frame has some rows of its parent (`indices`, ascending or repeating). `bad`
    marks rows whose exact failure or value the interpreter must find; what kernels computed for them means nothing.
    """

    def __init__(
        self,
        count: int,
        context: engine.EvaluationContext,
        batch: pa.RecordBatch | None = None,
        parent: Frame | None = None,
        indices: pa.Array | None = None,
    ) -> None:
        self.count = count
        self.context = context
        self.clock: Clock = parent.clock if parent is not None else Clock()
        self.bad: pa.Array | None = None
        self._batch = batch
        self._parent = parent
        self._chosen = indices if indices is not None else _NO_ROWS
        self._columns: dict[str, pa.Array] = {}
        self._slots: dict[int, pa.Array] = {}
        self._lists: dict[Hashable, list[Any]] = {}
        self._shared: dict[Hashable, tuple[Any, pa.Array | None]] = {}

    @classmethod
    def of(cls, batch: pa.RecordBatch, context: engine.EvaluationContext) -> Frame:
        """The frame of all rows of a batch."""
        return cls(batch.num_rows, context, batch=batch)

    def child(self, indices: pa.Array) -> Frame:
        """A frame of these rows."""
        return Frame(len(indices), self.context, parent=self, indices=indices)

    def positions(self) -> pa.Array:
        """The rows of the batch that this frame's rows are."""
        if self._parent is None:
            return pa.array(np.arange(self.count))
        return self._parent.positions().take(self._chosen)

    # ---- values ----------------------------------------------------------------------------------------------------

    def column(self, name: str, static: types.Type) -> pa.Array:
        """An input column; one that the batch does not have is null."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._fetch(name, static)
        return found

    def _fetch(self, name: str, static: types.Type) -> pa.Array:
        if self._parent is not None:
            return self._parent.column(name, static).take(self._chosen)
        assert self._batch is not None
        wanted = values.arrow_type(static)
        position = self._batch.schema.get_field_index(name)
        if position < 0:
            return pa.nulls(self.count, wanted)
        found = self._batch.column(position)
        return found if found.type == wanted else found.cast(wanted)

    def slot(self, number: int) -> pa.Array:
        """The array in a slot."""
        found = self._slots.get(number)
        if found is None:
            listed = self._lists.get(("slot", number))
            if listed is not None:
                found = values.to_arrow(listed, types.ANY)
            else:
                assert self._parent is not None, f"slot {number} is read before it is set"
                found = self._parent.slot(number).take(self._chosen)
            self._slots[number] = found
        return found

    def set_slot(self, number: int, items: pa.Array | list[Any]) -> None:
        """Put an array into a slot, or a list of Python values of dynamic type, encoded only when kernels want it."""
        self._slots.pop(number, None)
        self._lists.pop(("slot", number), None)
        if isinstance(items, list):
            self._lists["slot", number] = items
        else:
            self._slots[number] = items

    def python_slot(self, number: int, static: types.Type) -> list[Any]:
        """The Python values in a slot."""
        found = self._listed(number)
        return found if found is not None else self.python(("slot", number), self.slot(number), static)

    def _listed(self, number: int) -> list[Any] | None:
        """The Python values in a slot where a frame of these rows was given such."""
        found = self._lists.get(("slot", number))
        if found is None and number not in self._slots and self._parent is not None:
            outer = self._parent._listed(number)
            if outer is not None:
                found = self._lists["slot", number] = [outer[row] for row in self._chosen.to_pylist()]
        return found

    def system(self, path: str, static: types.Type) -> pa.Array:
        """A value of the context on every row."""
        key = ("$", path)
        if key in self._shared:
            known: pa.Array = self._shared[key][0]
            return known
        if self._parent is not None:
            found = self._parent.system(path, static).take(self._chosen)
        else:
            value = self.context.values.get(path)
            found = value if isinstance(value, pa.Array) else array_kernels.filled(self.count, value, static)
            wanted = values.arrow_type(static)
            found = found if found.type == wanted else found.cast(wanted)
        self._shared[key] = (found, None)
        return found

    def python(self, key: Hashable, array: pa.Array, static: types.Type) -> list[Any]:
        """The Python values of an array, converted once per frame and key."""
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = values.from_arrow(array, static)
        return found

    # ---- failing rows ----------------------------------------------------------------------------------------------

    def mark(self, bad: pa.Array | None) -> None:
        """Note rows that the interpreter must judge; `bad` is a mask without nulls, or None."""
        if bad is None or not pc.any(bad, min_count=0).as_py():
            return
        self.bad = bad if self.bad is None else pc.or_(self.bad, bad)

    def collect(self, evaluate: Evaluate) -> tuple[Any, pa.Array | None]:
        """Evaluate an expression and return its bad rows instead of marking them."""
        before, self.bad = self.bad, None
        try:
            value = evaluate(self)
            return value, self.bad
        finally:
            self.bad = before

    def where(self, mask: pa.Array, evaluate: Evaluate) -> Any:
        """Evaluate on all rows, but count only failures of rows in the mask."""
        value, bad = self.collect(evaluate)
        if bad is not None:
            self.mark(pc.and_(bad, mask))
        return value

    def inside(self, mask: pa.Array, evaluate: Evaluate) -> Any:
        """An evaluation on the rows of a mask alone; the result has one value for each of them."""
        indices = pc.indices_nonzero(mask)
        child = self.child(indices)
        value = as_array(evaluate(child), child.count)
        self.adopt(child)
        return value

    def adopt(self, child: Frame) -> None:
        """Mark the rows that a child frame found to be bad."""
        if child.bad is None:
            return
        bad = np.zeros(self.count, dtype=bool)
        bad[child._chosen.filter(child.bad).to_numpy()] = True
        self.mark(pa.array(bad))

    # ---- shared computations ---------------------------------------------------------------------------------------

    def shared(self, key: Hashable, evaluate: Evaluate) -> Any:
        """Evaluate a repeated expression once, also for frames of selected rows."""
        found = self._find(key)
        if found is None:
            found = self._shared[key] = self.collect(evaluate)
        value, bad = found
        self.mark(bad)
        return value

    def _find(self, key: Hashable) -> tuple[Any, pa.Array | None] | None:
        found = self._shared.get(key)
        if found is not None or self._parent is None:
            return found
        outer = self._parent._find(key)
        if outer is None:
            return None
        value, bad = outer
        if isinstance(value, pa.Array):
            value = value.take(self._chosen)
        found = self._shared[key] = value, None if bad is None else bad.take(self._chosen)
        return found


def as_array(value: Any, count: int) -> pa.Array:
    """A result as an array: a constant is repeated."""
    return array_kernels.repeated(value, count) if isinstance(value, pa.Scalar) else value


def guarded(frame: Frame, kernel: Callable[..., pa.Array], arguments: list[Any], result: pa.DataType) -> pa.Array:
    """A kernel's result; where it raises, halving finds the rows to blame, which are marked."""
    try:
        return kernel(*arguments)
    except pa.ArrowInvalid:
        mask: list[bool] = []
        pieces = _bisect(kernel, arguments, frame.count, result, mask)
        frame.mark(pa.array(mask, pa.bool_()))
        return pa.concat_arrays(pieces) if pieces else pa.nulls(0, result)


def _bisect(
    kernel: Callable[..., Any], arguments: list[Any], count: int, result: pa.DataType, bad: list[bool]
) -> list[pa.Array]:
    """The results of slices of the rows, in order; `bad` grows by one entry per row."""
    if count <= SMALLEST_SLICE:
        bad.extend([True] * count)
        return [pa.nulls(count, result)]
    half = count // 2
    pieces: list[pa.Array] = []
    for start, size in ((0, half), (half, count - half)):
        part = [a if isinstance(a, pa.Scalar) else a.slice(start, size) for a in arguments]
        try:
            piece = kernel(*part)
            bad.extend([False] * size)
            pieces.append(piece.combine_chunks() if isinstance(piece, pa.ChunkedArray) else piece)
        except pa.ArrowInvalid:
            pieces.extend(_bisect(kernel, part, size, result, bad))
    return pieces


def scatter(count: int, pieces: list[tuple[pa.Array, pa.Array]], result: pa.DataType) -> pa.Array:
    """Combine the results of disjoint masks, each with one value per row of its mask, into one array.

    Other rows are null.
    """
    if pa.types.is_nested(result):
        places = pa.concat_arrays([pc.indices_nonzero(mask) for mask, _ in pieces])
        joined = pa.concat_arrays([piece for _, piece in pieces])
        order = np.full(count, -1, dtype=np.int64)
        order[places.to_numpy()] = np.arange(len(joined))
        return joined.take(pa.array(order, mask=order < 0))
    whole = pa.nulls(count, result)
    for mask, piece in pieces:
        whole = pc.replace_with_mask(whole, mask, piece)
    return whole
