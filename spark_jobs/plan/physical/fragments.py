"""The physical plan: which operators run together, and where records change tasks.

A **fragment** is a tree of operators that run in one task. Its root reads a split of a source or a partition of an
exchange. An aggregate divides the plan twice: partial groups go through a *hash* exchange, which brings equal keys
together, and the results go through a *range* exchange to the partition that covers the place of their first record, so
that order needs no global sort. The input that an earlier **job** has materialized is either looked up by each task of
the next job, like a combine's build sides, or read there by a root, range by range, like the inputs of an interleaved
merge.

A job is a chain of **stages**: stage 0 reads splits and materialized ranges, stage n+1 reads what stage n sent. The
chain is one Spark job, whatever the pipeline's shape: rows for an exchange of a later stage are passed on unopened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from spark_jobs.nodes.terms.needs import Rows, Values
from spark_jobs.nodes.terms.shape import ExchangeKind, LocalPhase, Role, ShufflePhase
from spark_jobs.plan import plan as plans
from spark_jobs.plan.physical import upstream

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.nodes import node
    from spark_jobs.nodes.aggregate.totals import Totals
    from spark_jobs.nodes.terms.needs import Need
    from spark_jobs.nodes.terms.shape import ExchangeSpec


MergePaths = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Target:
    """The operator to which a port pushes records."""

    port: str
    op: str
    input: int


@dataclass(frozen=True)
class PhysicalOperator:
    """An operator of a fragment.

    `exchange` is the exchange that it sends to, `provides` the data that it materializes for a later job, and `reads`
    the data of an earlier job that it reads as a root.
    """

    id: str
    step: node.Step
    role: Role
    number: int
    silent: bool
    targets: tuple[Target, ...] = ()
    exchange: int | None = None
    provides: Need | None = None
    reads: tuple[Rows, ...] = ()
    #: In how many partitions it sends or writes them.
    partitions: int = 1
    #: Every merge path that reaches the operator, in record order: its position is the high part of a record's place.
    merge_paths: tuple[tuple[int, ...], ...] = ((),)
    #: The merge paths that reached the node before an exchange joined them into one.
    incoming_paths: tuple[tuple[int, ...], ...] = ((),)
    #: True if records enter and leave the node here.
    first: bool = True
    last: bool = True
    #: Its name in `explain` if the node has several operators.
    title: str = ""


Operators = dict[str, PhysicalOperator]


@dataclass(frozen=True)
class Exchange:
    """A shuffle of payloads. The operator `consumer` reads it in `stage`, in `partitions` partitions.

    `moved` and `by` name the records that go through it and the keys that they are partitioned by, in words of
    `explain`.
    """

    id: int
    kind: ExchangeKind
    stage: int
    partitions: int
    consumer: str
    moved: str = ""
    by: str = ""


@dataclass(frozen=True)
class Job:
    """One Spark job. `sources` are the roots of stage 0 that read splits; `operators` all operators by id."""

    number: int
    sources: tuple[str, ...]
    ops: dict[str, PhysicalOperator]
    exchanges: tuple[Exchange, ...]

    @property
    def readers(self) -> tuple[PhysicalOperator, ...]:
        """The roots of stage 0 that read what earlier jobs materialized."""
        return tuple(op for op in self.ops.values() if op.reads)

    @property
    def stages(self) -> int:
        """The number of stages."""
        return 1 + max((exchange.stage for exchange in self.exchanges), default=0)

    def at(self, stage: int) -> list[Exchange]:
        """The exchanges that a stage consumes, in slot order."""
        return [exchange for exchange in self.exchanges if exchange.stage == stage]

    def totals(self, exchange: Exchange) -> Totals | None:
        """The totals that the groups after an exchange know, where it is one of groups."""
        consumer = self.ops[exchange.consumer]
        return consumer.step.member_properties.counters if consumer.role is Role.FINAL else None

    def slots(self, stage: int) -> int:
        """The number of tasks of a stage after the first."""
        return sum(exchange.partitions for exchange in self.at(stage))


def jobs(
    plan: plans.Plan, partitions: Callable[[str], int], materialized: frozenset[str] = frozenset()
) -> tuple[Job, ...]:
    """The jobs of a plan, in order.

    Args:
        plan: the plan; every node has a step.
        partitions: how many partitions a node's records are spread over where they meet, by the node's name; 1 keeps
            groups in one task, and gives each task the whole build side of a combine.
        materialized: the sources whose records are materialized as they are read, for tasks of a later job.
    """
    return _jobs(plan, tuple(partitions(planned.name) for planned in plan.nodes), materialized)


@plans.cached_on_plan
def _jobs(plan: plans.Plan, partitions: tuple[int, ...], materialized: frozenset[str]) -> tuple[Job, ...]:
    """The jobs of a plan whose nodes' records are spread over so many partitions, node by node."""
    return _Builder(plan, partitions, materialized).build()


