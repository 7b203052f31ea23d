"""A run's spill folder: its own, removed with it, and by the next run when it was killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_jobs.disk import volumes
from spark_jobs.disk.locks import FileLock
from spark_jobs.disk.spill_folder import GRACE_S, LOCK, OLD_S, PREFIX, UNLOCKED, SpillFolder, purge

OLD = time.time() - 60
VERY_OLD = time.time() - 2 * OLD_S


def dead(root: Path, name: str, *, has_lock: bool = True) -> Path:
    path = root / f"{PREFIX}{name}"
    (path / "deep").mkdir(parents=True)
    (path / "deep/part").write_text("x")
    if has_lock:
        (path / LOCK).write_text("")
    os.utime(path, (OLD, OLD))
    return path


def test_a_folder_is_private_locked_and_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    with SpillFolder.open(str(tmp_path)) as folder:
        assert folder.path.parent == tmp_path
        assert folder.path.name.startswith(PREFIX)
        assert folder.path.stat().st_mode & 0o777 == 0o700
        assert FileLock.exclusive(folder.path / LOCK) is None
        (folder.path / "deep").mkdir()
        (folder.path / "deep/part").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_while_others_still_write_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = shutil.rmtree, []

    def removed(path: Path, **how: bool) -> None:
        """The first time somebody writes a file behind the back of who removes them."""
        calls.append(path)
        real(path, **how)
        if len(calls) == 1:
            (path / "late").mkdir(parents=True)

    monkeypatch.setattr(shutil, "rmtree", removed)
    SpillFolder.open(str(tmp_path)).close()
    assert len(calls) == 2
    assert list(tmp_path.iterdir()) == []


def test_two_runs_have_folders_of_their_own(tmp_path: Path) -> None:
    with (
        SpillFolder.open(str(tmp_path)) as first,
        SpillFolder.open(str(tmp_path)) as second,
    ):
        assert first.path != second.path
        os.utime(first.path, (OLD, OLD))
        assert purge(str(tmp_path)) == []
        assert first.path.exists()


@pytest.mark.parametrize("has_lock", [True, False])
def test_the_next_run_removes_the_folders_of_dead_runs_and_no_others(tmp_path: Path, has_lock: bool) -> None:
    gone, living = dead(tmp_path, "gone", has_lock=has_lock), dead(tmp_path, "living")
    others = tmp_path / "spark-of-somebody"
    others.mkdir()
    os.utime(others, (VERY_OLD, VERY_OLD))
    lock = FileLock.exclusive(living / LOCK)
    assert lock is not None
    os.utime(living, (VERY_OLD, VERY_OLD))
    SpillFolder.open(str(tmp_path)).close()
    lock.close()
    assert (gone.exists(), living.exists(), others.exists()) == (False, True, True)


def test_folders_of_dead_runs_are_an_hour_old_where_locks_may_be_of_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "kind", lambda root: volumes.Kind.NETWORK)
    gone, young = dead(tmp_path, "gone"), dead(tmp_path, "young")
    os.utime(gone, (VERY_OLD, VERY_OLD))
    SpillFolder.open(str(tmp_path)).close()
    assert (gone.exists(), young.exists()) == (False, True)


def test_a_folder_that_is_about_to_be_locked_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: a process may be stopped in between, or the machine be busy."""
    exclusive = FileLock.exclusive

    def late(path: Path) -> FileLock | None:
        os.utime(path.parent, (OLD, OLD))
        monkeypatch.setattr(FileLock, "exclusive", exclusive)
        SpillFolder.open(str(tmp_path)).close()
        return exclusive(path)

    monkeypatch.setattr(FileLock, "exclusive", late)
    with SpillFolder.open(str(tmp_path)) as folder:
        assert [*tmp_path.iterdir()] == [folder.path]
        assert not folder.path.name.startswith(UNLOCKED)


def test_a_folder_that_nobody_came_to_lock_goes_when_it_is_old(tmp_path: Path) -> None:
    old, young = (tmp_path / f"{UNLOCKED}{name}" for name in ("old", "young"))
    for folder, moment in ((old, VERY_OLD), (young, time.time() - 2 * GRACE_S)):
        folder.mkdir()
        os.utime(folder, (moment, moment))
    SpillFolder.open(str(tmp_path)).close()
    assert [*tmp_path.iterdir()] == [young]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_folders_of_other_users_stay(tmp_path: Path) -> None:
    theirs = dead(tmp_path, "theirs")
    os.chown(theirs, 65534, 65534)
    os.utime(theirs, (VERY_OLD, VERY_OLD))
    with SpillFolder.open(str(tmp_path)) as folder:
        assert folder.problems == ()
    assert theirs.exists()


def test_young_folders_links_and_others_stay(tmp_path: Path) -> None:
    young = dead(tmp_path, "young")
    os.utime(young)
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(outside)
    (tmp_path / f"{PREFIX}file").write_text("")
    os.utime(outside, (OLD, OLD))
    os.utime(tmp_path / f"{PREFIX}file", (OLD, OLD))
    assert purge(str(tmp_path)) == []
    assert len(list(tmp_path.iterdir())) == 4


def test_what_cannot_be_removed_is_told_and_the_rest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, gone = dead(tmp_path, "a"), dead(tmp_path, "b")
    (stuck / LOCK).unlink()
    (stuck / LOCK).mkdir()
    os.utime(stuck, (OLD, OLD))
    with SpillFolder.open(str(tmp_path)) as folder:
        assert [problem.partition(" of a dead run")[0] for problem in folder.problems] == [str(stuck)]
    assert not gone.exists()


def test_a_root_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SpillFolder.open(str(tmp_path / "missing"))


def test_the_folder_of_a_killed_process_goes_and_not_before(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from spark_jobs.disk.spill_folder import SpillFolder\n"
        "folder = SpillFolder.open(sys.argv[1])\n"
        "print(folder.path, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        path = Path(run.stdout.readline().strip())
        os.utime(path, (OLD, OLD))
        assert purge(str(tmp_path)) == []
        assert path.is_dir()
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert purge(str(tmp_path)) == []
    assert not path.exists()
