"""What records carry along: random pipelines give the same counters, event times and routes whatever the splits."""

from __future__ import annotations

import csv
import io
import random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

CARRIED = "\n".join(
    f"emit c{number} = ${path}"
    for number, path in enumerate([
        "source.count", "source.event_time", "source.name", "pipeline.total_count", "pipeline.ok_count",
        "pipeline.dlq_count", "pipeline.filtered_count", "pipeline.distinct_count",
    ])
)  # fmt: skip
SCHEMA = {"id": "int", "k": "string", "v": "string", "ts": "date_time"}
MATCHED = "emit id = d.id\nemit k = d.k\nemit v = b.v\nemit ts = d.ts"
GROUPED = "emit id = max(id)\nemit v = min(v)\nemit ts = max(ts)"
ROW_WISE = ("filter id % 3 != 0", "distinct by k", "distinct by v", "emit ts = ts", "let n = v.to_int()\nemit v = v")


def _node(rng: random.Random, name: str, streams: list[str]) -> tuple[dict[str, Any], list[str]]:
    """A node on some of the streams, and the streams that it gives."""
    one, other = rng.choice(streams), rng.choice(streams)
    match rng.choice(["row-wise", "row-wise", "route", "merge", "merge", "combine", "aggregate"]):
        case "row-wise":
            return {"type": "transform", "input": one, "config": {"cxl": rng.choice(ROW_WISE)}}, [name]
        case "route":
            config = {
                "mode": rng.choice(["exclusive", "inclusive"]),
                "conditions": {f"{name}a": "id > 3", f"{name}b": 'k == "x"'},
                "default": f"{name}c",
            }
            return {"type": "route", "input": one, "config": config}, [f"{name}.{name}{port}" for port in "abc"]
        case "merge":
            return {"type": "merge", "inputs": rng.sample(streams, min(len(streams), 3))}, [name]
        case "combine":
            config = {"where": "d.k == b.k", "match": "all", "cxl": MATCHED}
            config["strategy"] = rng.choice(["auto", "grace_hash"])
            return {"type": "combine", "input": {"d": one, "b": other}, "config": config}, [name]
        case _:
            return {"type": "aggregate", "input": one, "config": {"group_by": ["k"], "cxl": GROUPED}}, [name]


def _pipeline(rng: random.Random, sources: int) -> dict[str, Any]:
    streams = [f"s{i}" for i in range(sources)]
    nodes: list[dict[str, Any]] = []
    for i, name in enumerate(streams):
        config = {"type": "csv", "path": f"{name}.csv", "schema": SCHEMA}
        if i != 1:
            config["watermark"] = {"column": "ts", "delay": "3s"}
        nodes.append({"type": "source", "name": name, "config": config})
    for number in range(6):
        made, given = _node(rng, f"n{number}", streams)
        nodes.append({**made, "name": f"n{number}"})
        streams += given
    for number, stream in enumerate(rng.sample(streams, 3)):
        group = {"group_by": ["k"], "cxl": "emit n = count(*)\nemit bad = min(v).to_int()\nemit of = $source.count"}
        nodes.append({"type": "aggregate", "name": f"g{number}", "input": stream, "config": group})
        for kind, read in (("records", stream), ("groups", f"g{number}")):
            told, path = f"{kind}{number}", f"out/{kind}{number}.csv"
            nodes.append({"type": "transform", "name": told, "input": read, "config": {"cxl": CARRIED}})
            output = {"type": "csv", "path": path, "if_exists": "overwrite"}
            nodes.append({"type": "output", "name": f"{told}_out", "input": told, "config": output})
    errors = {"strategy": "continue", "dlq": {"path": "out/dead.csv"}}
    return {"pipeline": {"name": "carried"}, "error_handling": errors, "nodes": nodes}


def _row(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return "bad,x,1,\n"
    day = rng.choice(["2024-01-01T00:00:05", "2024-03-09", ""])
    return f"{rng.randint(0, 8)},{rng.choice('xyz')},{rng.choice(['1', '2', 'q'])},{day}\n"


def _published(folder: Path) -> dict[str, Any]:
    """The published files; dead letters without ids and times, those of one record and node in any order."""
    found: dict[str, Any] = dict(pipelines.outputs(folder))
    if "dead.csv" in found:
        found["dead.csv"] = sorted(row[2:] for row in csv.reader(io.StringIO(found["dead.csv"].decode())))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_what_records_carry_does_not_depend_on_splits(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    rng = random.Random(seed)
    sources = rng.randint(1, 3)
    files = {f"s{i}.csv": "id,k,v,ts\n" + "".join(_row(rng) for _ in range(12)) for i in range(sources)}
    files["pipeline.yaml"] = yaml.safe_dump(_pipeline(rng, sources), sort_keys=False)
    pipelines.write(tmp_path, files)
    found = []
    for split_bytes, partition_bytes in ((10**9, 10**9), (40, 40), (70, 10**9), (10**9, 30)):
        pipelines.cut_by(monkeypatch, split_bytes, partition_bytes)
        outcome = pipelines.run(tmp_path).result
        assert outcome.exit_code in (0, 2), outcome.error
        found.append(_published(tmp_path))
        (tmp_path / "out" / "dead.csv").unlink(missing_ok=True)
    assert found[1:] == found[:1] * 3
