"""Nodes where rows part or meet, one row after another: routes, merges, combines, aggregates, time windows, state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.execute.window_model import Failed
from tests.models.ordered import Env, Row, key, kind, total

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tests.models.ordered import World


def route(world: World, node: str, rows: list[Row], conditions: Mapping[str, Any], default: str, mode: str) -> None:
    """A route."""
    found: dict[str, list[Row]] = {name: [] for name in (*conditions, default)}
    for row in rows:
        taken: list[str] = []
        try:
            for name, condition in conditions.items():
                if condition(Env(row, world)) is True:
                    taken.append(name)
                    if mode == "exclusive":
                        break
        except Failed:
            world.fail(row, node, "route_eval")
            continue
        for name in taken or [default]:
            found[name].append(replace(row, route=name))
    for name, some in found.items():
        world.streams[f"{node}.{name}"] = some


class Draws:
    """The generator that seeds draw from."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def _next(self) -> int:
        self.state = (self.state + 0x2D358DCCAA6C78A5) % 2**64
        product = self.state * (self.state ^ 0x8BB84B93962EACC9)
        return (product % 2**64) ^ (product >> 64)

    def below(self, count: int) -> int:
        """A number less than `count`."""
        high, low = divmod(self._next() * count, 2**64)
        if low < count:
            while low < (2**64 - count) % count:
                high, low = divmod(self._next() * count, 2**64)
        return high


def merge(inputs: list[list[Row]], mode: str, seed: int | None) -> list[Row]:
    """A merge."""
    if mode == "concat":
        return [row for rows in inputs for row in rows]
    waiting = [list(rows) for rows in inputs]
    made: list[Row] = []
    draws = None if seed is None else Draws(seed)
    place = 0
    while any(waiting):
        ready = [number for number, rows in enumerate(waiting) if rows]
        if draws is not None:
            chosen = ready[draws.below(len(ready))]
        else:
            chosen = next(number for number in [*range(place, len(waiting)), *range(place)] if waiting[number])
            place = (chosen + 1) % len(waiting)
        made.append(waiting[chosen].pop(0))
    return made


def combine(
    world: World, drivers: list[Row], builds: list[Row], on: Sequence[str], first: bool, keeps: bool, body: Any
) -> list[Row]:
    """A combine of two inputs by equal columns; `body` makes the fields of both rows' fields."""
    made = []
    for driver in drivers:
        found = [
            build
            for build in builds
            if all(
                driver.fields[name] is not None
                and build.fields[name] is not None
                and key(driver.fields[name]) == key(build.fields[name])
                for name in on
            )
        ]
        some: list[Row | None] = [*(found[:1] if first else found)] or ([None] if keeps else [])
        for build in some:
            fields = body(driver.fields, build.fields if build else dict.fromkeys(driver.fields))
            made.append(replace(driver, fields=fields, variables={}))
    return made


@dataclass
class Aggregate:
    """An aggregate: what it groups by, its filter, and for each column its function and its argument."""

    name: str
    group_by: list[str]
    keep: Any
    emits: dict[str, tuple[str, Any]]
    #: Its sources, and all nodes above it, itself included: for the counters.
    grouped: Sequence[str] = ()
    sources: Sequence[str] = ()
    above: Sequence[str] = ()

    def accepted(self, world: World, rows: Iterable[Row]) -> list[tuple[Row, dict[str, Any]]]:
        """The rows that are grouped, with their arguments."""
        found = []
        for row in rows:
            env = Env(row, world)
            try:
                if self.keep is not None and self.keep(env) is not True:
                    world.filtered[self.name] += 1
                    continue
                arguments = {name: None if made is None else made(env) for name, (_, made) in self.emits.items()}
                summed = [arguments[name] for name, (function, _) in self.emits.items() if function in ("sum", "avg")]
                if any(value is not None and kind(value) != 1 for value in summed):
                    raise Failed("aggregate_type_error")
            except Failed as failed:
                category = failed.args[0] if failed.args else "aggregate_finalize"
                world.fail(row, self.name, f"aggregate:{self.name}", category)
                continue
            found.append((row, arguments))
        return found

    def run(self, world: World, rows: list[Row]) -> list[Row]:
        """One row for each group."""
        groups: dict[Any, list[Any]] = {}
        for row, arguments in self.accepted(world, rows):
            groups.setdefault(tuple(key(row.fields[name]) for name in self.group_by), []).append((row, arguments))
        totals = self.totals(world)
        return [self.group(members, totals) for members in groups.values()]

    def totals(self, world: World) -> dict[str, int]:
        """What groups know of what came before them."""
        counted = self.counted()
        left_out = {
            "filtered": sum(world.filtered[name] for name in counted),
            "distinct": sum(world.duplicates[name] for name in counted),
            "dlq": sum(world.dead[name] for name in counted),
        }
        read = sum(world.read[name] for name in self.sources)
        count = sum(world.read[name] for name in self.grouped)
        return {**left_out, "total": read, "count": count, "ok": max(read - sum(left_out.values()), 0)}

    def counted(self) -> Collection[str]:
        """The nodes of which groups know what these have left out."""
        return self.above

    def group(self, members: list[Any], totals: Mapping[str, int]) -> Row:
        """The row of a group."""
        first = members[0][0]
        fields = {name: first.fields[name] for name in self.group_by}
        for name, (function, made) in self.emits.items():
            if function == "key":
                continue
            values = [arguments[name] for _, arguments in members]
            fields[name] = len(values) if made is None else total(function, values)
        return replace(first, fields=fields, time=None, variables={}, totals=totals)


