"""The fate of each row at the end: written, or rejected with its group; and the dead letters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.contract import MERGED
from tests.models import rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.models.correlated import Evaluation, Model
    from tests.models.rows import Group, Key, Record, Row, Trouble


class Letter(NamedTuple):
    """A dead letter, as far as the model says it."""

    source: str
    row: str
    category: str
    stage: str
    route: str
    trigger: str
    cells: tuple[str, ...]
    keys: tuple[str, ...]


def read(table: Iterable[dict[str, str]]) -> list[Letter]:
    """The dead letters of a file."""
    found = []
    for line in table:
        names = [name for name in line if not name.startswith("_cxl_dlq_")]
        at = (line[f"_cxl_dlq_{name}"] for name in ("source_name", "source_row", "error_category", "stage", "route"))
        cells = tuple(line[name] for name in names if not name.startswith("$"))
        keys = tuple(line[name] for name in names if name.startswith("$"))
        found.append(Letter(*at, line["_cxl_dlq_trigger"], cells, keys))
    return sorted(found)


@dataclass
class Verdict:
    """What a run gives: the lines of each output, header first, and the dead letters."""

    written: dict[str, list[list[str]]]
    letters: list[Letter]
    #: What each record of the inputs became.
    fates: dict[Record, set[str]] = field(default_factory=dict)


def of(model: Model) -> Verdict:
    """What a run of the model gives."""
    return _Court(model, model.run()).verdict()


@dataclass
class _Court:
    model: Model
    found: Evaluation
    #: What has come to outputs or failed, by key.
    sizes: dict[Key, set[Any]] = field(default_factory=dict)
    #: Rows that are rejected though nothing is wrong with them, by what they are.
    collateral: dict[Any, Row] = field(default_factory=dict)
    #: Those of them that are the first of a group that is too large, where they are of it.
    firsts: dict[Any, Row] = field(default_factory=dict)
    too_large: dict[Any, list[Any]] = field(default_factory=dict)

    def verdict(self) -> Verdict:
        kept = self._kept()
        written = {name: self._lines(name, given) for name, given in kept.items()}
        return Verdict(written, self._letters(), self._fates(kept))

    def _kept(self) -> dict[str, list[Row]]:
        plan = self.model.plan
        self._measure()
        kept: dict[str, list[Row]] = {}
        for name, given in self.found.written.items():
            policy = plan.outputs[name].correlation_fanout_policy or plan.errors.correlation_fanout_policy
            kept[name] = []
            for row in given:
                if self._has_failed(row):
                    continue
                if self._is_rejected(row, policy):
                    self.collateral.setdefault(row.identity, row)
                    if any(self.too_large.get(group.key, [None])[0] == row.identity for group in row.groups):
                        self.firsts.setdefault(row.identity, row)
                else:
                    kept[name].append(row)
        return kept

    def _has_failed(self, row: Row) -> bool:
        """Whether it is a row of an aggregate that fails; one of no records may be good where that of all was not."""
        if row.is_record or not self.model.is_correlated:
            return False
        last = [trouble.row for node in self.found.nodes.values() for trouble in node.failed]
        if row.is_mixed:
            return any(row.group == failed.group for failed in last)
        return row.group in self.model.groups

    def _measure(self) -> None:
        """How many records each group has that reached an output or failed."""
        every = [row for given in self.found.written.values() for row in given if not self._has_failed(row)]
        for row in every:
            for group in row.groups:
                if not group.is_joined:
                    self.sizes.setdefault(group.key, set()).add(row.identity)
        for key, members in self.sizes.items():
            members |= {record for record in self.model.records if self.model.is_of(record, key)}
        limit = self.model.plan.errors.max_group_buffer
        for key, members in self.sizes.items():
            if limit and len(members) > limit:
                mine = {row.identity: row for row in every for group in row.groups if _makes_larger(group, key)}
                self.too_large[key] = sorted(mine, key=self._place)

    def _is_rejected(self, row: Row, policy: str) -> bool:
        return any(
            group.key in self.too_large or self.model.rejects(group, row.domain(group), policy) for group in row.groups
        )

    def _place(self, what: Any) -> tuple[int, int, bool]:
        """The place of a row in the order of records: a record stands before the rows of which it is the first."""
        order = list(self.model.plan.sources)
        is_record = isinstance(what[1], int)
        record = what if is_record else self._first(what)
        return (order.index(record[0]), record[1], not is_record) if record else (len(order), 0, True)

    def _first(self, group: Any) -> Record | None:
        rows_ = [row for given in self.found.written.values() for row in given if row.group == group]
        return rows_[0].record if rows_ else None

    def _lines(self, name: str, given: list[Row]) -> list[list[str]]:
        step = self.model.plan.outputs[name]
        ordered = _sorted(given, self.model.raw[name]["config"].get("sort_order", []))
        return [[column.name for column in step.columns], *(self.model.cells(step, row) for row in ordered)]

    # ---- dead letters --------------------------------------------------------------------------------------------

    def _letters(self) -> list[Letter]:
        model = self.model
        records, groups = list(model.records.values()), list(model.groups.values())
        companions = list(model.companions.values())
        if not model.is_correlated:
            # Without keys each branch has an entry of its own.
            every = [trouble for node in self.found.nodes.values() for trouble in node.failed]
            records = [trouble for trouble in every if trouble.row.is_record]
            groups = [trouble for trouble in every if not trouble.row.is_record]
            companions = [(trouble, build) for trouble in every for build in trouble.builds]
        letters = [self._companion(trouble, build) for trouble, build in companions]
        # The entry of a group's own result is the entry of its first record, which has no other: where both fail at
        # once, the first node in the file is told.
        named: set[Any] = set()
        for trouble in sorted(groups, key=self._at):
            if trouble.own_result and model.is_correlated and (record := trouble.row.record) is not None:
                own = model.records.get(record)
                if record in named or (own is not None and self._at(own) < self._at(trouble)):
                    continue
                named.add(record)
            is_first = trouble.own_result or not model.is_correlated
            source = trouble.row.record[0] if is_first and trouble.row.record else MERGED
            more = (trouble.trigger, trouble.row.route)
            shown = self._with_key(trouble).row if is_first else trouble.row
            letters.append(self._letter(shown, source, trouble.failure.category, trouble.stage, *more))
        letters += [self._of_record(trouble) for trouble in records if trouble.row.record not in named]
        named |= set(model.records) if model.is_correlated else set()
        late: dict[Any, Trouble] = {}
        for number, trouble in enumerate(trouble for node in self.found.nodes.values() for trouble in node.late):
            late.setdefault(trouble.row.identity if model.is_correlated else number, trouble)
        letters += [self._of_record(self._with_key(each)) for each in late.values()]
        named |= set(late)
        for what, row in (self.collateral | self.firsts).items():
            if what in named:
                continue
            category = "group_size_exceeded" if what in self.firsts else "correlated"
            source = row.record[0] if row.is_record and row.record else MERGED
            letters.append(self._letter(row, source, category, "correlation_commit"))
        return sorted(letters)

    def _at(self, trouble: Trouble) -> int:
        """Where the node stands in the file that something failed at."""
        return self.model.order.get(trouble.node.partition("/")[0], 0)

    def _with_key(self, trouble: Trouble) -> Trouble:
        """A late record with the key that it was read with; a group's own result with that of its first record."""
        record = trouble.row.record
        if record is None:
            return trouble
        fields = self.model.inputs.fields[record]
        read = {name: fields.get(name) for name in self.model.keys[record[0]]}
        own = {name: value for name, value in trouble.row.keys.items() if value} if trouble.own_result else {}
        return replace(trouble, row=replace(trouble.row, keys=read | own))

    def _of_record(self, trouble: Trouble) -> Letter:
        row = trouble.row
        assert row.record is not None
        more = (trouble.trigger, row.route)
        return self._letter(row, row.record[0], trouble.failure.category, trouble.stage, *more)

    def _companion(self, trouble: Trouble, build: Row) -> Letter:
        # Without keys, the entry of an aggregated row names the source of its first record.
        is_first = build.is_record or not self.model.is_correlated
        source = build.record[0] if is_first and build.record else MERGED
        return self._letter(build, source, trouble.failure.category, trouble.stage, trouble.trigger, build.route)

    def _letter(self, row: Row, source: str, category: str, stage: str, trigger: str = "", route: str = "") -> Letter:
        given = self.model.inputs.given.get(row.record) if row.record else None
        cells = self._cells(row, source)
        fields = dict.fromkeys(key for keys in self.model.keys.values() for key in keys)
        known = dict(rows.key_of(row.keys))
        keys = tuple(known.get(name, "") for name in fields)
        return Letter(source, str(given.row) if given else "", str(category), stage, route, trigger, cells, keys)

    def _cells(self, row: Row, source: str) -> tuple[str, ...]:
        steps = self.model.plan.sources
        names = dict.fromkeys(column.name for step in steps.values() for column in step.columns)
        if source == MERGED or row.record is None:
            return tuple(rows.text(row.fields.get(name)) for name in names)
        own = {column.name for column in steps[source].columns}
        cells = self.model.inputs.given[row.record].cells
        return tuple((cells.get(name) or "") if name in own else "" for name in names)

    # ---- the ledger ----------------------------------------------------------------------------------------------

    def _fates(self, kept: dict[str, list[Row]]) -> dict[Record, set[str]]:
        model = self.model
        fates: dict[Record, set[str]] = {record: set() for record in model.inputs.fields}
        for record in model.records:
            fates[record].add("dead")
        for record in model.retracted:
            fates[record].add("dead")
        for row in self.collateral.values():
            for record in row.made_of:
                fates[record].add("dead")
        for given in kept.values():
            for row in given:
                for record in row.made_of:
                    fates[record].add("written")
        for trouble in model.unmade.values():
            for record in trouble.row.made_of:
                fates[record].add("of a row that failed")
        for node in self.found.nodes.values():
            for trouble in node.failed:
                for record in trouble.row.made_of:
                    fates[record].add("failed" if trouble.row.is_record else "of a row that failed")
            for trouble in node.late:
                for record in trouble.row.made_of:
                    fates[record].add("late")
            for row in node.filtered:
                for record in row.made_of:
                    fates[record].add("filtered")
            for row in node.duplicates:
                for record in row.made_of:
                    fates[record].add("duplicate")
            for row in node.ended:
                for record in row.made_of:
                    fates[record].add("ended")
        return fates


def _makes_larger(group: Group, key: Key) -> bool:
    return group.key == key and not group.is_joined


def _sorted(given: list[Row], order: list[Any]) -> list[Row]:
    """Rows in the order of an output, nulls last."""
    found = list(given)
    for each in reversed(order):
        name, falls = (each, False) if isinstance(each, str) else (each["field"], each["order"] == "desc")
        there = [row for row in found if row.fields.get(name) is not None]
        there.sort(key=lambda row: row.fields[name], reverse=falls)
        found = there + [row for row in found if row.fields.get(name) is None]
    return found
