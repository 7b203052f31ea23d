"""`any`, `exists`, `every`, `not_exists`: three-valued, and decided by the first row of the frame that can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types
from spark_jobs.nodes.windows.kernels.function import FailingFrames, Function, Given, Results

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.rows import Strip


class Quantifier(Function):
    """A row decides when its predicate is true (`every`: false); later rows are not looked at."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._decided = False
        self._doubtful = False
        self._failing = FailingFrames()

    def results(self, strip: Strip, given: Given) -> Results:
        """The verdict so far: decided, else null where some row's is, else the opposite."""
        verdicts = bools(given.values.slice(0, strip.count), self.call.argument_type)
        decides = pc.fill_null(pc.invert(verdicts) if self.call.function == "every" else verdicts, False)
        deciding = decides.to_numpy(zero_copy_only=False)
        doubtful = verdicts.is_null().to_numpy(zero_copy_only=False)
        before = strip.running(deciding.astype(np.int64), int(self._decided)) - deciding > 0
        failures = self._failing.of(strip, self._looked_at(strip, given, before))
        decided = before | deciding
        nulls = strip.running(doubtful.astype(np.int64), int(self._doubtful)) > 0
        self._decided, self._doubtful = bool(decided[-1]), bool(nulls[-1])
        wanted = self.call.function in ("any", "exists")
        return Results(pa.array(np.where(decided, wanted, not wanted), mask=nulls & ~decided), failures)

    @staticmethod
    def _looked_at(strip: Strip, given: Given, before: np.ndarray) -> Given:
        """What the rows give that are looked at: those that nothing was decided before."""
        if given.failures is None:
            return given
        failures = given.failures.slice(0, strip.count)
        return Given(given.values, pc.if_else(pa.array(before), pa.scalar(None, pa.string()), failures))


def bools(column: pa.Array, static: types.Type) -> pa.Array:
    """Truth values; dynamic values of other kinds count as null."""
    if static.kind is types.Kind.BOOL:
        return column
    true = pc.equal(column, "true")
    return pc.if_else(pc.or_(true, pc.equal(column, "false")), true, pa.scalar(None, pa.bool_()))
