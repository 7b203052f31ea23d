"""`any`, `exists`, `every`, `not_exists`: three-valued, and decided by the first row of the frame that can decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types
from spark_jobs.nodes.windows.kernels.function import Arguments, FailingFrames, Function, Results

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.rows import SortedBatch


class AnyRow(Function):
    """True if the predicate is true for some row. The first such row decides, and later rows are not evaluated."""

    #: The value of a row's predicate that decides.
    decider: ClassVar[bool] = True
    decided: ClassVar[bool] = True

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._decided = False
        self._doubtful = False
        self._failing = FailingFrames()

    def results(self, batch: SortedBatch, given: Arguments) -> Results:
        """The verdict so far: decided; else null if the predicate is null for some row, else the opposite."""
        verdicts = bools(given.values.slice(0, batch.count), self.call.argument_type)
        decides = pc.fill_null(verdicts if self.decider else pc.invert(verdicts), False)
        deciding = decides.to_numpy(zero_copy_only=False)
        doubtful = verdicts.is_null().to_numpy(zero_copy_only=False)
        before = batch.running(deciding.astype(np.int64), int(self._decided)) - deciding > 0
        failures = self._failing.of(batch, self._looked_at(batch, given, before))
        decided = before | deciding
        nulls = batch.running(doubtful.astype(np.int64), int(self._doubtful)) > 0
        self._decided, self._doubtful = bool(decided[-1]), bool(nulls[-1])
        return Results(pa.array(np.where(decided, self.decided, not self.decided), mask=nulls & ~decided), failures)

    @staticmethod
    def _looked_at(batch: SortedBatch, given: Arguments, before: np.ndarray) -> Arguments:
        """The arguments of the undecided rows. Failures of later rows are ignored."""
        if given.failures is None:
            return given
        failures = given.failures.slice(0, batch.count)
        return Arguments(given.values, pc.if_else(pa.array(before), pa.scalar(None, pa.string()), failures))


class EveryRow(AnyRow):
    """True if the predicate is true for every row. The first row for which it is false decides."""

    decider, decided = False, False


class NoRow(AnyRow):
    """True if the predicate is true for no row. The first row for which it is true decides."""

    decided = False


def bools(column: pa.Array, static: types.Type) -> pa.Array:
    """Booleans. Dynamic values of other types count as null."""
    if static.kind is types.Kind.BOOL:
        return column
    true = pc.equal(column, "true")
    return pc.if_else(pc.or_(true, pc.equal(column, "false")), true, pa.scalar(None, pa.bool_()))
