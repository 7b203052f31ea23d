"""Disks that are full, and files and folders that may not be touched, as the system itself says it.

A full disk is a small file system in memory, which only root may mount; rights are taken from a child process, as root
has them all.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute.delivery import outputs as outputs_
from spark_jobs.execute.run import work as jobs
from tests.execute import pipelines, without_spark
from tests.execute.bad_runs import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a disk, and give its rights away")

HEAD = """
pipeline: {name: small}
error_handling: {strategy: continue, dlq: {path: LETTERS}}
nodes:
  - {type: source, name: rows, config: {type: csv, path: in/rows.csv, schema: {a: int, b: string}}}
  - {type: transform, name: t, input: rows, config: {cxl: "emit d = 1 / (a % 3)"}}
"""
FULL = "No space left on device; free some space, or remove files where there are too many (df, df -i)"
RIGHTS = "the user that runs this needs rights to it, and to pass through the folders that hold it (ls -ld)"
_SIZE = 128 << 10
#: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, by which root passes over rights; capget(2) and its version.
_OVER_RIGHTS, _VERSION = 0b110, 0x20080522


def output(name: str, config: str) -> str:
    return f"  - {{type: output, name: {name}, input: t, config: {{{config}}}}}\n"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 128 KB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "clinker-test", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an input of half a megabyte."""
    without_spark.install(monkeypatch)
    folder = tmp_path / "work"
    pipelines.write(folder, {"in/rows.csv": "a,b\n" + "".join(f"{a},{a * 7919:080}\n" for a in range(6000))})
    monkeypatch.chdir(folder)
    return folder


def run(folder: Path, outputs: str, *options: str, letters: str = "dead.csv") -> int:
    (folder / "pipeline.yaml").write_text(HEAD.replace("LETTERS", letters) + outputs)
    return clinker.main(["run", str(folder / "pipeline.yaml"), "--allow-absolute-paths", *options])


@pytest.mark.parametrize(
    "config",
    [
        "type: csv, path: SMALL/o.csv",
        "type: csv, path: SMALL/o.csv, sort_order: [b]",
        "type: csv, path: SMALL/o.csv, split: {max_records: 900}",
        "type: csv, path: SMALL/folder, parts: true",
        "type: json, path: SMALL/o.json",
        "type: xml, path: SMALL/o.xml",
        "type: parquet, path: SMALL/o.parquet, options: {compression: none}",
        "type: parquet, path: SMALL/folder, parts: true, options: {compression: none}",
        "type: avro, path: SMALL/o.avro, options: {compression: none}",
        "type: delta, path: SMALL/table, options: {compression: none}",
    ],
)
def test_an_output_that_fills_its_disk_leaves_nothing(
    config: str, small: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work / "out").mkdir()
    (work / "out/other.csv").write_text("old\n")
    before = tree(work)
    outputs = output("o", config.replace("SMALL", str(small))) + output("p", "type: csv, path: out/other.csv")
    assert run(work, outputs, "--force") == 4
    told = capsys.readouterr().err
    assert f"{small}/" in told.partition("error[E900]: ")[2]
    assert f": {FULL}" in told
    assert "Traceback" not in told
    assert "Detail" not in told
    (work / "pipeline.yaml").unlink()
    assert tree(work) == before
    assert tree(small) == {}


