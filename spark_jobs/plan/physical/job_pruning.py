"""Removes nodes from jobs, for passes that do not need their results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.nodes.terms.shape import Role

if TYPE_CHECKING:
    from collections.abc import Collection, Container

    from spark_jobs.plan.physical.fragments import Job, PhysicalOperator


def without(job: Job, unwanted: Collection[str]) -> Job:
    """The job without what some nodes do at the ends of its fragments: no records come to them.

    Exchanges and materialized data from there stay, because their readers wait for messages of all tasks.
    """
    if not unwanted:
        return job
    idle: dict[str, bool] = {}

    def is_idle(name: str) -> bool:
        if name not in idle:
            op = job.ops[name]
            is_local = op.role is Role.WHOLE and op.exchange is None and op.provides is None
            idle[name] = is_local and op.step.name in unwanted and all(is_idle(each.op) for each in op.targets)
        return idle[name]

    def trimmed(op: PhysicalOperator) -> PhysicalOperator:
        return replace(op, targets=tuple(each for each in op.targets if not is_idle(each.op)))

    return replace(job, ops={name: trimmed(op) for name, op in job.ops.items()})


def short(job: Job, silent: Container[str]) -> Job:
    """The job without exchanges to which only silent nodes send."""
    if not all(op.step.name in silent for op in job.ops.values() if op.exchange is not None):
        return job
    ops = {name: replace(op, exchange=None) for name, op in job.ops.items()}
    return replace(job, ops=ops, exchanges=())
