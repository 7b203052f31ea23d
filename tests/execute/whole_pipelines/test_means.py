"""Means of whole numbers are rounded once, in aggregates, in windows, and for values of any kind."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.nodes.aggregate import exact
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - type: source
    name: s
    config: {type: json, path: in.ndjson, options: {format: ndjson}, schema: {g: int, n: int, h: any}}
  - type: transform
    name: w
    input: s
    config: {analytic_window: {group_by: [g]}, cxl: "emit a = $window.avg(n)\\nemit b = $window.avg(h)"}
  - type: aggregate
    name: m
    input: w
    config: {group_by: [g], cxl: "emit a = last(a)\\nemit b = last(b)\\nemit c = avg(n)\\nemit d = avg(h)"}
  - {type: output, name: o, input: m, config: {type: json, path: out/o.ndjson, options: {format: ndjson}}}
"""


@pytest.mark.parametrize("size", [10**9, 4000])
def test_means_are_the_nearest_doubles(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, size)
    chance = random.Random(3)
    draws = (lambda: chance.randrange(-(2**62), 2**62), lambda: chance.randrange(2**53, 2**55), lambda: 7)
    rows = [(g, chance.choice(draws)()) for g in range(200) for _ in range(chance.randint(1, 7))]
    text = "".join(json.dumps({"g": g, "n": n, "h": n}) + "\n" for g, n in rows)
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "in.ndjson": text})
    assert pipelines.run(tmp_path).result.error is None
    for one in map(json.loads, (tmp_path / "out/o.ndjson").read_text().splitlines()):
        values = [n for g, n in rows if g == one["g"]]
        mean = float(Fraction(sum(values), len(values)))
        assert [one[name] for name in "abcd"] == [mean] * 4


def test_digits_of_decimals_are_their_numbers() -> None:
    """Negative ones, nulls, and parts of columns."""
    numbers = [0, 1, -1, 2**31, -(2**32), 2**63, -(2**63) - 1, 2**90 + 1, -(2**90), None, 12345678901234567890]
    decimals = pa.array(numbers, pa.decimal128(38, 0))
    for start in (0, 3):
        some, wanted = decimals.slice(start), numbers[start:]
        digits = exact.of_ints(some)
        found = [sum(int(digits[k][i].as_py() or 0) << (32 * k) for k in digits) for i in range(len(some))]
        assert found == [number or 0 for number in wanted]
        assert digits[0].is_null().to_pylist() == [number is None for number in wanted]
        nearest = exact.Totals.of_ints(some).nearest().to_pylist()
        assert nearest == [None if number is None else float(number) for number in wanted]
    small = exact.Totals.of_ints(decimals.slice(0, 5).take(pa.array([0, 1, 4, None], pa.int64())))
    assert small.divided(exact.Totals.of_counts(pa.array(np.array([1, 2, 4, 1])))).to_pylist() == [
        0.0,
        0.5,
        -(2.0**30),
        None,
    ]
