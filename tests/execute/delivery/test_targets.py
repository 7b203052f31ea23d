"""What stands where a run wants to write, and who agreed to replace it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.run import work
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spark_jobs.result import RunError, RunResult

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {name: s, type: csv, path: in.csv, schema: {id: int}}}
  - {type: output, name: o, input: s, config: {name: o, type: csv, path: out/o.csv SETTINGS}}
"""
LETTERS = PIPELINE + "error_handling: {strategy: continue, dlq: {path: out/dead.csv, include_source_row: false}}\n"


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def run(
    folder: Path, text: str = PIPELINE, settings: str = "", data: str = "id\n1\n", name: str = "in.csv", **options: Any
) -> RunResult:
    text = text.replace(" SETTINGS", settings).replace("in.csv", name)
    pipelines.write(folder, {"pipeline.yaml": text, name: data})
    return pipelines.run(folder, **options).result


def refused(found: RunResult) -> RunError:
    assert found.error is not None
    assert found.output_files == ()
    return found.error


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something once, when the jobs of a run are done and nothing is published."""
    all_jobs, done = work.Work.all_jobs, [False]

    def wrapped(jobs: work.Work, spark: Any) -> None:
        all_jobs(jobs, spark)
        if not done[0]:
            done[0] = True
            act()

    monkeypatch.setattr(work.Work, "all_jobs", wrapped)


@pytest.mark.parametrize("force", [False, True])
def test_two_runs_that_want_a_free_name_get_two(tmp_path: Path, force: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    second: list[RunResult] = []
    settings = ", if_exists: unique_suffix, write_meta: true"
    meanwhile(
        monkeypatch, lambda: second.append(run(tmp_path, settings=settings, data="id\n2\n", name="b.csv", force=force))
    )
    first = run(tmp_path, settings=settings, force=force)
    assert (first.error, second[0].error) == (None, None)
    assert first.output_files == (str(tmp_path / "out/o-1.csv"),)
    written = pipelines.outputs(tmp_path)
    assert (written["o.csv"], written["o-1.csv"]) == (b"id\n2\n", b"id\n1\n")
    assert {*written} == {"o.csv", "o.csv.meta.json", "o-1.csv", "o-1.csv.meta.json"}


@pytest.mark.parametrize("data", ["id\n", "id\n7\n", "id\n3\n1\n2\n"])
@pytest.mark.parametrize(
    "settings",
    [
        "",
        ", sort_order: [id]",
        ", options: {compression: gzip}",
        ", type: json",
        ", type: xml",
        ", type: parquet",
        ", split: {max_records: 2}",
        ", type: json, split: {max_records: 2}",
    ],
)
@pytest.mark.parametrize("split_bytes", [10**9, 2])
def test_the_facts_tell_the_bytes_of_the_files(
    tmp_path: Path, settings: str, data: str, split_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.cut_by(monkeypatch, split_bytes)
    text = PIPELINE.replace("type: csv, path: out", "path: out") if "type: " in settings else PIPELINE
    assert run(tmp_path, text, settings + ", write_meta: true", data).error is None
    written = pipelines.outputs(tmp_path)
    facts = json.loads(written.pop("o.csv.meta.json"))
    assert facts["bytes_written"] == sum(map(len, written.values()))
    assert facts["record_count"] == len(data.split()) - 1


@pytest.mark.parametrize("strategy", ["error", "overwrite"])
def test_the_facts_beside_an_output_replace_nothing_unasked(tmp_path: Path, strategy: str) -> None:
    pipelines.write(tmp_path, {"out/o.csv.meta.json": "mine\n"})
    found = run(tmp_path, settings=f", write_meta: true, if_exists: {strategy}")
    if strategy == "overwrite":
        assert found.error is None
        assert pipelines.outputs(tmp_path)["o.csv.meta.json"].startswith(b"{")
    else:
        assert "out/o.csv.meta.json exists already: use --force" in refused(found).message
        assert pipelines.outputs(tmp_path) == {"o.csv.meta.json": b"mine\n"}


def test_dead_letters_are_replaced_where_all_outputs_are(tmp_path: Path) -> None:
    bad = "id\nx\n"
    assert run(tmp_path, LETTERS, ", if_exists: overwrite", data=bad).dlq_count == 1
    assert run(tmp_path, LETTERS, ", if_exists: overwrite", data=bad).error is None
    error = refused(run(tmp_path, LETTERS, ", if_exists: unique_suffix", data=bad))
    assert "dead.csv exists already, with the dead letters of an earlier run: use --force, or" in error.message
    assert "if_exists: overwrite in the config of every output" in error.message
    assert run(tmp_path, LETTERS, ", if_exists: overwrite").error is None
    assert [*pipelines.outputs(tmp_path)] == ["o.csv"], "a run without dead letters leaves none"


def test_a_name_that_the_facts_make_too_long(tmp_path: Path) -> None:
    text = PIPELINE.replace("o.csv", "x" * 250)
    assert "more than 255 bytes" in refused(run(tmp_path, text, ", write_meta: true")).message
    assert not (tmp_path / "out").exists()
    assert run(tmp_path, text).error is None


def test_dead_letters_may_have_a_long_name(tmp_path: Path) -> None:
    text = LETTERS.replace("dead.csv", "d" * 251 + ".csv")
    assert run(tmp_path, text, data="id\nx\n").dlq_count == 1


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_regular_file_stays(tmp_path: Path, force: bool) -> None:
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out/o.csv")
    assert "out/o.csv is not a regular file" in refused(run(tmp_path, force=force)).message
    (tmp_path / "out/o.csv").unlink()
    (tmp_path / "out/o.csv").symlink_to("nowhere")
    assert "out/o.csv is not a regular file" in refused(run(tmp_path, force=force)).message
    assert (tmp_path / "out/o.csv").is_symlink()


def test_a_file_whose_output_would_be_that_of_the_dead_letters(tmp_path: Path) -> None:
    """What plans cannot know: the names of input files, here behind a link."""
    (tmp_path / "out").mkdir()
    (tmp_path / "also").symlink_to("out")
    text = LETTERS.replace("path: in.csv", "glob: in/*.csv").replace("out/o.csv", "'also/{source_file}.csv'")
    pipelines.write(tmp_path, {"pipeline.yaml": text.replace(" SETTINGS", ""), "in/dead.csv": "id\n1\n"})
    error = refused(pipelines.run(tmp_path).result)
    assert error.code == "E322"
    assert "the records of output 'o' of in/dead.csv, dead letters would all be written to" in error.message


@pytest.mark.parametrize("work_dir", ["out", "./out/../out", "work"])
def test_a_work_folder_may_be_relative_and_that_of_the_outputs(
    tmp_path: Path, work_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pathlib import Path as Relative

    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    assert run(tmp_path, work_dir=Relative(work_dir)).error is None
    assert pipelines.outputs(tmp_path) == {"o.csv": b"id\n1\n"}


@pytest.mark.parametrize("allowed", [False, True])
def test_a_link_that_only_the_name_of_an_input_file_spells_must_not_lead_out(tmp_path: Path, allowed: bool) -> None:
    base, outside = tmp_path / "base", tmp_path / "outside"
    base.mkdir()
    outside.mkdir()
    (base / "run-in").symlink_to(outside)
    text = PIPELINE.replace("out/o.csv", "'run-{source_file}/o.csv'")
    found = run(base, text, allow_absolute_paths=allowed)
    if allowed:
        assert found.error is None
    else:
        error = refused(found)
        assert error.code == "E-SEC-001"
        assert str(outside) in error.message
    assert bool(list(outside.iterdir())) is allowed
