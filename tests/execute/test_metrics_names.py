"""What a run is called in its metrics, and the names of their files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from spark_jobs import spool as spool_files
from spark_jobs.cli import clinker
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: called}
nodes:
  - {type: source, name: rows, config: {type: csv, path: in.csv, schema: [{name: n, type: int}]}}
  - {type: output, name: o, input: rows, config: {type: csv, path: out.csv}}
"""


@pytest.fixture(autouse=True)
def _files(here: Path) -> None:
    pipelines.write(here, {"pipeline.yaml": PIPELINE, "in.csv": "n\n1\n"})


@pytest.mark.parametrize(
    ("options", "called"),
    [
        (["--batch-id", "night-07"], "night-07"),
        (["--batch-id", "night-07", "--execution-id", "attempt-2"], "attempt-2"),
        (["--execution-id", "attempt-3"], "attempt-3"),
    ],
    ids=["batch", "both", "execution"],
)
def test_a_run_is_called_by_the_id_that_was_asked_for(options: list[str], called: str, here: Path) -> None:
    spool = here / "spool"
    clinker.main(["run", "pipeline.yaml", "--quiet", "--metrics-spool-dir", str(spool), *options])
    (path,) = spool.iterdir()
    document = json.loads(path.read_text())
    assert (path.stem, document["execution_id"]) == (called, called)
    assert document["run_id"] == called if "--execution-id" in options else UUID(document["run_id"]).version == 7


@pytest.mark.parametrize("batch", ["night-07", ".hidden", "n" * 250])
def test_every_run_of_a_batch_has_metrics_of_its_own(batch: str, here: Path) -> None:
    spool = here / "spool"
    for _ in range(3):
        clinker.main([
            "run", "pipeline.yaml", "--quiet", "--force", "--metrics-spool-dir", str(spool),
            "--batch-id", batch,
        ])  # fmt: skip
    documents = spool_files.collect(spool, here / "all.ndjson").documents
    assert [document.execution_id for document in documents] == [batch] * 3
    assert len({json.loads(document.line)["run_id"] for document in documents}) == 3
