"""Combines by ranges: what comes out is what a loop over all pairs gives, whatever is cut, partitioned or spilled."""

from __future__ import annotations

import operator
import random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_jobs.nodes.combine import predicate
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
#: How values of a kind are made, as cells of a file that have their order when they are read back by the second.
KINDS: dict[str, tuple[Callable[[random.Random], str], Callable[[str], Any]]] = {
    "int": (lambda numbers: str(numbers.randrange(-30, 30)), int),
    "float": (lambda numbers: repr(numbers.choice([-0.0, 0.0, numbers.uniform(-9, 9), numbers.randrange(9)])), float),
    "string": (lambda numbers: "".join(numbers.choices("aéz ", k=numbers.randrange(1, 4))), str),
    "date": (lambda numbers: f"{numbers.randrange(1, 9999):04}-0{numbers.randrange(1, 9)}-11", str),
    "date_time": (lambda numbers: f"2024-01-01T00:{numbers.randrange(10, 60)}:{numbers.randrange(10, 60)}", str),
}
WHERES = [
    ("d.t >= b.low and d.t < b.high", [("t", ">=", "low"), ("t", "<", "high")]),
    ("b.low < d.t", [("t", ">", "low")]),
    ("d.k == b.k and d.t <= b.high", [("k", "==", "k"), ("t", "<=", "high")]),
    (
        "d.k == b.k and b.low <= d.t and d.t < b.high and d.u > b.low",
        [("k", "==", "k"), ("t", ">=", "low"), ("t", "<", "high"), ("u", ">", "low")],
    ),
    ("d.u < b.high and d.t > b.low and d.k % 2 == b.k % 2 and d.k >= b.k", None),
]


def _rows(kind: str, columns: int, count: int, numbers: random.Random) -> list[list[str | None]]:
    make = KINDS[kind][0]
    rows: list[list[str | None]] = []
    for number in range(count):
        values = [None if kind != "string" and numbers.random() < 0.1 else make(numbers) for _ in range(columns)]
        rows.append([str(number), str(numbers.randrange(4)), *values])
    return rows


def _holds(kind: str, conjuncts: Any, driver: dict[str, Any], build: dict[str, Any]) -> bool:
    read = KINDS[kind][1]
    if conjuncts is None:
        both = [("u", "<", "high"), ("t", ">", "low"), ("k", ">=", "k")]
        return int(driver["k"]) % 2 == int(build["k"]) % 2 and _holds(kind, both, driver, build)
    for left, sign, right in conjuncts:
        mine, its = driver[left], build[right]
        if mine is None or its is None:
            return False
        as_read = int if left == "k" else read
        if not _SIGNS[sign](as_read(mine), as_read(its)):
            return False
    return True


def _expected(kind: str, conjuncts: Any, drivers: Any, builds: Any, match: str, miss: str) -> list[str]:
    found = []
    for row in drivers:
        driver = dict(zip(["id", "k", "t", "u"], row, strict=True))
        named = (dict(zip(["id", "k", "low", "high"], each, strict=True)) for each in builds)
        ids = [each["id"] for each in named if _holds(kind, conjuncts, driver, each)]
        if match == "collect":
            found.append(f"{driver['id']},{len(ids)},{ids[0] if ids else ''}")
        elif not ids:
            found += [f"{driver['id']},"] if miss == "null_fields" else []
        else:
            found += [f"{driver['id']},{other}" for other in (ids if match == "all" else ids[:1])]
    return found


def _pipeline(kind: str, where: str, match: str, miss: str, strategy: str, limit: str) -> str:
    def source(name: str, columns: dict[str, str]) -> dict[str, Any]:
        config = {"name": name, "type": "csv", "path": f"{name}.csv", "schema": {"id": "int", "k": "int", **columns}}
        return {"type": "source", "name": name, "config": config}

    config = {"where": where, "match": match, "on_miss": miss, "strategy": strategy}
    if match != "collect":
        config["cxl"] = "emit id = d.id\nemit other = b.id"
    nodes: list[dict[str, Any]] = [
        source("drivers", {"t": kind, "u": kind}),
        source("builds", {"low": kind, "high": kind}),
        {"type": "combine", "name": "c", "input": {"d": "drivers", "b": "builds"}, "config": config},
    ]
    last = "c"
    if match == "collect":
        last = "counted"
        program = "emit id = id\nemit n = b.length()\nemit first = b[0].id"
        nodes.append({"type": "transform", "name": last, "input": "c", "config": {"cxl": program}})
    output = {"name": "o", "type": "csv", "path": "out/o.csv", "include_unmapped": match != "collect"}
    nodes.append({"type": "output", "name": "o", "input": last, "config": output})
    return yaml.safe_dump({"pipeline": {"name": "p", "memory": {"limit": limit}}, "nodes": nodes}, sort_keys=False)


