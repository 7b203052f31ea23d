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


#: The keys of the original, in its order.
KEYS = (
    "execution_id", "schema_version", "pipeline_name", "config_path", "hostname", "started_at", "finished_at",
    "duration_ms", "exit_code", "records_total", "records_ok", "records_dlq", "execution_mode", "peak_rss_bytes",
    "thread_count", "input_files", "output_files", "dlq_path", "error",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        (PIPELINE.replace("input: rows", "input: row"), "pipeline", "E004"),
        ("pipeline: [", "pipeline", "E000"),
        (None, "pipeline", "no such file"),
        (PIPELINE.replace("path: out.csv", "path: out.csv.zip"), "called", "E400"),
    ],
    ids=["wrong wiring", "no YAML", "no file", "refused"],
)
def test_a_run_that_does_not_begin_has_metrics_too(text: str | None, name: str, says: str, here: Path) -> None:
    (here / "pipeline.yaml").unlink()
    if text is not None:
        (here / "pipeline.yaml").write_text(text)
    argv = ["run", "pipeline.yaml", "--batch-id", "night-07", "--metrics-spool-dir", "spool"]
    for look in ("--dry-run", "--explain"):
        clinker.main([*argv, look])
    assert not (here / "spool").exists()
    assert clinker.main(argv) == 1
    document = json.loads((here / "spool/night-07.json").read_text())
    assert [key for key in KEYS if key not in document] == []
    assert (document["exit_code"], document["pipeline_name"], document["records_total"]) == (1, name, 0)
    assert says in document["error"]


def test_a_batch_that_cannot_name_a_file_leads_nowhere(here: Path) -> None:
    assert clinker.main(["run", "pipeline.yaml", "--batch-id", "../x", "--metrics-spool-dir", "spool/deep"]) == 1
    (path,) = (here / "spool").rglob("*.json")
    assert path.parent == here / "spool/deep"
    assert json.loads(path.read_text())["execution_id"] == "../x"
