"""Counters that add up, node by node and from node to node, and the metrics file of every kind of end."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute import tolerance
from spark_jobs.formats import splits
from spark_jobs.nodes.records.ledger import Counters
from spark_jobs.plan import plan as plans
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: counted}
error_handling:
  strategy: STRATEGY
  dlq: {path: out/dead.csv}
nodes:
  - type: source
    name: orders
    config:
      name: orders
      type: csv
      path: orders.csv
      schema:
        - {name: id, type: int}
        - {name: city, type: string}
        - {name: amount, type: float}
        - {name: kind, type: string}
  - type: source
    name: cities
    config:
      name: cities
      type: json
      path: cities.json
      options: {format: ndjson}
      schema: [{name: code, type: string}, {name: land, type: string}]
  - type: transform
    name: priced
    input: orders
    config:
      cxl: |
        emit part = 100 / (id % 10)
        filter amount > 10.0
  - type: transform
    name: kinds
    input: priced
    config:
      cxl: |
        distinct by kind
  - type: route
    name: size
    input: priced
    config:
      conditions: {large: amount > 60.0, middle: amount > 30.0}
      default: small
  - {type: merge, name: ends, inputs: [size.small, size.large], config: {}}
  - {type: aggregate, name: per_city, input: ends, config: {group_by: [city], cxl: "emit orders = count(*)"}}
  - type: combine
    name: named
    input: {o: ends, c: cities}
    config:
      where: o.city == c.code
      on_miss: skip
      cxl: |
        emit id = o.id
        emit land = c.land
      propagate_ck: driver
  - {type: output, name: o1, input: kinds, config: {name: o1, type: csv, path: out/kinds.csv}}
  - {type: output, name: o2, input: size.middle, config: {name: o2, type: csv, path: out/middle.csv}}
  - {type: output, name: o3, input: per_city, config: {name: o3, type: csv, path: out/per_city.csv}}
  - type: output
    name: o4
    input: named
    config: {name: o4, type: json, path: out/named.json, options: {format: ndjson}}
"""
ROWS = 200
#: Facts of the input, counted by hand below.
FACTS = {"unreadable": 4, "zero divisor": 20}


def inputs() -> dict[str, str]:
    """Every 50th amount is no number, every tenth id divides by zero."""
    orders = "id,city,amount,kind\n" + "".join(
        f"{i},c{i % 7},{'?' if i % 50 == 7 else i % 100},{'abc'[i % 3]}\n" for i in range(ROWS)
    )
    cities = "".join(json.dumps({"code": f"c{i}", "land": f"l{i % 2}"}) + "\n" for i in (0, 1, 2, 3, 3))
    return {"orders.csv": orders, "cities.json": cities}


@pytest.fixture(
    params=[pytest.param(10**9, id="one split"), pytest.param(300, id="many splits", marks=pytest.mark.slow)]
)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, request.param)
    pipelines.write(tmp_path, {**inputs(), "pipeline.yaml": PIPELINE.replace("STRATEGY", "continue")})
    return tmp_path


