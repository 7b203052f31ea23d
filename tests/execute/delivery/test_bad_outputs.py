"""Outputs that cannot be written, full disks included: nothing is lost, and no litter stays.

Everything goes through the command line, with jobs run in this process.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.disk import durable
from spark_jobs.execute.delivery.local import joining
from spark_jobs.execute.delivery.local.part_store import LocalPartStore
from spark_jobs.execute.dlq import buffer
from spark_jobs.execute.run import work
from tests.execute import pipelines, without_spark
from tests.execute.bad_runs import GOOD, LIMITED, PIPELINE, prepare, run, tree


def test_an_output_path_that_is_a_folder(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "out/copy.csv").unlink()
    (tmp_path / "out/copy.csv").mkdir()
    refused(4, "error[E902]: ", "out/copy.csv is a folder")


def test_a_dead_letter_path_that_is_a_folder(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path, strategy="continue")
    (tmp_path / "out/dead.csv").mkdir()
    refused(4, "error[E902]: ", "out/dead.csv is a folder")


def test_an_output_folder_that_is_a_file(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path, pipeline=PIPELINE.replace("out/copy.csv", "in/rows.csv/deep/copy.csv"))
    refused(4, "error[E900]: ", "in/rows.csv")


def test_half_made_folders_are_removed(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, "a,b\nno number,x\n", pipeline=PIPELINE.replace("out/copy.csv", "new/deep/copy.csv"))
    refused(3, "rows.csv, row 1: field 'a'")


@pytest.mark.parametrize("path", ["out/copy.csv", "./out/copy.csv"])
def test_dead_letters_in_the_place_of_an_output(path: str, tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path, pipeline=PIPELINE.replace("out/dead.csv", path))
    refused(1, "error[E322]", "pipeline.yaml:2:")


def test_files_in_the_way(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    refused(4, "error[E902]: ", "out/copy.csv exists already: use --force", options=())


def test_a_file_that_appears_while_the_run_works(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    (tmp_path / "out/copy.csv").unlink()
    all_jobs = work.Work.all_jobs

    def meanwhile(jobs: work.Work, spark: Any) -> None:
        all_jobs(jobs, spark)
        (tmp_path / "out/copy.csv").write_text("another run's")

    monkeypatch.setattr(work.Work, "all_jobs", meanwhile)
    refused(4, "error[E902]: ", "out/copy.csv exists already", options=(), unchanged=False)
    assert pipelines.outputs(tmp_path) == {"copy.csv": b"another run's"}


def test_a_name_as_long_as_the_system_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    name = "x" * 251 + ".csv"
    prepare(tmp_path, pipeline=PIPELINE.replace("out/copy.csv", f"out/{name}"))
    assert run(tmp_path, "--quiet") == 0
    assert pipelines.outputs(tmp_path)[name] == GOOD.encode()


@pytest.mark.parametrize("name", ["a/b", "../x", "..", "", "x" * 201, "a\0b"])
def test_an_execution_id_that_names_no_file(name: str, tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    refused(1, "--execution-id", "cannot name a file", options=("--force", "--execution-id", name))


def test_a_preview_that_cannot_be_written(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    target = str(tmp_path / "nowhere/preview.txt")
    refused(4, "error[E900]: ", target, "No such file", options=("-n", "1", "--dry-run-output", target))


# ---- full disks --------------------------------------------------------------------------------------------------


class FullDisk:
    """A file on a full disk: the buffer takes what it gets, the disk does not."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "wb")  # noqa: SIM115 - closed like the file it stands for

    def write(self, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        self.file.close()


class FullAtClose(FullDisk):
    def write(self, data: bytes) -> None:
        self.file.write(data)

    def close(self) -> None:
        self.file.close()
        raise OSError(errno.ENOSPC, "No space left on device")


def no_space(*arguments: Any, **options: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "No space left on device; free some space, or remove files where there are too many"),
        (errno.EMFILE, "Too many open files; the limit of open files is too low: raise it (ulimit -n)"),
        (errno.ENOENT, "No such file or directory"),
    ],
    ids=["no inodes", "no descriptors", "no folder"],
)
def test_a_part_that_cannot_be_made_is_its_outputs_and_no_sources(
    number: int, says: str, tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_: object, path: str) -> Any:
        raise OSError(number, os.strerror(number), path)

    prepare(tmp_path)
    monkeypatch.setattr(LocalPartStore, "create", cannot)
    refused(4, "error[E900]: output 'copy': ", "/out/.clinker-", says, "pipeline.yaml:7:")


@pytest.mark.parametrize("file", [FullDisk, FullAtClose])
@pytest.mark.parametrize("strategy", ["fail_fast", "continue", "best_effort"])
def test_the_disk_is_full_while_parts_are_written(
    strategy: str, file: Any, tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, strategy=strategy)
    monkeypatch.setattr(LocalPartStore, "create", lambda _, path: file(path))
    refused(4, "error[E900]: output 'copy': ", "/out/", "No space left on device", "pipeline.yaml:7:")


