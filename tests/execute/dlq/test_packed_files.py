"""Dead-letter files that are compressed: they have what others have, and the provider counts it."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from clinker_provider import dead_letters
from spark_jobs.nodes.output import packed
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

CODECS = {"": None, ".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
COUNT = 4000
PIPELINE = """
pipeline: { name: p }
error_handling:
  strategy: continue
  dlq: { path: 'out/dead.csvENDING', per_source: { b: { path: 'out/b.csvENDING' } } }
nodes:
  - { type: source, name: a, config: { name: a, type: csv, path: a.csv, schema: { n: int, t: string } } }
  - { type: source, name: b, config: { name: b, type: csv, path: b.csv, schema: { n: int, t: string } } }
  - { type: output, name: o, input: a, config: { name: o, type: csv, path: out/o.csv } }
  - { type: output, name: q, input: b, config: { name: q, type: csv, path: out/q.csv } }
"""


def dead(folder: Path, ending: str, **options: Any) -> list[list[list[str]]]:
    """The rows of both dead-letter files without what differs from run to run."""
    rows = "n,t\n" + "".join(f'{"x" if number % 2 else number},"Grüße\n{number}"\n' for number in range(COUNT))
    pipelines.write(folder, {"a.csv": rows, "b.csv": "n,t\ny,1\n", "pipeline.yaml": PIPELINE.replace("ENDING", ending)})
    result = pipelines.run(folder, **options).result
    assert result.exit_code == 2
    found = []
    for name, count in (("dead", COUNT // 2), ("b", 1)):
        path = folder / f"out/{name}.csv{ending}"
        assert dead_letters.look(str(path)).count == count
        data = pa.input_stream(str(path), compression=CODECS.get(ending)).read()
        found.append([row[2:] for row in csv.reader(io.StringIO(data.decode(), newline=""))])
    return found


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst", ".lz4"])
@pytest.mark.parametrize("by_tasks", [False, True])
def test_what_is_in_it_is_what_others_have(
    ending: str, by_tasks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "5000")
    plain = dead(tmp_path / "plain", "")
    monkeypatch.setattr(packed, "MEMBER_BYTES", 1000)
    tuning = Tuning(driver_dlq_rows=10) if by_tasks else Tuning()
    assert dead(tmp_path / "packed", ending, tuning=tuning) == plain


def test_no_entries_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    text = PIPELINE.replace("ENDING", ".gz")
    pipelines.write(tmp_path, {"a.csv": "n,t\n1,x\n", "b.csv": "n,t\n1,x\n", "pipeline.yaml": text})
    assert pipelines.run(tmp_path).result.exit_code == 0
    assert sorted(pipelines.outputs(tmp_path)) == ["o.csv", "q.csv"]
