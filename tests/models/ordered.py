"""Rows in their order, one after another: windows, time windows, state, counters and merges in plain Python.

It takes nothing from the engine. An expression is a function of an `Env`; a node is a function from rows to rows, which
notes in the `World` what it counts, sets and lets fail.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.execute.window_model import Failed, compared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Fields = dict[str, Any]
#: A field of `sort_by`: its name, whether large values come first, where nulls go.
Sort = tuple[str, bool, str]


@dataclass(frozen=True)
class Row:
    """A row on its way; what it knows of its record is that of the first record where it is a group.

    Args:
        fields: its columns.
        source: the record's.
        file: the record's.
        number: the record's row in the file, from 1.
        position: the record's among all of the source, from 1.
        time: its event time in seconds, None where it has none.
        route: the branch of its last route.
        variables: what state nodes have set for it.
        totals: the counters that it carries where it is a group.
    """

    fields: Fields
    source: str
    file: str
    number: int
    position: int
    time: int | None = None
    route: str = ""
    variables: Fields = field(default_factory=dict)
    totals: Mapping[str, int] | None = None


@dataclass
class World:
    """What a run has found so far."""

    streams: dict[str, list[Row]] = field(default_factory=dict)
    filtered: Counter[str] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    letters: list[tuple[Any, ...]] = field(default_factory=list)
    #: Variables by scope and name; those of files by the file as well.
    variables: dict[tuple[str, ...], Any] = field(default_factory=dict)
    defaults: dict[tuple[str, str], Any] = field(default_factory=dict)

    def fail(self, row: Row, node: str, stage: str, category: str = "type_coercion_failure") -> None:
        """A dead letter."""
        self.dead[node] += 1
        self.letters.append((row.file, row.source, row.number, category, stage, row.route))


@dataclass
class Frame:
    """What a row of a window sees: the members of its partition up to `end`; its own position, where it has one."""

    members: list[Env]
    end: int
    position: int | None
    sort_by: Sequence[Sort] = ()

    @property
    def seen(self) -> list[Env]:
        """The rows of the frame."""
        return self.members[: self.end]


@dataclass
class Env:
    """What an expression is evaluated in: a row, its names, and the frame that it has in a window.

    `lets` are expressions, evaluated where they are read; `held` are values of those that were.
    """

    row: Row
    world: World
    lets: dict[str, Callable[[Env], Any]] = field(default_factory=dict)
    held: Fields = field(default_factory=dict)
    #: The record that the lets belong to, where it is another one.
    owner: Env | None = None
    frame: Frame | None = None
    item: Any = None
    #: Whether the row was taken out of its partition, so that window functions give null.
    is_dropped: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.row.fields[name]

    def let(self, name: str) -> Any:
        """What a let holds."""
        if self.owner is not None:
            return self.owner.let(name)
        return self.held[name] if name in self.held else self.lets[name](self)

    def holding(self, other: Env) -> Env:
        """The same row with the lets of another record."""
        return replace(self, owner=other)

    def variable(self, scope: str, name: str) -> Any:
        """A scoped variable as the row reads it."""
        default = self.world.defaults.get((scope, name))
        if scope == "record":
            return self.row.variables.get(name, default)
        if scope == "source":
            if self.row.totals is not None:
                return default
            return self.world.variables.get((scope, name, self.row.file), default)
        return self.world.variables.get((scope, name), default)

    def first_of(self, files: Sequence[str], name: str) -> Any:
        """A variable of a source's files: that of the first that has set it."""
        known = self.world.variables
        found = (known["source", name, file] for file in files if ("source", name, file) in known)
        return next(found, self.world.defaults.get(("source", name)))


def key(value: Any) -> Any:
    """A key: 1 is 1.0, but neither is True."""
    return isinstance(value, bool), value


def event_time(env: Env) -> str | None:
    """`$source.event_time` as outputs show it."""
    if env.row.time is None:
        return None
    return (datetime(1970, 1, 1) + timedelta(seconds=env.row.time)).isoformat()


# ---- windows ------------------------------------------------------------------------------------------------------


def kind(value: Any) -> int:
    """The kinds of values in the order in which they are sorted."""
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int | float) else 2


def ranked(fields: Fields) -> Fields:
    """Columns so that values of several kinds can be compared."""
    return {name: None if value is None else (kind(value), value) for name, value in fields.items()}


def _sorted(envs: list[Env], sort_by: Sequence[Sort]) -> list[Env]:
    from functools import cmp_to_key

    shown = {id(env): ranked(env.row.fields) for env in envs}
    return sorted(envs, key=cmp_to_key(lambda one, other: compared(shown[id(one)], shown[id(other)], list(sort_by))))


def framed(envs: list[Env], group_by: Sequence[str], sort_by: Sequence[Sort]) -> None:
    """Give each row its frame."""
    partitions: dict[Any, list[Env]] = {}
    for env in envs:
        if any(nulls == "drop" and env[name] is None for name, _, nulls in sort_by):
            env.is_dropped = True
        else:
            partitions.setdefault(tuple(key(env[name]) for name in group_by), []).append(env)
    for members in partitions.values():
        ordered = _sorted(members, sort_by)
        for position, env in enumerate(ordered):
            env.frame = Frame(ordered, position + 1, position, sort_by)


def framed_across(
    envs: list[Env], others: list[Row], matches: Sequence[tuple[str, str]], sort_by: Sequence[Sort]
) -> None:
    """Give each row the group of another source's rows that it matches."""
    known = [
        Env(row, envs[0].world)
        for row in others
        if envs and not any(nulls == "drop" and row.fields[name] is None for name, _, nulls in sort_by)
    ]
    ordered = _sorted(known, sort_by)
    for env in envs:
        found = [
            other
            for other in ordered
            if all(
                env[here] is not None and other[there] is not None and key(env[here]) == key(other[there])
                for here, there in matches
            )
        ]
        env.frame = Frame(found, len(found), None, sort_by)


