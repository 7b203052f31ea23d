"""Bad input and full disks: a clear message with code and place, the documented exit status, nothing lost, no litter.

Everything goes through the command line, with jobs run in this process.
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute import java, letters, outputs, publish, session, work
from spark_jobs.nodes.output import run as output_run
from tests.execute import pipelines, without_spark

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


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs with `--force`, and proves that it changed nothing at all; gives what it said."""
    without_spark.install(monkeypatch)

    def check(exit_code: int, *says: str, options: tuple[str, ...] = ("--force",), unchanged: bool = True) -> str:
        before = tree(tmp_path) if unchanged else {}
        ended = run(tmp_path, *options)
        told = capsys.readouterr()
        assert ended == exit_code, told.err
        for text in says:
            assert text in told.err
        assert "Traceback" not in told.err
        assert "complete" not in told.out
        assert not unchanged or tree(tmp_path) == before
        return told.err

    return check


# ---- inputs ------------------------------------------------------------------------------------------------------


def test_a_missing_file(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "in/rows.csv").unlink()
    refused(4, "error[E216]: source 'rows': ", "in/rows.csv", "pipeline.yaml:6:43")


def test_a_folder_in_place_of_a_file(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "in/rows.csv").unlink()
    (tmp_path / "in/rows.csv").mkdir()
    refused(4, "source 'rows': in/rows.csv: ", "pipeline.yaml:6:43")