def test_dead_letters_that_fill_their_disk_leave_nothing(
    small: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(work, output("o", "type: csv, path: o.csv"), letters=f"{small}/dead.csv") == 4
    told = capsys.readouterr().err
    assert f"error[E900]: {small}/.clinker-" in told
    assert f": {FULL}" in told
    assert (tree(small), (work / "o.csv").exists()) == ({}, False)


def test_what_is_spilled_may_fill_its_disk(
    small: Path, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(small))
    lines = (f"{a},{a * 7919:0200}\n" for a in range(24_000))
    (work / "in/rows.csv").write_text("a,b\n" + "".join(lines))
    groups = "  - {type: aggregate, name: g, input: rows, config: {group_by: [a], cxl: emit last = last(b)}}\n"
    outputs = groups + output("o", "type: csv, path: o.csv").replace("input: t", "input: g")
    assert run(work, outputs, "--memory-limit", "4M", "--threads", "1") == 4
    told = capsys.readouterr().err
    assert "error[E321]: " in told
    assert str(small) in told
    assert "Traceback" not in told
    assert tree(small) == {}
    assert {each.name for each in work.iterdir()} == {"in", "pipeline.yaml"}


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--metrics-spool-dir", "SMALL"], "metrics are not written"),
        (["--report", "SMALL/run.html"], "the report is not written"),
    ],
)
def test_what_is_told_of_a_run_may_find_its_disk_full(
    options: list[str], what: str, small: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run has succeeded, and half a file is no page."""
    (small / "full").write_bytes(bytes(_SIZE))
    before = tree(small)
    given = [each.replace("SMALL", str(small)) for each in options]
    assert run(work, output("o", "type: csv, path: o.csv"), *given) == 2
    told = capsys.readouterr().err
    assert f"WARNING {what}: {small}" in told
    assert FULL in told
    assert tree(small) == before
    assert (work / "o.csv").exists()


def test_a_preview_that_fills_its_disk_leaves_the_file_before(
    small: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (small / "preview.csv").write_text("old\n")
    given = ["--dry-run-n", "3000", "--dry-run-output", str(small / "preview.csv")]
    assert run(work, output("o", "type: csv, path: o.csv"), *given) == 4
    assert f"error[E900]: {small / 'preview.csv'}: {FULL}" in capsys.readouterr().err
    assert tree(small) == {"preview.csv": b"old\n"}


# ---- rights ------------------------------------------------------------------------------------------------------


def _take_rights() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for each in range(3):  # effective, permitted, inheritable
        sets[each] &= ~_OVER_RIGHTS
    assert libc.capset(header, sets) == 0


@pytest.fixture
def without_rights(work: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """Runs a pipeline in a child process that may do only what files and folders allow; gives its status and words."""
    log = work.parent / "log"

    def run_there(*arguments: Any, **options: Any) -> tuple[int, str]:
        child = os.fork()
        if not child:
            status = 99
            try:
                sys.stdout = sys.stderr = log.open("w")
                _take_rights()
                status = run(work, *arguments, **options)
            finally:
                sys.stderr.flush()
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log.read_text()

    yield run_there
    for each in [work, *work.rglob("*")]:
        if each.is_dir():
            each.chmod(0o700)


@pytest.mark.parametrize("mode", [0o555, 0o666], ids=["for reading alone", "not to be passed through"])
@pytest.mark.parametrize(
    "config",
    ["type: csv, path: out/o.csv", "type: csv, path: out/folder, parts: true", "type: delta, path: out/table"],
)
def test_a_folder_where_nothing_may_be_written(
    config: str, mode: int, work: Path, without_rights: Callable[..., tuple[int, str]]
) -> None:
    (work / "out").mkdir()
    (work / "out/old.csv").write_text("old\n")
    (work / "out").chmod(mode)
    status, told = without_rights(output("o", config))
    assert status == 4, told
    assert f"error[E900]: {work}/out/" in told
    assert f"Permission denied; {RIGHTS}" in told
    assert "Traceback" not in told
    (work / "out").chmod(0o700)
    assert tree(work / "out") == {"old.csv": b"old\n"}


@pytest.mark.parametrize(
    ("path", "mode", "says"),
    [
        ("in/rows.csv", 0o000, "error[E900]: source 'rows': in/rows.csv: permission denied"),
        ("in", 0o666, "error[E216]: source 'rows': in/rows.csv: discovery failed: Permission denied"),
    ],
)
def test_an_input_that_may_not_be_read(
    path: str, mode: int, says: str, work: Path, without_rights: Callable[..., tuple[int, str]]
) -> None:
    (work / path).chmod(mode)
    status, told = without_rights(output("o", "type: csv, path: o.csv"))
    assert status == 4, told
    assert f"{says}; {RIGHTS}" in told
    assert "pipeline.yaml:5:" in told
    assert "Traceback" not in told
    assert {each.name for each in work.iterdir()} == {"in", "pipeline.yaml"}


@pytest.mark.parametrize(("place", "name"), [(jobs.Work, "all_jobs"), (outputs_, "assemble")])
@pytest.mark.parametrize("is_replaced", [True, False])
@pytest.mark.parametrize(
    "config",
    ["type: csv, path: out/o.csv", "type: csv, path: out/folder, parts: true", "type: delta, path: out/table"],
)
def test_an_output_folder_that_goes_during_a_run_is_told(
    config: str,
    is_replaced: bool,
    place: Any,
    name: str,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = getattr(place, name)

    def without(*arguments: Any, **options: Any) -> Any:
        (work / "out").rename(work / "elsewhere")
        if is_replaced:
            (work / "out").mkdir()
        return real(*arguments, **options)

    monkeypatch.setattr(place, name, without)
    (work / "out").mkdir()
    assert run(work, output("o", config)) == 4
    told = capsys.readouterr().err
    assert "error[E900]: output 'o': " in told
    assert "No such file or directory; it is the run's own, and somebody has removed or moved its folder" in told
    assert "Traceback" not in told
    assert not (work / "out").exists() or tree(work / "out") == {}
