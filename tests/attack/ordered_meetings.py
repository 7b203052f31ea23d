"""Nodes of generated pipelines where records part or meet, or set variables; each with its plain model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.attack import ordered_programs as programs
from tests.attack.ordered_streams import SCHEMA, Node, Pipeline, Stream, pick
from tests.models import grouped

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tests.models.ordered import Env, World


def route(made: Pipeline, name: str) -> None:
    """Add a route."""
    chance, stream = made.chance, pick(made)
    conditions = dict(zip([f"{name}a", f"{name}b"], chance.sample(programs.BOOLS, 2), strict=True))
    mode, default = chance.choice(["exclusive", "exclusive", "inclusive"]), f"{name}c"
    config = {"mode": mode, "conditions": {key: text for key, (text, _) in conditions.items()}, "default": default}
    tests = {key: value for key, (_, value) in conditions.items()}
    made.add(
        {"type": "route", "name": name, "input": stream.name, "config": config},
        None,
        lambda world: grouped.route(world, name, world.streams[stream.name], tests, default, mode),
    )
    made.streams += [stream.downstream(name, f"{name}.{name}{port}") for port in "abc"]


def merge(made: Pipeline, name: str) -> None:
    """Add a merge."""
    chance = made.chance
    inputs = [pick(made) for _ in range(chance.choice([2, 2, 3]))]
    mode = chance.choice(["concat", "interleave", "interleave"])
    seed = chance.choice([None, 7, 42]) if mode == "interleave" else None
    config = {"mode": mode, **({} if seed is None else {"interleave_seed": seed})}
    names = [one.name for one in inputs]
    found = Stream(
        name,
        tuple(dict.fromkeys(source for one in inputs for source in one.sources)),
        frozenset([name]).union(*(one.above for one in inputs)),
        tuple(dict.fromkeys(path for one in inputs for path in one.known)),
        is_mixed=True,
        is_grouped=any(one.is_grouped for one in inputs),
    )

    def step(world: World) -> None:
        world.streams[name] = grouped.merge([world.streams[each] for each in names], mode, seed)

    made.add({"type": "merge", "name": name, "inputs": names, "config": config}, found, step)


def combine(made: Pipeline, name: str) -> None:
    """Add a combine of two inputs."""
    chance = made.chance
    driver, build = pick(made), pick(made)
    on = chance.choice([["k"], ["n"], ["id"], ["k", "b"]])
    first, keeps = chance.random() < 0.6, chance.random() < 0.5
    taken = {column: chance.choice("db") for column in SCHEMA if column != "id"} | {"id": "d"}
    config = {
        "where": " and ".join(f"d.{column} == b.{column}" for column in on),
        "match": "first" if first else "all",
        "on_miss": "null_fields" if keeps else "skip",
        "cxl": "\n".join(f"emit {column} = {side}.{column}" for column, side in taken.items()),
    }

    def body(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {column: (left if side == "d" else right)[column] for column, side in taken.items()}

    def step(world: World) -> None:
        rows = [world.streams[each] for each in (driver.name, build.name)]
        world.streams[name] = grouped.combine(world, *rows, on, first, keeps, body)

    known = tuple(dict.fromkeys(path for path in (*driver.known, *build.known)))
    found = Stream(name, driver.sources, driver.above | build.above | {name}, known, is_mixed=True)
    found = replace(found, is_grouped=driver.is_grouped)
    node = {"type": "combine", "name": name, "input": {"d": driver.name, "b": build.name}, "config": config}
    made.add(node, found, step)


_GROUPS = [["k"], ["k"], ["h"], ["n"], ["k", "b"], ["v"]]


def _emits(chance: random.Random, group_by: Sequence[str]) -> tuple[str, dict[str, tuple[str, Any]]]:
    """The statements that give each column again, and their functions."""
    lines: list[str] = []
    emits: dict[str, tuple[str, Any]] = {}
    for column in SCHEMA:
        if column in group_by:
            continue
        text: str
        if column == "id":
            function, text, value = chance.choice(["min", "max", "sum"]), "id", programs.ID
        elif column in ("n", "m"):
            function = chance.choice(["sum", "count", "min", "max", "first", "last", "any"])
            text, value = chance.choice(programs.INTS)
            if function == "count" and chance.random() < 0.6:
                lines.append(f"emit {column} = count(*)")
                emits[column] = ("count", None)
                continue
        elif column == "f":
            function = chance.choice(["sum", "min", "max", "avg", "last"])
            text, value = chance.choice(programs.FLOATS)
            if function in ("sum", "avg") and chance.random() < 0.2:
                function, text, value = "avg", "h", programs.of("h")
        else:
            function = chance.choice(["first", "last", "any", "min"])
            text, value = chance.choice(programs.TEXTS if column in ("k", "v") else [(column, programs.of(column))])
        lines.append(f"emit {column} = {function}({text})")
        emits[column] = (function, value)
    return "\n".join(lines), emits


def _grouping(made: Pipeline, stream: Stream, name: str) -> dict[str, Any]:
    """What both kinds of aggregates have."""
    chance = made.chance
    group_by = chance.choice(_GROUPS)
    text, emits = _emits(chance, group_by)
    keep = chance.choice(programs.BOOLS) if chance.random() < 0.3 else None
    if keep is not None:
        text = f"filter {keep[0]}\n{text}"
    above = stream.above | {name}
    facts = {
        "name": name, "group_by": group_by, "keep": keep and keep[1], "emits": emits, "grouped": stream.sources,
        "sources": [source for source in made.sources if source in above], "above": sorted(above),
    }  # fmt: skip
    return {"facts": facts, "config": {"group_by": group_by, "cxl": text}}


def aggregate(made: Pipeline, name: str) -> None:
    """Add an aggregate."""
    stream = pick(made)
    grouping = _grouping(made, stream, name)
    model = grouped.Aggregate(**grouping["facts"])

    def step(world: World) -> None:
        world.streams[name] = model.run(world, world.streams[stream.name])

    node = {"type": "aggregate", "name": name, "input": stream.name, "config": grouping["config"]}
    made.add(node, replace(stream.downstream(name), is_grouped=True), step)


def timed(made: Pipeline, name: str) -> None:
    """Add one with a time window."""
    chance, stream = made.chance, pick(made)
    grouping = _grouping(made, stream, name)
    shape, size, slide = chance.choice(
        [("tumbling", 30, 30), ("tumbling", 100, 100), ("hopping", 60, 20), ("hopping", 20, 50), ("session", 0, 10),
         ("session", 0, 60)]
    )  # fmt: skip
    lateness = chance.choice([0, 0, 15, 500])
    window = {"tumbling": {"size": f"{size}s"}, "hopping": {"size": f"{size}s", "slide": f"{slide}s"}}
    config = grouping["config"] | {
        "time_window": {shape: window.get(shape, {"gap": f"{slide}s"})},
        "allowed_lateness": f"{lateness}s",
    }
    model = grouped.Timed(**grouping["facts"], shape=shape, size=size, slide=slide, lateness=lateness)

    def step(world: World) -> None:
        world.streams[name] = model.run(world, world.streams[stream.name])

    node = {"type": "aggregate", "name": name, "input": stream.name, "config": config}
    made.add(node, replace(stream.downstream(name), is_grouped=True), step)


# ---- state --------------------------------------------------------------------------------------------------------


def _entries(made: Pipeline, scope: str, names: Sequence[str]) -> tuple[list[Node], list[Any]]:
    chance = made.chance
    shown, entries = [], []
    for name in names:
        own = f"${scope}.{name}"

        def held(env: Env, name: str = name) -> Any:
            return env.variable(scope, name)

        by_record: list[programs.Made] = [
            *programs.INTS,
            (f"({own} ?? 0) + 1", lambda env, held=held: (held(env) or 0) + 1),  # type: ignore[misc]
            (f"if n > 2 then id else {own}", lambda env, held=held: env["id"] if (env["n"] or 0) > 2 else held(env)),  # type: ignore[misc]
            (f"{own} + id", programs.with_both(held, programs.ID, int.__add__)),
        ]
        if scope != "record" and chance.random() < 0.3:
            function = chance.choice(["sum", "min", "max", "first", "last", "count", "any"])
            text, value = (
                chance.choice([("n", programs.N), ("id", programs.ID), ("*", None)])
                if function == "count"
                else ("n", programs.N)
            )
            shown.append({"var": name, "cxl": f"{function}({text})"})
            entries.append((name, function, value))
        else:
            text, value = chance.choice(by_record)
            shown.append({"var": name, "cxl": text})
            entries.append((name, None, value))
    return shown, entries


def _declared(made: Pipeline, scope: str, names: Sequence[str]) -> None:
    for name in names:
        default = {"default": 5} if made.chance.random() < 0.5 else {}
        made.variables.setdefault(scope, {})[name] = {"type": "int", **default}


def state(made: Pipeline, name: str) -> None:
    """Add a state node."""
    chance, stream = made.chance, pick(made)
    scope = chance.choice(["pipeline", "pipeline", "source", "record"])
    if scope == "source" and (stream.is_mixed or stream.is_grouped):
        scope = "pipeline"
    names = [f"{scope[0]}{name}{i}" for i in range(chance.randint(1, 2))]
    _declared(made, scope, names)
    shown, entries = _entries(made, scope, names)
    known = (*stream.known, *(f"{scope}.{each}" for each in names))
    made.add(
        {"type": "state", "name": name, "input": stream.name, "config": {"scope": scope, "set": shown}},
        replace(stream.downstream(name), known=known),
        lambda world: grouped.state(world, name, world.streams[stream.name], scope, entries),
    )


def early(made: Pipeline) -> None:
    """A state node of the init phase, behind a source."""
    source = made.chance.choice(made.sources)
    names = [f"e{i}" for i in range(made.chance.randint(1, 2))]
    _declared(made, "pipeline", names)
    shown, entries = _entries(made, "pipeline", names)
    made.add(
        {"type": "state", "name": "early", "input": source,
         "config": {"scope": "pipeline", "phase": "init", "set": shown}},
        None,
        lambda world: grouped.state(world, "early", world.streams[source], "pipeline", entries),
    )  # fmt: skip
    made.early = tuple(f"pipeline.{each}" for each in names)
