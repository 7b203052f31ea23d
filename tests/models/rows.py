"""What each node makes of rows, one after another, in plain Python; programs are run by the interpreter.

A row knows its record, the correlation groups it is of, and the records that it was made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl.engine import EvaluationContext
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.cxl.interpreter import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from spark_jobs.plan.plan import PlannedNode

#: A record of an input: its source, and its number among all of the source.
Record = tuple[str, int]
#: Combines and inputs.
Way = tuple[str, ...]
#: Key fields with their values, as texts.
Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Group:
    """A correlation group: the sources whose records it is of, the key, and whether it is that of something joined.

    `shared` are the sources with which it has become one stream since it is of that group, `way` the combines and
    inputs through which that was joined whose group it is, also to the records of an aggregate's row.
    """

    sources: frozenset[str]
    key: Key
    is_joined: bool = False
    shared: frozenset[str] = frozenset()
    way: Way = ()

    @property
    def domain(self) -> frozenset[str]:
        """The sources by whose failures a row of no single source is rejected."""
        return self.sources | self.shared

    def cut(self, fields: Container[str]) -> Iterator[Group]:
        """The larger group by some fields alone, where it is one."""
        key = tuple((name, value) for name, value in self.key if name in fields)
        if any(value for _, value in key):
            yield replace(self, key=key)


@dataclass(frozen=True)
class Row:
    """A row on its way.

    Args:
        fields: its columns.
        record: the record that it is, or the first of those that it was made of; None of a group of no records.
        keys: the correlation columns that it carries.
        groups: the correlation groups that it is of.
        joined: the correlation columns of what was joined to it, by the way.
        members: the records that it was made of; None of what is still a record.
        group: the aggregate that made it, and its key there; None of what is still a record.
        numbers: the numbers of the groups of mixed aggregates that it is of, by aggregate.
        is_mixed: whether that aggregate leaves out a key field, so that records can be taken back out of it.
        is_combined: whether a combine made it.
        route: the branch of its last route.
        born: the groups that a row of an aggregate was of when it was made, whatever is left of its key.
        at: its event time in microseconds, less the delay of its source.
    """

    fields: dict[str, Any]
    record: Record | None
    keys: dict[str, Any] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    joined: dict[Way, dict[str, Any]] = field(default_factory=dict)
    members: frozenset[Record] | None = None
    group: tuple[str, Any] | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    is_mixed: bool = False
    is_combined: bool = False
    route: str = ""
    born: tuple[Group, ...] = ()
    at: int | None = None

    @property
    def is_record(self) -> bool:
        """Whether it is no group of an aggregate."""
        return self.group is None

    @property
    def identity(self) -> Any:
        """What it is: a record, or a group of an aggregate."""
        return self.record if self.is_record else self.group

    @property
    def made_of(self) -> frozenset[Record]:
        """The records that it was made of, whatever it is."""
        return self.members if self.members is not None else frozenset(r for r in [self.record] if r)

    def carrying(self, fields: Container[str]) -> Row:
        """The same with some correlation columns alone."""
        keys = {name: value for name, value in self.keys.items() if name in fields}
        return replace(self, keys=keys, groups=once(cut for group in self.groups for cut in group.cut(fields)))

    def of(self, sources: frozenset[str]) -> Row:
        """The same where records of several sources have become one stream."""
        return replace(self, groups=once(replace(group, shared=group.shared | sources) for group in self.groups))

    def domain(self, group: Group) -> frozenset[str]:
        """The sources by whose failures in a group it is rejected: those of a single source by that alone."""
        if self.is_record and not self.is_combined:
            assert self.record is not None
            return frozenset([self.record[0]])
        return group.domain


def key_of(keys: dict[str, Any]) -> Key:
    """Key fields as texts."""
    return tuple((name, text(value)) for name, value in sorted(keys.items()))


def once(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(dict.fromkeys(groups))


def text(value: Any) -> str:
    """A value as files show it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


@dataclass(frozen=True)
class Trouble:
    """A row that failed at a node."""

    node: str
    stage: str
    row: Row
    failure: Failure
    trigger: str = ""
    #: Whether it is the aggregate's own result that failed.
    own_result: bool = False
    #: The build rows that were being matched.
    builds: tuple[Row, ...] = ()


