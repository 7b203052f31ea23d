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
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.combine.step import CombineStep
from spark_jobs.nodes.transform import phases
from spark_jobs.nodes.transform.step import TransformStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.nodes import node
    from spark_jobs.nodes.aggregate.totals import Totals
    from spark_jobs.plan import plan as plans


Lanes = tuple[tuple[int, ...], ...]


class Role(StrEnum):
    """What part of a node a box is; most nodes are a single box."""

    WHOLE = ""
    PARTIAL = "partial"
    FINAL = "final"
    HOME = "home"
    BUILD = "build"


class ExchangeKind(StrEnum):
    """What brings rows together: equal keys, or the place in the order of records."""

    GROUP = "group"
    HOME = "home"


@dataclass(frozen=True)
class Target:
    """Where a box pushes records from one of its ports."""

    port: str
    box: str
    input: int


@dataclass(frozen=True)
class Box:
    """An operator of a region; `exchange` is what it sends to, `qualifier` the build side it writes down."""

    id: str
    step: node.Step
    role: Role
    number: int
    silent: bool
    targets: tuple[Target, ...] = ()
    exchange: int | None = None
    qualifier: str = ""
    #: In how many partitions a build side is written down.
    partitions: int = 1
    #: Every lane that reaches the box, in record order: its position is the high part of a record's ordinal.
    lanes: tuple[tuple[int, ...], ...] = ((),)
    #: The lanes that reached the node before an exchange made one of them.
    incoming_lanes: tuple[tuple[int, ...], ...] = ((),)
    #: Whether records enter and leave the node here.
    first: bool = True
    last: bool = True


@dataclass(frozen=True)
class Exchange:
    """A shuffle of payloads: consumed at `level` by the box `consumer`, in `partitions` parts."""

    id: int
    kind: ExchangeKind
    level: int
    partitions: int
    consumer: str


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
        is_final = consumer.role is Role.FINAL and isinstance(consumer.step, AggregateStep)
        return consumer.step.totals if is_final else None  # type: ignore[attr-defined]

    def slots(self, level: int) -> int:
        """How many tasks a level above 0 has."""
        return sum(exchange.partitions for exchange in self.at(level))


def jobs(plan: plans.Plan, partitions: Callable[[str], int]) -> tuple[Job, ...]:
    """The jobs of a plan, in order.

    Args:
        plan: the plan; every node has a step.
        partitions: how many partitions an aggregate's groups or the two sides of a combine are spread over, by the
            node's name; 1 keeps groups in one task, and gives each task the whole build side.
    """
    return _Builder(plan, partitions).build()


def _has_distinct(planned: plans.PlannedNode) -> bool:
    return isinstance(planned.step, TransformStep) and len(phases.steps(planned.step)) > 1


def driver(planned: plans.PlannedNode) -> plans.Input:
    """The edge whose record order the node keeps: a combine's driver, else the only input."""
    if planned.kind == "combine":
        return next(edge for edge in planned.inputs if edge.qualifier == planned.step.driver)  # type: ignore[union-attr]
    return planned.inputs[0]


def streams(planned: plans.PlannedNode) -> list[plans.Input]:
    """The edges whose records go on through the node; those of the others are only looked up."""
    builds = _builds(planned)
    return [edge for edge in planned.inputs if not any(edge is build for build in builds)]


def _builds(planned: plans.PlannedNode) -> list[plans.Input]:
    if planned.kind != "combine":
        return []
    first = driver(planned)
    return [edge for edge in planned.inputs if edge is not first]


def _step(planned: plans.PlannedNode) -> node.Step:
    """The step of a node; a plan that has nodes without is refused before (`plan/pending.py`)."""
    if planned.step is None:
        raise ValueError(f"{planned.name} is not ready to run")
    return planned.step


