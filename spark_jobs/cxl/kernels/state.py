"""A batch on its way through the statements of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl.kernels.expansion import Expansion

if TYPE_CHECKING:
    from spark_jobs.cxl import types
    from spark_jobs.cxl.kernels.deferred import Deferred
    from spark_jobs.cxl.kernels.frames import Frame
    from spark_jobs.cxl.kernels.made import Made


class State:
    """A batch on its way through a program: the rows still alive, what they emitted, and what became of the others."""

    def __init__(self, frame: Frame, deferred: Deferred, expansion: Expansion | None = None) -> None:
        self.frame = frame
        self.deferred = deferred
        #: The records that these rows have become in blocks, by block.
        self.made: list[Made] = []
        self.expansion = Expansion(frame.count) if expansion is None else expansion
        self.emits: dict[str, tuple[pa.Array, types.Type]] = {}
        self.metas: dict[str, tuple[pa.Array, types.Type]] = {}
        self.filtered = 0
        self.duplicates = 0

    def of_children(self, frame: Frame, indices: pa.Array) -> State:
        """The state of a frame whose rows stand for these rows: they have emitted the same so far."""
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
        """Leave the bad rows to the interpreter, at this statement; gives the mask of the others if there are any."""
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
