"""Once all files have their names the run has succeeded; until then no file has its new name."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import result
from spark_jobs.disk import durable
from spark_jobs.execute.delivery.local import publish, recovery
from tests.execute import without_spark
from tests.execute.bad_runs import prepare, run

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def refusing(original: Callable[..., Any], when: Callable[..., bool]) -> Callable[..., Any]:
    """A function that the system refuses in some cases."""

    def call(*arguments: Any, **options: Any) -> Any:
        if when(*arguments, **options):
            raise OSError(errno.EIO, "Input/output error", str(arguments[0]))
        return original(*arguments, **options)

    return call


def always(*_: Any, **__: Any) -> bool:
    return True


TROUBLE: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "the folders cannot be synced": (durable, "sync_folders", always),
    "the journal cannot be removed": (os, "unlink", lambda path, **_: str(path).endswith("journal.json")),
    "nothing in the draft folders can be removed": (os, "unlink", lambda path, **options: "dir_fd" in options),
    "the draft folders cannot be removed": (os, "rmdir", always),
    "a folder's lock cannot be let go": (publish.os, "close", lambda number: _is_folder(number)),
    "the result cannot be written": (result, "write", always),
    "the metrics cannot be written": (Path, "rename", lambda path, _: str(path).endswith(".json.tmp")),
}


def _is_folder(descriptor: int) -> bool:
    return Path(f"/proc/self/fd/{descriptor}").resolve().name == "out"


@pytest.mark.parametrize("what", TROUBLE)
def test_trouble_after_the_last_rename_is_a_warning(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path)
    where, name, when = TROUBLE[what]
    rename, at_work = publish._rename_or_restore, pytest.MonkeyPatch()

    def renamed(renames: Any) -> None:
        rename(renames)
        at_work.setattr(where, name, refusing(getattr(where, name), when))

    monkeypatch.setattr(publish, "_rename_or_restore", renamed)
    try:
        ended = run(
            tmp_path, "--force", "--work-dir", str(tmp_path / "work"), "--metrics-spool-dir", str(tmp_path / "m")
        )
    finally:
        at_work.undo()
    told = capsys.readouterr()
    assert (ended, "error[" in told.err) == (0, False), told.err
    assert f"wrote {tmp_path / 'out/copy.csv'}" in told.out
    assert (tmp_path / "out/copy.csv").read_text() == "a,b\n1,x\n2,y\n"
    assert "WARNING" in told.err or "lock" in what
    recovery.recover(tmp_path / "out")
    assert os.listdir(tmp_path / "out") == ["copy.csv"], "the next run tidies up"
    assert (tmp_path / "out/copy.csv").read_text() == "a,b\n1,x\n2,y\n"


def test_an_older_runs_letters_that_cannot_be_removed_keep_all_files_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The removal is one of the renames, so it is all or nothing."""
    prepare(tmp_path, strategy="continue")
    (tmp_path / "out/dead.csv").write_text("old letters\n")
    monkeypatch.setattr(os, "unlink", refusing(os.unlink, lambda path, **_: str(path).endswith("out/dead.csv")))
    assert run(tmp_path, "--force") == 4
    assert "out/dead.csv: Input/output error" in capsys.readouterr().err
    left = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert left == {"copy.csv": "old\n", "dead.csv": "old letters\n"}


def test_renames_that_can_neither_be_done_nor_undone_are_completed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two faults at once leave a mixture, and with it what is needed to mend it."""
    prepare(tmp_path, "a,b\n1,x\nnothing,y\n", "continue")
    (tmp_path / "out/dead.csv").write_text("old letters\n")
    replace = os.replace

    def refused(source: Any, target: Any) -> None:
        if str(target).endswith("out/dead.csv") or str(source).endswith("out/copy.csv"):
            raise OSError(errno.EIO, "Input/output error", str(source), None, str(target))
        replace(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", refused)
        assert run(tmp_path, "--force") == 4
    told = capsys.readouterr().err
    assert "could not give them back" in told
    assert "the next run that writes there publishes the files of this run" in told
    assert (tmp_path / "out/copy.csv").read_text() == "a,b\n1,x\n"
    assert (tmp_path / "out/dead.csv").read_text() == "old letters\n"
    recovery.recover(tmp_path / "out")
    assert "nothing" in (tmp_path / "out/dead.csv").read_text()
    assert sorted(os.listdir(tmp_path / "out")) == ["copy.csv", "dead.csv"]


def test_a_file_system_without_syncing_of_folders_can_be_published_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def of_files_alone(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    prepare(tmp_path)
    monkeypatch.setattr(os, "fsync", of_files_alone)
    assert run(tmp_path, "--force") == 0


def test_a_file_system_without_locks_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    prepare(tmp_path)
    monkeypatch.setattr("fcntl.flock", none)
    assert run(tmp_path, "--force") == 4
    told = capsys.readouterr().err
    assert f"{tmp_path}/out/.clinker-" in told
    assert "cannot be locked (No locks available): use a file system with file locks" in told
    assert os.listdir(tmp_path / "out") == ["copy.csv"]
