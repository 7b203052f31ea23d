"""`emit each` over records with long texts: what a block repeats of a record has to fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.nodes.transform import run
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

_PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: json, path: in.json, schema: {w: string, a: array}}}
  - {type: transform, name: t, input: s, config: {cxl: PROGRAM}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""
_LIMIT = 64 << 20
_READS = {
    "the column": "emit each it in a {\nemit v = w.length() + it\nemit w = it\n}",
    "what is computed": "let b = w + w\nemit each it in a {\nemit v = b.length() - w.length() + it\nemit w = it\n}",
    "metadata": "emit each it in a {\nemit meta m = w\nemit v = $meta.m.length() + it\nemit w = it\n}",
}


def _run(folder: Path, program: str, records: list[tuple[int, int]]) -> pipelines.Outcome:
    """Records of so long a text and so many elements each."""
    lines = "".join(json.dumps({"w": "x" * size, "a": [*range(count)]}) + "\n" for size, count in records)
    files = {"pipeline.yaml": _PIPELINE.replace("PROGRAM", json.dumps(program)), "in.json": lines.encode()}
    pipelines.write(folder, files)
    return pipelines.run(folder, threads=1, memory_limit_bytes=_LIMIT)


@pytest.mark.parametrize("reads", _READS)
def test_a_block_that_repeats_more_than_fits_ends_the_run(
    reads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    error = _run(tmp_path, _READS[reads], [(1, 1), (10**6, 10**4)]).result.error
    assert error is not None
    assert error.code == "E310"
    assert "`emit each` repeats 10000" in str(error)
    assert "bytes of a record for each of 10000 elements" in str(error)
    assert "raise memory.limit, use fewer threads, or emit what the block needs of the long columns" in str(error)


@pytest.mark.parametrize("reads", _READS)
def test_many_records_with_long_texts_come_to_a_block_in_portions(
    reads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    counts: list[int] = []
    real = run.Transform._process

    def counted(self: run.Transform, batch: run.batches.Batch) -> None:
        counts.append(batch.count)
        real(self, batch)

    monkeypatch.setattr(run.Transform, "_process", counted)
    records = [(100_000 + number, 20) for number in range(40)]
    assert _run(tmp_path, _READS[reads], records).result.error is None
    assert len(counts) > 1
    assert sum(counts) == len(records)
    lines = (tmp_path / "out/o.csv").read_text().splitlines()
    head = lines[0].split(",")
    found = [int(line.rsplit(",", 1)[-1]) for line in lines[1:] if head[-1] == "v"]
    assert found == [size + it for size, count in records for it in range(count)]


def test_a_block_that_reads_no_long_text_goes_over_as_many_elements_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    program = "emit each it in a {\nemit v = it\nemit w = it\n}"
    assert _run(tmp_path, program, [(200_000, 400)]).result.error is None
    assert len((tmp_path / "out/o.csv").read_text().splitlines()) == 400 + 1


def test_a_record_of_too_many_elements_fails_before_any_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    error = _run(tmp_path, "emit each it in a {\nemit v = w + (10 / it).to_string()\n}", [(10**6, 10**5)]).result.error
    assert error is not None
    assert error.code == "expansion_limit_exceeded"
