"""The order of several dead letters of one record at one node: that of its children, whatever batches they came in."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cxl.kernels import each
from spark_jobs.nodes.records import batches
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - type: source
    name: a
    config: {name: a, type: csv, path: in/a.csv, schema: {id: int, v: string}}
  - type: transform
    name: words
    input: a
    config:
      cxl: |
        emit each it in v.split(" ") {
          emit v = it
        }
"""
CHECKED = """
  - type: transform
    name: checked
    input: {above}
    config:
      cxl: emit n = v.to_int()
      validations:
        - {{name: small, check: n < 9, message: too large}}
        - {{name: positive, check: n > 0, message: not positive}}
  - type: output
    name: o
    input: checked
    config: {{name: o, type: csv, path: out/o.csv}}
"""
#: What stands between the children and the node where some fail.
BETWEEN = {
    "words": "",
    "keep": """
  - type: transform
    name: keep
    input: words
    config: {cxl: distinct}
""",
    "joined": """
  - type: route
    name: ways
    input: words
    config: {mode: inclusive, conditions: {every: id > 0, all_: id > 0}, default: none_}
  - type: merge
    name: joined
    inputs: [ways.all_, ways.every]
""",
    "met": """
  - type: combine
    name: met
    input: {d: words, b: a}
    config: {where: d.id == b.id, match: all, on_miss: skip, cxl: "emit id = d.id\\nemit v = d.v", strategy: STRATEGY}
""",
}
#: Each child of the first two records that fails, and why; others go well.
ROWS = "id,v\n1,0 x 5 10 y 0\n2,4\n3,z 11 0 w\n"
FAILED = [("1", word) for word in ("0", "x", "10", "y", "0")] + [("3", word) for word in ("z", "11", "0", "w")]


def failed(folder: Path) -> list[tuple[str, str]]:
    """The row of each dead letter, and the value that failed, as far as its words tell."""
    rows = csv.DictReader(io.StringIO((folder / "out" / "dead.csv").read_text()))
    words = {"too large": "large", "not positive": "0"}
    found = []
    for row in rows:
        detail = row["_cxl_dlq_error_detail"]
        word = row["_cxl_dlq_triggering_value"] or next(name for text, name in words.items() if text in detail)
        found.append((row["_cxl_dlq_source_row"], word))
    return found


def expected(times: int = 1, *, is_distinct: bool = False) -> list[tuple[str, str]]:
    found = []
    for row in ("1", "3"):
        mine = [word if word not in ("10", "11") else "large" for number, word in FAILED if number == row]
        found += [(row, word) for word in (dict.fromkeys(mine) if is_distinct else mine * times)]
    return found


@pytest.mark.parametrize(
    ("split_bytes", "rows", "is_native"),
    [(10**9, 65_536, True), (10**9, 1, False), (9, 2, True)],
    ids=["whole", "row by row", "in splits"],
)
@pytest.mark.parametrize("between", ["words", "keep", "joined", "met", "met in partitions"])
def test_letters_come_in_the_order_of_children(
    between: str, split_bytes: int, rows: int, is_native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, split_bytes)
    monkeypatch.setattr(batches.Batch.slices, "__defaults__", (rows,))
    if not is_native:
        monkeypatch.setattr(each, "is_native", lambda program: False)
    above = between.partition(" ")[0]
    strategy = "grace_hash" if "partitions" in between else "auto"
    text = HEAD + BETWEEN[above].replace("STRATEGY", strategy) + CHECKED.format(above=above)
    pipelines.write(tmp_path, {"in/a.csv": ROWS, "pipeline.yaml": text})
    tuning = Tuning(probe_rows=rows, write_rows=rows)
    assert pipelines.run(tmp_path, tuning=tuning).result.exit_code == 2
    assert failed(tmp_path) == expected(2 if between == "joined" else 1, is_distinct=between == "keep")


@pytest.mark.parametrize("split_bytes", [10**9, 9])
def test_what_fails_before_a_distinct_comes_before_what_fails_behind_it(
    split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, split_bytes)
    text = HEAD + CHECKED.format(above="words").replace(
        "cxl: emit n = v.to_int()", 'cxl: "emit n = v.to_int()\\ndistinct"'
    )
    pipelines.write(tmp_path, {"in/a.csv": ROWS, "pipeline.yaml": text})
    assert pipelines.run(tmp_path).result.exit_code == 2
    assert failed(tmp_path) == [
        *(("1", word) for word in ("x", "y", "0", "large")),
        *(("3", word) for word in ("z", "w", "large")),
    ]


@pytest.mark.parametrize("rows", [1, 2, 65_536])
@pytest.mark.parametrize("above", ["words", "joined"])
def test_the_first_child_that_fails_ends_a_run(
    above: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its validation runs after the program that fails for another child."""
    without_spark.install(monkeypatch)
    monkeypatch.setattr(batches.Batch.slices, "__defaults__", (rows,))
    head = HEAD.replace("{strategy: continue, dlq: {path: out/dead.csv}}", "{strategy: fail_fast}")
    text = head + BETWEEN[above] + CHECKED.format(above=above)
    pipelines.write(tmp_path, {"in/a.csv": ROWS, "pipeline.yaml": text})
    error = pipelines.run(tmp_path).result.error
    assert error is not None
    assert "not positive" in error.message
