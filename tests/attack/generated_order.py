"""Random pipelines whose results follow from the order of records, each node with its plain model.

Windows over any input and over other sources, time windows, state, counters, merges of every mode, compositions; rows
have the same columns everywhere, so that any node can stand behind any other.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.attack import ordered_meetings as meetings
from tests.attack import ordered_programs as programs
from tests.attack.ordered_streams import SCHEMA, Node, Pipeline, Stream, pick, reads, source
from tests.models import ordered
from tests.models.ordered import Env

if TYPE_CHECKING:
    import random

    from tests.models.ordered import World


def pipeline(chance: random.Random) -> Pipeline:
    """A pipeline with a model."""
    made = Pipeline(chance)
    for number in range(chance.choice([1, 2, 2, 3])):
        source(made, f"s{number}")
    if chance.random() < 0.25:
        meetings.early(made)
    makers = [
        _plain,
        _window,
        _window,
        _window,
        _across,
        meetings.state,
        meetings.state,
        meetings.merge,
        meetings.merge,
        meetings.route,
        meetings.timed,
        meetings.timed,
    ]
    makers += [meetings.aggregate, meetings.combine, _call]
    for number in range(chance.randint(2, 7)):
        chance.choice(makers)(made, f"n{number}")
    _outputs(made)
    return made


def _plain(made: Pipeline, name: str) -> None:
    stream = pick(made)
    text, program = programs.statements(made.chance, reads(made, stream))

    def step(world: World) -> None:
        envs = [Env(row, world) for row in world.streams[stream.name]]
        world.streams[name] = list(program.run(name, envs, world, stage=f"transform:{name}"))

    config = {"cxl": text, **programs.validations(made.chance, program)}
    made.add({"type": "transform", "name": name, "input": stream.name, "config": config}, stream.downstream(name), step)


_PARTITIONS = [["k"], ["k"], ["h"], ["n"], [], ["k", "b"], ["id"], ["v"], ["f"]]


def _window(made: Pipeline, name: str) -> None:
    chance, stream = made.chance, pick(made)
    group_by = chance.choice(_PARTITIONS)
    shown, sort_by = programs.sorts(chance)
    text, program = programs.statements(chance, reads(made, stream), windows=True)

    def step(world: World) -> None:
        envs = [Env(row, world, program.lets) for row in world.streams[stream.name]]
        ordered.framed(envs, group_by, sort_by)
        world.streams[name] = list(program.run(name, envs, world, stage=f"transform:{name}"))

    window = {"group_by": group_by, "sort_by": shown}
    config = {"analytic_window": window, "cxl": text, **programs.validations(chance, program)}
    made.add({"type": "transform", "name": name, "input": stream.name, "config": config}, stream.downstream(name), step)


def _across(made: Pipeline, name: str) -> None:
    chance, stream = made.chance, pick(made)
    other = chance.choice(made.sources)
    shown, sort_by = programs.sorts(chance)
    window: dict[str, Any]
    window, matches = chance.choice(
        [
            ({"group_by": ["k"]}, [("k", "k")]),
            ({"group_by": ["k", "h"]}, [("k", "k"), ("h", "h")]),
            ({"group_by": []}, []),
            ({"group_by": ["n"], "on": "m == n"}, [("m", "n")]),
            ({"group_by": ["k"], "on": "k"}, [("k", "k")]),
        ]
    )
    text, program = programs.statements(chance, reads(made, stream), windows=True, across=True)

    def step(world: World) -> None:
        envs = [Env(row, world, program.lets) for row in world.streams[stream.name]]
        ordered.framed_across(envs, world.streams[other], matches, sort_by)
        world.streams[name] = list(program.run(name, envs, world, stage=f"transform:{name}"))

    config = {"analytic_window": {**window, "source": other, "sort_by": shown}, "cxl": text}
    found = stream.downstream(name)
    found = replace(found, above=found.above | {other})
    made.add({"type": "transform", "name": name, "input": stream.name, "config": config}, found, step)


def _call(made: Pipeline, name: str) -> None:
    """A composition with a window, called for one or two streams."""
    chance, first = made.chance, pick(made)
    group_by = chance.choice(_PARTITIONS)
    shown, sort_by = programs.sorts(chance)
    inside = Pipeline(chance)
    text, program = programs.statements(chance, reads(inside, Stream("rows", (), frozenset())), windows=True)
    body = {
        "_compose": {"name": name, "inputs": {"rows": {"schema": dict(SCHEMA)}}, "outputs": {"out": "w"}},
        "nodes": [
            {"type": "transform", "name": "t", "input": "rows", "config": {"cxl": "filter id % 5 != 0"}},
            {"type": "transform", "name": "w", "input": "t",
             "config": {"analytic_window": {"group_by": group_by, "sort_by": shown}, "cxl": text}},
        ],
    }  # fmt: skip
    made.files[f"{name}.comp.yaml"] = json.dumps(body)
    for number, stream in enumerate([first, pick(made)][: chance.choice([1, 2, 2])]):
        _instance(made, f"{name}c{number}", f"{name}.comp.yaml", stream, (group_by, sort_by, program))


def _instance(made: Pipeline, name: str, path: str, stream: Stream, window: tuple[Any, Any, ordered.Program]) -> None:
    group_by, sort_by, program = window

    def step(world: World) -> None:
        kept = []
        for row in world.streams[stream.name]:
            if row.fields["id"] is not None and row.fields["id"] % 5 != 0:
                kept.append(row)
            else:
                world.filtered[name] += 1
        envs = [Env(row, world, program.lets) for row in kept]
        ordered.framed(envs, group_by, sort_by)
        world.streams[f"{name}.out"] = list(program.run(name, envs, world, stage=f"transform:{name}/w"))

    node = {"type": "composition", "name": name, "use": path, "input": stream.name}
    made.add(node, stream.downstream(name, f"{name}.out"), step)


# ---- outputs ------------------------------------------------------------------------------------------------------


def _outputs(made: Pipeline) -> None:
    chance = made.chance
    used = {given for node in made.nodes for given in _inputs(node)}
    leaves = [stream for stream in made.streams if stream.name not in used]
    chosen = leaves if len(leaves) <= 4 else chance.sample(leaves, 4)
    chosen += chance.sample(made.streams, min(2, len(made.streams)))
    for number, stream in enumerate(dict.fromkeys(chosen)):
        config = {
            "type": "json", "path": f"out/o{number}.ndjson", "options": {"format": "ndjson"}, "preserve_nulls": True,
        }  # fmt: skip
        node = {"type": "output", "name": f"o{number}", "input": stream.name, "config": config}
        made.nodes.append(node)
        made.outputs.append((f"o{number}.ndjson", stream.name))


def _inputs(node: Node) -> list[str]:
    given = node.get("input", node.get("inputs", []))
    return [given] if isinstance(given, str) else list(given.values()) if isinstance(given, dict) else list(given)
