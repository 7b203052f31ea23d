"""What plans know of Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def test_parquet_is_read_and_not_written_yet(tmp_path: Path) -> None:
    assert problems(tmp_path, "parquet", "csv") == []
    assert problems(tmp_path, "csv", "parquet") == ["E400"]
