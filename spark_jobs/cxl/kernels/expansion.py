"""How many records a row becomes: the cap of `emit each` counts those of all blocks, wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from spark_jobs.cxl.kernels.frames import Frame


class Expansion:
    """How many records each row of a batch has become in all blocks so far."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._counts: Any = None

    def mark(self, frame: Frame, counts: Any, limit: int) -> None:
        """Mark the rows of which there would be too many records, with so many more for each row of a frame."""
        positions = frame.positions().to_numpy()
        frame.mark(pa.array((self._with(positions, counts) > limit)[positions]))

    def add(self, frame: Frame, counts: Any) -> None:
        """Note records that are made of the rows of a frame."""
        self._counts = self._with(frame.positions().to_numpy(), counts)

    def _with(self, positions: Any, counts: Any) -> Any:
        added = np.bincount(positions, weights=counts, minlength=self._rows).astype(np.int64)
        return added if self._counts is None else self._counts + added