def run(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run with a spool folder; gives the exit status and the metrics file."""
    spool = folder / "spool"
    given = ["--quiet", "--metrics-spool-dir", str(spool), "--execution-id", "e1", *options]
    ended = clinker.main(["run", str(folder / "pipeline.yaml"), *given])
    assert [path.name for path in spool.iterdir()] == ["e1.json"]
    return ended, json.loads((spool / "e1.json").read_text())


def expected() -> dict[str, dict[str, int]]:
    """What each node does with its records, worked out one by one."""
    readable = [i for i in range(ROWS) if i % 50 != 7]
    divisible = [i for i in readable if i % 10]
    priced = [i for i in divisible if i % 100 > 10]
    middle = [i for i in priced if 30 < i % 100 <= 60]
    ends = [i for i in priced if i not in middle]
    matches = {0: 1, 1: 1, 2: 1, 3: 2}
    first = len([i for i in ends if i % 7 in matches])
    return {
        "orders": {"records_in": ROWS, "records_out": ROWS},
        "cities": {"records_in": 5, "records_out": 5},
        "priced": {
            "records_in": ROWS,
            "dead": ROWS - len(divisible),
            "filtered": len(divisible) - len(priced),
            "records_out": len(priced),
        },
        "kinds": {"records_in": len(priced), "deduplicated": len(priced) - 3, "records_out": 3},
        "size": {"records_in": len(priced), "records_out": len(priced)},
        "ends": {"records_in": len(ends), "records_out": len(ends)},
        "per_city": {"records_in": len(ends), "records_out": 7, "made": 7 - len(ends)},
        "named": {"records_in": len(ends), "records_out": first, "made": first - len(ends)},
        "o1": {"records_in": 3, "records_out": 3},
        "o2": {"records_in": len(middle), "records_out": len(middle)},
        "o3": {"records_in": 7, "records_out": 7},
        "o4": {"records_in": first, "records_out": first},
    }


def test_every_node_is_counted_and_adds_up(folder: Path) -> None:
    ended, document = run(folder)
    assert ended == 2
    counted = document["nodes"]
    wanted = expected()
    assert list(counted) == [name for name in counted if name in wanted]
    for name, figures in wanted.items():
        found = {key: value for key, value in counted[name].items() if key != "kind" and value}
        assert found == {key: value for key, value in figures.items() if value}, name
    for name, node in counted.items():
        gone = node["records_out"] + node["filtered"] + node["deduplicated"] + node["dead"]
        assert node["records_in"] + node["made"] == gone, name


def test_the_totals_are_those_of_the_nodes_and_files(folder: Path) -> None:
    _, document = run(folder)
    wanted = expected()
    dead = sum(node.get("dead", 0) for node in wanted.values())
    assert document["records_total"] == ROWS + 5
    assert document["records_dlq"] == dead == FACTS["unreadable"] + FACTS["zero divisor"]
    assert document["records_written"] == sum(wanted[name]["records_out"] for name in ("o1", "o2", "o3", "o4"))
    assert document["records_filtered"] == wanted["priced"]["filtered"]
    assert document["records_deduplicated"] == wanted["kinds"]["deduplicated"]
    assert document["per_source_record_counts"] == {"orders": ROWS, "cities": 5}
    assert document["per_source_dlq_counts"] == {"orders": dead}
    assert sum(document["dlq_categories"].values()) == sum(document["dlq_stages"].values()) == dead
    assert document["dlq_stages"] == {
        f"{kind}:{name}": node["dead"]
        for name, node in wanted.items()
        if node.get("dead")
        for kind in [document["nodes"][name]["kind"]]
    }
    assert document["input_bytes"] >= (folder / "orders.csv").stat().st_size
    lines = {path.name: len(path.read_text().splitlines()) for path in (folder / "out").iterdir()}
    assert lines == {
        "kinds.csv": 4,
        "middle.csv": wanted["o2"]["records_out"] + 1,
        "per_city.csv": 8,
        "named.json": wanted["o4"]["records_out"],
        "dead.csv": dead + 1,
    }
    assert sorted(document["output_files"]) == sorted(
        str(folder / "out" / name) for name in lines if name != "dead.csv"
    )
    assert document["dlq_path"] == str(folder / "out/dead.csv")


def test_stages_and_phases_have_times(folder: Path) -> None:
    _, document = run(folder)
    assert {"job", "level", "tasks", "seconds", "payload_bytes"} == set(document["stages"][0])
    assert document["stages"][-1]["job"] > document["stages"][0]["job"], "the build side is a job of its own"
    assert {"inputs", "session", "publish"} < set(document["phases_ms"])
    assert document["shuffled_bytes"] == sum(stage["payload_bytes"] for stage in document["stages"]) > 0
    assert document["started_at"] < document["finished_at"]


def test_a_run_without_dead_letters(folder: Path) -> None:
    rows = (folder / "orders.csv").read_text().splitlines(keepends=True)
    good = [row for row in rows if "?" not in row and not row.split(",")[0].endswith("0")]
    (folder / "orders.csv").write_text("".join(good))
    ended, document = run(folder)
    assert ended == document["exit_code"] == 0
    assert (document["error"], document["dlq_path"], document["records_dlq"]) == (None, None, 0)


@pytest.mark.parametrize(
    ("change", "exit_code", "says"),
    [
        (("STRATEGY", "fail_fast"), 3, "strategy fail_fast"),
        (("orders.csv", "gone.csv"), 4, "E216"),
        (("out/dead.csv", "out/dead.csv, max_rate: 0.01, min_records: 1"), 3, "E316"),
    ],
    ids=["strict", "missing input", "too many dead letters"],
)
def test_a_failed_run_has_metrics_too(change: tuple[str, str], exit_code: int, says: str, folder: Path) -> None:
    text = PIPELINE.replace(*change).replace("STRATEGY", "continue")
    (folder / "pipeline.yaml").write_text(text)
    ended, document = run(folder)
    assert (ended, document["exit_code"]) == (exit_code, exit_code)
    assert says.split(":")[-1].strip() in document["error"]
    assert document["output_files"] == []
    assert document["dlq_path"] is None
    assert not (folder / "out").exists()


def test_the_summary_has_every_node_and_what_became_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_spark.install(monkeypatch)
    rows = "{name: rows, type: csv, path: rows.csv, schema: [{name: k, type: string}]}"
    nodes = f"""
    pipeline: {{name: shown}}
    nodes:
      - {{type: source, name: rows, config: {rows}}}
      - {{type: transform, name: once, input: rows, config: {{cxl: distinct by k}}}}
      - {{type: output, name: o, input: once, config: {{name: o, type: csv, path: out/o.csv}}}}
    """
    for data, counts in (
        ("k\n", [(0, 0, 0), (0, 0, 0), (0, 0, 0)]),
        ("k\na\nb\na\n", [(3, 3, 0), (3, 2, 1), (2, 2, 0)]),
    ):
        pipelines.write(tmp_path, {"pipeline.yaml": nodes, "rows.csv": data})
        assert clinker.main(["run", str(tmp_path / "pipeline.yaml"), "--force"]) == 0
        _, heading, *lines = capsys.readouterr().out.splitlines()
        assert heading.split() == ["node", "read", "written", "filtered", "duplicates", "dead"]
        expected = [
            f"{name} {read} {written} 0 {duplicates} 0"
            for name, (read, written, duplicates) in zip(("rows", "once", "o"), counts, strict=True)
        ]
        assert [" ".join(line.split()) for line in lines[:3]] == expected


def test_collect_reads_what_runs_write(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, document = run(folder)
    archive = folder / "archive.ndjson"
    collect = ["metrics", "collect", "--spool-dir", str(folder / "spool"), "--output-file", str(archive)]
    assert clinker.main([*collect, "--dry-run"]) == 0
    assert not archive.exists()
    assert clinker.main([*collect, "--delete-after-collect"]) == 0
    assert [json.loads(line) for line in archive.read_text().splitlines()] == [document]
    assert list((folder / "spool").iterdir()) == []
    assert "Collected 1 file(s)" in capsys.readouterr().out


def test_records_that_do_not_add_up_are_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should an operator ever lose a record, nothing is published."""
    add = Counters.add

    def forgetful(self: Counters, other: Counters) -> None:
        add(self, other)
        self.filtered = 0

    monkeypatch.setattr(Counters, "add", forgetful)
    ended, document = run(folder)
    assert ended == 3
    text = "priced: 196 in and 0 made are not 160 out, 0 filtered, 0 duplicates and 20 dead"
    assert f"E903 records do not add up, nothing is published: {text}" in document["error"]
    assert not (folder / "out").exists()


def test_the_first_failure_does_not_depend_on_which_task_was_faster() -> None:
    from spark_jobs.execute.report import FirstFailure
    from spark_jobs.execute.tally import Tally

    tally = Tally()
    assert tolerance.first_failure(tally, plans.Strategy.FAIL_FAST) is None
    places = [(0, 3, 1), (0, 1, 9), (1, 0, 0), (0, 1, 2)]
    tally.failures += [FirstFailure(*place, "transform:t", "detail", None) for place in places]
    assert tolerance.first_failure(tally, plans.Strategy.CONTINUE) is None
    first = tolerance.first_failure(tally, plans.Strategy.FAIL_FAST)
    assert first is not None
    assert (first.source, first.split, first.row) == (0, 1, 2)


def test_a_value_that_does_not_convert_counts_where_its_dead_letter_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken record stays at its source; on the build side of a combine, records read are the driver's."""
    without_spark.install(monkeypatch)
    pipeline = """
    pipeline: {name: p}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
    nodes:
      - {type: source, name: rows, config: {type: csv, path: rows.csv, schema: {id: int, k: string}}}
      - {type: source, name: names, config: {type: csv, path: names.csv, schema: {k: string, n: int}}}
      - {type: transform, name: t, input: rows, config: {cxl: "filter id > 1"}}
      - {type: combine, name: c, input: {t: t, b: names}, config: {where: t.k == b.k, cxl: "emit n = b.n"}}
      - {type: output, name: o, input: c, config: {type: csv, path: out/o.csv}}
    """
    rows = "id,k\n1,a\n2,b\nx,a\n4,a,5\n5,a\n"
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline, "rows.csv": rows, "names.csv": "k,n\na,1\nb,?\n"})
    nodes = pipelines.run(tmp_path).nodes
    figures = ("records_in", "records_out", "filtered", "dead", "made")
    assert {name: tuple(node[figure] for figure in figures) for name, node in nodes.items()} == {
        "rows": (5, 4, 0, 1, 0),
        "names": (2, 2, 0, 0, 0),
        "t": (4, 2, 1, 1, 0),
        "c": (2, 2, 0, 1, 1),
        "o": (2, 2, 0, 0, 0),
    }
    letters = csv.DictReader(io.StringIO(pipelines.outputs(tmp_path)["dead.csv"].decode()))
    assert [letter["_cxl_dlq_stage"] for letter in letters] == ["transform:t", "source:rows", "combine:c"]