@dataclass
class Node:
    """What a node makes of its rows; `failed` collects those that fail."""

    planned: PlannedNode
    failed: list[Trouble] = field(default_factory=list)
    filtered: list[Row] = field(default_factory=list)
    duplicates: list[Row] = field(default_factory=list)
    #: Rows that go no further, as they should: those of build sides, and of drivers without a match.
    ended: list[Row] = field(default_factory=list)
    #: Late rows of a time window, each with what its entry says.
    late: list[Trouble] = field(default_factory=list)
    #: The variables that state nodes have set.
    values: dict[str, Any] = field(default_factory=dict)

    def system_values(self, row: Row) -> dict[str, Any]:
        """The system values that programs read beside a record."""
        return self.values | ({"source.name": row.record[0]} if row.record and row.is_record else {})

    def fail(self, row: Row, failure: Failure, **more: Any) -> None:
        step: Any = self.planned.step
        self.failed.append(Trouble(self.planned.name, step.stage, row, failure, **more))

    def trying(self, row: Row, call: Callable[[], Any], **more: Any) -> Any:
        """The result of a call; None when it fails, which is noted."""
        try:
            return call()
        except Failure as found:
            if self.planned.kind == "aggregate":  # its records' failures as well as its own results
                found = Failure(found.detail, Category.AGGREGATE)
            self.fail(row, found, **more)
            return None


def windowed(rows: Iterable[Row], window: Mapping[str, Any], program: str) -> Iterator[Row]:
    """Rows with `n` as a window function gives it that is `emit n = $window.FUNCTION(…)`: over the rows so far."""
    function = program.removeprefix("emit n = $window.").partition("(")[0]
    partitions: dict[Any, list[Any]] = {}
    for row in rows:
        seen = partitions.setdefault(tuple(comparable(row.fields.get(name)) for name in window["group_by"]), [])
        seen.append(row.fields.get("n"))
        there = [value for value in seen if value is not None]
        result = (sum(there) if there else None) if function == "sum" else len(seen)
        yield replace(row, fields=row.fields | {"n": result})


def transform(node: Node, rows: Iterable[Row]) -> Iterator[Row]:
    step: Any = node.planned.step
    program = interpreter.compile(step.program)
    checks = [(check, interpreter.compile(check.check)) for check in step.validations if check.is_error]
    seen: dict[int, set[Any]] = {}
    for row in rows:
        context = EvaluationContext(node.system_values(row), seen)
        result = node.trying(row, lambda row=row, s=context: program(row.fields, s))  # type: ignore[misc]
        if result is None:
            continue
        (node.filtered if result.filtered else node.duplicates if result.duplicate else []).append(row)
        for emitted in result.outputs:
            child = replace(row, fields=row.fields | emitted)
            if _passes(node, child, checks):
                yield child


