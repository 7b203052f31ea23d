"""Correlation and retraction as the rulings have them: a dictionary of groups, all computed anew until nothing changes.

It takes nothing from the engine but the plan's programs and their interpreter (decisions 37, 60, 61, 62, 105 to 108).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from tests.models import rows
from tests.models.rows import Group, Node, Record, Row, Trouble

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from spark_jobs.plan.plan import Plan


@dataclass(frozen=True)
class Given:
    """A record as it was read: its file, its row there, and its cells."""

    file: str
    row: int
    cells: dict[str, str]


@dataclass
class Inputs:
    """All records of all sources; `broken` are those with a value that does not convert."""

    given: dict[Record, Given] = field(default_factory=dict)
    fields: dict[Record, dict[str, Any]] = field(default_factory=dict)
    broken: set[Record] = field(default_factory=set)


@dataclass
class Evaluation:
    """One computation of everything."""

    nodes: dict[str, Node] = field(default_factory=dict)
    written: dict[str, list[Row]] = field(default_factory=dict)


@dataclass
class Model:
    """A pipeline under correlation."""

    plan: Plan
    inputs: Inputs = field(default_factory=Inputs)
    retracted: set[Record] = field(default_factory=set)
    dead: set[Record] = field(default_factory=set)
    #: What failed first of each record, and of each row of an aggregate.
    records: dict[Record, Trouble] = field(default_factory=dict)
    groups: dict[Any, Trouble] = field(default_factory=dict)
    #: What failed with a build row, once for each driver and build row, whatever else of the driver failed.
    companions: dict[Any, Trouble] = field(default_factory=dict)
    #: Rows of aggregates that count as never made, since records died last, and the build rows that failed with them.
    unmade: dict[Any, Trouble] = field(default_factory=dict)
    beside_unmade: dict[Any, Trouble] = field(default_factory=dict)
    rounds: int = 0

    def __post_init__(self) -> None:
        raw = yaml.safe_load(self.plan.path.read_text())
        self.raw = {node["name"]: node for node in raw["nodes"]}
        self.order = {name: number for number, name in enumerate(self.raw)}
        self.keys = {name: step.correlation_key for name, step in self.plan.sources.items()}
        self.is_correlated = any(self.keys.values())
        self.given: dict[str, tuple[str, ...]] = {}
        #: The mixed aggregates of whose groups rows carry the numbers.
        self.numbers: dict[str, frozenset[str]] = {}
        self.streams: dict[str, frozenset[str]] = {}
        #: How often records depend on others on their way to a node, and with the node itself.
        self.depths: dict[str, int] = {}
        self.depths_behind: dict[str, int] = {}
        self.behind: dict[str, bool] = {}
        #: The sources and key fields by which the rows of nodes are of groups, and all of them.
        self.fields_of: dict[str, frozenset[tuple[str, frozenset[str]]]] = {}
        self.views: set[tuple[str, frozenset[str]]] = set()
        for name, step in self.plan.sources.items():
            _read(self.plan.base_dir, name, step, self.inputs)

    # ---- rounds --------------------------------------------------------------------------------------------------

    def run(self) -> Evaluation:
        """Everything, until nothing changes."""
        while True:
            self.rounds += 1
            found = self._settled()
            late = [each for each in self._troubles(found) if self._is_late(each)]
            news = [self._take(each) for each in late if not self._is_row(each)]
            if any(news):
                self._make_again()
            elif rows_ := [each for each in late if self._is_row(each) and self.is_correlated]:
                self._unmake(rows_)
            else:
                self._end(found)
                return found

    def _settled(self) -> Evaluation:
        """Everything that does not stand behind a mixed aggregate, when nothing more fails there.

        What depends on the fewest others is taken first: the rest may be good without it.
        """
        while True:
            found = self._evaluated()
            troubles = [each for each in self._troubles(found) if not self._is_late(each)]
            fresh = [each for each in troubles if each.row.is_record and each.row.record not in self.dead]
            if self.is_correlated:
                fresh += [each for each in troubles if self._is_row(each)]
            if not fresh:
                return found
            depth = min(self.depths[each.node] for each in fresh)
            first = [each for each in fresh if self.depths[each.node] == depth]
            if records := {each.row.record for each in first if each.row.is_record}:
                for each in troubles:
                    if each.row.is_record and each.row.record in records:
                        self._take(each)
                self._make_again()
            else:
                self._unmake(first)

    def _is_row(self, trouble: Trouble) -> bool:
        """Whether it is a row of an aggregate that takes nothing back; a result that fails is none."""
        return not trouble.row.is_record and not trouble.row.is_mixed and not trouble.own_result

    def _unmake(self, troubles: list[Trouble]) -> None:
        """Rows of aggregates count as never made."""
        for each in troubles:
            self.unmade.setdefault(each.row.group, each)
            if each.build is not None:
                self.beside_unmade.setdefault((each.row.identity, each.build.identity), each)

    def _make_again(self) -> None:
        """Without the records that have died since, rows of aggregates are others."""
        self.unmade.clear()
        self.beside_unmade.clear()

    def _troubles(self, found: Evaluation) -> list[Trouble]:
        """What failed, in the order of the file."""
        troubles = [each for node in found.nodes.values() for each in node.failed]
        return sorted(troubles, key=lambda each: self.order.get(each.node.partition("/")[0], 0))

    def _is_late(self, trouble: Trouble) -> bool:
        return self.behind[trouble.node] or trouble.row.is_mixed

    def _take(self, trouble: Trouble) -> bool:
        """Note a failure; whether anything has to be computed again for it."""
        row = trouble.row
        if not row.is_record and not row.is_mixed:
            return False  # it takes nothing back, and what fails in the end is told
        self._beside(trouble)
        if row.is_record:
            assert row.record is not None
            self.records.setdefault(row.record, trouble)
            is_new = row.record not in self.dead
            self.dead.add(row.record)
            return is_new
        # What is left of a mixed group, and fails again, is another row: its records have no entry yet.
        self.groups.setdefault((row.group, row.record), trouble)
        is_new = not row.behind <= self.retracted
        self.retracted |= row.behind
        return is_new

    def _beside(self, trouble: Trouble) -> None:
        """Note the build row of a match that fails."""
        if trouble.build is not None:
            self.companions.setdefault((trouble.row.identity, trouble.build.identity), trouble)

    def _end(self, found: Evaluation) -> None:
        """Note the rows that fail when nothing changes any more, and are of no records that were taken back."""
        self.groups |= self.unmade
        self.companions = self.beside_unmade | self.companions
        for each in self._troubles(found):
            if not each.row.is_record and not each.row.is_mixed:
                self._beside(each)
                self.groups.setdefault(each.row.group, each)

    # ---- one computation -----------------------------------------------------------------------------------------

    def _evaluated(self) -> Evaluation:
        found = Evaluation()
        ports: dict[tuple[str, str], list[Row]] = {}
        for planned in self.plan.nodes:
            name, step = planned.name, planned.step
            node = found.nodes[name] = Node(planned)
            given = [ports[edge.node, edge.port] for edge in planned.inputs]
            self._place(planned)
            match planned.kind:
                case "source":
                    ports[name, ""] = self._source(name)
                case "transform":
                    ports[name, ""] = self._transformed(node, given[0])
                case "route":
                    for port, taken in rows.route(node, given[0]).items():
                        ports[name, port] = taken
                case "merge":
                    merged = [row.carrying(self.given[name]) for side in given for row in side]
                    ports[name, ""] = [row.of(self.streams[name]) for row in merged]
                case "combine":
                    drivers, builds = _sides(planned, step, given)
                    ports[name, ""] = list(rows.combine(node, drivers, builds, self._propagates(name)))
                case "aggregate":
                    over = self.given[planned.inputs[0].node]
                    made = rows.aggregate(node, given[0], over, is_mixed=self._mixes(name))
                    ports[name, ""] = [row for row in made if row.group not in self.unmade]
                case "output":
                    found.written[name] = given[0]
                case other:
                    raise NotImplementedError(other)
        self._broken(found)
        read = {(edge.node, edge.port) for planned in self.plan.nodes for edge in planned.inputs}
        for (name, port), left in ports.items():
            if (name, port) not in read:
                found.nodes[name].ended += left
        return found

    def _transformed(self, node: Node, given: list[Row]) -> list[Row]:
        config = self.raw.get(node.planned.name, {}).get("config", {})
        if window := config.get("analytic_window"):
            return list(rows.passing(node, rows.windowed(given, window, config["cxl"])))
        return list(rows.transform(node, given))

    def _place(self, planned: Any) -> None:
        """What is known of a node without looking at rows: its key columns, its sources, what it stands behind."""
        name, sides = planned.name, [edge.node for edge in planned.inputs]
        grows = planned.kind == "aggregate"
        above = max([self.depths_behind[side] for side in sides], default=0)
        self.depths[name] = above + self._looks_around(planned)
        self.depths_behind[name] = self.depths[name] + grows
        self.behind[name] = any(self.behind[side] or self._mixes(side) for side in sides)
        driver = planned.step.driver if planned.kind == "combine" else ""
        streams = [self.streams[edge.node] for edge in planned.inputs if edge.qualifier == driver]
        self.streams[name] = frozenset().union(*streams) if sides else frozenset([name])
        carried = [self.given[side] for side in sides]
        numbers = [self.numbers[side] for side in sides]
        self.numbers[name] = frozenset().union(*numbers)
        if not sides:
            self.given[name] = self.keys[name]
        elif planned.kind == "merge":
            self.given[name] = tuple(key for key in carried[0] if all(key in other for other in carried))
            self.numbers[name] = frozenset.intersection(*numbers)
        elif planned.kind == "combine":
            self.given[name] = self._combined(planned)
            if self._propagates(name) == "driver":
                self.numbers[name] = frozenset().union(
                    *(self.numbers[e.node] for e in planned.inputs if e.qualifier == driver)
                )
        elif grows:
            self.given[name] = tuple(key for key in carried[0] if key in planned.step.group_by)
            self.numbers[name] = frozenset([name] if self._mixes(name) else [])
        else:
            self.given[name] = carried[0]
        self.fields_of[name] = self._grouped_by(planned)
        self.views |= self.fields_of[name]

    def _grouped_by(self, planned: Any) -> frozenset[tuple[str, frozenset[str]]]:
        """By which fields rows of a node are of groups, and of which sources (decision 106)."""
        name = planned.name
        if not planned.inputs:
            return frozenset([(name, frozenset(self.keys[name]))])
        if self._mixes(name):
            return frozenset()
        driver = planned.step.driver if planned.kind == "combine" else ""
        is_carried = planned.kind == "combine" and self._propagates(name) != "driver"
        sides = [edge.node for edge in planned.inputs if edge.qualifier == driver or is_carried]
        left = {(source, fields & set(self.given[name])) for side in sides for source, fields in self.fields_of[side]}
        if planned.kind == "merge":
            left |= {(source, fields) for _, fields in left for source in self.streams[name]}
        return frozenset((source, fields) for source, fields in left if fields)

    def _combined(self, planned: Any) -> tuple[str, ...]:
        propagate = self._propagates(planned.name)
        driver = next(edge.node for edge in planned.inputs if edge.qualifier == planned.step.driver)
        every = dict.fromkeys(key for edge in planned.inputs for key in self.given[edge.node])
        if propagate == "driver":
            return self.given[driver]
        return tuple(every) if propagate == "all" else tuple(key for key in every if key in propagate["named"])

    def _propagates(self, name: str) -> Any:
        return self.raw[name]["config"].get("propagate_ck", "driver")

    def _looks_around(self, planned: Any) -> bool:
        """Whether what becomes of a record at a node depends on others."""
        config = self.raw.get(planned.name, {}).get("config", {})
        return planned.kind == "combine" or "analytic_window" in config or "distinct" in str(config.get("cxl"))

    def _makes_groups(self, name: str) -> bool:
        return self.plan.by_name[name].kind == "aggregate"

    def _mixes(self, name: str) -> bool:
        """Whether a node is an aggregate that leaves out a key: a field, or the number of a group (spec/plan.md 8)."""
        if not self._makes_groups(name):
            return False
        planned: Any = self.plan.by_name[name]
        given = planned.inputs[0].node
        return bool(self.numbers[given]) or not set(self.given[given]) <= set(planned.step.group_by)

    def _source(self, name: str) -> list[Row]:
        """The records that count as read: not those that were taken back, nor those that failed (decision 105)."""
        made = []
        gone = self.retracted | self.inputs.broken | (self.dead if self.is_correlated else set())
        for record, fields in self.inputs.fields.items():
            if record[0] == name and record not in gone:
                keys = {key: fields[key] for key in self.keys[name]}
                group = Group(frozenset([name]), rows.key_of(keys))
                made.append(Row(dict(fields), record, keys=keys, groups=tuple(group.cut(keys))))
        return made

    def _broken(self, found: Evaluation) -> None:
        """Records with a value that does not convert fail at the first reader of their source (decision 26)."""
        for record in self.inputs.broken - self.retracted:
            readers = [planned for planned in self.plan.nodes if any(e.node == record[0] for e in planned.inputs)]
            first = min(readers, key=lambda planned: self.order.get(planned.name.partition("/")[0], 0))
            failure = rows.Failure("conversion")
            row = Row({}, record, keys=dict(self.key(record)))
            trouble = Trouble(record[0], first.step.stage, row, failure)  # type: ignore[union-attr]
            found.nodes[record[0]].failed.append(trouble)

    # ---- what is rejected ----------------------------------------------------------------------------------------

    def key(self, record: Record) -> dict[str, str]:
        """The correlation key of a record as texts; empty where it has none, or it does not convert."""
        keys = {name: self.inputs.fields[record].get(name) for name in self.keys[record[0]]}
        return {} if record in self.inputs.broken and None in keys.values() else dict(rows.key_of(keys))

    def is_of(self, record: Record, key: rows.Key) -> bool:
        """Whether a record is of its source's group by a key: where its records are of groups by these fields."""
        mine = self.key(record)
        if (record[0], frozenset(name for name, _ in key)) not in self.views:
            return False
        return all(mine.get(name) == value for name, value in key)

    def troubled(self, key: rows.Key) -> set[str]:
        """The sources with a failure in their group by a key."""
        return {record[0] for record in self.records if self.is_of(record, key)} | self._of_rows(key)

    def rejects(self, group: Group, sources: Collection[str], policy: str) -> bool:
        """Whether a policy rejects a row that is of a group of some sources."""
        dirty = self.troubled(group.key) & set(sources)
        if policy == "any":
            return bool(dirty)
        read = [each for each in self.inputs.fields if self.is_of(each, group.key) and each not in self.retracted]
        if policy == "all":
            mine = [each for each in read if each[0] in sources]
            return bool(mine) and all(each in self.records for each in mine)
        firsts = {source: next((each for each in read if each[0] == source), None) for source in dirty}
        return any(first in self.records for first in firsts.values()) or bool(self._of_rows(group.key) & dirty)

    def _of_rows(self, key: rows.Key) -> set[str]:
        """The sources of which a row of an aggregate has failed in a group by a key: it stands for its records."""
        found: set[str] = set()
        for trouble in self.groups.values():
            for each in trouble.row.born or trouble.row.groups:
                if set(key) <= set(each.key) and not each.is_joined:  # that is a failure of the driver's (decision 106)
                    found |= each.sources
        return found