WATERMARKS = """
    pipeline: {name: p}
    nodes:
      - type: source
        name: a
        config:
          {type: csv, glob: "a/*.csv", watermark: {column: at, delay: 30s}, schema: {id: int, at: date_time}}
      - type: source
        name: b
        config: {type: csv, path: b.csv, watermark: {column: at}, schema: {id: int, at: date}}
      - {type: source, name: c, config: {type: csv, path: b.csv, schema: {id: int, at: date}}}
      - {type: output, name: o, input: a, config: {type: csv, path: out/a.csv}}
      - {type: output, name: p, input: b, config: {type: csv, path: out/b.csv}}
      - {type: output, name: q, input: c, config: {type: csv, path: out/c.csv}}
    error_handling: {strategy: continue}
"""


@pytest.mark.parametrize("split_bytes", [10**9, 20])
@pytest.mark.parametrize("last", ["2024-01-02", ""])
def test_how_far_sources_have_come_is_told(
    split_bytes: int, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small files that are read together have a watermark each; what is no time moves none."""
    without_spark.install(monkeypatch)
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, str(split_bytes))
    files = {
        "a/1.csv": "id,at\n1,2024-01-01T10:00:00\n2,2024-01-01T12:00:00\n3,2024-01-01T11:00:00.250\n4,\n",
        "a/2.csv": "id,at\n1,2024-01-01T10:00:00.125\n2,later\n",
        "a/3.csv": "id,at\n1,\n",
        "a/4.csv": "id,at\n1,0001-01-01T00:00:29\n",
        "a/5.csv": "id,at\n1,0001-01-01T00:00:30\n",
        "b.csv": f"id,at\n1,{last}\n",
    }
    pipelines.write(tmp_path, {"pipeline.yaml": WATERMARKS, **files})
    outcome = pipelines.run(tmp_path, metrics_spool_dir=str(tmp_path / "spool"))
    assert outcome.result.metrics_path
    document = json.loads((tmp_path / outcome.result.metrics_path).read_text())
    assert document["per_source_file_watermarks"] == {
        "a": {
            "a/1.csv": "2024-01-01T11:59:30", "a/2.csv": "2024-01-01T09:59:30.125000", "a/3.csv": None, "a/4.csv": None,
            "a/5.csv": "0001-01-01T00:00:00",
        },
        "b": {"b.csv": f"{last}T00:00:00" if last else None},
    }  # fmt: skip
    assert document["per_source_watermarks"] == {
        "a": "0001-01-01T00:00:00",
        "b": f"{last}T00:00:00" if last else None,
    }
    assert document["effective_watermark"] == ("0001-01-01T00:00:00" if last else None)
