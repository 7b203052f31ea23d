"""Where dead letters are told of: every file that has some, and the log where a run has more than it may."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute.dlq import dropped
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: LETTERS}
nodes:
  - {type: source, name: a, config: {type: csv, path: a.csv, correlation_key: k, schema: {k: string, n: string}}}
  - {type: source, name: b, config: {type: csv, path: b.csv, correlation_key: k, schema: {k: string, n: string}}}
  - {type: merge, name: m, inputs: [a, b]}
  - {type: transform, name: t, input: m, config: {cxl: emit n = n.to_int()}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""
GOOD, BAD = "k,n\nx,1\ny,2\n", "k,n\nx,1\nx,?\ny,2\nz,3\n"
RATE = "max_rate: 0.4, min_records: 1"


@pytest.fixture(autouse=True, params=["whole", "cut"])
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    if request.param == "cut":
        pipelines.cut_by(monkeypatch, 5)


def run(folder: Path, letters: str, a: str, b: str, *options: str) -> int:
    pipelines.write(folder, {"pipeline.yaml": PIPELINE.replace("LETTERS", letters), "a.csv": a, "b.csv": b})
    return clinker.main(["run", "pipeline.yaml", "--metrics-spool-dir", "spool", *options])


@pytest.mark.parametrize(
    ("letters", "a", "b", "expected"),
    [
        ("{path: out/c.csv, per_source: {a: {path: out/a.csv}, b: {path: out/b.csv}}}", BAD, BAD, ["a", "b"]),
        ("{path: out/c.csv, per_source: {a: {path: out/a.csv}}}", BAD, BAD, ["c", "a"]),
        ("{path: out/c.csv, per_source: {a: {path: out/a.csv}}}", GOOD, BAD, ["c"]),
        ("{path: out/c.csv, per_source: {a: {path: out/a.csv}}}", BAD, GOOD, ["a"]),
        ("{path: out/c.csv}", GOOD, GOOD, []),
    ],
)
def test_the_summary_and_the_metrics_name_every_file(
    letters: str, a: str, b: str, expected: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(here / "out" / f"{name}.csv") for name in expected]
    bad = (a, b).count(BAD)
    stages = {"transform:t": bad, "correlation_commit": bad} if bad else {}
    once = ("--once", "nightly", "monday")
    for attempt in ("first", "again"):  # a second attempt does nothing, and says the same
        options = (*once, "--execution-id", attempt, *(["--retry"] if attempt == "again" else []))
        assert run(here, letters, a, b, *options) == (2 if expected else 0)
        told = [line for line in capsys.readouterr().out.splitlines() if "dead letters in" in line]
        assert told == [f"  dead letters in {file}" for file in files]
    document = json.loads((here / "spool" / "first.json").read_text())
    assert (document["dlq_paths"], document["dlq_path"]) == (files, files[0] if files else None)
    assert document["dlq_files"] == files
    assert document["dlq_stages"] == stages


def test_more_dead_letters_than_allowed_are_named_in_the_log(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file of them is published, and somebody has to mend them."""
    why = "row 2: field 'n': conversion failed: cannot convert '?' to Int"
    expected = [
        f"WARNING dead letter: a.csv, row 1: correlated with failure in group: {why} (correlation_commit, correlated)",
        f"WARNING dead letter: a.csv, {why} (transform:t, type_coercion_failure)",
        f"WARNING dead letter: b.csv, row 1: correlated with failure in group: {why} (correlation_commit, correlated)",
        f"WARNING dead letter: b.csv, {why} (transform:t, type_coercion_failure)",
    ]
    assert run(here, f"{{path: out/c.csv, per_source: {{b: {{path: out/b.csv}}}}, {RATE}}}", BAD, BAD) == 3
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("WARNING")] == expected
    assert "the dead-letter rate of the pipeline is 0.5000 (4 dead letters, 8 records), max_rate is 0.4" in lines[-3]
    assert not (here / "out").exists()
    assert run(here, "{path: out/c.csv}", BAD, BAD, "--error-threshold", "2") == 3
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("WARNING")] == expected
    # What has no file in any case is told of as ever, and once.
    assert run(here, f"{{{RATE}}}", BAD, BAD) == 3
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("WARNING")]
    assert told == [line.replace("dead letter:", "dropped") for line in expected]


def test_of_very_many_the_first_are_named(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropped, "UNPUBLISHED", 2)
    assert run(here, f"{{path: out/c.csv, {RATE}}}", BAD, BAD) == 3
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("WARNING")]
    assert [line.split(":")[1] for line in told[:2]] == [" a.csv, row 1", " a.csv, row 2"]
    assert told[2:] == ["WARNING 2 more dead letters; a run that fails writes no file of them"]
