"""The physical plan for people: jobs, the regions that run in one task, and the exchanges between them.

`explain` shows it with two partitions per exchange, which is the general shape; how many there are follows from sizes
at run time. With one partition the way home falls away. A combine is shown as asked for: a run partitions both sides
of one whose build side turns out to be large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.plan.physical import regions

if TYPE_CHECKING:
    from spark_jobs.nodes import node
    from spark_jobs.nodes.terms import shape
    from spark_jobs.nodes.terms.needs import Rows
    from spark_jobs.plan.physical.regions import Box, Exchange, Job
    from spark_jobs.plan.plan import Plan


class _General:
    """Sizes of which nothing is known: everything has two partitions, and what is written down fits into each task."""

    def partitions(self, node: str, columns: int | None = None) -> int:
        """Two."""
        return 2

    def pieces(self, rows: Rows) -> int:
        """One."""
        return 1


def phases(step: node.Step) -> tuple[shape.Phase, ...]:
    """The parts of a step in their general shape."""
    return step.phases(step.partitions(_General()))


def jobs(plan: Plan) -> tuple[Job, ...]:
    """The jobs of a plan in their general shape; none when some node does not run yet."""
    if any(planned.step is None or planned.pending for planned in plan.nodes):
        return ()
    return regions.jobs(plan, lambda name: regions.step(plan.by_name[name]).partitions(_General()))


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
    name = job.boxes[exchange.consumer].step.name
    return f"Exchange {exchange.moved} of {name} (level {exchange.level}, {exchange.by})"


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
    if box.rows is not None:
        return f"{box.rows.node}.{box.rows.input} [build side, kept for the next job]"
    return box.title or (f"{box.step.name} [replayed]" if box.silent else box.step.name)
