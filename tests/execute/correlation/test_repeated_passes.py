"""Passes that are repeated read what one of them has written down, and leave out what they do not have to find."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.correlation.iteration import Iteration
from spark_jobs.execute.correlation.state import Goal, PassState
from spark_jobs.execute.run import passes
from spark_jobs.nodes.terms.shape import Role
from tests.execute import correlated_runs, pipelines
from tests.execute.correlation.test_correlation import output
from tests.execute.correlation.test_retraction import HEAD, drawn, refusing, summed, text

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.execute.tasks.spec import JobSpec

#: Two aggregates that take records out of each other, until nothing fails; what is read shows its place and file.
ROUNDS = (
    HEAD
    + "      - {type: transform, name: t, input: s, config: {cxl: emit w = v}}\n"
    + summed("x", "t", "a")
    + refusing("cx", "x", 240)
    + summed("y", "t", "b")
    + refusing("cy", "y", 300)
    + output("ox", "cx")
    + output("oy", "cy")
    + output("o", "t", ", include_correlation_keys: true")
)
DATA = text(drawn(2))
#: The same, with records that fail before.
FAILING = {"pipeline.yaml": ROUNDS.replace("emit w = v", "emit w = 1 / (v - 7)"), "in.csv": DATA + "k1,a1,b1,?\n"}


def _ran(folder: Path, files: dict[str, str]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The outputs, entries without their ids and times, and what metrics tell but times and how it came about."""
    pipelines.write(folder, files)
    outcome = pipelines.run(folder, force=True, metrics_spool_dir=str(folder / "metrics"))
    assert (outcome.result.error, outcome.result.exit_code) == (None, 2)
    found = pipelines.outputs(folder)
    found["dead.csv"] = b"\n".join(line.split(b",", 2)[-1] for line in found["dead.csv"].splitlines())
    (path,) = (folder / "metrics").iterdir()
    told = json.loads(path.read_text())
    path.unlink()
    told["correlation"].pop("passes")
    return found, {name: told[name] for name in ("correlation", "nodes", "records_ok", "dlq_count") if name in told}


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("name", ["retracted", "correlated"])
def test_nothing_is_different_from_passes_that_read_and_write_everything(
    tmp_path: Path, jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch, name: str, splits: int
) -> None:
    correlated = name == "correlated"
    files = correlated_runs.files(160) if correlated else FAILING
    pipelines.write(tmp_path, files)
    pipelines.with_splits(monkeypatch, tmp_path, "lines.csv" if correlated else "in.csv", splits)
    found = _ran(tmp_path, files)
    assert any(spec.job.readers for spec in jobs)
    with monkeypatch.context() as patched:
        patched.setattr(PassState, "is_one_of_many", property(lambda _: False))
        patched.setattr(passes.Pass, "_unwanted", lambda _: set())
        jobs.clear()
        expected = _ran(tmp_path, files)
    assert not any(any(op.role is Role.READ_MATERIALIZED for op in spec.job.readers) for spec in jobs)
    assert found[0] == expected[0]
    assert found[1] == expected[1]


def test_inputs_are_read_twice_however_many_passes_there_are(tmp_path: Path, jobs: list[JobSpec]) -> None:
    _ran(tmp_path, {"pipeline.yaml": ROUNDS, "in.csv": DATA})
    assert max(spec.state.number for spec in jobs) >= 6
    assert sum(bool(spec.job.sources) for spec in jobs) == 2


def test_outputs_are_written_by_the_first_pass_and_by_the_last(tmp_path: Path, jobs: list[JobSpec]) -> None:
    _ran(tmp_path, {"pipeline.yaml": ROUNDS, "in.csv": DATA})
    writing = [_reaches(spec, "o") for spec in jobs]
    assert (writing[0], writing[-1], sum(writing)) == (True, True, 2)


def test_an_output_at_which_records_can_fail_is_written_by_all(tmp_path: Path, jobs: list[JobSpec]) -> None:
    narrow = ROUNDS.replace("path: out/o.csv", "path: out/o.csv, options: {encoding: latin-1}")
    assert narrow != ROUNDS
    _ran(tmp_path, {"pipeline.yaml": narrow, "in.csv": DATA})
    settling = [spec for spec in jobs if spec.state.is_intermediate and not spec.state.goal.is_search]
    assert settling
    assert all(_reaches(spec, "o") and not _reaches(spec, "ox") for spec in settling)


