"""The physical plan: which operators run together, and where records change place.

A **region** is everything that a batch reaches from a root without leaving its task: the root is a split of a source,
or a partition of an exchange. An aggregate cuts its stream twice: partial groups go to the *group* exchange, where
equal keys meet, and the results go *home* to the partition that holds the place of their first record, so that order
needs no global sort. A combine's build sides are written down by an earlier **job** and read by each task of the next.

A job is a chain of **levels**: level 0 reads splits, level n+1 what level n sent. The chain is one Spark job,
whatever the pipeline's shape: rows for an exchange of a later level are passed on unopened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from spark_jobs.nodes.terms.shape import ExchangeKind, Local, Meet, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.nodes import node
    from spark_jobs.nodes.aggregate.totals import Totals
    from spark_jobs.nodes.terms.needs import Rows
    from spark_jobs.plan import plan as plans


Lanes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Target:
    """Where a box pushes records from one of its ports."""

    port: str
    box: str
    input: int


@dataclass(frozen=True)
class Box:
    """An operator of a region; `exchange` is what it sends to, `rows` what it writes down for a later job."""

    id: str
    step: node.Step
    role: Role
    number: int
    silent: bool
    targets: tuple[Target, ...] = ()
    exchange: int | None = None
    rows: Rows | None = None
    #: In how many partitions it sends or writes them.
    partitions: int = 1
    #: Every lane that reaches the box, in record order: its position is the high part of a record's ordinal.
    lanes: tuple[tuple[int, ...], ...] = ((),)
    #: The lanes that reached the node before an exchange made one of them.
    incoming_lanes: tuple[tuple[int, ...], ...] = ((),)
    #: Whether records enter and leave the node here.
    first: bool = True
    last: bool = True
    #: What `explain` calls it where the node is several operators.
    title: str = ""


@dataclass(frozen=True)
class Exchange:
    """A shuffle of payloads: consumed at `level` by the box `consumer`, in `partitions` parts.

    `moved` and `by` say what goes through it and by what it is brought together, in words of `explain`.
    """

    id: int
    kind: ExchangeKind
    level: int
    partitions: int
    consumer: str
    moved: str = ""
    by: str = ""


@dataclass(frozen=True)
class Job:
    """One Spark job. `sources` are the roots of level 0; `boxes` all operators by id."""

    number: int
    sources: tuple[str, ...]
    boxes: dict[str, Box]
    exchanges: tuple[Exchange, ...]

    @property
    def levels(self) -> int:
        """How many levels the chain has."""
        return 1 + max((exchange.level for exchange in self.exchanges), default=0)

    def at(self, level: int) -> list[Exchange]:
        """The exchanges that a level consumes, in slot order."""
        return [exchange for exchange in self.exchanges if exchange.level == level]

    def totals(self, exchange: Exchange) -> Totals | None:
        """The totals that the groups behind an exchange know, where it is one of groups."""
        consumer = self.boxes[exchange.consumer]
        return consumer.step.told if consumer.role is Role.FINAL else None

    def slots(self, level: int) -> int:
        """How many tasks a level above 0 has."""
        return sum(exchange.partitions for exchange in self.at(level))


def jobs(plan: plans.Plan, partitions: Callable[[str], int]) -> tuple[Job, ...]:
    """The jobs of a plan, in order.

    Args:
        plan: the plan; every node has a step.
        partitions: how many partitions a node's records are spread over where they meet, by the node's name; 1 keeps
            groups in one task, and gives each task the whole build side of a combine.
    """
    return _Builder(plan, partitions).build()


def rows(planned: plans.PlannedNode, edge: plans.Input) -> Rows | None:
    """What an earlier job writes down of an input, where its records are only looked up."""
    needs = planned.step.needs if planned.step else ()
    return next((need for need in needs if need.input == edge.qualifier), None)


def streams(planned: plans.PlannedNode) -> list[plans.Input]:
    """The edges whose records go on through the node, the one first whose order it keeps."""
    return [edge for edge in planned.inputs if rows(planned, edge) is None]


def _written(planned: plans.PlannedNode) -> list[plans.Input]:
    return [edge for edge in planned.inputs if rows(planned, edge) is not None]


def step(planned: plans.PlannedNode) -> node.Step:
    """The step of a node; a plan that has nodes without is refused before (`plan/pending.py`)."""
    if planned.step is None:
        raise ValueError(f"{planned.name} is not ready to run")
    return planned.step


class _Builder:
    def __init__(self, plan: plans.Plan, partitions: Callable[[str], int]) -> None:
        self.plan = plan
        self.phases = {planned.name: step(planned).phases(partitions(planned.name)) for planned in plan.nodes}
        self.numbers = self._numbers()
        self.depths: dict[str, int] = {}
        #: The box of each node that its records leave from, in the job that is being made.
        self.exits: dict[str, str] = {}
        for planned in plan.nodes:
            stream = [self.depths[edge.node] for edge in streams(planned)]
            build = [self.depths[edge.node] + 1 for edge in _written(planned)]
            self.depths[planned.name] = max([0, *stream, *build])
        self.ends = self._job_of_ends()

    def _job_of_ends(self) -> dict[str, int]:
        """The job of each end of a stream: ends that read a common source run together, so that it is read once."""
        consumed = {edge.node for planned in self.plan.nodes for edge in planned.inputs}
        ends = [planned.name for planned in self.plan.nodes if planned.name not in consumed]
        sources = {name: self._upstream([name]) for name in ends}
        return {
            name: max(self.depths[other] for other in ends if sources[name] & sources[other] or other == name)
            for name in ends
        }

    def _upstream(self, names: list[str]) -> set[str]:
        """Some nodes and all that their records come from within a job."""
        found: set[str] = set()
        while names:
            name = names.pop()
            if name not in found:
                found.add(name)
                names += [edge.node for edge in streams(self.plan.by_name[name])]
        return found

    def build(self) -> tuple[Job, ...]:
        done: set[str] = set()
        found = []
        for number in range(max(self.depths.values(), default=0) + 1):
            members = self._members(number)
            if members:
                found.append(self._job(number, members, done))
                done |= members
        return tuple(found)

    def _members(self, number: int) -> set[str]:
        """The nodes that run in a job: what its ends and its build sides need, up to what earlier jobs wrote down."""
        wanted = [name for name, job in self.ends.items() if job == number]
        wanted += [e.node for p in self.plan.nodes for e in _written(p) if self.depths[e.node] == number]
        return self._upstream(wanted)

    def _job(self, number: int, members: set[str], done: set[str]) -> Job:
        boxes: dict[str, Box] = {}
        exchanges: list[Exchange] = []
        self.exits = {}
        levels: dict[str, set[int]] = {}  # node -> levels at which its records appear
        for planned in self.plan.nodes:
            if planned.name in members:
                arriving = {level for edge in streams(planned) for level in levels[edge.node]} or {0}
                whole = self._box(planned, planned.name in done)
                levels[planned.name] = self._parts(whole, arriving, boxes, exchanges)
        for planned in self.plan.nodes:
            self._connect(planned, number, members, boxes)
        sources = tuple(p.name for p in self.plan.nodes if not p.inputs and p.name in members)
        return Job(number, sources, boxes, tuple(exchanges))

    def _numbers(self) -> dict[str, int]:
        """The number of each node's first box, in the order of the plan; those of its build sides come before it."""
        found: dict[str, int] = {}
        free = 0
        for planned in self.plan.nodes:
            found[planned.name] = free + (len(planned.inputs) if _written(planned) else 0)
            free = found[planned.name] + len(self.phases[planned.name])
        return found

    def _box(self, planned: plans.PlannedNode, silent: bool) -> Box:
        return Box(
            planned.name,
            step(planned),
            Role.WHOLE,
            self.numbers[planned.name],
            silent,
            lanes=self._incoming_lanes(planned),
        )

    def _incoming_lanes(self, planned: plans.PlannedNode) -> Lanes:
        """Every path through merges by which records reach a node, in the order that the node gives them."""
        if not planned.inputs:
            return ((),)
        if any(isinstance(phase, Local) and phase.lanes for phase in self.phases[planned.name]):
            return tuple((i, *lane) for i, edge in enumerate(planned.inputs) for lane in self._lanes(edge.node))
        return self._lanes(streams(planned)[0].node)

    def _lanes(self, name: str) -> Lanes:
        """Every path through merges by which records reach a node's output, in the order the records have there."""
        if any(isinstance(phase, Meet) for phase in self.phases[name]):
            return ((),)
        return self._incoming_lanes(self.plan.by_name[name])

    def _parts(self, whole: Box, levels: set[int], boxes: dict[str, Box], exchanges: list[Exchange]) -> set[int]:
        """The boxes of a node, part by part; gives the levels at which the result appears."""
        phases = self.phases[whole.id]
        for i, phase in enumerate(phases):
            name = whole.id if i == 0 else f"{whole.id}#{i}"
            part = replace(whole, id=name, step=phase.step, first=i == 0, last=i == len(phases) - 1)
            part = replace(part, number=whole.number + i)
            if i:
                self._follow(boxes, self.exits[whole.id], name)
            match phase:
                case Local():
                    boxes[name] = part
                    self.exits[whole.id] = name
                case Meet():
                    levels = {self._meeting(part, phase, max(levels), boxes, exchanges)}
                    whole = replace(whole, lanes=((),))
                case _:
                    assert_never(phase)
        return levels

    def _meeting(self, box: Box, phase: Meet, arriving: int, boxes: dict[str, Box], exchanges: list[Exchange]) -> int:
        """The boxes and exchanges by which records meet and go home; gives the level where the result appears."""
        called = f"{box.step.name} ({phase.aspect})" if phase.aspect else box.step.name
        sent = replace(box, exchange=len(exchanges), partitions=phase.partitions, last=False)
        boxes[box.id] = replace(sent, role=Role.PARTIAL, title=f"{called} [{phase.departs}]")
        behind = replace(box, lanes=((),), incoming_lanes=box.lanes, first=False)
        stops = phase.route
        for level, stop in enumerate(stops, arriving + 1):
            name = f"{box.id}#{stop.role}"
            exchanges.append(Exchange(len(exchanges), stop.kind, level, phase.partitions, name, stop.moved, stop.by))
            arrived = replace(behind, id=name, role=stop.role, title=f"{called} [{stop.title}]")
            if stop is not stops[-1]:
                arrived = replace(arrived, exchange=len(exchanges), partitions=phase.partitions, last=False)
            boxes[name] = arrived
        self.exits[box.step.name] = name
        return level

    @staticmethod
    def _follow(boxes: dict[str, Box], producer: str, consumer: str) -> None:
        box = boxes[producer]
        boxes[producer] = replace(box, targets=(*box.targets, Target("", consumer, 0)))

    def _connect(self, planned: plans.PlannedNode, number: int, members: set[str], boxes: dict[str, Box]) -> None:
        """Wire a node's inputs to its producers' last boxes."""
        for index, edge in enumerate(planned.inputs):
            producer = boxes.get(self.exits.get(edge.node, ""))
            written = rows(planned, edge)
            if producer is None:
                continue
            if written is not None:
                if self.depths[edge.node] != number:
                    continue
                target = str(written)
                boxes[target] = Box(
                    target,
                    step(planned),
                    Role.BUILD,
                    self.numbers[planned.name] - len(planned.inputs) + index,
                    silent=False,
                    rows=written,
                    partitions=self._partitions(written),
                    lanes=self._lanes(edge.node),
                )
            elif planned.name in members:
                target = planned.name
            else:
                continue
            boxes[producer.id] = replace(producer, targets=(*producer.targets, Target(edge.port, target, index)))

    def _partitions(self, written: Rows) -> int:
        """In how many partitions an input is written down: those in which it meets the others, if it does."""
        meetings = (phase for phase in self.phases[written.node] if isinstance(phase, Meet))
        return next((phase.partitions for phase in meetings if phase.beside == written), 1)
