"""Failures that depend on the fewest others are settled first, whatever else fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.run import passes
from tests.execute import pipelines, without_spark
from tests.execute.correlation.test_correlation import rows

if TYPE_CHECKING:
    from pathlib import Path

#: What fails at `checked` depends on records of the other source alone, behind an aggregate and a combine; what fails
#: at `counted` on the records beside it.
PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - type: source
    name: s
    config: {type: csv, path: in.csv, correlation_key: k, schema: {k: string, a: string, n: int}}
  - type: source
    name: other
    config: {type: csv, path: other.csv, correlation_key: k, schema: {k: string, a: string, n: int}}
  - {type: aggregate, name: sums, input: other, config: {group_by: [k, a], cxl: emit n = sum(n)}}
  - type: combine
    name: joined
    input: {d: s, b: sums}
    config: {where: d.a == b.a, match: first, on_miss: null_fields, propagate_ck: driver,
      cxl: "emit k = d.k\\nemit n = d.n"}
  - {type: transform, name: checked, input: joined, config: {cxl: "emit m = 1 / (n - 7)"}}
  - type: transform
    name: counted
    input: s
    config: {cxl: emit c = $window.count(), analytic_window: {group_by: [a]},
      validations: [{name: few, check: c < 3, message: too many}]}
  - {type: output, name: o, input: checked, config: {type: csv, path: out/o.csv}}
  - {type: output, name: p, input: counted, config: {type: csv, path: out/p.csv}}
"""
DATA = "k,a,n\nk1,x,1\nk2,x,7\nk3,x,2\n"


@pytest.mark.parametrize("broken", ["", "k4,y,?\n"], ids=["no other", "another"])
@pytest.mark.parametrize("splits", [1, 3])
def test_a_record_that_fails_behind_others_counts_in_windows_that_fail_before(
    broken: str, splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "in.csv": DATA + broken, "other.csv": "k,a,n\nk9,x,1\n"})
    if splits > 1:
        pipelines.with_splits(monkeypatch, tmp_path, "in.csv", splits)
    outcome = pipelines.run(tmp_path)
    assert outcome.result.error is None
    found = pipelines.outputs(tmp_path)
    assert [row["k"] for row in rows(found["p.csv"])] == [row["k"] for row in rows(found["o.csv"])] == ["k1"]
    told = {(row["k"], row["_cxl_dlq_stage"]) for row in rows(found["dead.csv"])}
    assert told >= {("k2", "transform:checked"), ("k3", "transform:counted")}


#: Rows of two aggregates begin with the same record and fail, at nodes that other tasks run.
TIED = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - type: source
    name: s
    config: {type: csv, path: in.csv, correlation_key: k, schema: {k: string, a: string, b: string, n: int}}
  - {type: aggregate, name: by_b, input: s, config: {group_by: [k, b], cxl: emit n = sum(n)}}
  - {type: transform, name: first, input: by_b, config: {cxl: emit m = 1 / (n - 7)}}
  - {type: aggregate, name: by_a, input: s, config: {group_by: [k, a], cxl: emit n = sum(n)}}
  - {type: transform, name: second, input: by_a, config: {cxl: emit m = 1 / (n - 7)}}
  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}
  - {type: output, name: p, input: first, config: {type: csv, path: out/p.csv}}
  - {type: output, name: q, input: second, config: {type: csv, path: out/q.csv}}
"""


@pytest.mark.parametrize("splits", [1, 5])
@pytest.mark.parametrize("step", [1, -1], ids=["in order", "reversed"])
def test_of_rows_that_begin_with_one_record_the_first_node_in_the_file_is_named(
    step: int, splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order tasks end."""
    without_spark.install(monkeypatch)
    monkeypatch.setattr(passes.chain, "run", lambda *job: [*without_spark.run_chain(*job)][::step])
    data = "k,a,b,n\n" + "".join(f"k{number},x,y,7\nk{number},u,w,1\n" for number in range(24))
    pipelines.write(tmp_path, {"pipeline.yaml": TIED, "in.csv": data})
    if splits > 1:
        pipelines.with_splits(monkeypatch, tmp_path, "in.csv", splits)
    assert pipelines.run(tmp_path).result.error is None
    entries = rows(pipelines.outputs(tmp_path)["dead.csv"])
    details = [row["_cxl_dlq_error_detail"] for row in entries if row["_cxl_dlq_error_category"] == "correlated"]
    assert len(details) > 24
    assert {detail.rpartition("at '")[2] for detail in details} == {"first')"}


#: A record fails at two nodes behind a merge that cuts its key.
CUT = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - type: source
    name: s
    config: {type: csv, path: in.csv, correlation_key: [k, a], schema: {k: string, a: string, n: int}}
  - type: source
    name: other
    config: {type: csv, path: other.csv, correlation_key: k, schema: {k: string, a: string, n: int}}
  - {type: merge, name: m, inputs: [s, other]}
  - type: transform
    name: first
    input: m
    config: {cxl: emit m = n, validations: [{name: few, check: n < 7, message: too many}]}
  - type: transform
    name: second
    input: m
    config: {cxl: emit m = n, validations: [{name: few, check: n < 7, message: a lot}]}
  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}
  - {type: output, name: p, input: first, config: {type: csv, path: out/p.csv}}
  - {type: output, name: q, input: second, config: {type: csv, path: out/q.csv}}
"""


def test_a_record_that_fails_twice_is_named_with_the_reason_of_its_own_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    pipelines.write(tmp_path, {"pipeline.yaml": CUT, "in.csv": "k,a,n\nk1,x,9\nk1,x,1\n", "other.csv": "k,a,n\n"})
    assert pipelines.run(tmp_path).result.error is None
    details = [row["_cxl_dlq_error_detail"] for row in rows(pipelines.outputs(tmp_path)["dead.csv"])]
    assert details == ["too many", "correlated with failure in group: row 1: too many"]
