"""The benchmarks measure what they say: the same data everywhere, valid pipelines, compared results."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import pytest

from benchmarks import data, equality, file_formats, formats, measure, run, task
from spark_jobs import plan
from spark_jobs.execute import identity
from spark_jobs.execute.run import executor
from spark_jobs.plan.options import PlanOptions, RunOptions

pytestmark = pytest.mark.slow

WORKLOADS = Path(run.__file__).parent / "workloads"


@pytest.mark.slow
def test_orders_are_the_same_bytes_everywhere(tmp_path):
    content = data.orders(tmp_path, 1000).read_bytes()
    assert hashlib.sha256(content).hexdigest() == "80b875e33488862bdacb622ba9517e964ee59e2dcedbe4babd8cac4ef2d0c1e8"


def test_customers_are_the_same_bytes_everywhere(tmp_path):
    content = data.customers(tmp_path, 1000).read_bytes()
    assert hashlib.sha256(content).hexdigest() == "9b08d558f18925834047c87db89e31bd7e7d39a5a3ea8e99966cc78467b3b56f"


def test_orders_do_not_depend_on_the_chunks_they_are_made_in(tmp_path, monkeypatch):
    whole = data.orders(tmp_path / "whole", 1000, bad_every=1000).read_bytes()
    monkeypatch.setattr(data, "CHUNK_ROWS", 300)
    assert data.orders(tmp_path / "chunks", 1000, bad_every=1000).read_bytes() == whole


def test_orders_as_lines_of_json_are_the_same_orders(tmp_path):
    rows = list(csv.DictReader(data.orders(tmp_path, 200).open()))
    objects = [json.loads(line) for line in data.order_lines(tmp_path, 200).open()]
    assert [list(found) for found in objects] == [list(row) for row in rows]
    for row, found in zip(rows, objects, strict=True):
        numbers = {"id": int(row["id"]), "amount": float(row["amount"]), "quantity": int(row["quantity"])}
        assert found == row | numbers


def test_a_cached_file_is_used_again(tmp_path):
    path = data.orders(tmp_path, 10)
    path.write_bytes(b"kept")
    assert data.orders(tmp_path, 10).read_bytes() == b"kept"


@pytest.mark.slow
def test_about_one_order_in_a_thousand_is_bad_when_asked_for(tmp_path):
    good, bad = (
        [row["amount"] for row in csv.DictReader(data.orders(tmp_path, 20_000, bad_every=1000 * asked).open())]
        for asked in (False, True)
    )
    assert good.count("n/a") == 0
    assert 10 <= bad.count("n/a") <= 30
    assert [a for a in bad if a != "n/a"] == [g for g, b in zip(good, bad, strict=True) if b != "n/a"]


@pytest.mark.slow
def test_customers_of_orders_are_among_the_customers(tmp_path):
    names = {row["customer"] for row in csv.DictReader(data.customers(tmp_path).open())}
    assert len(names) == data.CUSTOMERS
    assert {row["customer"] for row in csv.DictReader(data.orders(tmp_path, 5000).open())} <= names


@pytest.mark.parametrize("workload", run.GOALS)
def test_the_pipeline_of_each_workload_is_valid(workload, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_ORDERS", str(data.orders(tmp_path, 100)))
    monkeypatch.setenv("BENCH_ORDER_LINES", str(data.order_lines(tmp_path, 100)))
    monkeypatch.setenv("BENCH_CUSTOMERS", str(data.customers(tmp_path, 100)))
    monkeypatch.setenv("BENCH_INTERVALS", str(data.intervals(tmp_path, 100, 10)))
    monkeypatch.setenv("BENCH_EVENTS", str(data.events(tmp_path, 100)))
    monkeypatch.setenv("BENCH_OUTPUT", str(tmp_path))
    loaded = plan.load(WORKLOADS / f"{workload}.yaml", PlanOptions(allow_absolute_paths=True))
    assert loaded.name == workload
    written = {planned.step.path.rsplit("/", 1)[1] for planned in loaded.nodes if planned.kind == "output"}
    rejected = {Path(loaded.errors.dead_letters.path).name} if loaded.errors.dead_letters.path else set()
    assert written | rejected == {f"{name}.csv" for name in equality.RESULTS[workload]}


@pytest.mark.parametrize("workload", [name for name in run.GOALS if name != "startup"])
def test_the_output_columns_are_those_that_are_compared(workload, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_ORDERS", str(data.orders(tmp_path, 100)))
    monkeypatch.setenv("BENCH_ORDER_LINES", str(data.order_lines(tmp_path, 100)))
    monkeypatch.setenv("BENCH_CUSTOMERS", str(data.customers(tmp_path, 100)))
    monkeypatch.setenv("BENCH_INTERVALS", str(data.intervals(tmp_path, 100, 10)))
    monkeypatch.setenv("BENCH_EVENTS", str(data.events(tmp_path, 100)))
    monkeypatch.setenv("BENCH_OUTPUT", str(tmp_path))
    loaded = plan.load(WORKLOADS / f"{workload}.yaml", PlanOptions(allow_absolute_paths=True))
    for planned in loaded.nodes:
        if planned.kind == "output":
            expected = equality.RESULTS[workload][Path(planned.step.path).stem]
            undeclared = {"id", "customer"} if workload == "ndjson_widened" else set()
            assert {column.name for column in planned.step.columns} == set(expected) - undeclared


@pytest.mark.slow
@pytest.mark.parametrize("workload", run.GOALS)
def test_duckdb_computes_each_workload(workload, tmp_path, monkeypatch):
    """The baselines' SQL runs, and what they write can be compared."""
    import importlib

    import duckdb

    monkeypatch.setenv("BENCH_ORDERS", str(data.orders(tmp_path, 500, bad_every=data.BAD_EVERY.get(workload, 0))))
    monkeypatch.setenv("BENCH_ORDER_LINES", str(data.order_lines(tmp_path, 500)))
    monkeypatch.setenv("BENCH_CUSTOMERS", str(data.customers(tmp_path)))
    monkeypatch.setenv("BENCH_INTERVALS", str(data.intervals(tmp_path, 500, 10)))
    monkeypatch.setenv("BENCH_EVENTS", str(data.events(tmp_path, 500)))
    connection = duckdb.connect()
    baseline = importlib.import_module(f"benchmarks.baselines.{workload}")
    for statement in baseline.duckdb(str(tmp_path)):
        connection.execute(statement)
    assert equality.differences(workload, tmp_path, tmp_path) == []


