"""Window functions that give one long value to many rows: rows get it as many at a time as there is room for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.nodes.transform import across_run
from spark_jobs.nodes.windows import running
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

_PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: json, path: in.json, schema: {p: string, n: int, t: string, h: any}}}
  - type: transform
    name: w
    input: s
    config:
      analytic_window: WINDOW
      cxl: CXL
  - {type: output, name: o, input: w, config: {type: csv, path: out/o.csv, columns: [n, length]}}
"""
_ROWS, _LONG = 1500, 100_000
_LIMIT = 64 << 20
#: Of the memory of the one task, what its results may take; they would take 150 MB.
_ROOM = _LIMIT // 2
_OWN = "{group_by: [p], sort_by: [n]}"


def _run(folder: Path, call: str, window: str = _OWN) -> pipelines.Outcome:
    """1500 rows of a partition, of which the first has a long text, and a few of another."""
    rows = [
        {"p": "a", "n": n, "t": "x" * _LONG if n == 0 else "a", "h": "x" * _LONG if n == 0 else n} for n in range(_ROWS)
    ]
    rows += [{"p": "b", "n": n, "t": "bc", "h": "bc"} for n in range(3)]
    before = "let m = $window.max(t)\n" if "(m)" in call else ""
    cxl = json.dumps(f"{before}let v = {call}\nemit length = v.to_string().length()")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    pipeline = _PIPELINE.replace("WINDOW", window).replace("CXL", cxl)
    pipelines.write(folder, {"pipeline.yaml": pipeline, "in.json": lines.encode()})
    return pipelines.run(folder, threads=1, memory_limit_bytes=_LIMIT)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of all that was given to rows at once."""
    without_spark.install(monkeypatch)
    found: list[int] = []

    def measured(real: Any) -> Any:
        def measure(*given: Any) -> Any:
            result = real(*given)
            found.append(result.nbytes)
            return result

        return measure

    for place, name in ((running.Running, "columns"), (across_run.foreign_frames, "with_results")):
        monkeypatch.setattr(place, name, measured(getattr(place, name)))
    return found


@pytest.mark.parametrize(
    ("call", "window"),
    [
        ("$window.first(t)", _OWN),
        ("$window.max(t)", _OWN),
        ("$window.min(t + n.to_string())", "{group_by: [p], sort_by: [{field: n, order: desc}]}"),
        ("$window.first(h)", _OWN),
        ("$window.max(m)", _OWN),
        ("$window.max(t)", "{source: s, group_by: [p]}"),
        ("$window.first(t)", "{source: s, group_by: [p], sort_by: [n]}"),
    ],
)
def test_a_long_value_is_given_to_a_few_rows_at_a_time(
    call: str, window: str, sizes: list[int], tmp_path: Path
) -> None:
    outcome = _run(tmp_path, call, window)
    assert outcome.result.error is None
    assert max(sizes) < _ROOM
    found = [line.split(",") for line in pipelines.outputs(tmp_path)["o.csv"].decode().split()[1:]]
    assert [int(n) for n, _ in found] == [*range(_ROWS), 0, 1, 2]
    if "min" not in call:
        assert [int(length) for _, length in found] == [_LONG] * _ROWS + [2] * 3


def test_values_that_all_rows_of_a_partition_need_at_once_have_to_fit(sizes: list[int], tmp_path: Path) -> None:
    """Each record says how far it looks, so the whole partition is at hand."""
    error = _run(tmp_path, "$window.lag(n, t)").result.error
    assert error is not None
    assert error.code == "E310"
    assert "transform 'w'" in str(error)
    assert "what `$window.lag(n, t)` gives to the rows of a partition needs 1500" in str(error)
    assert "raise memory.limit, use fewer threads, or group by more fields" in str(error)
