"""Window functions without a kernel: dynamic values, evaluated row by row by the class that declares the function."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import values
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.failure import Failure, encode
from spark_jobs.cxl.types import Kind
from spark_jobs.nodes.windows.kernels.function import (
    Arguments,
    FailingFrames,
    Function,
    Results,
    combined_failures,
    largest_so_far,
)

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.rows import SortedBatch


class ByRow(Function):
    """A function over values whose type is known only at run time."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._failing = FailingFrames()
        self._window = declare.windows()[call.function]
        self._state: Any = None
        #: The bytes of the largest value so far of the partition that continues.
        self._largest = 0

    def lengths(self, batch: SortedBatch, given: Arguments | None) -> np.ndarray:
        """An upper bound: the number of values so far. Different texts may be the same value."""
        taken = np.ones(batch.count, dtype=bool)
        if given is not None and self._window.gathers is declare.Gathers.DISTINCT:
            texts = given.values.slice(0, batch.count).dictionary_encode().indices.fill_null(-1).to_numpy()
            pairs = batch.partitions * (int(texts.max()) + 2) + texts + 1
            taken[:] = False
            taken[np.unique(pairs, return_index=True)[1]] = True
        known = len(self._state.items) if batch.head and self._state is not None else 0
        return batch.running(taken.astype(np.int64), known)

    def widths(self, batch: SortedBatch, sizes: np.ndarray, offsets: Arguments | None) -> np.ndarray:
        """An upper bound: no result is larger than the largest value so far."""
        found = largest_so_far(batch, sizes, self._largest)
        self._largest = int(found[-1]) if len(found) else self._largest
        return found

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        """The results, row by row."""
        return self.ended(batch, given, batch.places)

    def ended(self, batch: SortedBatch, given: Arguments, rows: np.ndarray) -> Results:
        """The results for some rows."""
        wanted = np.zeros(batch.count, dtype=bool)
        wanted[rows] = True
        assert self._window.meaning is not None
        items = values.from_arrow(given.values.slice(0, batch.count), self.call.argument_type)
        found: list[Any] = []
        problems: list[str | None] = []
        for value, starts, is_wanted in zip(items, batch.starts.tolist(), wanted.tolist(), strict=False):
            if starts or self._state is None:
                self._state = self._window.meaning()
            self._state.step(value)
            if not is_wanted:
                continue
            try:
                found.append(self._finished())
                problems.append(None)
            except Failure as problem:
                found.append(None)
                problems.append(encode(problem))
        failures = pa.array(problems, pa.string())
        given_ = self._failing.of(batch, given)
        both = combined_failures(None if given_ is None else given_.take(pa.array(rows)), failures)
        return Results(values.to_arrow(found, self.call.type), both)

    def _finished(self) -> Any:
        """The value so far. The mean of dynamic values is declared as Float, whatever their types."""
        found = self._state.finish()
        return float(found) if isinstance(found, Decimal) and self.call.type.kind is Kind.FLOAT else found
