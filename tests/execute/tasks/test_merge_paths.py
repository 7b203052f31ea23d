"""Many ways through merges: records that meet behind them keep the order of the merges' inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = 600
AGGREGATE = {
    "type": "aggregate",
    "name": "last",
    "input": "all",
    "config": {"group_by": ["branch"], "cxl": "emit first = first(id)\nemit n = count(*)"},
}
DISTINCT = {"type": "transform", "name": "last", "input": "all", "config": {"cxl": "distinct by branch"}}
COMBINE = {
    "type": "combine",
    "name": "last",
    "input": {"all": "all", "names": "names"},
    "config": {"where": "all.branch == names.branch", "cxl": "emit id = all.id\nemit name = names.name",
               "strategy": "grace_hash"},
}  # fmt: skip


def _source(name: str, path: str, schema: dict[str, str]) -> dict[str, Any]:
    return {"type": "source", "name": name, "config": {"name": name, "type": "csv", "path": path, "schema": schema}}


def _routed(name: str, given: str, branches: int) -> tuple[dict[str, Any], list[str]]:
    """The route's node, and the names of its branches, the last first: merged, the default comes first."""
    conditions = {f"b{i}": f"branch == {i}" for i in range(branches - 1)}
    node = {"type": "route", "name": name, "input": given, "config": {"conditions": conditions, "default": "rest"}}
    return node, [f"{name}.{branch}" for branch in reversed([*conditions, "rest"])]


def _run(folder: Path, nodes: list[Any], last: dict[str, Any], monkeypatch: pytest.MonkeyPatch, size: int) -> list[str]:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, size)
    if last is COMBINE:
        nodes = [*nodes, _source("names", "names.csv", {"branch": "int", "name": "string"})]
    output = {
        "type": "output",
        "name": "o",
        "input": "last",
        "config": {"name": "o", "type": "csv", "path": "out/o.csv"},
    }
    pipeline = {"pipeline": {"name": "lanes"}, "nodes": [*nodes, last, output]}
    pipelines.write(folder, {"pipeline.yaml": yaml.safe_dump(pipeline, sort_keys=False)})
    outcome = pipelines.run(folder).result
    assert outcome.exit_code == 0, outcome.error
    return pipelines.outputs(folder)["o.csv"].decode().splitlines()[1:]


def _expected(order: list[int], ids: dict[int, list[int]], last: dict[str, Any]) -> list[str]:
    """What comes of branches in this order."""
    match last["type"]:
        case "aggregate":
            return [f"{branch},{ids[branch][0]},{len(ids[branch])}" for branch in order]
        case "transform":
            return [f"{ids[branch][0]},{branch}" for branch in order]
        case _:
            return [f"{i},n{branch}" for branch in order for i in ids[branch]]


@pytest.mark.parametrize("last", [AGGREGATE, DISTINCT, COMBINE], ids=["aggregate", "distinct", "combine"])
@pytest.mark.parametrize(("branches", "size"), [(129, 10**9), (200, 3000), (256, 4000)])
def test_many_branches_meet_in_the_order_of_their_merge(
    branches: int, size: int, last: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {branch: [*range(branch, RECORDS, branches)] for branch in range(branches)}
    rows = "".join(f"{i},{i % branches}\n" for i in range(RECORDS))
    names = "".join(f"{i},n{i}\n" for i in range(branches))
    pipelines.write(tmp_path, {"in.csv": "id,branch\n" + rows, "names.csv": "branch,name\n" + names})
    node, ways = _routed("r", "rows", branches)
    source = _source("rows", "in.csv", {"id": "int", "branch": "int"})
    merge = {"type": "merge", "name": "all", "inputs": ways, "config": {}}
    found = _run(tmp_path, [source, node, merge], last, monkeypatch, size)
    assert found == _expected([*reversed(range(branches))], ids, last)


@pytest.mark.parametrize("last", [AGGREGATE, DISTINCT, COMBINE], ids=["aggregate", "distinct", "combine"])
@pytest.mark.parametrize("size", [10**9, 300])
def test_ways_multiply_through_merges_of_merges(
    size: int, last: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve sources, one of them groups, through eleven branches: 132 ways."""
    files = {f"s{n}.csv": "id,branch\n" + "".join(f"{n * 100 + i},{i % 11}\n" for i in range(22)) for n in range(12)}
    names = "".join(f"{i},n{i}\n" for i in range(11))
    pipelines.write(tmp_path, {**files, "names.csv": "branch,name\n" + names})
    sources = [_source(f"s{n}", f"s{n}.csv", {"id": "int", "branch": "int"}) for n in range(12)]
    groups = {"type": "aggregate", "name": "g", "input": "s7", "config": {"group_by": ["id", "branch"], "cxl": ""}}
    given = ["g" if n == 7 else f"s{n}" for n in reversed(range(12))]
    first = {"type": "merge", "name": "several", "inputs": given, "config": {}}
    node, ways = _routed("r", "several", 11)
    second = {"type": "merge", "name": "all", "inputs": ways, "config": {}}
    found = _run(tmp_path, [*sources, groups, first, node, second], last, monkeypatch, size)
    ids = {b: [n * 100 + i for n in reversed(range(12)) for i in range(22) if i % 11 == b] for b in range(11)}
    assert found == _expected([*reversed(range(11))], ids, last)
