"""Staging, the journal, and what a dead run leaves."""

from __future__ import annotations

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
