"""A batch on its way through the statements of a program, and the records that blocks make of its rows.

The records of a row are in the order in which a single row would produce them: block by block, and in nested blocks
by outer elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.cxl import typed
    from spark_jobs.cxl.kernels.deferred import Deferred
    from spark_jobs.cxl.kernels.frames import Frame

    #: Columns that statements have emitted, each with the type that it has there.
    Emitted = Mapping[str, tuple[pa.Array, types.Type]]


@dataclass(frozen=True)
class Names:
    """The fields and metadata that records of a program have, with the types that hold the values of all blocks."""

    emits: dict[str, types.Type]
    metas: dict[str, types.Type]

    @classmethod
    def of(cls, program: typed.Program) -> Names:
        """The names that a program emits."""
        return cls(dict(program.emits), dict(program.metas))


@dataclass(frozen=True)
class EmittedRecords:
    """Records: `rows` has for each the row of the frame that it is made of, ascending.

    A field that a record did not emit is null in `emits` and false in `emitted[name]` (absent: every record did).
    """

    rows: Any
    emits: dict[str, pa.Array]
    metas: dict[str, pa.Array]
    emitted: dict[str, pa.Array] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Any, emits: Emitted, metas: Emitted, names: Names) -> EmittedRecords:
        """Records with the values emitted for them."""
        return cls(rows, _retyped(emits, names.emits), _retyped(metas, names.metas))

    def up(self, parents: Any) -> EmittedRecords:
        """The same records with the row numbers of the enclosing frame."""
        return EmittedRecords(parents[self.rows], self.emits, self.metas, self.emitted)

    def kept(self, mask: Any) -> EmittedRecords:
        """The records of the rows of a mask, by the numbers that these rows have when the others are gone."""
        chosen = mask[self.rows]
        places = pa.array(chosen)
        return EmittedRecords(
            (np.cumsum(mask) - 1)[self.rows[chosen]],
            {name: array.filter(places) for name, array in self.emits.items()},
            {key: array.filter(places) for key, array in self.metas.items()},
            {name: array.filter(places) for name, array in self.emitted.items()},
        )


class Expansion:
    """The number of records that each row of a batch has become so far. The cap of `emit each` counts all blocks."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._counts: Any = None

    def mark(self, frame: Frame, counts: Any, limit: int) -> None:
        """Mark the rows that would give too many records, with the number of further records of each row of a frame."""
        positions = frame.positions().to_numpy()
        frame.mark(pa.array((self._with(positions, counts) > limit)[positions]))

    def add(self, frame: Frame, counts: Any) -> None:
        """Note records that are made of the rows of a frame."""
        self._counts = self._with(frame.positions().to_numpy(), counts)

    def _with(self, positions: Any, counts: Any) -> Any:
        added = np.bincount(positions, weights=counts, minlength=self._rows).astype(np.int64)
        return added if self._counts is None else self._counts + added


def concatenated(pieces: Sequence[EmittedRecords], names: Names) -> EmittedRecords:
    """The records of several blocks. The records of each row are in the order of the blocks."""
    if len(pieces) == 1:
        return pieces[0]
    rows = np.concatenate([one.rows for one in pieces])
    places = np.argsort(rows, kind="stable")
    order = pa.array(places)

    def column(found: Sequence[pa.Array | None], kind: types.Type) -> pa.Array:
        absent = values.arrow_type(kind)
        filled = [
            pa.nulls(len(one.rows), absent) if array is None else array
            for array, one in zip(found, pieces, strict=True)
        ]
        return pa.concat_arrays(filled).take(order)

    return EmittedRecords(
        rows[places],
        {name: column([one.emits.get(name) for one in pieces], kind) for name, kind in names.emits.items()},
        {key: column([one.metas.get(key) for one in pieces], kind) for key, kind in names.metas.items()},
        {
            name: pa.concat_arrays([_mask(one, name) for one in pieces]).take(order)
            for name in names.emits
            if any(name not in one.emits or name in one.emitted for one in pieces)
        },
    )


def _retyped(found: Emitted, wanted: Mapping[str, types.Type]) -> dict[str, pa.Array]:
    return {name: values.retyped(*found[name], kind) for name, kind in wanted.items() if name in found}


def _mask(one: EmittedRecords, name: str) -> pa.Array:
    """A mask of a piece's records that have emitted a field."""
    if name in one.emitted:
        return one.emitted[name]
    return pa.repeat(pa.scalar(name in one.emits), len(one.rows))


class State:
    """The state of a batch within a program: the remaining rows, their emits, and the results of the others."""

    def __init__(self, frame: Frame, deferred: Deferred, expansion: Expansion | None = None) -> None:
        self.frame = frame
        self.deferred = deferred
        #: The records that these rows have become in blocks, by block.
        self.made: list[EmittedRecords] = []
        self.expansion = Expansion(frame.count) if expansion is None else expansion
        self.emits: dict[str, tuple[pa.Array, types.Type]] = {}
        self.metas: dict[str, tuple[pa.Array, types.Type]] = {}
        self.filtered = 0
        self.duplicates = 0

    def of_children(self, frame: Frame, indices: pa.Array) -> State:
        """The state of a child frame, whose rows inherit the emits of these rows."""
        state = State(frame, self.deferred, self.expansion)
        state.emits = {name: (array.take(indices), static) for name, (array, static) in self.emits.items()}
        state.metas = {key: (array.take(indices), static) for key, (array, static) in self.metas.items()}
        return state

    def keep(self, mask: pa.Array) -> None:
        """Go on with the rows of a mask alone."""
        if pc.all(mask, min_count=0).as_py():
            return
        indices = pc.indices_nonzero(mask)
        kept = self.of_children(self.frame.child(indices), indices)
        self.frame, self.emits, self.metas = kept.frame, kept.emits, kept.metas
        if self.made:
            chosen = mask.to_numpy(zero_copy_only=False)
            self.made = [one.kept(chosen) for one in self.made]

    def defer_bad(self, number: int) -> pa.Array | None:
        """Leave the bad rows to the interpreter, at this statement. Returns the mask of the others if there are any."""
        bad = self.frame.bad
        if bad is None:
            return None
        self.deferred.add(self.frame.positions().filter(bad).to_pylist(), number)
        self.frame.bad = None
        good = pc.invert(bad)
        self.keep(good)
        return good


#: A statement compiled to kernels.
Step = Callable[[State], None]
