"""What plans know of Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - {{ type: source, name: s, config: {{ name: s, type: {reads}, path: in, schema: [{{ name: a, type: int }}] }} }}
  - {{ type: output, name: o, input: s, config: {{ name: o, type: {writes}, path: out }} }}
"""


def problems(folder: Path, reads: str, writes: str) -> list[str]:
    path = folder / "p.yaml"
    path.write_text(PIPELINE.format(reads=reads, writes=writes))
    return [problem.code.id for problem in plan.validate(path, base_dir=folder, to_run=True)]


def test_parquet_is_read_and_written(tmp_path: Path) -> None:
    assert problems(tmp_path, "parquet", "csv") == []
    assert problems(tmp_path, "csv", "parquet") == []


@pytest.mark.parametrize("more", ["sort_order: [a]", "split: { max_records: 1 }"])
def test_records_of_columns_move(tmp_path: Path, more: str) -> None:
    assert problems(tmp_path, "csv", f"parquet, {more}") == []


@pytest.mark.parametrize("kind", ["map", "array"])
def test_what_has_no_column_is_refused_by_its_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        PIPELINE.format(reads="json", writes="parquet").replace("name: a, type: int", f"name: a, type: {kind}")
    )
    (problem,) = plan.validate(path, base_dir=tmp_path, to_run=True)
    assert problem.code.id == "E007"
    assert "column 'a': " in problem.message
