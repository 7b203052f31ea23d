"""Arrays of frames are as large as the square of a partition: rows get them as many at a time as there is room for."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_jobs.nodes import memory
from spark_jobs.nodes.windows.kernels import by_row, lists
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.execute.run.metrics import Outcome

ROWS = 400
STEP = 4000


def value(row: int) -> Any:
    return [row % 5, f"t{row % 7}", row % 5 + 0.5][row % 3]


def ran(folder: Path, cxl: str, window: dict[str, Any], limit: str = "8M") -> Outcome:
    """400 rows: `p` has two partitions, one behind the other."""
    rows = "".join(json.dumps({"id": i, "p": i // 300, "n": i % 9, "h": value(i)}) + "\n" for i in range(ROWS))
    schema = {"id": "int", "p": "int", "n": "int", "h": "any"}
    source = {"type": "json", "path": "in.ndjson", "options": {"format": "ndjson"}, "schema": schema}
    nodes = [
        {"type": "source", "name": "s", "config": source},
        {"type": "transform", "name": "w", "input": "s", "config": {"cxl": cxl, "analytic_window": window}},
        {"type": "output", "name": "o", "input": "w",
         "config": {"type": "json", "path": "out/o.ndjson", "options": {"format": "ndjson"}}},
    ]  # fmt: skip
    text = yaml.safe_dump({"pipeline": {"name": "p", "memory": {"limit": limit}}, "nodes": nodes})
    pipelines.write(folder, {"pipeline.yaml": text, "in.ndjson": rows})
    return pipelines.run(folder)


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out/o.ndjson").read_text().splitlines()]


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small steps; gives the number of values that each result had."""
    without_spark.install(monkeypatch)
    monkeypatch.setattr(memory, "step_bytes", lambda share: STEP)
    found: list[int] = []
    for kernel in (lists.Collect, by_row.ByRow):
        plain = kernel.ended

        def ended(self: Any, *given: Any, plain: Any = plain) -> Any:
            result = plain(self, *given)
            arrays = [each if isinstance(each, list) else json.loads(each) for each in result.values.to_pylist()]
            found.append(sum(map(len, arrays)))
            return result

        monkeypatch.setattr(kernel, "ended", ended)
    return found


CXL = """
emit all = $window.collect(n)
emit kinds = $window.distinct(n)
emit any = $window.collect(h).length()
emit some = $window.distinct(h).length()
emit next = $window.lead(2, id)
emit before = $window.lag(3, id)
emit total = $window.sum(n)
"""


@pytest.mark.parametrize("more", ["", "emit far = $window.lag(id % 3, id)\n"], ids=["pieces", "whole partitions"])
def test_arrays_are_made_a_few_rows_at_a_time(more: str, largest: list[int], tmp_path: Path) -> None:
    outcome = ran(tmp_path, CXL + more, {"group_by": ["p"]}, limit="64M")
    assert outcome.result.error is None
    for row, one in enumerate(written(tmp_path)):
        first = row // 300 * 300
        frame = [i % 9 for i in range(first, row + 1)]
        values = [value(i) for i in range(first, row + 1)]
        end = 300 if row < 300 else ROWS
        assert one["all"] == frame
        assert one["kinds"] == list(dict.fromkeys(frame))
        assert (one["any"], one["some"]) == (len(values), len({(type(v), v) for v in values}))
        assert one.get("next") == (row + 2 if row + 2 < end else None)
        assert one.get("before") == (row - 3 if row - 3 >= first else None)
        assert one["total"] == sum(frame)
        if more:
            assert one.get("far") == (row - row % 3 if row - row % 3 >= first else None)
    if not more:
        # Each row's own array is there in any case, several take no more than a step.
        assert max(largest) <= 300


def test_the_argument_may_be_what_another_function_gave(largest: list[int], tmp_path: Path) -> None:
    cxl = "let total = $window.sum(n)\nemit totals = $window.collect(total)"
    assert ran(tmp_path, cxl, {"group_by": ["p"]}).result.error is None
    for row, one in enumerate(written(tmp_path)):
        frame = [i % 9 for i in range(row // 300 * 300, row + 1)]
        assert one["totals"] == [sum(frame[: i + 1]) for i in range(len(frame))]
    assert max(largest) <= 300


def test_arrays_of_another_source_are_given_to_a_few_records_at_a_time(largest: list[int], tmp_path: Path) -> None:
    window = {"source": "s", "group_by": ["p"]}
    cxl = """
    let own = n
    emit all = $window.collect(id).length()
    emit kinds = $window.distinct(h).length()
    emit sums = $window.distinct(n + own).length()
    """
    assert ran(tmp_path, cxl, window).result.error is None
    kinds = [len({(type(value(i)), value(i)) for i in range(a, b)}) for a, b in ((0, 300), (300, ROWS))]
    told = [(one["all"], one["kinds"], one["sums"]) for one in written(tmp_path)]
    assert told == [(300, kinds[0], 9)] * 300 + [(100, kinds[1], 9)] * 100


@pytest.mark.parametrize("window", [{"group_by": []}, {"group_by": [], "source": "s"}], ids=["own", "other"])
def test_an_array_that_does_not_fit_ends_the_run_with_its_node(
    window: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setattr(memory, "record_bytes", lambda share: 5000)
    outcome = ran(tmp_path, "emit all = $window.collect(id)", window)
    assert outcome.result.error is not None
    told = str(outcome.result.error)
    assert "E310" in told
    assert "transform 'w'" in told
    assert "`$window.collect(id)`" in told
    needed, most = map(int, re.findall(r"need (\d+) bytes at once, more than (\d+), a third", told)[0])
    assert needed > most