def _sides(planned: Any, step: Any, given: list[list[Row]]) -> tuple[list[Row], list[Row]]:
    by_name = {edge.qualifier: side for edge, side in zip(planned.inputs, given, strict=True)}
    return by_name[step.driver], by_name[step.builds[0]]


def _read(folder: Path, name: str, step: Any, inputs: Inputs) -> None:
    """All records of a source of CSV files with columns of strings and ints."""
    number = 0
    for file in _files(folder, step):
        with file.open(newline="") as text:
            for row, cells in enumerate(csv.DictReader(text), 1):
                record = (name, number)
                number += 1
                inputs.given[record] = Given(file.name, row, dict(cells))
                inputs.fields[record] = {}
                for column in step.columns:
                    value, is_broken = _converted(cells.get(column.name), str(column.type))
                    inputs.fields[record][column.name] = value
                    if is_broken:
                        inputs.broken.add(record)


def _files(folder: Path, step: Any) -> Iterator[Path]:
    match = step.match
    if match.path:
        yield folder / match.path
    else:
        yield from sorted(folder.glob(match.glob))


def _converted(cell: str | None, kind: str) -> tuple[Any, bool]:
    if "Int" not in kind:
        return cell or "", False
    if not cell:
        return None, False
    try:
        return int(cell), False
    except ValueError:
        return None, True
