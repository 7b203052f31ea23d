"""Locks between processes, on files that others remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.disk.locks import FileLock

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.lock"


def test_readers_share_and_keep_others_out(path: Path) -> None:
    first, second = FileLock.shared(path), FileLock.shared(path)
    assert FileLock.exclusive(path) is None
    first.close()
    assert FileLock.exclusive(path) is None
    second.close()
    alone = FileLock.exclusive(path)
    assert alone is not None
    assert FileLock.exclusive(path) is None
    alone.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_changes_its_kind(path: Path) -> None:
    lock = FileLock.exclusive(path)
    assert lock is not None
    assert lock.weaken()
    other = FileLock.shared(path)
    assert not lock.strengthen()
    other.close()
    assert lock.strengthen()
    assert FileLock.exclusive(path) is None
    lock.close()


def test_a_lock_whose_file_was_removed_means_nothing(path: Path) -> None:
    lock = FileLock.exclusive(path)
    assert lock is not None
    path.unlink()
    other = FileLock.exclusive(path)
    assert other is not None
    assert not lock.weaken()
    assert not lock.strengthen()
    lock.close()
    other.close()


def test_whoever_waited_for_a_file_that_was_removed_takes_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.disk import locks

    opened = []
    flock = locks.fcntl.flock

    def removed_meanwhile(descriptor: int, how: int) -> None:
        flock(descriptor, how)
        opened.append(descriptor)
        if len(opened) == 1:
            path.unlink()

    monkeypatch.setattr(locks.fcntl, "flock", removed_meanwhile)
    lock = FileLock.shared(path)
    assert len(opened) == 2
    assert path.exists()
    monkeypatch.undo()
    assert FileLock.exclusive(path) is None
    lock.close()
