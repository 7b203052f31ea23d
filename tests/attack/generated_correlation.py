"""Pipelines with correlation keys, made by chance: all that carries, cuts, joins, mixes or rejects groups.

All streams have the columns `id`, `reg`, `dept`, `v` and `n`, so that any two can be merged or combined. `id` and `reg`
are keys, `dept` is what aggregates and combines go by, `v` does not always convert, `n` is a number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

FIELDS = ("id", "reg", "dept", "v", "n")
_PROGRAMS = (
    "emit v = v.to_int().to_string()", "emit n = 12 / n", "emit n = if n == 7 then 1 / (n - n) else n",
    'filter dept != "d"', "filter n > 1", "distinct by n", 'emit id = "same"', 'emit reg = "r"',
    'emit n = if $source.name == "b" and n > 7 then 1 / 0 else n', "emit n = n + 1", "filter n > 50",
)  # fmt: skip
_BEHIND = (
    "emit n = 100 / (n - 7)", "emit n = if n > 20 then 1 / 0 else n", "filter n != 3", "emit n = n + 1",
    'emit v = if dept == "c" then "x".to_int().to_string() else v',
)  # fmt: skip
#: Programs over the rows of a partition so far; the model computes them by itself.
WINDOWED = ("emit n = $window.sum(n)", "emit n = $window.count()", "emit n = $window.row_number()")
#: What some outputs cannot write.
_UNWRITABLE = 'emit v = if n == 5 then "é" else v'
_STATES = ("max(n)", "sum(n)", "count(*)", "max(12 / n)", "min(100 / (n - 7))")
_READING = ("emit n = n + ($pipeline.top ?? 0)", "emit n = 100 / (n - ($pipeline.top ?? 1))")
_TOTALS = ("sum(n)", "sum(n)", "count(*)", "max(n)", "30 / (sum(n) - 9)", "sum(12 / n)")
_KEYS: tuple[Any, ...] = ("id", "id", "id", ["id", "reg"], ["reg"], None)
_WHERE = (
    "d.dept == b.dept", "d.dept == b.dept and d.n <= b.n", "d.id == b.id", "d.id == b.id and d.n > b.n",
    "d.n >= b.n and d.n < b.n + 2",
)  # fmt: skip
_WHERE_OF_THREE = (
    "d.dept == b.dept and d.id == c.id", "d.dept == b.dept and b.id == c.id", "d.id == b.id and d.dept == c.dept",
)  # fmt: skip
#: Keys of sources which all have one, and what rows are grouped by that are of groups by these.
_ALIKE: tuple[Any, ...] = ("id", ["reg"], ["id", "reg"])
_GROUPS_BY_KEYS = (["id", "reg"], ["id", "reg"], ["reg"], ["id"], ["id", "reg", "dept"])
_GROUPS = (["id"], ["id", "reg"], ["reg"], ["dept"], ["dept"], ["id", "dept"], [])


@dataclass(frozen=True)
class Stream:
    """What a node can read.

    `sources` are those that are in it, `is_mixed` says that groups of several keys may be, `is_made` that a node made
    it, `has_matches` that it has a column of arrays, which no other stream has: it is neither merged nor joined.
    `has_state` says that its records have gone through a state node, `columns` are its own, and `has_time` says that
    its records have event times.
    """

    name: str
    sources: frozenset[str]
    is_mixed: bool = False
    is_made: bool = True
    has_matches: bool = False
    has_state: bool = False
    columns: tuple[str, ...] = FIELDS
    has_time: bool = False

    def under(self, name: str, *others: Stream, is_mixed: bool = False) -> Stream:
        """What a node makes of it, and of others."""
        mixed = is_mixed or self.is_mixed or any(other.is_mixed for other in others)
        sources = self.sources.union(*(other.sources for other in others))
        return replace(self, name=name, sources=sources, is_mixed=mixed, is_made=True)


def pipeline(chance: random.Random) -> tuple[dict[str, Any], dict[str, str]]:
    """A pipeline and its input files."""
    files: dict[str, str] = {}
    names = ["a", "b", "c"][: chance.choice([1, 2, 2, 3])]
    # Where every source has a key field of its own, combines can carry those of both sides.
    own = dict(zip("abc", ["id", "reg", "dept"], strict=True)) if chance.random() < 0.35 else {}
    if is_alike := not own and chance.random() < 0.2:
        own = {name: chance.choice(_ALIKE) for name in names}
    is_timed = chance.random() < 0.25
    nodes = [_source(chance, name, files, own.get(name), is_timed=is_timed) for name in names]
    columns = (*FIELDS, "at") if is_timed else FIELDS
    streams = [Stream(name, frozenset([name]), is_made=False, columns=columns, has_time=is_timed) for name in names]
    used: set[str] = set()
    for number in range(chance.choice([1, 2, 3, 4, 6])):
        if is_alike and nodes[-1]["type"] == "combine" and chance.random() < 0.6:
            node, made = _aggregate(chance, f"t{number}", streams[-1], _GROUPS_BY_KEYS)
        else:
            node, made = _node(chance, f"t{number}", streams, files, can_share=bool(own))
        used |= set(_read(node))
        nodes.append(node)
        streams += made
    checked = _strict_rows_that_fail(chance, nodes, streams[: len(names)]) if chance.random() < 0.15 else []
    streams += checked[1:]
    used |= {"strict", *(stream.name for stream in checked[:1])}
    left = [stream for stream in streams if stream.name.partition(".")[0] not in used or chance.random() < 0.25]
    nodes = [node for node in nodes if node["type"] != "source" or node["name"] in used]
    left = [stream for stream in left if stream.name in used or stream.is_made]
    outputs = chance.sample(left, min(len(left), 4)) or streams[-1:]
    outputs += [stream for stream in checked if stream not in outputs]
    nodes += [_output(chance, f"o{number}", stream) for number, stream in enumerate(outputs)]
    errors = _errors(chance, [node["name"] for node in nodes if node["type"] == "source"])
    if chance.random() < 0.3:
        errors["correlation_fanout_policy"] = chance.choice(["any", "all", "primary"])
    if checked and chance.random() < 0.7:
        errors["correlation_fanout_policy"] = "all"
    if chance.random() < 0.2:
        errors["max_group_buffer"] = chance.choice([1, 2, 3, 5])
    about = {"name": "p", "vars": {"pipeline": {"top": {"type": "int"}}}}
    return {"pipeline": about, "nodes": nodes, "error_handling": errors}, files


def _strict_rows_that_fail(chance: random.Random, nodes: list[Any], streams: list[Stream]) -> list[Stream]:
    """Rows of a strict aggregate, of which some fail behind it or in it, beside the records that they are made of."""
    over = chance.choice(streams)
    node, made = _aggregate(chance, "strict", over, _GROUPS_BY_KEYS)
    program = chance.choice(("emit n = 100 / (n - 7)", "emit n = if n > 4 then 1 / 0 else n", "filter n != 3"))
    nodes += [node, {"type": "transform", "name": "checked", "input": "strict", "config": {"cxl": program}}]
    return [over, replace(made[0], name="checked")]


def _errors(chance: random.Random, sources: list[str]) -> dict[str, Any]:
    """The strategy, and what becomes of dead letters."""
    strategy = chance.choice(["continue"] * 10 + ["best_effort", "fail_fast"])
    dlq: dict[str, Any] = {"path": "out/dead.csv"}
    if chance.random() < 0.2:
        dlq["per_source"] = {name: {"path": f"out/dead_{name}.csv"} for name in sources if chance.random() < 0.6}
    if chance.random() < 0.1:
        dlq |= {"max_rate": chance.choice([0.1, 0.5, 1.0]), "min_records": chance.choice([1, 20])}
    return {"strategy": strategy, "dlq": dlq}


def _read(node: dict[str, Any]) -> list[str]:
    given = node.get("input", node.get("inputs", []))
    names = [given] if isinstance(given, str) else given.values() if isinstance(given, dict) else given
    return [name.partition(".")[0] for name in names]


def _source(chance: random.Random, name: str, files: dict[str, str], own: Any, *, is_timed: bool) -> dict[str, Any]:
    config: dict[str, Any] = {"type": "csv", "on_unmapped": "drop"}
    many = chance.choice([1, 1, 1, 2])
    odds = chance.choice([0, 0.02, 0.1, 0.3])
    for number in range(many):
        lines = [",".join((*FIELDS, "at") if is_timed else FIELDS)]
        rows = [_cells(chance, odds) for _ in range(chance.choice([0, 2, 6, 12, 30]))]
        if is_timed:
            rows = [[*row, _moment(chance, number * 30 + at)] for at, row in enumerate(rows)]
        lines += [",".join(row) for row in rows]
        files[f"{name}/{number}.csv"] = "\n".join(lines) + "\n"
    config |= {"path": f"{name}/0.csv"} if many == 1 else {"glob": f"{name}/*.csv"}
    config["schema"] = {field: "int" if field == "n" else "string" for field in FIELDS}
    if is_timed:
        config["schema"]["at"] = "date_time"
        config["watermark"] = {"column": "at", "delay": chance.choice(["0s", "0s", "70s"])}
    if (key := own or chance.choice(_KEYS)) is not None:
        config["correlation_key"] = key
    return {"type": "source", "name": name, "config": config}


def _moment(chance: random.Random, minute: int) -> str:
    """A moment about so many minutes after the first; few have none, and few come very late."""
    if chance.random() < 0.05:
        return ""
    minute = max(0, minute - chance.choice([0, 0, 0, 1, 20]))
    return f"2024-03-01T{9 + minute // 60:02}:{minute % 60:02}:{chance.randint(0, 59):02}"


def _cells(chance: random.Random, odds: float) -> list[str]:
    key = chance.choice(["", *"123456"]) if chance.random() < 0.9 else "1"
    return [
        key,
        chance.choice(["", "n", "s"]),
        chance.choice("aabcd"),
        "x" if chance.random() < odds else str(chance.randint(0, 9)),
        "?" if chance.random() < odds / 3 else str(chance.randint(0, 9) if odds else chance.randint(1, 6)),
    ]


def _node(
    chance: random.Random, name: str, streams: list[Stream], files: dict[str, str], *, can_share: bool
) -> tuple[dict[str, Any], list[Stream]]:
    one = chance.choice(streams[-4:])
    if streams[-1].is_mixed and chance.random() < 0.5:
        return _transform(chance, name, streams[-1])
    kinds = ["transform", "transform", "transform", "route", "merge", "combine", "aggregate", "aggregate", "more"]
    match chance.choice(kinds):
        case "route":
            return _route(chance, name, one)
        case "more":
            return _rarer(chance, name, streams, one, files)
        case "merge":
            plain = [stream for stream in streams if not stream.has_matches]
            plain = [stream for stream in plain if not stream.is_mixed or chance.random() < 0.15]
            if len(plain) > 1:
                inputs = chance.sample(plain, min(len(plain), chance.choice([2, 2, 3])))
                node = {"type": "merge", "name": name, "inputs": [each.name for each in inputs]}
                return node, [inputs[0].under(name, *inputs)]
        case "combine":
            plain = [stream for stream in streams if not stream.has_matches]
            driver = one if not one.has_matches else chance.choice(plain)
            return _combine(chance, name, driver, chance.choice(plain), can_share=can_share or chance.random() < 0.5)
        case "aggregate":
            return _aggregate(chance, name, one)
    return _transform(chance, name, one)


def _rarer(
    chance: random.Random, name: str, streams: list[Stream], one: Stream, files: dict[str, str]
) -> tuple[dict[str, Any], list[Stream]]:
    """A state node, a composition, or a combine of three."""
    plain = [stream for stream in streams if not stream.has_matches]
    what = chance.choice(["state", "composition", "three"])
    if what == "three" and plain:
        return _of_three(chance, name, [chance.choice(plain) for _ in range(3)])
    if what == "composition" and not one.has_matches:
        return _composition(chance, name, one, files)
    assignment = {"var": "top", "cxl": chance.choice(_STATES)}
    node = {"type": "state", "name": name, "input": one.name, "config": {"scope": "pipeline", "set": [assignment]}}
    return node, [replace(one.under(name), has_state=True)]


def _composition(
    chance: random.Random, name: str, one: Stream, files: dict[str, str]
) -> tuple[dict[str, Any], list[Stream]]:
    """A body of a transform, and of an aggregate or a second transform behind it."""
    kinds = {each: {"n": "int", "at": "date_time"}.get(each, "string") for each in one.columns}
    body, made = _transform(chance, "t", replace(one, name="given", has_state=False))
    nodes, last = [body], made[0]
    if chance.random() < 0.5:
        make = chance.choice([_transform, _aggregate])
        more, made = make(chance, "u", last)
        nodes, last = [*nodes, more], made[0]
    schema = [{"name": each, "type": kind} for each, kind in kinds.items()]
    told = {"name": "body", "inputs": {"given": {"schema": schema}}, "outputs": {"made": last.name}}
    files[f"{name}.comp.yaml"] = yaml.safe_dump({"_compose": told, "nodes": nodes}, sort_keys=False)
    node = {"type": "composition", "name": name, "use": f"{name}.comp.yaml", "inputs": {"given": one.name}}
    return node, [replace(last, name=name, has_state=one.has_state)]


def _of_three(chance: random.Random, name: str, sides: list[Stream]) -> tuple[dict[str, Any], list[Stream]]:
    number = chance.choice(["d.n", "12 / d.n", "12 / b.n", "12 / c.n", "d.n + c.n"])
    config = {
        "where": chance.choice(_WHERE_OF_THREE),
        "match": chance.choice(["first", "all"]),
        "on_miss": chance.choice(["skip", "null_fields"]),
        "propagate_ck": chance.choice(["driver", "driver", "all", {"named": ["id"]}]),
        "cxl": f"emit id = d.id\nemit reg = c.reg\nemit dept = d.dept\nemit v = b.v\nemit n = {number}",
    }
    config["cxl"] += "\nemit at = d.at" if "at" in sides[0].columns else ""
    given = {qualifier: side.name for qualifier, side in zip("dbc", sides, strict=True)}
    node = {"type": "combine", "name": name, "input": given, "config": config}
    return node, [sides[0].under(name, *sides[1:])]


def _transform(chance: random.Random, name: str, one: Stream) -> tuple[dict[str, Any], list[Stream]]:
    config: dict[str, Any] = {"cxl": chance.choice(_BEHIND if one.is_mixed and chance.random() < 0.7 else _PROGRAMS)}
    if one.has_state and chance.random() < 0.5:
        config["cxl"] = chance.choice(_READING)
    elif chance.random() < 0.05:
        config["cxl"] = _UNWRITABLE
    elif chance.random() < 0.15:
        config["analytic_window"] = {"group_by": [chance.choice(["dept", "id"])]}
        config["cxl"] = chance.choice(WINDOWED)
    elif chance.random() < 0.15:
        config["cxl"] += '\nemit each e in "p q".split(" ") {\n  emit v = e\n}'
    if chance.random() < 0.2:
        config["validations"] = [{"name": "small", "check": "n < 9", "message": "too large"}]
    return {"type": "transform", "name": name, "input": one.name, "config": config}, [one.under(name)]


def _route(chance: random.Random, name: str, one: Stream) -> tuple[dict[str, Any], list[Stream]]:
    conditions = {
        f"{name}x": chance.choice(["n > 4", "10 / n > 2"]),
        f"{name}y": chance.choice(['dept == "a"', "n < 7"]),
    }
    config = {"mode": chance.choice(["exclusive", "inclusive"]), "conditions": conditions, "default": f"{name}z"}
    made = [one.under(f"{name}.{name}{port}") for port in "xyz"]
    return {"type": "route", "name": name, "input": one.name, "config": config}, made


def _combine(
    chance: random.Random, name: str, driver: Stream, build: Stream, *, can_share: bool
) -> tuple[dict[str, Any], list[Stream]]:
    both: list[Any] = ["all", {"named": ["id"]}, {"named": ["reg"]}, {"named": ["id", "reg"]}]
    carried = ["driver", *both] if can_share else ["driver"]
    number, reg = chance.choice(["d.n", "d.n", "12 / d.n", "12 / b.n", "d.n + b.n"]), chance.choice(["b.reg", "d.reg"])
    config: dict[str, Any] = {
        "where": chance.choice(_WHERE),
        "match": chance.choice(["first", "all", "all", "collect"]),
        "on_miss": chance.choice(["skip", "null_fields"]),
        "propagate_ck": chance.choice(carried),
        "cxl": f"emit id = d.id\nemit reg = {reg}\nemit dept = d.dept\nemit v = d.v\nemit n = {number}",
    }
    config["cxl"] += "\nemit at = d.at" if "at" in driver.columns else ""
    if config["match"] == "collect":
        del config["cxl"]
    node = {"type": "combine", "name": name, "input": {"d": driver.name, "b": build.name}, "config": config}
    made = replace(driver.under(name, build), has_matches=config["match"] == "collect")
    return node, [made]


def _aggregate(
    chance: random.Random, name: str, one: Stream, groups: Sequence[list[str]] = _GROUPS
) -> tuple[dict[str, Any], list[Stream]]:
    by = chance.choice(groups)
    emits = [f"emit {each} = any({each})" for each in one.columns if each not in by and each != "n"]
    emits.append(f"emit n = {chance.choice(_TOTALS)}")
    config: dict[str, Any] = {"group_by": by, "cxl": "\n".join(emits)}
    if one.has_time and chance.random() < 0.6:
        shape = chance.choice(["tumbling", "hopping", "session"])
        size = (
            {"gap": "3m"} if shape == "session" else {"size": "10m"} | ({"slide": "4m"} if shape == "hopping" else {})
        )
        config |= {"time_window": {shape: size}, "allowed_lateness": chance.choice(["0s", "0s", "5m"])}
    node = {"type": "aggregate", "name": name, "input": one.name, "config": config}
    # Whether it mixes keys depends on those of its input; what might is treated as if it did.
    return node, [replace(one.under(name, is_mixed=True), has_time=False)]


def _output(chance: random.Random, name: str, one: Stream) -> dict[str, Any]:
    config: dict[str, Any] = {"type": "csv", "path": f"out/{name}.csv", "if_exists": "overwrite"}
    if chance.random() < 0.2:
        config["include_correlation_keys"] = True
    if one.has_matches:
        config["exclude"] = ["b"]
    if chance.random() < 0.15:
        config["options"] = {"encoding": "ascii"}
    if chance.random() < 0.15:
        config["sort_order"] = chance.choice([["dept"], ["dept", {"field": "n", "order": "desc"}]])
    if chance.random() < 0.15:
        config["correlation_fanout_policy"] = chance.choice(["any", "all", "primary"])
    return {"type": "output", "name": name, "input": one.name, "config": config}
