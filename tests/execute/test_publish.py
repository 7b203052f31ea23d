"""Staging, the journal, and what a dead run leaves."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute import publish

if TYPE_CHECKING:
    from pathlib import Path


def staged(staging: publish.Staging, name: str, content: bytes) -> str:
    path = staging.home / name
    path.write_bytes(content)
    return str(path)


def test_nothing_is_visible_before_publishing(tmp_path: Path) -> None:
    staging = publish.Staging.open("one", tmp_path / "out")
    source = staged(staging, "a", b"new")
    visible = [p for p in (tmp_path / "out").iterdir() if not p.name.startswith(".")]
    assert visible == []
    staging.publish([publish.Rename(source, str(tmp_path / "out" / "a.csv"))])
    staging.close(failed=False)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a.csv"]


def test_a_failed_run_leaves_neither_files_nor_folders(tmp_path: Path) -> None:
    staging = publish.Staging.open("one", tmp_path / "deep" / "out")
    staging.folder(tmp_path / "other")
    staged(staging, "a", b"half")
    staging.close(failed=True)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_keeps_folders_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.csv").write_text("old")
    publish.Staging.open("one", tmp_path / "out").close(failed=True)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["old.csv"]


def dead_staging(out: Path, run: str, *, journal: bool) -> None:
    """What a killed run leaves: a folder whose lock nobody holds, with or without a journal."""
    folder = out / f"{publish.PREFIX}{run}"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    renames = []
    for name in ("a.csv", "b.csv"):
        (folder / name).write_text("new")
        renames.append([str(folder / name), str(out / name)])
    if journal:
        (folder / "journal.json").write_text(json.dumps(renames))


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_death_among_the_renames_is_completed(tmp_path: Path, renamed: int) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("old")
    dead_staging(tmp_path, "dead", journal=True)
    for name in ("a.csv", "b.csv")[:renamed]:
        os.replace(tmp_path / ".clinker-dead" / name, tmp_path / name)
    publish.recover(tmp_path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.csv": "new", "b.csv": "new"}


def test_a_death_before_the_renames_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")
    dead_staging(tmp_path, "dead", journal=False)
    publish.recover(tmp_path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.csv": "old"}


def test_a_living_run_is_left_alone(tmp_path: Path) -> None:
    living = publish.Staging.open("living", tmp_path)
    staged(living, "a", b"half")
    assert publish.recover(tmp_path) == []
    assert (living.home / "a").exists()
    living.close(failed=False)


def test_a_removal_is_part_of_publishing(tmp_path: Path) -> None:
    old = tmp_path / "dead.csv"
    old.write_text("old letters")
    staging = publish.Staging.open("one", tmp_path)
    staging.publish([publish.Rename(None, str(old))])
    staging.close(failed=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("start", [b"", b"HEAD\n"])
@pytest.mark.parametrize("separator", [b"", b",\n"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_parts_are_joined_in_order(tmp_path: Path, start: bytes, separator: bytes, count: int) -> None:
    contents = [bytes([65 + i]) * (1000 * i + 1) for i in range(count)]
    paths = []
    for i, content in enumerate(contents):
        path = tmp_path / f"{i}.part"
        path.write_bytes(content)
        paths.append(str(path))
    size = publish.join(paths, tmp_path / "whole", start=start, separator=separator, end=b"END")
    whole = start + separator.join(contents) + b"END"
    assert (tmp_path / "whole").read_bytes() == whole
    assert size == len(whole)
    assert [p.name for p in tmp_path.iterdir()] == ["whole"], "parts are used up"


def test_a_folder_that_another_run_takes_for_a_dead_ones_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making a staging folder and locking it, another run may look at it."""
    flock = fcntl.flock
    seen: list[list[Path]] = []

    def meanwhile(lock: object, operation: int) -> None:
        if not seen and operation == fcntl.LOCK_EX:
            seen.append([])
            seen[0] = publish.recover(tmp_path)
        flock(lock, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", meanwhile)
    staging = publish.Staging.open("one", tmp_path)
    assert seen == [[staging.home]], "the other run removed the folder"
    assert (staging.home / "lock").exists()
    assert publish.recover(tmp_path) == [], "now it is locked"
    staging.close(failed=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_lock_is_cleared(tmp_path: Path) -> None:
    """A run that died between making the folder and its lock."""
    (tmp_path / f"{publish.PREFIX}dead").mkdir()
    publish.recover(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_tasks_that_still_write_do_not_keep_a_folder_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "staging"
    folder.mkdir()
    rmdir, late = os.rmdir, [0, 1, 2]

    def written_into(path: object, **options: object) -> None:
        if late:
            (folder / f"{late.pop()}.part").touch()
        rmdir(path, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "rmdir", written_into)
    publish.remove(folder)
    assert late == []
    assert not folder.exists()


def two_files(folder: Path) -> tuple[publish.Staging, list[publish.Rename]]:
    """Old files `a` and `b`, and a run that has new ones, and a new file `c`."""
    for name in "ab":
        (folder / name).write_text("old")
    staging = publish.Staging.open("one", folder)
    return staging, [publish.Rename(staged(staging, name, b"new"), str(folder / name)) for name in "abc"]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize("at", ["a", "b", "c"])
def test_a_rename_that_fails_undoes_those_before_it(
    at: str, has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, renames = two_files(tmp_path)
    replace = os.replace

    def refused(source: str, target: str) -> None:
        if os.fspath(target) == str(tmp_path / at) and not source.endswith(".old"):
            raise OSError(errno.EIO, "Input/output error", target)
        replace(source, target)

    def unlinked(*arguments: object, **options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", refused)
        if not has_links:
            broken.setattr(os, "link", unlinked)
        with pytest.raises(OSError, match="Input/output"):
            staging.publish(renames)
    assert contents(tmp_path) == {"a": "old", "b": "old"}
    staging.close(failed=True)
    assert publish.recover(tmp_path) == []
    assert contents(tmp_path) == {"a": "old", "b": "old"}


@pytest.mark.parametrize("has_links", [True, False])
def test_renames_replace_old_files(has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlinked(*arguments: object, **options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    staging, renames = two_files(tmp_path)
    if not has_links:
        monkeypatch.setattr(os, "link", unlinked)
    staging.publish(renames)
    staging.close(failed=False)
    assert contents(tmp_path) == {"a": "new", "b": "new", "c": "new"}
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_folders_that_could_not_all_be_made_are_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OSError, match="file"):
        publish.Staging.open("one", tmp_path / "file" / "deep")
    staging = publish.Staging.open("one", tmp_path / "new")
    with pytest.raises(OSError, match="file"):
        staging.folder(tmp_path / "file" / "deep")
    staging.close(failed=True)
    assert contents(tmp_path) == {"file": "no folder"}
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