@pytest.mark.parametrize(
    ("where", "name"),
    [(joining, "join"), (durable, "_sync"), (buffer.DlqBuffer, "write"), (LocalPartStore, "size"), (os, "fsync")],
)
def test_the_disk_is_full_later(
    where: Any, name: str, tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, "a,b\n1,x\nnothing,y\n", "continue")
    monkeypatch.setattr(where, name, no_space)
    refused(4, "error[E900]: ", "No space left on device")


def test_the_disk_is_full_at_the_first_rename(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, "a,b\n1,x\nnothing,y\n", "continue")
    replace, names = os.replace, []

    def full(source: Any, target: Any) -> None:
        names.append(Path(target).name)
        if len(names) == 1:
            no_space()
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    refused(4, "error[E900]: ", "No space left on device")
    assert names[0] == "copy.csv"


@pytest.mark.parametrize("name", ["sendfile", "fsync", "write"])
def test_what_the_system_refuses_without_naming_a_file_is_told_with_it(
    name: str, tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, "a,b\n1,x\nnothing,y\n", "continue")
    if name == "write":
        monkeypatch.setattr(joining, "_ended", no_space)
    elif name == "sendfile":
        monkeypatch.setattr(joining, "_append", no_space)
    else:
        monkeypatch.setattr(os, name, no_space)
    refused(4, "error[E900]: ", str(tmp_path / "out/.clinker-"), "No space left on device")


def test_a_rename_that_fails_gives_the_other_files_back(
    tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, "a,b\n1,x\nnothing,y\n", "continue")
    (tmp_path / "out/dead.csv").write_text("old letters\n")
    replace = os.replace
    done: list[str] = []

    def at_last(source: Any, target: Any) -> None:
        if str(target).endswith("out/dead.csv") and not str(source).endswith(".old"):
            done.append((tmp_path / "out/copy.csv").read_text())
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", at_last)
    refused(4, "error[E900]: ", "out/dead.csv", "No space left on device")
    assert done == ["a,b\n1,x\n"], "the first file had its new name already"


@pytest.mark.slow
def test_the_system_refuses_a_write(tmp_path: Path) -> None:
    prepare(tmp_path, "a,b\n" + "".join(f"{i},some text that takes its place\n" for i in range(10_000)))
    before = tree(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "pipeline.yaml")],
        capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).resolve().parents[3],
    )  # fmt: skip
    assert ended.returncode == 4, ended.stderr
    assert "error[E900]: output 'copy': " in ended.stderr
    assert "File too large" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert tree(tmp_path) == before


def test_metrics_that_cannot_be_written_undo_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_spark.install(monkeypatch)
    prepare(tmp_path)
    (tmp_path / "spool").write_text("no folder")
    assert run(tmp_path, "--force", "--metrics-spool-dir", str(tmp_path / "spool")) == 0
    assert "metrics are not written" in capsys.readouterr().err
    assert pipelines.outputs(tmp_path) == {"copy.csv": GOOD.encode()}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_an_undeclared_column_whose_name_the_encoding_lacks(kind: str, tmp_path: Path, refused: Any) -> None:
    pipeline = PIPELINE.replace("type: csv, path: out", f"options: {{encoding: ascii}}, type: {kind}, path: out")
    prepare(tmp_path, "a,b,é\n1,x,y\n", pipeline=pipeline)
    refused(4, "error[E900]: output 'copy': column 'é': character 'é' (U+00E9) cannot be written as ascii", "mapping")


UNWRITABLE = """
pipeline: {{name: p}}
error_handling: {{strategy: continue, dlq: {{path: out/dead.csv}}}}
nodes:
  - {{type: source, name: s, config: {{type: json, path: in.json, schema: {{n: int, t: string, u: any}}}}}}
  - {{type: output, name: o, input: s, config: {{path: out/o, {settings}}}}}
"""
RECORDS = ['{"n":1,"t":"a","u":"b"}', '{"n":2,"t":"a","u":"€"}', '{"n":3,"t":"Ω","u":"€"}', '{"n":4,"t":"a","u":["€"]}']


@pytest.mark.parametrize(
    "settings",
    [
        "type: csv, options: {encoding: latin-1}, mapping: {w: u}",
        "type: csv, options: {encoding: latin-1}, mapping: {w: u}, sort_order: [n]",
        "type: json, options: {encoding: latin-1}, mapping: {w: u}",
    ],
)
def test_the_letter_of_what_an_encoding_lacks_names_the_column(
    settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the output calls it."""
    without_spark.install(monkeypatch)
    text = UNWRITABLE.format(settings=settings)
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.json": "\n".join(RECORDS)})
    assert pipelines.run(tmp_path).result.exit_code == 2
    rows = list(csv.DictReader(io.StringIO(pipelines.outputs(tmp_path)["dead.csv"].decode())))
    found = [[row[f"_cxl_dlq_{name}"] for name in ("triggering_field", "triggering_value", "stage")] for row in rows]
    assert found == [["w", "€", "output:o"], ["t", "Ω", "output:o"], ["w", "€", "output:o"]]
    assert rows[1]["_cxl_dlq_error_detail"] == "row 3: field 't': character 'Ω' (U+03A9) cannot be written as latin-1"