def passing(node: Node, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows that a transform's validations let pass."""
    step: Any = node.planned.step
    checks = [(check, interpreter.compile(check.check)) for check in step.validations if check.is_error]
    return (row for row in rows if _passes(node, row, checks))


def _passes(node: Node, child: Row, checks: list[Any]) -> bool:
    for check, program in checks:
        refusal = Failure(check.message, Category.VALIDATION)
        try:
            verdicts = program(child.fields, EvaluationContext(node.system_values(child))).outputs
        except Failure:
            verdicts = [{"value": False}]
        if any(verdict["value"] is False for verdict in verdicts):
            node.fail(child, refusal, trigger=check.name)
            return False
    return True


def route(node: Node, rows: Iterable[Row]) -> dict[str, list[Row]]:
    step: Any = node.planned.step
    branches = [(name, interpreter.compile(program)) for name, program in step.branches]
    found: dict[str, list[Row]] = {name: [] for name in (*dict(step.branches), step.default)}
    for row in rows:
        taken: list[str] = []
        try:
            for name, program in branches:
                if program(row.fields, EvaluationContext(node.system_values(row))).outputs:
                    taken.append(name)
                    if not step.inclusive:
                        break
        except Failure as error:
            node.fail(row, error)
            continue
        for name in taken or [step.default]:
            found[name].append(replace(row, route=name))
    return found


def aggregate(node: Node, rows: Iterable[Row], given: Iterable[str], *, is_mixed: bool) -> Iterator[Row]:
    """An aggregate; `given` are the correlation fields of its input, `is_mixed`: it leaves out a key."""
    step: Any = node.planned.step
    before, after = interpreter.compile(step.program.before), interpreter.compile(step.program.after)
    kept = [name for name in given if name in step.group_by]
    groups: dict[Any, list[tuple[Row, dict[str, Any]]]] = {}
    for row in rows:
        result = node.trying(row, lambda row=row: before(row.fields, EvaluationContext(node.system_values(row))))  # type: ignore[misc]
        if result is not None and not result.filtered:
            values = [row.fields.get(name) for name in step.group_by] + [row.keys.get(name) for name in kept]
            groups.setdefault(tuple(map(comparable, values)), []).append((row, row.fields | result.outputs[0]))
    if not groups and not step.group_by:
        groups[()] = []
    for number, (key, members) in enumerate(groups.items()):
        made = group(step, key, [row for row, _ in members], kept, is_mixed)
        results = {call.result: computed(call, [seen for _, seen in members]) for call in step.program.calls}
        result = node.trying(made, lambda r=made.fields | results: after(r, EvaluationContext()), own_result=True)  # type: ignore[misc]
        if result is not None:
            numbers = {step.name: number} if is_mixed else {}
            yield replace(made, fields=made.fields | result.outputs[0], numbers=numbers)


def state(node: Node, rows: Iterable[Row]) -> dict[str, Any]:
    """What a state node sets, of totals over all records."""
    step: Any = node.planned.step
    seen: dict[str, list[dict[str, Any]]] = {each.path: [] for each in step.assignments}
    for row in rows:
        for each in step.assignments:
            before = interpreter.compile(each.value.before)
            result = node.trying(
                row, lambda row=row, b=before: b(row.fields, EvaluationContext(node.system_values(row)))
            )  # type: ignore[misc]
            if result is None:
                break
            seen[each.path].append(row.fields | result.outputs[0])
    found = {}
    for each in step.assignments:
        results = {call.result: computed(call, seen[each.path]) for call in each.value.calls}
        found[each.path] = interpreter.compile(each.value.after)(results, EvaluationContext()).outputs[0][each.path]
    return found


def group(step: Any, key: Any, rows: list[Row], kept: Iterable[str], is_mixed: bool) -> Row:
    first = rows[0] if rows else Row({}, None)
    keys = {name: first.keys.get(name) for name in kept}
    # It is of the groups that its keys show, of all sources of its stream, and of those of what was joined to all of
    # its records that something was joined to.
    joined = {} if is_mixed else _agreed(rows, keys)
    known = {(): keys} | joined
    groups = (
        shown
        for row in rows
        for each in row.groups
        if each.way in known
        for shown in _of_rows(each, known[each.way]).cut(keys)
    )
    mine = () if is_mixed else once(groups)
    return Row(
        {name: first.fields.get(name) for name in step.group_by},
        next((row.record for row in rows if row.record is not None), None),
        keys=keys,
        groups=mine,
        joined=joined,
        born=mine,
        members=frozenset().union(*(row.made_of for row in rows)),
        group=(step.name, key),
        is_mixed=is_mixed,
        route=first.route,
    )


def _of_rows(one: Group, keys: dict[str, Any]) -> Group:
    """The group of a record as that of a row: where streams have met, of all of their sources."""
    met = one if one.way else replace(one, sources=one.domain, shared=frozenset())
    return replace(met, key=key_of(only(keys, dict(one.key))), is_joined=False)


def _agreed(rows: Iterable[Row], fields: Container[str]) -> dict[Way, dict[str, Any]]:
    """The keys of what was joined to rows, where those are the same that there are."""
    found: dict[Way, dict[Key, dict[str, Any]]] = {}
    for row in rows:
        for way, keys in row.joined.items():
            left = only(keys, fields)
            key = key_of(left)
            if any(value for _, value in key):
                found.setdefault(way, {})[key] = left
    return {way: left for way, (left, *more) in ((way, [*each.values()]) for way, each in found.items()) if not more}


def only(keys: dict[str, Any], fields: Container[str]) -> dict[str, Any]:
    """Some of the fields."""
    return {name: value for name, value in keys.items() if name in fields}


def comparable(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def computed(call: Any, records: list[dict[str, Any]]) -> Any:
    """An aggregate function over records, of whole numbers."""
    if call.function == "count" and not call.arguments:
        return len(records)
    values = [record.get(call.arguments[0]) for record in records]
    there = [value for value in values if value is not None]
    match call.function:
        case "count":
            return len(there)
        case "sum":
            return sum(there) if there else None
        case "min":
            return min(there, default=None)
        case "max":
            return max(there, default=None)
        case "avg":
            return sum(there) / len(there) if there else None
        case "collect":
            return there
        case "any":
            return next(iter(there), None)
        case "weighted_avg":
            weights = [record.get(call.arguments[1]) for record in records]
            pairs = [(v, w) for v, w in zip(values, weights, strict=True) if v is not None and w is not None]
            total = sum(w for _, w in pairs)
            return sum(v * w for v, w in pairs) / total if total else None
        case other:
            raise NotImplementedError(other)
