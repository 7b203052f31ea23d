"""How many records came to an output: each is counted once, whatever became of its children and copies."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.execute import ok_records
from spark_jobs.execute.scratch import Scratch
from spark_jobs.execute.spark import spread
from spark_jobs.execute.tasks.written_rows import WrittenRows
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, tags: string}}}
  - type: transform
    name: t
    input: s
    config:
      cxl: |
        emit each tag in tags.split("-") {
          emit tag = tag
          emit n = id
        }
      validations: [{name: v, check: 'tag != "x"'}]
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""


def result(folder: Path, nodes: str = "", **files: str) -> tuple[int, int, int]:
    pipelines.write(folder, {"pipeline.yaml": PIPELINE + nodes, **files})
    found = pipelines.run(folder).result
    assert found.error is None
    return found.records_total, found.records_ok, found.records_written


@pytest.fixture(autouse=True, params=["whole", "cut"])
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    if request.param == "cut":
        pipelines.cut_by(monkeypatch, 12)


def test_a_record_whose_children_fail_in_part_is_ok_once(tmp_path: Path) -> None:
    """Four records, eight children of which five fail: the record of `x-x` alone has come to no output."""
    data = "id,tags\n1,a-b-x\n2,x-x\n3,x-c\n4,x\n"
    assert result(tmp_path, **{"in.csv": data}) == (4, 2, 3)


def test_a_record_in_several_outputs_and_jobs_is_counted_once(tmp_path: Path) -> None:
    more = """
  - {type: transform, name: d, input: s, config: {cxl: "filter id != 3\\ndistinct by tags"}}
  - {type: output, name: p, input: d, config: {type: csv, path: out/p.csv}}
  - {type: transform, name: w, input: s, config: {analytic_window: {}, cxl: "filter $window.count() > 0"}}
  - {type: merge, name: m, inputs: [s, w, w], config: {mode: interleave}}
  - {type: transform, name: l, input: m, config: {cxl: "filter id < 3"}}
  - {type: output, name: q, input: l, config: {type: csv, path: out/q.csv}}
"""
    data = "id,tags\n1,x\n2,x\n3,x\n4,y\n5,x\n6,a\n"
    # In `o` 4 and 6, in `p` 1, 4 and 6, in `q` 1 and 2.
    assert result(tmp_path, more, **{"in.csv": data}) == (6, 4, 2 + 3 + 6)


def test_a_group_stands_for_its_first_record_and_a_match_for_the_driver(tmp_path: Path) -> None:
    nodes = """
  - {type: source, name: b, config: {type: csv, path: b.csv, schema: {id: int, name: string}}}
  - type: combine
    name: c
    input: {l: s, r: b}
    config: {where: l.id == r.id, match: all, cxl: "emit tags = l.tags\\nemit name = r.name"}
  - {type: aggregate, name: g, input: c, config: {group_by: [tags], cxl: "emit n = count(*)"}}
  - {type: output, name: p, input: g, config: {type: csv, path: out/p.csv}}
"""
    data = {"in.csv": "id,tags\n1,x\n2,x\n3,x\n4,x\n", "b.csv": "id,name\n2,a\n2,b\n3,c\n"}
    assert result(tmp_path, nodes, **data) == (7, 1, 1)


def test_a_global_row_of_no_records_is_none(tmp_path: Path) -> None:
    nodes = """
  - {type: aggregate, name: g, input: t, config: {group_by: [], cxl: "emit n = count(*)"}}
  - {type: output, name: p, input: g, config: {type: csv, path: out/p.csv}}
"""
    assert result(tmp_path, nodes, **{"in.csv": "id,tags\n"}) == (0, 0, 1)


@pytest.mark.parametrize("seed", range(6))
def test_bits_of_several_tasks_are_joined(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any rows of any splits, in batches, told in reports and in files, joined here and by tasks."""
    chance = random.Random(seed)
    tuning = Tuning(
        inline_bits_bytes=chance.choice([0, 300, 10**6]),
        bits_chunks=chance.choice([1, 2, 1024]),
        driver_ok_records=chance.choice([0, 10**9]),
        ok_tasks=chance.choice([1, 3, 64]),
    )
    monkeypatch.setattr(spread, "_answers", without_spark.answers)
    known: set[tuple[int, int]] = set()
    data = []
    for task in range(8):
        marks = WrittenRows()
        for _ in range(chance.randint(0, 5)):
            split = chance.choice([task, task, 0, 70_000])
            rows = sorted(chance.choice([chance.randrange(50), chance.randrange(300_000), 2**33]) for _ in range(40))
            known |= {(split, row) for row in rows}
            marks.add(pa.array([split] * 40 + [-1], pa.int32()), pa.array([*rows, -1], pa.int64()))
        bits = marks.encoded(str(tmp_path / f"{task}.arrow"), tuning)
        data += [bits] if bits else []
    assert ok_records.count(None, data, Scratch(str(tmp_path)), tuning) == len(known)  # type: ignore[arg-type]


def test_what_the_driver_gets_does_not_grow_with_records(tmp_path: Path) -> None:
    """All rows of a split, and every other one, are few bytes; random ones are a file."""
    for number, rows in enumerate([np.arange(3_000_000), np.arange(0, 3_000_000, 2)]):
        marks = WrittenRows()
        for start in range(0, len(rows), 65_536):
            some = rows[start : start + 65_536]
            marks.add(pa.array(np.full(len(some), number, np.int32)), pa.array(some))
        bits = marks.encoded(str(tmp_path / f"{number}"), Tuning())
        assert bits is not None
        assert (bits.count, bits.splits) == (len(rows), (number, number))
        assert len(bits.data) < 1000
    marks = WrittenRows()
    chosen = np.flatnonzero(np.random.default_rng(1).random(500_000) < 0.5)
    marks.add(pa.array(np.zeros(len(chosen), np.int32)), pa.array(chosen))
    bits = marks.encoded(str(tmp_path / "random"), Tuning())
    assert bits is not None
    assert bits.data == ""
    assert bits.path is not None
