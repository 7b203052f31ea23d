"""The kernels of window functions, by the names that declarations use, and the choice of a call's kernel.

The declarations stand in `spark_jobs/cxl/builtins/window.py` and, for aggregates of the frame, in
`spark_jobs/cxl/builtins/aggregates.py`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes.windows.kernels.by_row import ByRow
from spark_jobs.nodes.windows.kernels.extremes import Max, Min
from spark_jobs.nodes.windows.kernels.lists import Collect, Distinct
from spark_jobs.nodes.windows.kernels.positions import DenseRank, First, Own, Rank, RowNumber, lag_of, lead_of
from spark_jobs.nodes.windows.kernels.predicates import AnyRow, EveryRow, NoRow
from spark_jobs.nodes.windows.kernels.totals import mean_of, sum_of

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.kernels.function import Function

__all__ = [
    "AnyRow",
    "ByRow",
    "Collect",
    "DenseRank",
    "Distinct",
    "EveryRow",
    "First",
    "Max",
    "Min",
    "NoRow",
    "Own",
    "Rank",
    "RowNumber",
    "begin",
    "lag_of",
    "lead_of",
    "mean_of",
    "sum_of",
]


def begin(call: Call) -> Function:
    """The function of a call, before its first batch."""
    window = declare.windows()[call.function]
    if window.running is None or window.is_by_row(call.argument_type):
        return ByRow(call)
    found: Function = window.running(sys.modules[__name__], call)
    return found
