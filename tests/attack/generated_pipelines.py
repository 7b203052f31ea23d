"""Random pipelines: all nodes that run, in any order, over random files."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.attack import generated_inputs

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

_STATEMENTS = [
    "filter id % 3 != 0", "filter n / (id - 3) > -100", 'filter v != "q"', 'filter k != "y"',
    "let m{i} = v.to_int()\nemit n = m{i} + 1", "let m{i} = v.to_int()\nemit w{i} = k",
    "emit n = n + 9223372036854775800", "distinct", "distinct by k", "distinct by v", "distinct by n",
    "emit f = f * 1.1", "emit row{i} = $source.row", "emit c{i} = $source.count", "emit file{i} = $source.file",
    "emit tc{i} = $pipeline.total_count", "emit ok{i} = $pipeline.ok_count", "emit dq{i} = $pipeline.dlq_count",
    "emit fl{i} = $pipeline.filtered_count", "emit di{i} = $pipeline.distinct_count",
    "emit et{i} = $source.event_time", "emit x1 = k + v", "emit z = id * 2", "emit t{i} = ts", "emit meta m = id",
    "emit mm{i} = $meta.m", "emit bad{i} = 10 / n", "emit k = if id > 5 then v else k",
    "emit id = id + n.to_string().length()",
]  # fmt: skip
_EACH = [
    'emit each it in v.split(" ") {\n  emit v = it\n}',
    'emit each it in v.split(" ") {\n  emit e{i} = it.to_int()\n}',
    'emit each it in "1 2".split(" ") {\n  emit id = id + it.to_int()\n}',
]
_WINDOWED = [
    "emit wn{i} = $window.row_number()", "emit ws{i} = $window.sum(n)", "emit wf{i} = $window.cumulative_sum(f)",
    "emit wl{i} = $window.lag(1).v", "emit we{i} = $window.lead(2, id)", "emit wc{i} = $window.collect(v)",
    "emit wa{i} = $window.any(10 / n > 2)", "emit wd{i} = $window.distinct(k)", "emit wr{i} = $window.rank()",
    "emit wm{i} = $window.max(ts)", "let lw{i} = n\nemit wx{i} = $window.every(n <= lw{i})",
    "filter $window.count() < 5", "emit wz{i} = $window.avg(n)", "emit n = $window.sum(n)",
    "emit wp{i} = $window.sum(10 / n)", "emit wv{i} = $window.first_value(k)", "emit wo{i} = $window.lag(id % 4).id",
    "emit wh{i} = $window.min(v)", "distinct by id", "emit wu{i} = $window.sum(id) + n",
]  # fmt: skip
_WINDOWS: list[dict[str, Any]] = [
    {"group_by": ["k"]},
    {"group_by": ["k"], "sort_by": [{"field": "n", "order": "desc"}]},
    {"group_by": []},
    {"group_by": ["k", "v"], "sort_by": [{"field": "ts", "null_order": "drop"}, {"field": "id"}]},
    {"group_by": ["f"], "sort_by": [{"field": "v", "null_order": "first"}]},
    {"group_by": ["id", "n"]},
    {"group_by": [], "sort_by": [{"field": "k"}, {"field": "f", "order": "desc"}]},
    {"group_by": ["k"], "source": "s0", "on": "k", "sort_by": [{"field": "id"}]},
    {"group_by": ["id"], "source": "s0", "on": "id == n"},
]
_TIME_WINDOWS = [
    {"tumbling": {"size": "1d"}}, {"hopping": {"size": "2s", "slide": "1s"}}, {"session": {"gap": "3s"}},
    {"session": {"gap": "100d"}}, {"tumbling": {"size": "2s"}},
]  # fmt: skip
_VALIDATIONS = [
    {"name": "kk", "field": "k", "check": "not_empty"},
    {"name": "pos", "check": "n > 0"},
    {"name": "warns", "check": "id < 8", "severity": "warn", "message": "big"},
    {"name": "fails", "check": "10 / id > 1"},
]
_AGGREGATES = [
    "emit c = count(*)", "emit s = sum(n)", "emit sf = sum(f)", "emit av = avg(f)", "emit fi = first(v)",
    "emit la = last(v)", "emit co = collect(v)", "emit cf = collect(f)", "emit bad = min(v).to_int()",
    "emit of = $source.count", "emit tot = $pipeline.total_count", "emit dl = $pipeline.dlq_count",
    "emit fil = $pipeline.filtered_count", "emit mx = max(ts)", "emit q = 100 / sum(n)", "emit cd = count(n)",
    "emit wv = weighted_avg(f, n)", "emit ok = $pipeline.ok_count", "emit ds = $pipeline.distinct_count",
]  # fmt: skip
#: What gives each declared field again behind an aggregate that does not group by it.
_AGAIN = {"id": "max(id)", "k": "first(k)", "v": "min(v)", "n": "count(*)", "f": "sum(f)", "ts": "max(ts)"}
_KEYS = [["k"], ["k"], ["n"], ["k", "v"], [], ["id", "k"], ["f"], ["ts"]]
_WHERE = [
    "d.k == b.k", "d.k == b.k", "d.id == b.id", "d.n == b.id", "d.k == b.k and d.id >= b.id",
    "d.k == b.k and d.v == b.v", "d.id < b.id and d.n > 0", "d.f == b.f", "d.k == b.k and 10 / b.n > 1",
]  # fmt: skip
_AND_WHERE = ["d.k == c.k", "b.id == c.id", "b.k == c.k and d.id <= c.id", "d.id == c.id", "b.v == c.v"]
_ORDERS: list[list[Any]] = [
    ["k"], ["id", "v"], [{"field": "n", "order": "desc", "null_order": "first"}, "k"],
    [{"field": "f", "null_order": "drop"}], [{"field": "ts", "order": "desc"}],
]  # fmt: skip
_SPLITS = [{"max_records": 5}, {"max_records": 1}, {"max_bytes": 120}, {"max_records": 4, "group_key": "k"}]

Node = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """What a node gives: the reference to it, whether undeclared columns flow, arrays of matches, and its fields.

    `known` are the variables that nodes above have set.
    """

    name: str
    widens: bool
    has_arrays: bool = False
    fields: tuple[str, ...] = tuple(generated_inputs.SCHEMA)
    known: tuple[str, ...] = ()


def pipeline(chance: random.Random) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A pipeline, and the files that it reads."""
    files: dict[str, bytes] = {}
    widen = chance.choice(["default", "auto_widen", "auto_widen", "drop"])
    sources = [generated_inputs.source(chance, f"s{i}", widen, files) for i in range(chance.randint(1, 3))]
    streams = [Stream(source["name"], widen != "drop") for source in sources]
    nodes = list(sources)
    early: tuple[str, ...] = ()
    for i in range(chance.randint(2, 7)):
        made, given = _node(chance, f"n{i}", streams, early)
        nodes.append(made)
        streams += given
        if made["type"] == "state" and not given:
            early = tuple(f"{made['config']['scope']}.{each['var']}" for each in made["config"]["set"])
    used = {name for node in nodes for name in _inputs(node)}
    leaves = [stream for stream in streams if stream.name not in used]
    chosen = leaves if len(leaves) <= 4 else chance.sample(leaves, 4)
    chosen += chance.sample(streams, min(2, len(streams)))
    nodes += [_output(chance, f"o{number}", stream) for number, stream in enumerate(chosen)]
    head: dict[str, Any] = {"name": "a", **({"include_provenance": True} if chance.random() < 0.2 else {})}
    names = [source["name"] for source in sources]
    head["vars"] = _variables(nodes)
    return {"pipeline": head, "error_handling": _errors(chance, names), "nodes": nodes}, files