@pytest.mark.parametrize("title", formats.CASES)
def test_each_format_is_read_and_written(title):
    size, _, _ = formats.compare(title, 300)
    assert size > 0


@pytest.mark.parametrize("name", file_formats.FORMATS)
def test_half_of_the_records_of_each_format_pass(name, tmp_path):
    file_formats.prepare(tmp_path, 100_000, file_formats.FORMATS[name])
    options = RunOptions(force=True, threads=1)
    with task.without_spark():
        loaded = plan.load(tmp_path / "pipeline.yaml", options)
        outcome = executor.execute(loaded, options, identity.Identity.new(None, None))
    assert outcome.result.exit_code == 0
    assert outcome.result.metrics["records_written"] == 49_999


def test_different_results_are_told(tmp_path):
    for name, total in (("one", 1.0), ("other", 1.5)):
        (tmp_path / name).mkdir()
        text = f"id,customer,day,total,size,zone\n1,c1,2024-01-01,{total},bulk,NORTH\n"
        (tmp_path / name / "priced.csv").write_text(text)
    assert len(equality.differences("startup", tmp_path / "one", tmp_path / "other")) == 1


def test_results_are_compared_whatever_their_order_and_number_of_files(tmp_path):
    head, *rows = ["id,customer,day,total,size,zone\n", *(f"{i},c1,2024-01-01,{i}.5,bulk,NORTH\n" for i in range(10))]
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "priced.csv").write_text(head + "".join(rows))
    (tmp_path / "other" / "priced").mkdir(parents=True)
    (tmp_path / "other" / "priced" / "part-0.csv").write_text(head + "".join(reversed(rows[5:])))
    (tmp_path / "other" / "priced" / "part-1.csv").write_text(head + "".join(rows[:5]))
    assert equality.differences("filter_derive", tmp_path / "one", tmp_path / "other") == []


def test_a_failing_process_is_told(tmp_path):
    with pytest.raises(measure.Failed, match="ended with 3"):
        measure.run(["sh", "-c", "exit 3"], {}, tmp_path, limit_s=10)


def test_a_process_that_takes_too_long_is_stopped(tmp_path):
    with pytest.raises(measure.Failed, match="took more than"):
        measure.run(["sleep", "30"], {}, tmp_path, limit_s=0.2)
