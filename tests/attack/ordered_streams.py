"""Pipelines on their way to be generated: their streams and sources, each node with its plain model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.models.ordered import Env, Row, World

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.attack import ordered_programs as programs

SCHEMA = {
    "id": "int", "k": "string", "v": "string", "n": "int", "m": "int", "f": "float", "b": "bool", "h": "any",
    "ts": "date_time",
}  # fmt: skip
_START = datetime(2024, 3, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Node = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """What a node gives: the reference to it, the sources of its records, all that is above it, and what is known.

    `known` are the variables that can be read; `is_mixed`: files have no variables of their own here.
    """

    name: str
    sources: tuple[str, ...]
    above: frozenset[str]
    known: tuple[str, ...] = ()
    is_mixed: bool = False
    is_grouped: bool = False

    def downstream(self, node: str, name: str | None = None) -> Stream:
        """The stream of a node that it goes through."""
        return replace(self, name=name or node, above=self.above | {node})


@dataclass
class Pipeline:
    """A pipeline on its way, with what computes the rows of each of its nodes."""

    chance: random.Random
    nodes: list[Node] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    steps: list[Callable[[World], None]] = field(default_factory=list)
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    #: The variables of the init phase, which everybody can read.
    early: tuple[str, ...] = ()
    outputs: list[tuple[str, str]] = field(default_factory=list)
    paths: dict[str, list[str]] = field(default_factory=dict)

    def add(self, made: Node, stream: Stream | None, step: Callable[[World], None]) -> None:
        """A node."""
        self.nodes.append(made)
        self.steps.append(step)
        if stream is not None:
            self.streams.append(stream)

    def text(self, strategy: str) -> dict[str, Any]:
        """The pipeline file."""
        errors = {"strategy": strategy, "dlq": {"path": "out/dead.csv", "include_source_row": False}}
        head: dict[str, Any] = {"name": "o"}
        if self.variables:
            head["vars"] = self.variables
        return {"pipeline": head, "error_handling": errors, "nodes": self.nodes}

    def world(self) -> World:
        """What the model finds."""
        world = World()
        for scope, some in self.variables.items():
            for name, one in some.items():
                world.defaults[scope, name] = one.get("default")
        for step in self.steps:
            step(world)
        return world


# ---- sources ------------------------------------------------------------------------------------------------------


def source(made: Pipeline, name: str) -> None:
    """Add a source of some files."""
    chance = made.chance
    delay = chance.choice([0, 0, 7])
    files = [f"{name}/f{i}.ndjson" for i in range(chance.choice([1, 1, 2]))]
    rows: list[Row | None] = []
    moment, disorder = 0, chance.choice([0, 20, 200])
    places: list[tuple[str, int, int]] = []
    for file in files:
        lines = []
        for number in range(1, chance.choice([0, 2, 8, 20, 30]) + 1):
            moment += chance.randint(0, 15)
            record, time = _record(
                chance, 1000 * len(made.sources) + len(rows) + 1, moment - chance.randint(0, disorder)
            )
            rows.append(None)
            places.append((file, number, len(rows)))
            if chance.random() < 0.02:
                record["n"] = "bad"
            else:
                shifted = None if time is None else time - delay
                rows[-1] = Row(record, name, file, number, len(rows), shifted)
            lines.append(json.dumps(record) + "\n")
        made.files[file] = "".join(lines)
    config: dict[str, Any] = {
        "type": "json", "paths": files, "options": {"format": "ndjson"}, "schema": dict(SCHEMA), "on_unmapped": "drop",
        "watermark": {"column": "ts", "delay": f"{delay}s"},
    }  # fmt: skip

    def step(world: World) -> None:
        world.read[name] = len(rows)
        world.streams[name] = [row for row in rows if row is not None]
        for row, (file, number, _) in zip(rows, places, strict=True):
            if row is None:
                world.dead[name] += 1
                world.letters.append((file, name, number, "type_coercion_failure", None, ""))

    made.sources.append(name)
    made.paths[name] = files
    made.add({"type": "source", "name": name, "config": config}, Stream(name, (name,), frozenset([name])), step)


def _record(chance: random.Random, number: int, moment: int) -> tuple[dict[str, Any], int | None]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.12 else value

    at = maybe(_START + timedelta(seconds=moment))
    record = {
        "id": number,
        "k": maybe(chance.choice(["x", "x", "y", "z", ""])),
        "v": maybe(chance.choice(["1 2", "3", "", "q 3 z"])),
        "n": maybe(chance.choice([1, 2, 3, 7, 7, -4, 5, 0 if chance.random() < 0.2 else 4])),
        "m": maybe(chance.randint(-2, 6)),
        "f": maybe(chance.choice([0.1, 0.2, 2.5, -1.0, 1e16, -1e16, 3.0])),
        "b": maybe(chance.random() < 0.5),
        "h": maybe(chance.choice([1, 1.0, 2, "1", "t", True, 2.5])),
        "ts": at and at.strftime("%Y-%m-%dT%H:%M:%S"),
    }
    return record, at and int((at - _EPOCH).total_seconds())


def pick(made: Pipeline) -> Stream:
    """Some stream, rather a late one."""
    some = made.streams[-5:] if made.chance.random() < 0.6 else made.streams
    return made.chance.choice(some)


def reads(made: Pipeline, stream: Stream) -> list[programs.Made]:
    """Ints that are no columns: variables and counters."""
    found: list[programs.Made] = []
    for path in (*stream.known, *made.early):
        scope, name = path.split(".")
        if scope == "source" and stream.is_mixed:
            source = made.chance.choice(stream.sources)
            files = sorted(made.paths[source])
            value = lambda env, name=name, files=files: env.first_of(files, name)  # type: ignore[misc]  # noqa: E731
            found.append((f"$source.{source}.{name}", value))
            continue
        found.append((f"${path}", lambda env, scope=scope, name=name: env.variable(scope, name)))  # type: ignore[misc]

    def counter(name: str, plain: Callable[[Row], Any]) -> Callable[[Env], Any]:
        return lambda env: plain(env.row) if env.row.totals is None else env.row.totals[name]

    found += [
        ("$source.row", lambda env: None if env.row.totals is not None else env.row.number),
        ("$source.count", counter("count", lambda row: None)),
        ("$pipeline.total_count", counter("total", lambda row: row.position)),
        ("$pipeline.filtered_count", counter("filtered", lambda row: None)),
        ("$pipeline.distinct_count", counter("distinct", lambda row: None)),
        ("$pipeline.dlq_count", counter("dlq", lambda row: None)),
        ("$pipeline.ok_count", counter("ok", lambda row: None)),
    ]
    return found