def _variables(nodes: Iterable[Node]) -> dict[str, Any]:
    """What state nodes set is declared, with a default where the name says so."""
    found: dict[str, Any] = {}
    for node in nodes:
        if node["type"] == "state":
            for each in node["config"]["set"]:
                default = {"default": 5} if each["var"].startswith("d_") else {}
                found.setdefault(node["config"]["scope"], {})[each["var"]] = {"type": "int", **default}
    return found


def _inputs(node: Node) -> Iterable[str]:
    given = node.get("input", node.get("inputs", []))
    return [given] if isinstance(given, str) else given.values() if isinstance(given, dict) else given


def _errors(chance: random.Random, sources: Sequence[str]) -> dict[str, Any]:
    letters: dict[str, Any] = {"path": "out/dead.csv"} if chance.random() < 0.85 else {}
    if chance.random() < 0.3 and (own := [name for name in sources if chance.random() < 0.6]):
        letters["per_source"] = {name: {"path": f"out/dead-{name}.csv"} for name in own}
    for key in ("include_source_row", "include_reason"):
        if chance.random() < 0.2:
            letters[key] = False
    strategy = chance.choice(["continue", "continue", "continue", "continue", "best_effort"])
    if not letters or (strategy == "best_effort" and chance.random() < 0.5):
        return {"strategy": strategy}
    return {"strategy": strategy, "dlq": letters}


# ---- nodes -------------------------------------------------------------------------------------------------------


