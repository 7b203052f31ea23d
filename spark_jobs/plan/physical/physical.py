"""The physical plan for people: jobs, the fragments that run in one task, and the exchanges between them.

`explain` shows it with two partitions per exchange, the general case; a run derives their number from sizes. With one
partition there is no range exchange. A combine is shown as configured: a run partitions both sides if the build side
turns out to be large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.nodes.terms.needs import Rows
from spark_jobs.nodes.terms.shape import Role
from spark_jobs.plan.physical import fragments, sizes, upstream
from spark_jobs.plan.plan import partition_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.nodes import node
    from spark_jobs.nodes.terms import shape
    from spark_jobs.plan.physical.fragments import Exchange, Job, PhysicalOperator
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import Plan


#: The names of materialized rows, by whether they continue from there.
_KEPT = {False: "build side", True: "input"}


class _General:
    """Unknown sizes: every exchange has two partitions, and materialized data fits into each task."""

    def partitions(self, node: str, columns: int | None = None, growth: int = 1) -> int:
        """Two."""
        return 2

    def materialized_partitions(self, rows: Rows, growth: int = 1, row_bytes: int = 0) -> int:
        """One."""
        return 1


def phases(step: node.Step) -> tuple[shape.Phase, ...]:
    """The parts of a step in their general shape."""
    return step.phases(step.partitions(_General()))


def materialized_sources(plan: Plan, sources: Mapping[str, Discovered]) -> frozenset[str]:
    """The sources whose large files one task reads for others, as far as that is known without opening them."""
    unit = partition_bytes(plan.memory_limit_bytes)
    found = {
        name: [file.size for file in sources[name].files]
        for name, step in plan.sources.items()
        if name in sources and step.options.reads_whole
    }
    return frozenset(
        name for name, known in found.items() if known and sizes.is_worth_spreading(max(known), known, unit)
    )


def jobs(plan: Plan, materialized: frozenset[str] = frozenset()) -> tuple[Job, ...]:
    """The jobs of a plan in their general shape; none when some node does not run yet."""
    if any(planned.step is None or planned.pending for planned in plan.nodes):
        return ()
    return fragments.jobs(plan, lambda name: upstream.step(plan.by_name[name]).partitions(_General()), materialized)


def lines(plan: Plan, materialized: frozenset[str] = frozenset()) -> list[str]:
    """A line for each fragment, under its job and stage."""
    found: list[str] = []
    for job in jobs(plan, materialized):
        found.append(f"Job {job.number}:")
        found += [f"  Fragment {name} (a task per split): {_fragment(job, name)}" for name in job.sources]
        found += [f"  Fragment {op.id} (a task per range): {_fragment(job, op.id)}" for op in job.readers]
        for exchange in sorted(job.exchanges, key=lambda each: (each.stage, each.id)):
            found.append(f"  {_exchange(job, exchange)}: {_fragment(job, exchange.consumer)}")
    return found


def record(plan: Plan, materialized: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """The physical plan as plain data."""
    return [
        {
            "number": job.number,
            "fragments": [
                {"root": name, "stage": 0, "operators": _members(job, name)}
                for name in (*job.sources, *(op.id for op in job.readers))
            ],
            "exchanges": [
                {
                    "kind": str(exchange.kind),
                    "stage": exchange.stage,
                    "root": exchange.consumer,
                    "operators": _members(job, exchange.consumer),
                }
                for exchange in job.exchanges
            ],
        }
        for job in jobs(plan, materialized)
    ]


def _exchange(job: Job, exchange: Exchange) -> str:
    name = job.ops[exchange.consumer].step.name
    return f"Exchange {exchange.moved} of {name} (stage {exchange.stage}, {exchange.by})"


def _members(job: Job, root: str) -> list[str]:
    """The operators reached from a root within its task, in the order of the plan."""
    found: list[str] = []
    waiting = [root]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            waiting += [target.op for target in job.ops[name].targets]
    return [_title(job.ops[name]) for name in found]


def _fragment(job: Job, root: str) -> str:
    return " → ".join(_members(job, root))


def _title(op: PhysicalOperator) -> str:
    if op.role is Role.MATERIALIZE:
        return f"{op.step.name} [kept for later jobs]"
    if op.role is Role.READ_MATERIALIZED:
        return f"{op.step.name} [kept by an earlier job]"
    if isinstance(op.provides, Rows):
        return f"{op.provides.node}.{op.provides.input} [{_KEPT[op.provides.go_on]}, kept for the next job]"
    return op.title or (f"{op.step.name} [replayed]" if op.silent else op.step.name)
