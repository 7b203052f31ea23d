"""Retraction as `explain` shows it: aggregates that leave out a correlation key field (spec/plan.md 8 and 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.nodes.records.columns import CORRELATION

if TYPE_CHECKING:
    from spark_jobs.plan.plan import Plan, PlannedNode

#: Accumulators that can take a row back; the others are computed again from the rows that stay.
REVERSIBLE = frozenset({"sum", "count", "collect", "any"})


def relaxed(plan: Plan) -> list[PlannedNode]:
    """The aggregates whose groups mix correlation groups."""
    return [p for p in plan.nodes if CORRELATION.of(f"aggregate.{p.name}") in p.outputs.get("", ())]


def block(plan: Plan) -> list[str]:
    """The lines of the Retraction block; none when nothing can be retracted."""
    found = relaxed(plan)
    if not found:
        return []
    policy = plan.errors.correlation_fanout_policy
    shown = f"{policy} (default)" if policy == "any" else policy
    lines = [
        "=== Retraction ===",
        "",
        f"retraction enabled — {len(found)} relaxed aggregates, 0 buffer-mode windows, fanout policy: {shown}.",
    ]
    for planned in found:
        step: Any = planned.step
        buffered = [call.function for call in step.program.calls if call.function not in REVERSIBLE]
        path = "BufferRequired" if buffered else "Reversible"
        memory = (
            "n/a (buffer-mode holds raw contributions)"
            if buffered
            else "~8 bytes/row (cardinality unknown at plan time)"
        )
        lines += [
            "",
            f"Aggregate '{planned.name}':",
            f"  retraction: relaxed-CK enabled, {path} accumulator path, lineage memory {memory}.",
            f"  synthetic CK: $ck.aggregate.{planned.name} (engine-stamped, hidden from default writers)",
            "",
            f"Deferred Region: {planned.name} → [{', '.join(_outputs_below(plan, planned.name))}]",
        ]
    return lines


def _outputs_below(plan: Plan, name: str) -> list[str]:
    reached = {name}
    for planned in plan.nodes:
        if any(edge.node in reached for edge in planned.inputs):
            reached.add(planned.name)
    return [planned.name for planned in plan.nodes if planned.name in reached and planned.name in plan.outputs]
