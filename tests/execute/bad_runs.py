"""Runs that go wrong, through the command line: a small pipeline, its folder, and all that stands in it.

The fixture `refused` in `conftest.py` proves that such a run says what is wrong and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cli import clinker
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: bad}
error_handling: {strategy: STRATEGY, dlq: {path: out/dead.csv}}
nodes:
  - type: source
    name: rows
    config: {name: rows, type: csv, path: in/rows.csv, schema: [{name: a, type: int}, {name: b, type: string}]}
  - {type: output, name: copy, input: rows, config: {name: copy, type: csv, path: out/copy.csv}}
"""
GOOD = "a,b\n1,x\n2,y\n"


def prepare(folder: Path, rows: str | bytes = GOOD, strategy: str = "fail_fast", pipeline: str = PIPELINE) -> None:
    pipelines.write(
        folder, {"pipeline.yaml": pipeline.replace("STRATEGY", strategy), "in/rows.csv": rows, "out/copy.csv": "old\n"}
    )


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, every folder with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def run(folder: Path, *options: str) -> int:
    return clinker.main(["run", str(folder / "pipeline.yaml"), *options])


#: A limit on the size of files is as real as a full disk: the system itself refuses the write.
LIMITED = """
import resource, signal, sys
from pathlib import Path
import pytest
from spark_jobs.cli import clinker
from tests.execute import without_spark
without_spark.install(pytest.MonkeyPatch())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
sys.exit(clinker.main(["run", sys.argv[1], "--force"]))
"""
