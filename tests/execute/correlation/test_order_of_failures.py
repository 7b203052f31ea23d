"""Failures that depend on the fewest others are settled first, whatever else fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
