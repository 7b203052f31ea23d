"""Correlation and retraction (docs/semantics/correlation.md): all groups are computed anew until nothing changes.

It takes nothing from the engine but the plan's programs and their interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import yaml

from tests.models import inputs, joins, rows, timed
from tests.models.inputs import Inputs
from tests.models.places import Places
from tests.models.rows import Group, Node, Record, Row, Trouble

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spark_jobs.plan.plan import Plan


_EPOCH = datetime(1970, 1, 1)


@dataclass
class Evaluation:
    """One computation of everything."""

    nodes: dict[str, Node] = field(default_factory=dict)
    written: dict[str, list[Row]] = field(default_factory=dict)


@dataclass
class Model(Places):
    """A pipeline under correlation."""

    plan: Plan
    inputs: Inputs = field(default_factory=Inputs)
    retracted: set[Record] = field(default_factory=set)
    dead: set[Record] = field(default_factory=set)
    #: What failed first of each record, and of each row of an aggregate.
    records: dict[Record, Trouble] = field(default_factory=dict)
    groups: dict[Any, Trouble] = field(default_factory=dict)
    #: What failed with a build row, once for each driver and build row, whatever else of the driver failed.
    companions: dict[Any, tuple[Trouble, Row]] = field(default_factory=dict)
    #: Rows of aggregates that count as never made, since records died last, and the build rows that failed with them.
    unmade: dict[Any, Trouble] = field(default_factory=dict)
    beside_unmade: dict[Any, tuple[Trouble, Row]] = field(default_factory=dict)
    rounds: int = 0

    def __post_init__(self) -> None:
        raw = yaml.load(self.plan.path.read_text(), yaml.CSafeLoader)
        super().__init__(self.plan, raw)
        for name, step in self.plan.sources.items():
            inputs.read(self.plan.base_dir, name, step, self.inputs)

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
            for build in each.builds:
                self.beside_unmade.setdefault((each.row.identity, each.row.record, build.identity), (each, build))

    def _make_again(self) -> None:
        """Without the records that have died since, rows of aggregates are others."""
        self.unmade.clear()
        self.beside_unmade.clear()

    def _troubles(self, found: Evaluation) -> list[Trouble]:
        """What failed, in the order of the file."""
        troubles = [each for node in found.nodes.values() for each in node.failed]
        return sorted(troubles, key=lambda each: self.order.get(each.node.partition("/")[0], 0))

    def _is_late(self, trouble: Trouble) -> bool:
        return self.is_downstream[trouble.node] or trouble.row.is_mixed

    def _take(self, trouble: Trouble) -> bool:
        """Note a failure; whether anything has to be computed again for it."""
        row = trouble.row
        if not self._takes_back(row):
            return False  # what fails in the end is told
        self._beside(trouble)
        if row.is_record:
            assert row.record is not None
            self.records.setdefault(row.record, trouble)
            is_new = row.record not in self.dead
            self.dead.add(row.record)
            return is_new
        # What is left of a mixed group, and fails again, is another row: its records have no entry yet.
        self.groups.setdefault((row.group, row.record), trouble)
        is_new = not row.made_of <= self.retracted
        self.retracted |= row.made_of
        return is_new

    def _takes_back(self, row: Row) -> bool:
        """Whether records count as never read when it fails: itself, or those that it mixes."""
        return row.is_record or (row.is_mixed and bool(row.made_of))

    def _beside(self, trouble: Trouble) -> None:
        """Note the build rows of a match that fails; what is left of a mixed group is another driver."""
        for build in trouble.builds:
            self.companions.setdefault((trouble.row.identity, trouble.row.record, build.identity), (trouble, build))

    def _end(self, found: Evaluation) -> None:
        """Note the rows that fail when nothing changes any more, and are of no records that were taken back."""
        self.groups |= self.unmade
        self.companions = self.beside_unmade | self.companions
        for each in self._troubles(found):
            if not self._takes_back(each.row):
                self._beside(each)
                self.groups.setdefault((each.row.group, None) if each.row.is_mixed else each.row.group, each)

    # ---- one computation -----------------------------------------------------------------------------------------

    def _evaluated(self) -> Evaluation:
        found = Evaluation()
        ports: dict[tuple[str, str], list[Row]] = {}
        values: dict[tuple[str, str], Any] = {}
        for planned in self.plan.nodes:
            name = planned.name
            node = found.nodes[name] = Node(planned, values=_read_by(planned, values))
            given = [ports[edge.node, edge.port] for edge in planned.inputs]
            self.place(planned)
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
                    keys = {edge.qualifier: self.given[edge.node] for edge in planned.inputs}
                    sides = {edge.qualifier: side for edge, side in zip(planned.inputs, given, strict=True)}
                    ports[name, ""] = list(joins.combine(node, sides, self._propagates(name), self.given[name], keys))
                case "aggregate":
                    over = self.given[planned.inputs[0].node]
                    timed_ = getattr(planned.step, "time_window", None) is not None
                    made = (
                        timed.aggregate(node, given[0], over)
                        if timed_
                        else rows.aggregate(node, given[0], over, is_mixed=self._mixes(name))
                    )
                    ports[name, ""] = [row for row in made if row.group not in self.unmade]
                case "state":
                    values |= {(name, path): value for path, value in rows.state(node, given[0]).items()}
                    failing = {id(each.row) for each in node.failed}
                    ports[name, ""] = [row for row in given[0] if id(row) not in failing]
                case "output":
                    found.written[name] = list(self._encodable(node, given[0]))
                case other:
                    raise NotImplementedError(other)
        self._broken(found)
        read = {(edge.node, edge.port) for planned in self.plan.nodes for edge in planned.inputs}
        for (name, port), left in ports.items():
            if (name, port) not in read:
                found.nodes[name].ended += left
        return found

    def _encodable(self, node: Node, given: list[Row]) -> Iterator[Row]:
        """The rows that an output can write: those whose characters its encoding has."""
        step = self.plan.outputs[node.planned.name]
        for row in given:
            try:
                "".join(self.cells(step, row)).encode(step.options.encoding or "utf-8")
            except UnicodeEncodeError:
                node.fail(row, rows.Failure("unwritable"))
            else:
                yield row

    def cells(self, step: Any, row: Row) -> list[str]:
        """What an output writes of a row."""
        seen = row.fields | {f"$ck.{key}": value for key, value in row.keys.items()}
        seen |= {f"$ck.aggregate.{name}": number for name, number in row.numbers.items()}
        return [rows.text(seen.get(column.source)) for column in step.columns]

    def _transformed(self, node: Node, given: list[Row]) -> list[Row]:
        config = self.raw.get(node.planned.name, {}).get("config", {})
        if window := config.get("analytic_window"):
            return list(rows.passing(node, rows.windowed(given, window, config["cxl"])))
        return list(rows.transform(node, given))

    def _source(self, name: str) -> list[Row]:
        """The records that count as read: neither those that were taken back nor those that failed."""
        made = []
        gone = self.retracted | self.inputs.broken | (self.dead if self.is_correlated else set())
        for record, fields in self.inputs.fields.items():
            if record[0] == name and record not in gone:
                keys = {key: fields[key] for key in self.keys[name]}
                group = Group(frozenset([name]), rows.key_of(keys))
                at = self._event_time(name, fields)
                made.append(Row(dict(fields), record, keys=keys, groups=tuple(group.cut(keys)), at=at))
        return made

    def _event_time(self, name: str, fields: dict[str, Any]) -> int | None:
        """When a record happened, less the delay of its source, in microseconds."""
        mark = self.raw[name]["config"].get("watermark")
        moment = fields.get(mark["column"]) if mark else None
        if moment is None:
            return None
        return int((moment - _EPOCH).total_seconds() - int(mark.get("delay", "0s").removesuffix("s"))) * 1_000_000

    def _broken(self, found: Evaluation) -> None:
        """Records with a value that does not convert fail at the first node downstream of their source."""
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
            return (bool(mine) and all(each in self.records for each in mine)) or bool(self._of_rows(group.key) & dirty)
        firsts = {source: next((each for each in read if each[0] == source), None) for source in dirty}
        return any(first in self.records for first in firsts.values()) or bool(self._of_rows(group.key) & dirty)

    def _of_rows(self, key: rows.Key) -> set[str]:
        """The sources of which a row of an aggregate has failed in a group by a key: it stands for its records."""
        found: set[str] = set()
        for trouble in self.groups.values():
            for each in trouble.row.born or trouble.row.groups:
                if set(key) <= set(each.key) and not each.is_joined:  # that is a failure of the driver's
                    found |= each.sources
        return found


def _read_by(planned: Any, values: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """The variables that a node reads, as state nodes above it have set them; the last that did counts."""
    reads_variables = planned.step.reads_variables if planned.inputs else ()
    return {
        each.path: values[name, each.path]
        for each in reads_variables
        for name in each.setters
        if (name, each.path) in values
    }