def test_a_file_in_place_of_a_folder(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "in/rows.csv").unlink()
    (tmp_path / "in").rmdir()
    (tmp_path / "in").write_text("no folder")
    refused(4, "source 'rows': in/rows.csv: ", "pipeline.yaml:6:43")


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_permissions(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    file = tmp_path / "in/rows.csv"
    file.chmod(0)
    try:
        refused(4, "source 'rows': in/rows.csv: permission denied", "pipeline.yaml:6:43")
    finally:
        file.chmod(stat.S_IRUSR | stat.S_IWUSR)


def test_a_file_that_may_not_be_opened(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_jobs.scan import files

    class Closed:
        def open_input_file(self, path: str) -> None:
            raise PermissionError(
                errno.EACCES, f"Failed to open local file '{path}'. Detail: [errno 13] Permission denied"
            )

    prepare(tmp_path)
    monkeypatch.setattr(files, "_filesystem", lambda path, name: (Closed(), path))
    refused(4, "error[E900]: source 'rows': in/rows.csv: permission denied", "pipeline.yaml:6:43")


def test_a_folder_that_may_not_be_listed(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, pipeline=PIPELINE.replace("path: in/rows.csv", "glob: in/*.csv"))
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path).rstrip("/").endswith("/in"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    refused(4, "error[E900]: source 'rows': in/: ", "Permission denied", "pipeline.yaml:6:43", unchanged=False)
    assert pipelines.outputs(tmp_path) == {"copy.csv": b"old\n"}


@pytest.mark.parametrize("content", ["", "\n", "a,b\n", "a,b"], ids=["empty", "a line end", "header", "open header"])
def test_no_records_are_no_error(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_spark.install(monkeypatch)
    prepare(tmp_path, content)
    assert run(tmp_path, "--force") == 0
    assert pipelines.outputs(tmp_path) == {"copy.csv": b"a,b\n"}
    assert "0 total, 0 ok, 0 written, 0 dlq" in capsys.readouterr().out


#: What stands in the file's second record, and what is said of it.
MALFORMED = {
    "too few": (b"a,b\n1,x\n2\n3,z\n", "record has 1 fields, expected 2"),
    "too many": (b"a,b\n1,x\n2,y,?\n3,z\n", "record has 3 fields, expected 2"),
    "undecodable": (b"a,b\n1,x\n2,\xff\xfe\n3,z\n", "bytes are no utf-8 text"),
    "unterminated quote": (b'a,b\n1,x\n3,z\n2,"y\n', "quote"),
}


@pytest.mark.parametrize("split_bytes", [10**9, 8], ids=["one split", "many splits"])
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_stops_a_strict_run(
    name: str, split_bytes: int, tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, detail = MALFORMED[name]
    monkeypatch.setenv(work.SPLIT_BYTES_VARIABLE, str(split_bytes))
    prepare(tmp_path, content)
    row = 3 if name == "unterminated quote" else 2
    refused(4, f"in/rows.csv, row {row}: ", detail, "stage source:rows")


@pytest.mark.parametrize("split_bytes", [10**9, 8], ids=["one split", "many splits"])
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_a_dead_letter_of_a_patient_run(
    name: str, split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    content, detail = MALFORMED[name]
    monkeypatch.setenv(work.SPLIT_BYTES_VARIABLE, str(split_bytes))
    prepare(tmp_path, content, "continue")
    assert run(tmp_path, "--force", "--quiet") == 2
    published = pipelines.outputs(tmp_path)
    assert published["copy.csv"] == b"a,b\n1,x\n3,z\n"
    letters = published["dead.csv"].decode()
    assert len(letters.splitlines()) == 2
    assert "malformed_record" in letters
    assert detail in letters


@pytest.mark.slow
@pytest.mark.parametrize("split_bytes", [10**9, 4 << 20], ids=["one split", "splits inside the cell"])
def test_a_cell_of_ten_megabytes(split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv(work.SPLIT_BYTES_VARIABLE, str(split_bytes))
    cell = '"' + "wide, with quotes and\nlines;" * (10 * 1024 * 1024 // 28) + '"'
    content = f"a,b\n1,x\n2,{cell}\n3,z\n".encode()
    prepare(tmp_path, content)
    assert run(tmp_path, "--force", "--quiet") == 0
    assert pipelines.outputs(tmp_path) == {"copy.csv": content}


# ---- pipelines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "E000"),
        ("- just\n- a list\n", "pipeline.yaml:1:1"),
        ("hello: [1, 2\n", "E000"),
        ("\x00\x01\x02", "E000"),
        ("pipeline: {name: x}\n", "nodes"),
    ],
    ids=["empty", "a list", "broken", "binary", "without nodes"],
)
def test_yaml_that_is_no_pipeline(text: str, says: str, tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "pipeline.yaml").write_text(text)
    refused(1, "error", says, "pipeline.yaml")


def test_a_pipeline_of_other_bytes(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "pipeline.yaml").write_bytes(b"pipeline: {name: \xff\xfe}\n")
    refused(1, "E000", "pipeline.yaml")


@pytest.mark.parametrize("kind", ["missing", "a folder"])
def test_a_pipeline_that_cannot_be_read(kind: str, tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "pipeline.yaml").unlink()
    if kind == "a folder":
        (tmp_path / "pipeline.yaml").mkdir()
    refused(1, "error", "pipeline.yaml")


def test_a_cycle(tmp_path: Path, refused: Any) -> None:
    nodes = (
        "  - {type: transform, name: one, input: two, config: {cxl: emit c = 1}}\n"
        "  - {type: transform, name: two, input: one, config: {cxl: emit d = 1}}\n"
    )
    prepare(tmp_path, pipeline=PIPELINE + nodes)
    refused(1, "error[E003]", "one", "two", "pipeline.yaml:")


# ---- Java --------------------------------------------------------------------------------------------------------


def fake_java(folder: Path, text: str) -> Path:
    path = folder / "java-home" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    path.chmod(0o755)
    return folder / "java-home"


@pytest.fixture
def really_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is opened as in life, as far as Java lets it; none may be there already."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(session, "open_session", session_open)
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    java.version.cache_clear()


session_open = session.open_session


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (None, "no java was found"),
        ('openjdk version "11.0.2" 2019-01-15', 'is version "11.0.2"'),
        ('java version "1.8.0_401"', 'is version "1.8.0_401"'),
        ("no such thing", "cannot be run"),
    ],
    ids=["absent", "11", "8", "broken"],
)
def test_java(
    version: str | None, says: str, tmp_path: Path, refused: Any, really_opened: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if version:
        monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    refused(1, "error[E901]", "Java 17" if version is None else "17", says, "apt install")


# ---- outputs -----------------------------------------------------------------------------------------------------


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
    assemble = outputs.assemble

    def meanwhile(*arguments: Any) -> Any:
        (tmp_path / "out/copy.csv").write_text("another run's")
        return assemble(*arguments)

    monkeypatch.setattr(outputs, "assemble", meanwhile)
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


@pytest.mark.parametrize("file", [FullDisk, FullAtClose])
@pytest.mark.parametrize("strategy", ["fail_fast", "continue", "best_effort"])
def test_the_disk_is_full_while_parts_are_written(
    strategy: str, file: Any, tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, strategy=strategy)
    monkeypatch.setattr(output_run, "_create", file)
    refused(4, "error[E900]: output 'copy': ", "/out/", "No space left on device", "pipeline.yaml:7:")


@pytest.mark.parametrize(
    ("where", "name"),
    [(publish, "join"), (publish, "_sync"), (letters.Gathered, "write"), (os, "replace"), (os, "fsync")],
)
def test_the_disk_is_full_later(
    where: Any, name: str, tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, "a,b\n1,x\nnothing,y\n", "continue")
    monkeypatch.setattr(where, name, no_space)
    refused(4, "error[E900]: ", "No space left on device")


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


@pytest.mark.slow
def test_the_system_refuses_a_write(tmp_path: Path) -> None:
    prepare(tmp_path, "a,b\n" + "".join(f"{i},some text that takes its place\n" for i in range(10_000)))
    before = tree(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "pipeline.yaml")],
        capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).resolve().parents[2],
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


# ---- two runs, and bugs ------------------------------------------------------------------------------------------


def test_two_runs_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that begins and ends while another works there leaves the other's files alone."""
    without_spark.install(monkeypatch)
    prepare(tmp_path)
    pipelines.write(tmp_path / "other", {"pipeline.yaml": PIPELINE.replace("STRATEGY", "fail_fast")})
    (tmp_path / "other/in").symlink_to(tmp_path / "in")
    (tmp_path / "other/out").symlink_to(tmp_path / "out")
    both = (tmp_path / "other/pipeline.yaml").read_text().replace("out/copy.csv", "out/second.csv")
    (tmp_path / "other/pipeline.yaml").write_text(both)
    assemble = outputs.assemble
    inside: list[int] = []

    def meanwhile(*arguments: Any) -> Any:
        if not inside:
            inside.append(-1)
            inside.append(run(tmp_path / "other", "--quiet", "--base-dir", str(tmp_path)))
        return assemble(*arguments)

    monkeypatch.setattr(outputs, "assemble", meanwhile)
    assert run(tmp_path, "--force", "--quiet") == 0
    assert inside == [-1, 0]
    assert pipelines.outputs(tmp_path) == {"copy.csv": GOOD.encode(), "second.csv": GOOD.encode()}


def test_a_bug_is_told_with_its_place_and_has_a_traceback(
    tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path)

    def bug(self: Any) -> None:
        raise KeyError("nobody knows")

    monkeypatch.setattr(work.Work, "_values", bug)
    refused(
        4, "error[E905]: internal error: KeyError: 'nobody knows' (spark_jobs/execute/work.py:", "--log-level debug"
    )
    assert run(tmp_path, "--force", "--log-level", "debug") == 4
    told = capsys.readouterr().err
    assert "Traceback (most recent call last):" in told
    assert "in bug" in told


def closed_pipe(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run with a standard output that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False, **options
        )
    finally:
        os.close(writing)


@pytest.mark.slow
def test_the_exit_status_stands_when_nobody_reads(tmp_path: Path) -> None:
    prepare(tmp_path, GOOD + "nothing,x\n", "continue")
    script = LIMITED.replace("(200_000, 200_000)", "(-1, -1)")
    ended = closed_pipe(
        [sys.executable, "-c", script, str(tmp_path / "pipeline.yaml")], cwd=Path(__file__).resolve().parents[2]
    )
    assert (ended.returncode, ended.stderr) == (2, "")
    assert pipelines.outputs(tmp_path)["copy.csv"] == GOOD.encode()
