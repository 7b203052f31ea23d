"""A scheduler that tries again: what was published is not done twice, and what was not is done."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.delivery.local import files as local_files
from spark_jobs.execute.delivery.local import publish
from spark_jobs.execute.run import passes
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.result import RunResult

PIPELINE = r"""
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: dead/letters.csv}}
nodes:
  - {type: source, name: s, config: {name: s, type: csv, glob: 'in/*.csv', schema: {id: int}}}
  - {type: output, name: each, input: s, config: {name: each, type: csv, path: 'out/each/{source_file}.csv'}}
  - {type: output, name: plain, input: s, config: {name: plain, type: csv, path: out/plain.csv, write_meta: true}}
  - type: output
    name: pieces
    input: s
    config: {name: pieces, type: json, path: other/pieces.json, split: {max_records: 2}}
"""
ASKED = ("etl.load", "monday")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_spark.install(monkeypatch)
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "in/a.csv": "id\n1\nx\n2\n", "in/b.csv": "id\n3\n"})
    return tmp_path


def run(folder: Path, once: tuple[str, str] | None = ASKED, **options: Any) -> RunResult:
    """A further attempt, as schedulers make them, unless it is said to be the first."""
    return pipelines.run(folder, once=once, **{"is_retry": once is not None, **options}).result


def without(record: RunResult) -> dict[str, Any]:
    measured = ("execution_id", "metrics", "phases_ms", "taken_from")
    return {key: value for key, value in record.to_dict().items() if key not in measured}


def test_an_attempt_ends_as_the_one_before_that_had_published(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(folder)
    assert (first.exit_code, first.dlq_count, len(first.output_files)) == (2, 1, 5)
    assert sum(each["files"] for each in first.outputs) == 5
    assert {each["name"]: each["records"] for each in first.outputs}["pieces"] == 3
    assert first.inputs == ({"name": "s", "records": 4, "files": 2},)
    before = pipelines.outputs(folder)
    monkeypatch.setattr(passes.chain, "run", None)
    second = run(folder)
    assert without(second) == without(first)
    assert second.execution_id != first.execution_id
    assert second.taken_from == first.execution_id
    assert first.taken_from is None
    assert run(folder).taken_from == first.execution_id, "who did it, not who repeated it"
    assert pipelines.outputs(folder) == before
    assert len([name for name in before if ".clinker" in name]) == 1


def test_a_first_attempt_takes_nothing_whatever_its_names(folder: Path) -> None:
    """A run that is deleted and made again under its old name has to see what is new in its inputs."""
    assert run(folder, is_retry=False, force=True).records_total == 4
    pipelines.write(folder, {"in/b.csv": "id\n3\n4\n5\n"})
    again = run(folder, is_retry=False, force=True)
    assert (again.records_total, again.taken_from) == (6, None)
    assert "5" in (folder / "out/plain.csv").read_text()
    error = run(folder, is_retry=False).error
    assert error is not None
    assert error.code == "E902"


def test_a_taken_run_keeps_its_metrics_file(folder: Path) -> None:
    spool = folder / "spool"
    first = run(folder, metrics_spool_dir=str(spool))
    assert first.metrics_path is not None
    assert run(folder, metrics_spool_dir=str(spool)).metrics_path == first.metrics_path
    assert len(list(spool.iterdir())) == 1
    os.remove(first.metrics_path)  # as if the first attempt had died before it wrote it
    second = run(folder, metrics_spool_dir=str(spool))
    (path,) = spool.iterdir()
    assert second.metrics_path == str(path)
    document = json.loads(path.read_text())
    assert (document["run_id"], document["records_total"]) == (second.execution_id, 4)
    assert document["output_files"] == list(first.output_files)


@pytest.mark.parametrize("names", [None, ("etl.load", "tuesday"), ("etl.other", "monday")])
def test_another_one_meets_its_files(folder: Path, names: tuple[str, str] | None) -> None:
    run(folder)
    error = run(folder, names).error
    assert error is not None
    assert error.code == "E902"
    assert run(folder, names, force=True).exit_code == 2


def test_a_changed_pipeline_is_another_one(folder: Path) -> None:
    run(folder)
    pipelines.write(folder, {"pipeline.yaml": PIPELINE.replace("name: p}", "name: q}")})
    error = run(folder).error
    assert error is not None
    assert error.code == "E902"


@pytest.mark.parametrize(
    "name", ["out/each/b.csv", "out/plain.csv", "out/plain.csv.meta.json", "other/pieces_0002.json", "dead/letters.csv"]
)
@pytest.mark.parametrize("gone", [True, False])
def test_files_that_are_not_as_they_were_published_are_written_again(folder: Path, name: str, gone: bool) -> None:
    run(folder)
    path = folder / name
    text = path.read_text()
    path.unlink()
    if not gone:
        path.write_text(text)
    record = run(folder, force=True)
    assert record.exit_code == 2
    assert path.exists()
    assert without(run(folder)) == without(record)


def test_the_record_of_a_later_time_replaces_that_of_an_earlier(folder: Path) -> None:
    run(folder)
    run(folder, ("etl.load", "tuesday"), force=True)
    assert run(folder, ("etl.load", "tuesday")).exit_code == 2
    assert run(folder).exit_code == 4


def test_a_run_that_dies_before_it_publishes_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise OSError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(local_files.LocalDraft, "complete", dies)
        assert run(folder).exit_code == 4
    assert pipelines.outputs(folder) == {}
    assert run(folder).exit_code == 2


def test_a_run_that_dies_among_its_renames_is_completed_and_not_done_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    rename = publish._rename

    def dies(one: Any) -> None:
        if len(done) == 3:
            os._exit(9)
        done.append(one.target)
        rename(one)

    child = os.fork()
    if child == 0:
        publish._rename = dies
        run(folder)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    monkeypatch.setattr(passes.chain, "run", None)
    record = run(folder)
    assert (record.exit_code, record.dlq_count, len(record.output_files)) == (2, 1, 5)
    assert all(os.path.exists(path) for path in record.output_files)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"who": "etl.load"}', "\N{NULL}", '{"files": 1}'])
def test_what_is_no_record_counts_as_none(folder: Path, text: str) -> None:
    run(folder)
    (record,) = folder.glob("out/.clinker-once-*")
    record.write_text(text)
    error = run(folder).error
    assert error is not None
    assert error.code == "E902"


def test_a_link_is_no_record(folder: Path) -> None:
    run(folder)
    (record,) = folder.glob("out/.clinker-once-*")
    record.rename(folder / "elsewhere.json")
    record.symlink_to(folder / "elsewhere.json")
    assert run(folder).exit_code == 4