def _node(chance: random.Random, name: str, streams: list[Stream], early: tuple[str, ...]) -> tuple[Node, list[Stream]]:
    one = chance.choice(streams[-6:] if chance.random() < 0.6 else streams)
    kinds = ["transform", "transform", "transform", "state", "state", "route", "merge", "merge", "combine", "aggregate"]
    match chance.choice(kinds):
        case "state":
            return _state(chance, name, one, early)
        case "route":
            return _route(chance, name, one)
        case "merge":
            alike = [s for s in streams if (s.widens, sorted(s.fields)) == (one.widens, sorted(one.fields))]
            alike = [stream for stream in alike if not stream.has_arrays]
            if len(alike) < 2:
                return _transform(chance, name, one, early)
            inputs = chance.sample(alike, min(len(alike), chance.randint(2, 3)))
            made: Node = {"type": "merge", "name": name, "inputs": [stream.name for stream in inputs]}
            if chance.random() < 0.4:
                seed = {"interleave_seed": chance.randint(0, 9)} if chance.random() < 0.5 else {}
                made["config"] = {"mode": "interleave", **seed}
            known = _behind(inputs)
            return made, [Stream(name, inputs[0].widens, fields=inputs[0].fields, known=known)]
        case "combine":
            return _combine(chance, name, streams)
        case "aggregate":
            return _aggregate(chance, name, one)
        case _:
            return _transform(chance, name, one, early)


def _behind(inputs: Iterable[Stream]) -> tuple[str, ...]:
    """The variables that can be read where several inputs meet; those of files have no single value there (E172)."""
    known = dict.fromkeys(path for stream in inputs for path in stream.known)
    return tuple(path for path in known if not path.startswith("source."))


def _state(chance: random.Random, name: str, one: Stream, early: tuple[str, ...]) -> tuple[Node, list[Stream]]:
    scope = chance.choice(["pipeline", "pipeline", "source", "record"])
    by_record = ["id", "n", "10 / n", "k.length()", "({own} ?? 0) + 1", "if n > 2 then id else {own}", "{own} + id"]
    of_all = ["sum(n)", "count(*)", "first(id)", "last(n)", "max(id) - min(id)", "100 / count(n)"]
    names = [f"{chance.choice(['d', 'v'])}_{name}{i}" for i in range(chance.randint(1, 2))]
    drawn = [chance.choice(by_record + (of_all if scope != "record" else [])) for _ in names]
    sets = [
        {"var": var, "cxl": text.replace("{own}", f"${scope}.{var}")} for var, text in zip(names, drawn, strict=True)
    ]
    paths = tuple(f"{scope}.{var}" for var in names)
    config: dict[str, Any] = {"scope": scope, "set": sets}
    node = {"type": "state", "name": name, "input": one.name, "config": config}
    # The init phase reads nothing that is set at run time, and has one state node here.
    if scope == "pipeline" and not early and not one.known and chance.random() < 0.3:
        config["phase"] = "init"
        return node, []
    return node, [replace(one, name=name, known=(*one.known, *paths))]


def _emitted(parts: Iterable[str]) -> list[str]:
    return [name for part in parts for name in re.findall(r"emit (\w+) =", part)]


def _transform(chance: random.Random, name: str, one: Stream, early: tuple[str, ...]) -> tuple[Node, list[Stream]]:
    window = chance.choice(_WINDOWS) if chance.random() < 0.4 and not one.has_arrays else None
    drawn = chance.sample(_STATEMENTS, chance.randint(1, 3))
    if window:
        drawn = chance.sample(_WINDOWED, chance.randint(1, 4)) + drawn[1:]
    program: list[str] = []
    for statement in (part.replace("{i}", f"{name}{j}") for j, part in enumerate(drawn)):
        is_second = statement.startswith("distinct") and any(part.startswith("distinct") for part in program)
        if not is_second and not set(_emitted([statement])) & set(_emitted(program)):
            program.append(statement)
    if chance.random() < 0.2:
        program.append(chance.choice(_EACH).replace("{i}", f"{name}e"))
    if (known := (*one.known, *early)) and chance.random() < 0.9:
        # `emit each` takes no further fields behind it.
        program.insert(0, f"emit known{name} = ${chance.choice(known)}")
    config: dict[str, Any] = {"cxl": "\n".join(program), **({"analytic_window": dict(window)} if window else {})}
    if chance.random() < 0.25:
        config["validations"] = chance.sample(_VALIDATIONS, chance.randint(1, 2))
    if chance.random() < 0.1:
        config["log"] = [{"level": "info", "when": "per_record", "message": "at {id}"}]
    fields = tuple(sorted({*one.fields, *_emitted(program)}))
    node = {"type": "transform", "name": name, "input": one.name, "config": config}
    return node, [Stream(name, one.widens, one.has_arrays, fields, one.known)]