class _Builder:
    def __init__(self, plan: plans.Plan, partitions: Callable[[str], int]) -> None:
        self.plan = plan
        self.partitions = partitions
        self.numbers = {planned.name: number for number, planned in enumerate(plan.nodes)}
        self.depths: dict[str, int] = {}
        #: The box of each node that its records leave from, in the job that is being made.
        self.exits: dict[str, str] = {}
        for planned in plan.nodes:
            stream = [self.depths[edge.node] for edge in streams(planned)]
            build = [self.depths[edge.node] + 1 for edge in _builds(planned)]
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
        wanted += [e.node for p in self.plan.nodes for e in _builds(p) if self.depths[e.node] == number]
        return self._upstream(wanted)

    def _job(self, number: int, members: set[str], done: set[str]) -> Job:
        boxes: dict[str, Box] = {}
        exchanges: list[Exchange] = []
        self.exits = {}
        levels: dict[str, set[int]] = {}  # node -> levels at which its records appear
        for planned in self.plan.nodes:
            if planned.name not in members:
                continue
            arriving = {level for edge in streams(planned) for level in levels[edge.node]} or {0}
            box = self._box(planned, planned.name in done)
            self.exits[planned.name] = box.id
            if planned.kind == "aggregate" or self._is_shuffled(planned):
                levels[planned.name] = {self._meeting(box, max(arriving), boxes, exchanges)}
            elif _has_distinct(planned):
                levels[planned.name] = {self._phases(box, max(arriving), boxes, exchanges)}
            else:
                boxes[box.id] = box
                levels[planned.name] = arriving
        for planned in self.plan.nodes:
            self._connect(planned, number, members, boxes)
        sources = tuple(p.name for p in self.plan.nodes if p.kind == "source" and p.name in members)
        return Job(number, sources, boxes, tuple(exchanges))

    def _box(self, planned: plans.PlannedNode, silent: bool) -> Box:
        incoming = ((),) if planned.kind == "source" else self._incoming_lanes(planned)
        return Box(
            planned.name,
            _step(planned),
            Role.WHOLE,
            self.numbers[planned.name],
            silent,
            lanes=incoming,
        )

    def _incoming_lanes(self, planned: plans.PlannedNode) -> Lanes:
        if planned.kind == "merge":
            return self._lanes(planned.name)
        return self._lanes(driver(planned).node)

    def _lanes(self, name: str) -> Lanes:
        """Every path through merges by which records reach a node's output, in the order the records have there."""
        planned = self.plan.by_name[name]
        if planned.kind == "merge":
            return tuple((i, *lane) for i, edge in enumerate(planned.inputs) for lane in self._lanes(edge.node))
        if planned.kind in ("source", "aggregate") or _has_distinct(planned) or self._is_shuffled(planned):
            return ((),)
        return self._lanes(driver(planned).node)

    def _is_shuffled(self, planned: plans.PlannedNode) -> bool:
        """Whether a combine's driver and first build side meet in partitions."""
        return isinstance(planned.step, CombineStep) and planned.step.is_keyed and self.partitions(planned.name) > 1

    def _meeting(self, box: Box, arriving: int, boxes: dict[str, Box], exchanges: list[Exchange]) -> int:
        """The boxes and exchanges by which equal keys meet and go home; gives the level where the result appears."""
        node_name = box.step.name
        partitions = self.partitions(node_name)
        group = len(exchanges)
        final, home = f"{box.id}#final", f"{box.id}#home"
        boxes[box.id] = replace(box, role=Role.PARTIAL, exchange=group, last=False)
        exchanges.append(Exchange(group, ExchangeKind.GROUP, arriving + 1, partitions, final))
        after = replace(box, role=Role.FINAL, lanes=((),), incoming_lanes=box.lanes, first=False)
        if partitions == 1:
            boxes[final] = replace(after, id=final)
            self.exits[node_name] = final
            return arriving + 1
        boxes[final] = replace(after, id=final, exchange=group + 1, last=False)
        boxes[home] = replace(after, id=home, role=Role.HOME)
        exchanges.append(Exchange(group + 1, ExchangeKind.HOME, arriving + 2, partitions, home))
        self.exits[node_name] = home
        return arriving + 2

    def _phases(self, box: Box, arriving: int, boxes: dict[str, Box], exchanges: list[Exchange]) -> int:
        """A transform with `distinct`: its parts, and between each two a meeting of equal keys."""
        assert isinstance(box.step, TransformStep)
        steps = phases.steps(box.step)
        level = arriving
        current = box
        for i, step in enumerate(steps):
            is_distinct = bool(i % 2)
            part = replace(current, id=box.id if i == 0 else f"{box.id}#{i}", step=step, first=i == 0, last=False)
            if i:
                self._follow(boxes, self.exits[box.id], part.id)
            if is_distinct:
                level = self._meeting(part, level, boxes, exchanges)
                exit_box = boxes[self.exits[box.id]]
                boxes[exit_box.id] = replace(exit_box, last=False)
                current = replace(box, lanes=((),))
            else:
                boxes[part.id] = replace(part, last=i == len(steps) - 1)
                self.exits[box.id] = part.id
        return level

    @staticmethod
    def _follow(boxes: dict[str, Box], producer: str, consumer: str) -> None:
        box = boxes[producer]
        boxes[producer] = replace(box, targets=(*box.targets, Target("", consumer, 0)))

    def _connect(self, planned: plans.PlannedNode, number: int, members: set[str], boxes: dict[str, Box]) -> None:
        """Wire a node's inputs to its producers' last boxes."""
        builds = _builds(planned)
        for index, edge in enumerate(planned.inputs):
            producer = boxes.get(self.exits.get(edge.node, ""))
            if producer is None:
                continue
            if any(edge is build for build in builds):
                if self.depths[edge.node] != number:
                    continue
                target = planned.step.build_box(edge.qualifier)  # type: ignore[union-attr]
                build = Box(target, _step(planned), Role.BUILD, self.numbers[planned.name], silent=False)
                first = planned.step.builds[0]  # type: ignore[union-attr]
                boxes[target] = replace(
                    build,
                    qualifier=edge.qualifier,
                    lanes=self._lanes(edge.node),
                    partitions=self.partitions(planned.name) if edge.qualifier == first else 1,
                )
            elif planned.name in members:
                target = planned.name
            else:
                continue
            boxes[producer.id] = replace(producer, targets=(*producer.targets, Target(edge.port, target, index)))
