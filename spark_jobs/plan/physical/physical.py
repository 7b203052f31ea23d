"""The physical plan for people: jobs, the regions that run in one task, and the exchanges between them.

`explain` shows it with two partitions per exchange, which is the general shape; how many there are follows from sizes
at run time. With one partition the way home falls away. A combine is shown as asked for: a run partitions both sides
of one whose build side turns out to be large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.combine.step import CombineStep
from spark_jobs.nodes.transform.distinct_step import DistinctStep
from spark_jobs.plan.physical import regions
from spark_jobs.plan.physical.regions import ExchangeKind, Role

if TYPE_CHECKING:
    from spark_jobs.plan.physical.regions import Box, Exchange, Job
    from spark_jobs.plan.plan import Plan

_PARTITIONS = 2


def jobs(plan: Plan) -> tuple[Job, ...]:
    """The jobs of a plan in their general shape; none when some node does not run yet."""
    if any(planned.step is None or planned.pending for planned in plan.nodes):
        return ()
    return regions.jobs(plan, lambda name: _partitions(plan, name))


def _partitions(plan: Plan, name: str) -> int:
    match plan.by_name[name].step:
        case AggregateStep(group_by=()):
            return 1
        case CombineStep(wants_shuffle=False):
            return 1
        case _:
            return _PARTITIONS


def lines(plan: Plan) -> list[str]:
    """A line for each region, under its job and level."""
    found: list[str] = []
    for job in jobs(plan):
        found.append(f"Job {job.number}:")
        found += [f"  Region {name} (a task per split): {_region(job, name)}" for name in job.sources]
        for exchange in sorted(job.exchanges, key=lambda each: (each.level, each.id)):
            found.append(f"  {_exchange(job, exchange)}: {_region(job, exchange.consumer)}")
    return found


def record(plan: Plan) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {
            "number": job.number,
            "regions": [{"root": name, "level": 0, "operators": _members(job, name)} for name in job.sources],
            "exchanges": [
                {
                    "kind": str(exchange.kind),
                    "level": exchange.level,
                    "root": exchange.consumer,
                    "operators": _members(job, exchange.consumer),
                }
                for exchange in job.exchanges
            ],
        }
        for job in jobs(plan)
    ]


def _exchange(job: Job, exchange: Exchange) -> str:
    box = job.boxes[exchange.consumer]
    if exchange.kind is ExchangeKind.HOME:
        place = "driver record" if isinstance(box.step, CombineStep) else "first record"
        return f"Exchange home of {box.step.name} (level {exchange.level}, to the place of the {place})"
    step = box.step
    if isinstance(step, CombineStep):
        return f"Exchange drivers of {step.name} (level {exchange.level}, shuffled by key)"
    by = ", ".join(step.group_by) if isinstance(step, AggregateStep) else "the distinct values"
    return f"Exchange groups of {step.name} (level {exchange.level}, shuffled by {by or 'nothing: one group'})"


def _members(job: Job, root: str) -> list[str]:
    """What is reached from a root within its task, in the order of the plan."""
    found: list[str] = []
    waiting = [root]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            waiting += [target.box for target in job.boxes[name].targets]
    return [_title(job.boxes[name]) for name in found]


def _region(job: Job, root: str) -> str:
    return " → ".join(_members(job, root))


def _title(box: Box) -> str:
    name = f"{box.step.name} (distinct)" if isinstance(box.step, DistinctStep) else box.step.name
    match box.role:
        case Role.PARTIAL:
            return f"{name} [keys]" if isinstance(box.step, CombineStep) else f"{name} [partial]"
        case Role.FINAL:
            return f"{name} [probed]" if isinstance(box.step, CombineStep) else f"{name} [merged]"
        case Role.HOME:
            return f"{name} [in order]"
        case Role.BUILD:
            return f"{box.step.name}.{box.qualifier} [build side, kept for the next job]"
        case _:
            return f"{name} [replayed]" if box.silent else name