def _ordering(env: Env) -> tuple[int, list[bool]]:
    """The row's position, and for each row up to it whether it ties with the row before."""
    frame = env.frame
    assert frame is not None
    rows = [ranked(each.row.fields) for each in frame.seen]
    ties = [i > 0 and compared(rows[i - 1], rows[i], list(frame.sort_by)) == 0 for i in range(len(rows))]
    return len(rows) - 1, ties


def call(function: str, argument: Any = None, offset: Any = None) -> Callable[[Env], Any]:
    """A window function as an expression; `argument` is one over a row of the frame, or a field's name."""

    def found(env: Env) -> Any:
        if env.is_dropped:
            return None
        frame = env.frame
        assert frame is not None
        is_across = frame.position is None
        seen = frame.seen
        if function in ("row_number", "rank", "dense_rank", "lag", "lead") and is_across:
            return None
        if function in ("any", "exists", "every", "not_exists"):
            return _quantified(function, [each.holding(env) for each in seen], argument)
        if function in ("row_number", "count"):
            return len(seen)
        if function in ("rank", "dense_rank"):
            last, ties = _ordering(env)
            if function == "dense_rank":
                return sum(not tie for tie in ties)
            return 1 + max(i for i in range(last + 1) if not ties[i])
        if function in ("lag", "lead"):
            return _reached(function, env, argument, offset)
        if is_across and callable(argument):
            seen = [each.holding(env) for each in seen]
        if function in ("first", "last"):
            return (seen[0] if function == "first" else seen[-1])[argument] if seen else None
        if function in ("first_value", "last_value"):
            return argument(seen[0] if function == "first_value" else seen[-1]) if seen else None
        values = [argument(each) for each in seen]
        if function in ("sum", "cumulative_sum", "avg") and any(v is not None and kind(v) != 1 for v in values):
            raise Failed("aggregate_type_error")
        return total(function, values)

    return found


def _quantified(function: str, seen: Iterable[Env], argument: Any) -> bool | None:
    doubtful = False
    for each in seen:
        verdict = argument(each)
        if verdict is None:
            doubtful = True
        elif verdict != (function == "every"):
            return function in ("any", "exists")
    return None if doubtful else function in ("every", "not_exists")


def _reached(function: str, env: Env, name: str, offset: Any) -> Any:
    assert env.frame is not None
    assert env.frame.position is not None
    steps = offset(env) if callable(offset) else offset
    steps = 1 if steps is None else max(steps, 0)
    place = env.frame.position + (steps if function == "lead" else -steps)
    return env.frame.members[place][name] if 0 <= place < len(env.frame.members) else None


def total(function: str, values: Sequence[Any]) -> Any:
    """An aggregate over values."""
    there = [value for value in values if value is not None]
    match function:
        case "collect":
            return there
        case "distinct":
            return list({(type(value), value): value for value in there}.values())
        case "sum" | "cumulative_sum":
            if not there:
                return None
            whole = sum(map(Fraction, there))
            return int(whole) if all(type(value) is int for value in there) else float(whole)
        case "avg":
            return float(sum(map(Fraction, there)) / len(there)) if there else None
        case "min" | "max":
            alike = [value for value in there if kind(value) == kind(there[0])]
            return (min if function == "min" else max)(alike, default=None)
        case "count":
            return len(there)
        case "first":
            return values[0] if values else None
        case "last":
            return values[-1] if values else None
        case "any":
            return there[0] if there else None
        case other:
            raise NotImplementedError(other)


# ---- programs --------------------------------------------------------------------------------------------------------


@dataclass
class Program:
    """A transform's statements, each with what it needs: `("emit", column, expression)` and so on."""

    statements: list[tuple[Any, ...]]
    #: What each record that comes out has to pass; None asks for nothing.
    check: Callable[[Env], Any] | None = None

    @property
    def lets(self) -> dict[str, Callable[[Env], Any]]:
        """Its lets."""
        return {one[1]: one[2] for one in self.statements if one[0] == "let"}

    def run(self, node: str, envs: Iterable[Env], world: World, *, stage: str) -> Iterator[Row]:
        """The rows that come out."""
        seen: set[Any] = set()
        for env in envs:
            env.lets = self.lets
            try:
                made = self._one(node, env, world, seen)
            except Failed as failed:
                world.fail(env.row, node, stage, *failed.args)
                continue
            for row in made:
                if self._passes(row, world):
                    yield row
                else:
                    world.fail(row, node, stage, "validation_failure")

    def _passes(self, row: Row, world: World) -> bool:
        """Whether a record passes the check: null does."""
        try:
            return self.check is None or self.check(Env(row, world)) is not False
        except Failed:
            return False

    def _one(self, node: str, env: Env, world: World, seen: set[Any]) -> list[Row]:
        emits: Fields = {}
        for statement in self.statements:
            match statement:
                case ("let", name, _):
                    env.held[name] = env.lets[name](env)
                case ("emit", name, expression):
                    emits[name] = expression(env)
                case ("filter", expression):
                    if expression(env) is not True:
                        world.filtered[node] += 1
                        return []
                case ("distinct", names):
                    found = tuple(key(env[name]) for name in names)
                    if found in seen:
                        world.duplicates[node] += 1
                        return []
                    seen.add(found)
                case ("each", items, body):
                    fields = env.row.fields | emits
                    children = [replace(env, item=item) for item in items(env) or ()]
                    return [
                        replace(env.row, fields=fields | {name: made(child) for name, made in body})
                        for child in children
                    ]
        return [replace(env.row, fields=env.row.fields | emits)]
