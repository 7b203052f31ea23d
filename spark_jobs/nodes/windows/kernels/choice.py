"""Which kernel a call of a window function has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import types
from spark_jobs.nodes.windows.kernels import by_row, extremes, lists, positions, predicates, totals

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.kernels.function import Function

_PLAIN: dict[str, type[Function]] = {
    "row_number": positions.Number,
    "count": positions.Number,
    "rank": positions.Rank,
    "dense_rank": positions.DenseRank,
    "first": positions.First,
    "first_value": positions.First,
    "last": positions.Own,
    "last_value": positions.Own,
    "any": predicates.Quantifier,
    "exists": predicates.Quantifier,
    "every": predicates.Quantifier,
    "not_exists": predicates.Quantifier,
}
_OF_ONE_KIND: dict[str, type[Function]] = {
    "min": extremes.Extreme,
    "max": extremes.Extreme,
    "collect": lists.Collect,
    "distinct": lists.Distinct,
}


def begin(call: Call) -> Function:
    """The function of a call, before its first strip."""
    if call.function in ("lag", "lead"):
        if not isinstance(call.offset, int):
            return positions.Reach(call)
        return positions.Lead(call) if call.function == "lead" else positions.Lag(call)
    if call.function in _PLAIN:
        return _PLAIN[call.function](call)
    if call.argument_type.is_dynamic or call.argument_type.kind is types.Kind.ARRAY:
        return by_row.ByRow(call)
    return _OF_ONE_KIND[call.function](call) if call.function in _OF_ONE_KIND else totals.total(call)
