"""Retraction as `explain` shows it: aggregates that leave out a correlation key field.

The costs shown apply to this engine, which repeats a pass and takes nothing back out of accumulators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.cxl.builtins import declare
from spark_jobs.plan import correlation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.plan.correlation import Correlation, DeferredRegion
    from spark_jobs.plan.plan import Plan


def block(plan: Plan) -> list[str]:
    """The lines of the Retraction block; none when nothing can be retracted."""
    found = correlation.of(plan)
    if not found.regions:
        return []
    windows = list(_windows(plan, found))
    policy = plan.errors.correlation_fanout_policy
    shown = f"{policy} (default)" if policy == "any" else policy
    head = f"{len(found.regions)} relaxed aggregates, {len(windows)} buffer-mode windows, fanout policy: {shown}."
    lines = ["=== Retraction ===", "", f"retraction enabled — {head}"]
    for region in found.regions:
        lines += ["", *_aggregate(plan, region)]
    return lines + [line for window in windows for line in window]


def _aggregate(plan: Plan, region: DeferredRegion) -> Iterator[str]:
    step: Any = plan.by_name[region.producer].step
    functions = declare.aggregates()
    is_reversible = all(functions[call.function].reversible for call in step.program.calls)
    path = "Reversible" if is_reversible else "BufferRequired"
    columns = ", ".join(f'"{column}"' for column in region.columns)
    yield f"Aggregate '{region.producer}':"
    yield f"  retraction: relaxed-CK enabled, {path} accumulator path."
    yield "  memory: none for each row; a round computes the groups again, from the records that stay."
    yield "  degrade-fallback: never taken; spilled data is computed again like everything else."
    yield f"  synthetic CK: $ck.aggregate.{region.producer} (engine-stamped, hidden from default writers)"
    yield ""
    yield f"Deferred Region: {region.producer} → [{', '.join(region.outputs)}]"
    yield f"  buffer_schema: [{columns}]"


def _windows(plan: Plan, found: Correlation) -> Iterator[list[str]]:
    """The windows over rows that may be computed again, some lines each."""
    for planned in plan.nodes:
        by = planned.step.record_properties.partition_by if planned.step is not None else None
        if by is not None and found.nodes[planned.name].retractable_upstream:
            fields = ", ".join(f'"{field}"' for field in by)
            what = "window buffer recompute over the rows that stay, partition cardinality unknown at plan time."
            yield ["", f"Window '{planned.name}' (partition_by [{fields}]):", f"  retraction: {what}"]