@dataclass
class Timed(Aggregate):
    """One with a `time_window`."""

    shape: str = "tumbling"
    size: int = 60
    slide: int = 60
    lateness: int = 0

    def counted(self) -> Collection[str]:
        """All before it: how much of what is late is known when a group is made depends on how the input is cut."""
        return [name for name in self.above if name != self.name]

    def run(self, world: World, rows: list[Row]) -> list[Row]:
        """One row for each group and window, by the windows' starts."""
        reached: dict[str, int] = {}
        known: dict[int, int | None] = {}
        timed = []
        for row in rows:
            if row.time is None:
                world.filtered[self.name] += 1
                continue
            known[len(timed)] = min(reached.values()) if len(reached) == len(self.grouped) else None
            reached[row.source] = max(reached.get(row.source, row.time), row.time)
            timed.append((len(timed), row))
        accepted = []
        for number, row in timed:
            accepted += [(number, *each) for each in self.accepted(world, [row])]
        spans = self._sessions(accepted) if self.shape == "session" else self._fixed(accepted)
        groups: dict[Any, list[Any]] = {}
        for number, row, arguments in accepted:
            windows = spans[number]
            closed = known[number]
            opened = [w for w in windows if closed is None or closed < w[1] + self.lateness]
            for start, _ in opened:
                names = tuple(key(row.fields[name]) for name in self.group_by)
                groups.setdefault((start, names), []).append((number, row, arguments))
            if windows and not opened:
                world.fail(row, self.name, f"time_window:{self.name}", "late_record")
            elif not windows:
                world.filtered[self.name] += 1
        totals = self.totals(world)
        found = sorted(groups.items(), key=lambda item: (item[0][0], item[1][0][0]))
        return [self.group([(row, arguments) for _, row, arguments in members], totals) for _, members in found]

    def _fixed(self, rows: Iterable[Any]) -> dict[int, list[tuple[int, int]]]:
        slide = self.size if self.shape == "tumbling" else self.slide
        found = {}
        for number, row, _ in rows:
            last = row.time // slide * slide
            starts = []
            while last > row.time - self.size:
                starts.append(last)
                last -= slide
            found[number] = [(start, start + self.size) for start in reversed(starts)]
        return found

    def _sessions(self, rows: Iterable[Any]) -> dict[int, list[tuple[int, int]]]:
        by_key: dict[Any, list[tuple[int, int]]] = {}
        for number, row, _ in rows:
            by_key.setdefault(tuple(key(row.fields[name]) for name in self.group_by), []).append((row.time, number))
        found: dict[int, list[tuple[int, int]]] = {}
        for members in by_key.values():
            session: list[tuple[int, int]] = []
            for each in [*sorted(members), None]:
                if session and (each is None or each[0] - session[-1][0] > self.slide):
                    for _, number in session:
                        found[number] = [(session[0][0], session[-1][0] + self.slide)]
                    session = []
                if each is not None:
                    session.append(each)
        return found


def state(world: World, node: str, rows: list[Row], scope: str, entries: Sequence[tuple[str, str | None, Any]]) -> None:
    """A state node: each entry a variable, an aggregate function or None, and an expression."""
    given: dict[Any, list[Any]] = {}
    made: list[Row] = []
    for row in rows:
        env = Env(row, world)
        try:
            for name, function, expression in entries:
                value = None if expression is None else expression(env)
                where = (scope, name, row.file) if scope == "source" else (scope, name)
                if function is not None:
                    given.setdefault((where, function, expression is None), []).append(value)
                elif scope == "record":
                    env.row = replace(env.row, variables=env.row.variables | {name: value})
                elif scope != "source" or row.totals is None:
                    world.variables[where] = value
        except Failed:
            world.fail(row, node, f"state:{node}")
            continue
        made.append(env.row)
    for (where, function, is_all), values in given.items():
        world.variables[where] = len(values) if is_all else total(function, values)
    world.streams[node] = made