def _csv(header: str, rows: list[list[str | None]]) -> bytes:
    return "".join([header + "\n", *(",".join(cell or "" for cell in row) + "\n" for row in rows)]).encode()


@pytest.mark.parametrize("split", [10**9, 400])
@pytest.mark.parametrize(
    ("kind", "match"), [*((kind, "all") for kind in KINDS), ("float", "first"), ("float", "collect")]
)
@pytest.mark.parametrize(("where", "conjuncts"), WHERES, ids=[where for where, _ in WHERES])
def test_matches_by_ranges_are_those_of_a_plain_model(
    where: str, conjuncts: Any, kind: str, match: str, split: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, split)
    numbers = random.Random(f"{where} {kind}")
    drivers, builds = _rows(kind, 2, 70, numbers), _rows(kind, 2, 40, numbers)
    miss = "skip" if split > 400 else "null_fields"
    strategy = "grace_hash" if split == 400 and "==" in where.split("%")[0] else "auto"
    pipelines.write(
        tmp_path,
        {
            "pipeline.yaml": _pipeline(kind, where, match, miss, strategy, "64MB").encode(),
            "drivers.csv": _csv("id,k,t,u", drivers),
            "builds.csv": _csv("id,k,low,high", builds),
        },
    )
    outcome = pipelines.run(tmp_path).result
    assert outcome.exit_code == 0, outcome.error
    expected = _expected(kind, conjuncts, drivers, builds, match, miss)
    assert pipelines.outputs(tmp_path)["o.csv"].decode().splitlines()[1:] == expected


MAY_FAIL = [
    "d.t.to_int() >= b.low.to_int()",
    "d.t.to_int() >= b.low.to_int() and d.t.to_int() < b.high.to_int()",
    "d.k == b.k and b.low.to_int() < d.t.to_int() and d.k >= b.k",
    "d.k <= b.k and d.t.to_int() <= b.high.to_int() and 12 / (d.k - b.k) < 5",
    "d.t.to_int() > b.low.to_int() and d.t <= b.high",
    "d.t.to_int() > b.low.to_int() and b.low != 'x' and d.id > b.id",
]


@pytest.mark.parametrize(
    ("match", "dirt"),
    [
        ("all", "both"),
        *(
            pytest.param(match, dirt, marks=pytest.mark.slow)
            for match in ("all", "first", "collect")
            for dirt in ("drivers", "builds", "both", "none")
            if (match, dirt) != ("all", "both")
        ),
    ],
)
@pytest.mark.parametrize("where", MAY_FAIL)
def test_ranges_whose_sides_fail_are_those_of_a_loop_over_all_pairs(
    where: str, match: str, dirt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, dead letters and counters, in large pieces and small ones, partitioned and not."""
    without_spark.install(monkeypatch)
    numbers = random.Random(f"{where} {dirt}")

    def rows(name: str, count: int) -> list[list[str | None]]:
        dirty = {number for number in range(count) if numbers.random() < 0.05 or number == 9}
        cells = [[str(numbers.randrange(30)) for _ in range(2)] for _ in range(count)]
        if dirt in (name, "both"):
            cells = [["x", "x"] if i in dirty else each for i, each in enumerate(cells)]
        return [[str(i), str(numbers.randrange(4)), *each] for i, each in enumerate(cells)]

    pipelines.write(
        tmp_path,
        {
            "pipeline.yaml": (
                _pipeline("string", where, match, "null_fields", "auto", "64MB")
                + "error_handling: {strategy: continue, dlq: {path: out/dead.csv}}\n"
            ).encode(),
            "drivers.csv": _csv("id,k,t,u", rows("drivers", 60)),
            "builds.csv": _csv("id,k,low,high", rows("builds", 40)),
        },
    )

    def run(**tuning: int) -> tuple[Any, ...]:
        outcome = pipelines.run(tmp_path, force=True, tuning=Tuning(**tuning))
        assert outcome.result.error is None
        found = pipelines.outputs(tmp_path)
        letters = [line.split(",")[2:] for line in found.get("dead.csv", b"").decode().splitlines()]
        return found["o.csv"], letters, {name: dict(node) for name, node in outcome.nodes.items()}

    with monkeypatch.context() as loop:
        loop.setattr(predicate, "_finding", lambda _where, ranges, _order: ((), sorted(ranges, key=_may_fail)))
        wanted = run()
    assert wanted[1] or dirt == "none" or "d.t <= b.high" in where
    assert run() == wanted
    assert run(many_candidates=1) == wanted
    pipelines.cut_by(monkeypatch, 200)
    assert run(many_candidates=1, pair_rows=7) == wanted


def _may_fail(conjunct: Any) -> bool:
    return predicate.fallibility.may_fail(conjunct)