def _reaches(spec: JobSpec, name: str) -> bool:
    return any(target.op == name for op in spec.job.ops.values() for target in op.targets)


#: Records that no others depend on: lines of orders, some of which do not convert, fail, or cannot be written.
ALONE = """
    pipeline: {name: p}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv}, MORE}
    nodes:
      - type: source
        name: s
        config: {type: csv, path: in.csv, correlation_key: k, schema: {k: string, v: int, t: string}}
      - type: source
        name: u
        config: {type: csv, path: others.csv, correlation_key: [k, t], schema: {k: string, v: int, t: string}}
      - {type: merge, name: m, inputs: [s, u]}
      - {type: transform, name: c, input: m, config: {cxl: "filter v != 5\\nemit w = 1 / (v - 7)"}}
      - {type: route, name: r, input: c, config: {conditions: {odd: v % 2 == 1}, default: rest}}
      - {type: output, name: odd, input: r.odd, config: {type: csv, path: out/odd.csv, include_correlation_keys: true}}
      - {type: output, name: rest, input: r.rest, config: {type: json, path: out/rest.json, sort_order: [t, v]}}
      - {type: output, name: all, input: s, config: {type: csv, path: out/all.csv, options: {encoding: latin-1}}}
"""


def _lines(bad: dict[int, str], count: int = 400) -> str:
    """Five lines for each order; some are others."""
    lines = (bad.get(number, f"o{number // 5},{number % 6},t{number % 3}") for number in range(count))
    return "k,v,t\n" + "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    "more", ["max_group_buffer: 100", "max_group_buffer: 12", "correlation_fanout_policy: primary"]
)
@pytest.mark.parametrize(
    "bad",
    [
        {7: "o1,?,t1"},
        {7: "o1,7,t1", 203: "o40,7,t1"},
        {7: "o1,1,\u20ac", 8: ",?,t", 9: ",1,t"},
        {number: f"o3,{number % 4},t1" for number in range(20, 31)} | {99: "o19,?,t"},
    ],
    ids=["read", "computed", "written", "large"],
)
def test_tasks_without_records_of_rejected_groups_are_not_run_again(
    tmp_path: Path, jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch, bad: dict[int, str], more: str
) -> None:
    files = {"pipeline.yaml": ALONE.replace("MORE", more), "in.csv": _lines(bad), "others.csv": _lines({3: "o0,x,t"})}
    pipelines.write(tmp_path, files)
    pipelines.with_splits(monkeypatch, tmp_path, "in.csv", 12)
    found = _ran(tmp_path, files)
    writing = [len(spec.loads) for spec in jobs if not spec.state.goal.is_search]
    assert writing[0] > 20
    assert all(0 < loads < 12 for loads in writing[1:])
    with monkeypatch.context() as patched:
        patched.setattr(Iteration, "unaffected_tasks", lambda *_: frozenset())
        assert _ran(tmp_path, files) == found


def test_where_all_groups_are_rejected_all_tasks_are_run_again(
    tmp_path: Path, jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = {number: f"o{number // 5},?,t" for number in range(0, 400, 5)}
    files = {"pipeline.yaml": ALONE.replace(", MORE", ""), "in.csv": _lines(bad), "others.csv": _lines(bad)}
    pipelines.write(tmp_path, files)
    pipelines.with_splits(monkeypatch, tmp_path, "in.csv", 12)
    found = _ran(tmp_path, files)[0]
    assert found["all.csv"] == b"k,v,t\n"
    assert len({len(spec.loads) for spec in jobs}) == 1


def test_records_of_rows_are_looked_for_without_an_exchange(tmp_path: Path, jobs: list[JobSpec]) -> None:
    nested = ROUNDS.replace("input: cx,", "input: cz,") + summed("z", "cx", "", "count(*)") + refusing("cz", "z", 3)
    for text_, is_short in ((ROUNDS, True), (nested, False)):
        jobs.clear()
        _ran(tmp_path, {"pipeline.yaml": text_, "in.csv": DATA})
        looking = [spec.job for spec in jobs if spec.state.goal is Goal.RETRACTED_RECORDS and not spec.job.sources]
        assert looking
        assert all((job.stages == 1) is is_short for job in looking)
