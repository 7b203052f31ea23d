"""Shapes of inputs are the same for a seed everywhere and are what they say; pipelines agree with DuckDB on them."""

from __future__ import annotations

import collections
import csv
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import data, equality, measure, run, shapes, task
from spark_jobs import plan
from spark_jobs.execute import identity
from spark_jobs.execute.run import executor
from spark_jobs.plan.options import RunOptions

pytestmark = pytest.mark.slow

WORKLOADS = Path(run.__file__).parent / "workloads"
PLAIN = shapes.Shape(10, "ascending", are_lines_alike=True, are_values_long=False, bad_every=0)
ODD = shapes.Shape(1, "random", are_lines_alike=False, are_values_long=True, bad_every=2)
SKEWED = shapes.Shape(10_000, "skewed", are_lines_alike=False, are_values_long=False, bad_every=100)


def orders(folder: Path, shape: shapes.Shape, rows: int = 2000, workload: str = "route_dlq") -> list[dict[str, str]]:
    with Path(shape.inputs(folder, workload, rows)["BENCH_ORDERS"]).open() as file:
        return list(csv.DictReader(file))


def test_a_seed_has_one_shape_and_seeds_have_all_of_them():
    drawn = [shapes.Shape.of(seed) for seed in range(2000)]
    assert drawn == [shapes.Shape.of(seed) for seed in range(2000)]
    assert len(set(drawn)) == 3 * 3 * 2 * 2 * 3


def test_files_of_a_shape_do_not_depend_on_the_chunks_they_are_made_in(tmp_path, monkeypatch):
    def made(folder: Path) -> list[bytes]:
        return [
            Path(path).read_bytes()
            for workload in ("join", "ndjson", "tumbling")
            for path in SKEWED.inputs(folder, workload, 1000).values()
        ]

    whole = made(tmp_path / "whole")
    monkeypatch.setattr(data, "CHUNK_ROWS", 300)
    assert made(tmp_path / "chunks") == whole


@pytest.mark.parametrize("shape", [PLAIN, ODD, SKEWED], ids=lambda shape: shape.name)
def test_ids_are_all_numbers_and_customers_are_known(shape, tmp_path):
    rows = orders(tmp_path, shape)
    assert sorted(int(row["id"]) for row in rows) == list(range(1, 2001))
    with Path(shape.inputs(tmp_path, "lookup", 2000)["BENCH_CUSTOMERS"]).open() as file:
        assert {row["customer"] for row in rows} <= {row["customer"] for row in csv.DictReader(file)}


def test_groups_have_as_many_records_as_their_shape_says(tmp_path):
    assert set(collections.Counter(row["customer"] for row in orders(tmp_path, PLAIN)).values()) == {10}
    assert len({row["customer"] for row in orders(tmp_path, ODD)}) > 1000
    many = shapes.Shape(10, "skewed", are_lines_alike=True, are_values_long=False, bad_every=0)
    (_, most), *_ = collections.Counter(row["customer"] for row in orders(tmp_path, many)).most_common()
    assert 1700 < most < 1900


@pytest.mark.parametrize(("shape", "least", "most"), [(PLAIN, 0, 0), (ODD, 900, 1100), (SKEWED, 5, 40)])
def test_so_many_records_are_dead_where_a_workload_expects_them(shape, least, most, tmp_path):
    assert least <= sum(row["amount"] == "n/a" for row in orders(tmp_path, shape)) <= most
    assert not sum(row["amount"] == "n/a" for row in orders(tmp_path, shape, workload="sort"))


def test_lines_are_alike_or_differ(tmp_path):
    def layouts(shape: shapes.Shape) -> set[tuple[str, ...]]:
        with Path(shape.inputs(tmp_path, "ndjson", 200)["BENCH_ORDER_LINES"]).open() as file:
            return {tuple(json.loads(line)) for line in file}

    assert layouts(PLAIN) == {data.ORDER_COLUMNS}
    assert len(layouts(SKEWED)) == 4


@pytest.mark.parametrize("shape", [PLAIN, ODD, SKEWED], ids=lambda shape: shape.name)
@pytest.mark.parametrize("workload", shapes.WORKLOADS)
def test_pipelines_write_what_duckdb_does(workload, shape, tmp_path, monkeypatch):
    import duckdb

    for name, value in shape.inputs(tmp_path / "data", workload, 3000).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    monkeypatch.setenv("BENCH_OUTPUT", str(tmp_path / "ours"))
    options = RunOptions(force=True, threads=1, allow_absolute_paths=True)
    with task.without_spark():
        loaded = plan.load(WORKLOADS / f"{workload}.yaml", options)
        outcome = executor.execute(loaded, options, identity.Identity.new(None, None))
    assert outcome.result.exit_code in (0, 2)
    connection = duckdb.connect()
    for statement in importlib.import_module(f"benchmarks.baselines.{workload}").duckdb(str(tmp_path / "theirs")):
        connection.execute(statement)
    assert equality.differences(workload, tmp_path / "ours", tmp_path / "theirs") == []


def results(*times: tuple[str, int, float, float]) -> list[run.Result]:
    found = []
    for workload, seed, ours, theirs in times:
        runs = {"clinker": [measure.Measurement(ours, ours, 1)], "spark": [measure.Measurement(theirs, theirs, 1)]}
        found.append(run.Result(workload, 1000, seed, runs))
    return found


def test_the_worst_shape_of_each_workload_is_told():
    told = run._report(results(("join", 1, 1.0, 4.0), ("join", 2, 3.0, 4.0), ("sort", 1, 1.0, 2.0)))
    assert "join @2" in told
    assert "join                 processor 0.75 / PySpark at worst (goal 0.42), seed 2" in told
    assert "sort                 processor 0.50 / PySpark at worst (goal 0.7), seed 1" in told


def test_workloads_of_one_shape_are_refused(monkeypatch: Any, capsys: Any):
    monkeypatch.setattr("sys.argv", ["run.py", "--shape", "1", "--workload", "startup"])
    with pytest.raises(SystemExit):
        run.main()
    assert "--shape: startup has inputs of one shape only" in capsys.readouterr().err


def test_programs_without_a_session_are_refused(monkeypatch: Any, capsys: Any):
    monkeypatch.setattr("sys.argv", ["run.py", "--warm", "--program", "duckdb"])
    with pytest.raises(SystemExit):
        run.main()
    assert "--warm: duckdb has no session" in capsys.readouterr().err