class _Builder:
    def __init__(self, plan: plans.Plan, partitions: tuple[int, ...], materialized: frozenset[str]) -> None:
        self.plan = plan
        self.phases = {
            planned.name: upstream.step(planned).phases(count)
            for planned, count in zip(plan.nodes, partitions, strict=True)
        }
        self.materialized_sources = {name for name in materialized if plan.consumers[name]}
        self.numbers = self._numbers()
        #: The first job that can process a node's records.
        self.depths: dict[str, int] = {}
        #: The job that writes an input down, or the values of a state node.
        self.ready_in: dict[Need, int] = {}
        #: The nodes whose records the jobs so far have materialized.
        self.materialized: set[str] = set()
        #: The operator of each node that its records leave from, in the job that is being made.
        self.exits: dict[str, str] = {}
        # Nodes of the init phase wait for no others, and all others wait until it is over.
        init = [planned for planned in plan.nodes if planned.is_init]
        for planned in init:
            self._place(planned, 0)
        floor = max((self.depths[planned.name] + 1 for planned in init), default=0)
        for planned in plan.nodes:
            if not planned.is_init:
                self._place(planned, floor)
        self.ends = self._job_of_ends()

    def _place(self, planned: plans.PlannedNode, floor: int) -> None:
        """Find the job of a node and of its needs; its inputs were placed before."""
        setters = upstream.awaited(planned)
        self.ready_in |= {Values(setter): self.depths[setter] for setter in setters}
        # Whatever is made of its inputs may read the values, keys of its build sides included.
        ready = max([floor, *(self.depths[setter] + 1 for setter in setters)])
        written = [(edge, need) for edge, need in upstream.inputs(planned) if need is not None]
        self.ready_in |= {need: max(ready, self.depths[edge.node]) for edge, need in written}
        built = [self.ready_in[need] + 1 for _, need in written]
        streamed = [self.depths[edge.node] for edge in upstream.pipelined(planned)]
        self.depths[planned.name] = max([ready, *streamed, *built]) + (planned.name in self.materialized_sources)

    def _within(self, planned: plans.PlannedNode) -> list[plans.Input]:
        """The edges whose records come within the job: none of what an earlier job has materialized."""
        return [] if planned.name in self.materialized else upstream.pipelined(planned)

    def _job_of_ends(self) -> dict[str, int]:
        """The job of each end of a stream: ends that read a common source run together, so that it is read once.

        The init phase has ended before the others begin, whatever they read.
        """
        consumed = {edge.node for planned in self.plan.nodes for edge in planned.inputs}
        ends = [planned for planned in self.plan.nodes if planned.name not in consumed]
        upstream_of = {planned.name: self._upstream([planned.name]) for planned in ends}

        def together(one: plans.PlannedNode, other: plans.PlannedNode) -> bool:
            shares = not upstream_of[one.name].isdisjoint(upstream_of[other.name])
            return one is other or (one.is_init is other.is_init and shares)

        return {end.name: max(self.depths[each.name] for each in ends if together(end, each)) for end in ends}

    def _upstream(self, names: list[str]) -> set[str]:
        """Some nodes and all that their records come from within a job."""
        found: set[str] = set()
        while names:
            name = names.pop()
            if name not in found:
                found.add(name)
                names += [edge.node for edge in self._within(self.plan.by_name[name])]
        return found

    def _is_materialized(self, planned: plans.PlannedNode) -> bool:
        """True if a node's records are materialized by the job that makes them, for downstream nodes in later jobs.

        Such nodes are readers of a state node's variables, readers of nodes of the init phase, and everything
        downstream of a large file that one task reads.
        """
        readers = [consumer for consumer, _ in self.plan.consumers[planned.name]]
        goes_on = any(isinstance(need, Rows) and need.go_on for need in upstream.step(planned).needs)
        if not readers or set(planned.outputs) != {""} or goes_on:
            return False
        if planned.name in self.materialized_sources:
            return True
        return Values(planned.name) in self.ready_in or (planned.is_init and not all(each.is_init for each in readers))

    def _newly_materialized(self, members: set[str]) -> set[str]:
        """The nodes of a job that are materialized, because later jobs read nodes downstream of them."""
        found = {name for name in members - self.materialized if self._is_materialized(self.plan.by_name[name])}
        later: dict[str, bool] = {}
        for planned in reversed(self.plan.nodes):
            readers = [consumer.name for consumer, _ in self.plan.consumers[planned.name]]
            later[planned.name] = any(name not in members or (later[name] and name not in found) for name in readers)
        return {name for name in found if later[name]}

    def build(self) -> tuple[Job, ...]:
        done: set[str] = set()
        found = []
        for number in range(max(self.depths.values(), default=0) + 1):
            members = self._members(number)
            if members:
                found.append(self._job(number, members, done))
                done |= members
                self.materialized |= self._newly_materialized(members)
        return tuple(found)

    def _members(self, number: int) -> set[str]:
        """The nodes that run in a job: its ends and provided nodes, and their inputs up to materialized nodes."""
        wanted = [name for name, job in self.ends.items() if job == number]
        wanted += [need.node for need, job in self.ready_in.items() if isinstance(need, Values) and job == number]
        wanted += [edge.node for each in self.plan.nodes for edge in self._writes(each, number)]
        wanted += [name for name in self.materialized_sources if self.depths[name] == number + 1]
        return self._upstream(wanted)

    def _writes(self, planned: plans.PlannedNode, number: int) -> list[plans.Input]:
        """The inputs of a node that a job materializes."""
        return [edge for edge, need in upstream.inputs(planned) if need is not None and self.ready_in[need] == number]

    def _job(self, number: int, members: set[str], done: set[str]) -> Job:
        ops: dict[str, PhysicalOperator] = {}
        exchanges: list[Exchange] = []
        self.exits = {}
        stages: dict[str, set[int]] = {}  # node -> stages at which its records appear
        for planned in self.plan.nodes:
            if planned.name in members:
                arriving = {stage for edge in self._within(planned) for stage in stages[edge.node]} or {0}
                whole = self._box(planned, planned.name in done)
                stages[planned.name] = self._parts(whole, arriving, ops, exchanges)
        for planned in self.plan.nodes:
            self._connect(planned, number, members, ops)
        for name in self._newly_materialized(members):
            self._materialize(self.plan.by_name[name], ops)
        sources = tuple(p.name for p in self.plan.nodes if p.is_source and p.name in members - self.materialized)
        return Job(number, sources, ops, tuple(exchanges))

    def _numbers(self) -> dict[str, int]:
        """The number of each node's first operator, in the order of the plan; its build sides come before it."""
        found: dict[str, int] = {}
        free = 0
        for planned in self.plan.nodes:
            found[planned.name] = free + (len(planned.inputs) if upstream.materialized(planned) else 0)
            free = found[planned.name] + len(self.phases[planned.name])
        return found

    def _box(self, planned: plans.PlannedNode, silent: bool) -> PhysicalOperator:
        op = PhysicalOperator(planned.name, upstream.step(planned), Role.WHOLE, self.numbers[planned.name], silent)
        if planned.name in self.materialized:
            return replace(op, role=Role.READ_MATERIALIZED, reads=(upstream.output_rows(planned.name),))
        reads = tuple(written for _, written in upstream.inputs(planned) if written is not None and written.go_on)
        return replace(op, reads=reads, merge_paths=self._incoming_paths(planned))

    def _incoming_paths(self, planned: plans.PlannedNode) -> MergePaths:
        """Every path through merges by which records reach a node, in the order that the node gives them."""
        if not self._within(planned):
            return ((),)
        if any(isinstance(phase, LocalPhase) and phase.merge_paths for phase in self.phases[planned.name]):
            return tuple(
                (i, *merge_path) for i, edge in enumerate(planned.inputs) for merge_path in self._merge_paths(edge.node)
            )
        return self._merge_paths(upstream.pipelined(planned)[0].node)

    def _merge_paths(self, name: str) -> MergePaths:
        """Every path through merges by which records reach a node's output, in the order the records have there."""
        if name in self.materialized or any(isinstance(phase, ShufflePhase) for phase in self.phases[name]):
            return ((),)
        return self._incoming_paths(self.plan.by_name[name])

    def _parts(self, whole: PhysicalOperator, stages: set[int], ops: Operators, exchanges: list[Exchange]) -> set[int]:
        """The operators of a node, part by part. Returns the stages at which the result appears."""
        if whole.role is Role.READ_MATERIALIZED:
            ops[whole.id], self.exits[whole.id] = whole, whole.id
            return {0}
        phases = self.phases[whole.id]
        for i, phase in enumerate(phases):
            name = whole.id if i == 0 else f"{whole.id}#{i}"
            part = replace(whole, id=name, step=phase.step, first=i == 0, last=i == len(phases) - 1)
            part = replace(part, number=whole.number + i, reads=() if i else whole.reads)
            if i:
                self._follow(ops, self.exits[whole.id], name)
            match phase:
                case LocalPhase():
                    ops[name] = self._side_output(part, phase.side_output, max(stages) + 1, ops, exchanges)
                    self.exits[whole.id] = name
                case ShufflePhase():
                    stages = {self._shuffle(part, phase, max(stages), ops, exchanges)}
                    whole = replace(whole, merge_paths=((),))
                case _:
                    assert_never(phase)
        return stages

    def _side_output(
        self,
        op: PhysicalOperator,
        side_output: ExchangeSpec | None,
        stage: int,
        ops: dict[str, PhysicalOperator],
        exchanges: list[Exchange],
    ) -> PhysicalOperator:
        """The operator of a local part with its side output; where that is for a later job, only if one needs it."""
        if side_output is None or op.silent:
            return op
        if side_output.provides is not None and side_output.provides not in self.ready_in:
            return op
        name = f"{op.id}#{side_output.role}"
        title = f"{op.step.name} [{side_output.title}]"
        downstream = replace(
            op, id=name, role=side_output.role, merge_paths=((),), reads=(), first=False, last=False, title=title
        )
        ops[name] = replace(downstream, provides=side_output.provides, step=side_output.step or op.step)
        exchanges.append(Exchange(len(exchanges), side_output.kind, stage, 1, name, side_output.moved, side_output.by))
        return replace(op, exchange=exchanges[-1].id)

    def _shuffle(
        self,
        op: PhysicalOperator,
        phase: ShufflePhase,
        arriving: int,
        ops: dict[str, PhysicalOperator],
        exchanges: list[Exchange],
    ) -> int:
        """The operators and exchanges that bring records together and restore their order; gives the result's stage."""
        called = f"{op.step.name} ({phase.aspect})" if phase.aspect else op.step.name
        sent = replace(op, exchange=len(exchanges), partitions=phase.partitions, last=False)
        ops[op.id] = replace(sent, role=Role.PARTIAL, title=f"{called} [{phase.departs}]")
        downstream = replace(op, merge_paths=((),), incoming_paths=op.merge_paths, reads=(), first=False)
        specs = phase.active_exchanges
        for stage, spec in enumerate(specs, arriving + 1):
            name = f"{op.id}#{spec.role}"
            exchanges.append(Exchange(len(exchanges), spec.kind, stage, phase.partitions, name, spec.moved, spec.by))
            arrived = replace(downstream, id=name, role=spec.role, title=f"{called} [{spec.title}]")
            if spec.provides in self.ready_in and not op.silent:
                arrived = replace(arrived, provides=spec.provides)
            if spec is not specs[-1]:
                arrived = replace(arrived, exchange=len(exchanges), partitions=phase.partitions, last=False)
            ops[name] = arrived
        self.exits[op.step.name] = name
        return stage

    @staticmethod
    def _follow(ops: dict[str, PhysicalOperator], producer: str, consumer: str) -> None:
        op = ops[producer]
        ops[producer] = replace(op, targets=(*op.targets, Target("", consumer, 0)))

    def _connect(self, planned: plans.PlannedNode, number: int, members: set[str], ops: Operators) -> None:
        """Wire a node's inputs to its producers' last operators."""
        for index, (edge, written) in enumerate(upstream.inputs(planned)):
            producer = ops.get(self.exits.get(edge.node, ""))
            if producer is None:
                continue
            if written is not None:
                if self.ready_in[written] != number:
                    continue
                target = str(written)
                ops[target] = PhysicalOperator(
                    target,
                    upstream.step(planned),
                    Role.BUILD,
                    self.numbers[planned.name] - len(planned.inputs) + index,
                    silent=False,
                    provides=written,
                    partitions=self._partitions(written),
                    merge_paths=self._merge_paths(edge.node),
                )
            elif planned.name in members - self.materialized:
                target = planned.name
            else:
                continue
            ops[producer.id] = replace(producer, targets=(*producer.targets, Target(edge.port, target, index)))

    def _materialize(self, planned: plans.PlannedNode, ops: dict[str, PhysicalOperator]) -> None:
        """Add the operator that materializes a node's records, so that later jobs begin with them."""
        last = ops[self.exits[planned.name]]
        target = str(upstream.output_rows(planned.name))
        writer = PhysicalOperator(
            target, last.step, Role.MATERIALIZE, last.number, silent=False, provides=upstream.output_rows(planned.name)
        )
        ops[target] = replace(writer, merge_paths=self._merge_paths(planned.name))
        ops[last.id] = replace(last, targets=(*last.targets, Target("", target, 0)))

    def _partitions(self, written: Rows) -> int:
        """In how many partitions an input is materialized: those in which it meets the others, if it does."""
        meetings = (phase for phase in self.phases[written.node] if isinstance(phase, ShufflePhase))
        return next((phase.partitions for phase in meetings if phase.co_partitioned == written), 1)