def _route(chance: random.Random, name: str, one: Stream) -> tuple[Node, list[Stream]]:
    conditions = {
        f"{name}a": chance.choice(["id > 3", "10 / n > 2", 'v == "q"']),
        f"{name}b": chance.choice(['k == "x"', "f > 1.0"]),
    }
    mode = chance.choice(["exclusive", "inclusive"])
    config = {"mode": mode, "conditions": conditions, "default": f"{name}c"}
    given = [Stream(f"{name}.{name}{port}", one.widens, one.has_arrays, one.fields, one.known) for port in "abc"]
    return {"type": "route", "name": name, "input": one.name, "config": config}, given


def _aggregate(chance: random.Random, name: str, one: Stream) -> tuple[Node, list[Stream]]:
    by = ["x1"] if one.widens and chance.random() < 0.2 else chance.choice(_KEYS)
    emits = chance.sample(_AGGREGATES, chance.randint(1, 5))
    emits += [f"emit {field} = {again}" for field, again in _AGAIN.items() if field not in by]
    emits += [f"emit kn{name} = max(id + ${path})" for path in one.known[:1]]
    config = {"group_by": by, "cxl": "\n".join(emits)}
    if chance.random() < 0.25:
        config["time_window"] = chance.choice(_TIME_WINDOWS)
        if chance.random() < 0.5:
            config["allowed_lateness"] = chance.choice(["1s", "60d"])
    node = {"type": "aggregate", "name": name, "input": one.name, "config": config}
    return node, [Stream(name, False, fields=tuple(sorted({*by, *_emitted(emits)})), known=one.known)]


def _combine(chance: random.Random, name: str, streams: list[Stream]) -> tuple[Node, list[Stream]]:
    qualifiers = ["d", "b", "c"][: chance.choice([2, 2, 3])]
    inputs = {qualifier: chance.choice(streams) for qualifier in qualifiers}
    where = [chance.choice(_WHERE), *([chance.choice(_AND_WHERE)] if len(inputs) == 3 else [])]
    match = chance.choice(["first", "all", "all", *(["collect"] if len(inputs) == 2 else [])])
    miss = chance.choice(["null_fields", "null_fields", "skip", "skip", "error" if chance.random() < 0.2 else "skip"])
    strategy = chance.choice(["auto", "grace_hash", "auto"])
    config: dict[str, Any] = {"where": " and ".join(where), "match": match, "on_miss": miss, "strategy": strategy}
    if chance.random() < 0.3:
        config["drive"] = chance.choice(qualifiers)
    node = {"type": "combine", "name": name, "input": {q: s.name for q, s in inputs.items()}, "config": config}
    if match == "collect":
        config["cxl"] = ""
        widens = inputs[config.get("drive", "d")].widens
        return node, [Stream(name, widens, has_arrays=True, known=_behind(inputs.values()))]
    last = qualifiers[-1]
    emits = [
        "emit id = d.id", f"emit k = {chance.choice(qualifiers)}.k", f"emit v = {last}.v",
        f"emit n = {chance.choice(qualifiers)}.n", f"emit f = {last}.f", "emit ts = d.ts",
    ]  # fmt: skip
    more = ["emit r = d.v.to_int()", f"emit r2 = 10 / {last}.n", "emit sc = $source.count\nemit sf = $source.file"]
    emits += [each for each in more if chance.random() < 0.3]
    widening = [qualifier for qualifier, stream in inputs.items() if stream.widens]
    if widening and chance.random() < 0.3:
        emits.append(f"emit xx = {chance.choice(widening)}.x1")
    config["cxl"] = "\n".join(emits)
    return node, [Stream(name, False, fields=tuple(sorted(_emitted(emits))), known=_behind(inputs.values()))]


def _output(chance: random.Random, name: str, one: Stream) -> Node:
    kind = chance.choice(["csv", "csv", "json", "ndjson"])
    config: dict[str, Any] = {"type": "csv" if kind == "csv" else "json", "if_exists": "overwrite"}
    token = "-{source_file}" if chance.random() < 0.2 else ""
    config["path"] = f"out/{name}{token}.{kind}"
    if kind == "ndjson":
        config["options"] = {"format": "ndjson"}
    if chance.random() < 0.3:
        config["sort_order"] = chance.choice(_ORDERS)
    if chance.random() < 0.25:
        config["split"] = chance.choice(_SPLITS)
        if "group_key" in config["split"] and chance.random() < 0.7:
            config["sort_order"] = ["k"]
    odds: list[tuple[float, str, Any]] = [
        (0.2, "include_metadata", "all"), (0.15, "include_unmapped", False), (0.15, "mapping", {"renamed": "id"}),
        (0.15, "exclude", [chance.choice(["v", "f", "ts"])]), (0.2, "preserve_nulls", kind != "csv"),
    ]  # fmt: skip
    config |= {key: value for odd, key, value in odds if chance.random() < odd}
    return {"type": "output", "name": name, "input": one.name, "config": config}
