"""Runs of more tasks than a process may have open files."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

#: Lowers the limit of its own process alone, and runs the pipeline that is here in splits of a record.
_RUNS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (290, 290))
import os
from pathlib import Path
import pytest
from spark_jobs.execute.run import partitions
from spark_jobs.formats import splits
from tests.execute import pipelines, without_spark
patch = pytest.MonkeyPatch()
without_spark.install(patch)
patch.setenv(splits.SPLIT_BYTES_VARIABLE, "64")
if len(sys.argv) > 1:
    patch.setenv(partitions.PARTITION_BYTES_VARIABLE, sys.argv[1])
result = pipelines.run(Path.cwd(), force=True).result
sys.exit(f"{result.error}" if result.error else result.exit_code)
"""
PIPELINE = """
pipeline: {{name: p}}
error_handling: {{strategy: continue, dlq: {{path: out/dead.csv}}}}
nodes:
  - {{type: source, name: s, config: {{type: csv, path: in.csv, {key} schema: {{k: string, v: string, pad: string}}}}}}
  - type: combine
    name: c
    input: {{a: s, b: s}}
    config: {{where: a.k == b.k, match: first, propagate_ck: driver, cxl: "emit k = a.k\\nemit v = b.v"}}
  - {{type: transform, name: t, input: c, config: {{cxl: "emit v = v.to_int()"}}}}
  - {{type: output, name: o, input: t, config: {{type: csv, path: out/o.csv}}}}
"""
_RECORDS = 320


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 290, reason="the limit is lower than ours")
@pytest.mark.parametrize(
    ("key", "partition"), [("", ("4000",)), ("correlation_key: k,", ())], ids=["in pieces", "correlated"]
)
def test_dead_letters_and_build_sides_come_in_more_files(tmp_path: Path, key: str, partition: tuple[str, ...]) -> None:
    rows = "".join(f"g{number},{'x' if number % 2 else number},{'p' * 60}\n" for number in range(_RECORDS))
    pipelines.write(tmp_path, {"in.csv": "k,v,pad\n" + rows, "pipeline.yaml": PIPELINE.format(key=key)})
    command = [sys.executable, "-c", _RUNS, *partition]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 2, ended.stderr
    assert len((tmp_path / "out/o.csv").read_text().splitlines()) == 1 + _RECORDS // 2
    assert len((tmp_path / "out/dead.csv").read_text().splitlines()) == 1 + _RECORDS // 2
