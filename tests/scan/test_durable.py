"""Files are on the disk before anything counts on it, however many they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from spark_jobs.disk import durable

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, count: int) -> list[str]:
    paths = [str(folder / f"{number}") for number in range(count)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"x")
    return paths


@pytest.mark.parametrize("count", [0, 1, 16, 17, 100])
@pytest.mark.parametrize("portion", [7, 4096])
def test_every_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, portion: int) -> None:
    paths = made(tmp_path, count)
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(durable, "_PORTION", portion)
    durable.sync_files(paths)
    assert sorted(synced) == sorted(os.stat(path).st_ino for path in paths)


@pytest.mark.parametrize("count", [3, 50])
def test_a_file_that_cannot_be_synced_is_named(tmp_path: Path, count: int) -> None:
    paths = made(tmp_path, count)
    os.unlink(paths[1])
    with pytest.raises(FileNotFoundError) as raised:
        durable.sync_files(paths)
    assert raised.value.filename == paths[1]
