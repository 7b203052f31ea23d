"""Drafts, the journal, and what a dead run leaves."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import threading
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.disk import durable
from spark_jobs.execute.delivery.destination import Content, PartRange, whole
from spark_jobs.execute.delivery.local import draft_folder, joining, journal, publish, recovery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def staged(draft: publish.DraftFolders, name: str, content: bytes) -> str:
    path = draft.home / name
    path.write_bytes(content)
    return str(path)


def test_nothing_is_visible_before_publishing(tmp_path: Path) -> None:
    draft = publish.DraftFolders.open("one", tmp_path / "out")
    source = staged(draft, "a", b"new")
    printable = [p for p in (tmp_path / "out").iterdir() if not p.name.startswith(".")]
    assert printable == []
    draft.publish([journal.Rename(source, str(tmp_path / "out" / "a.csv"))])
    draft.close(failed=False)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a.csv"]


def test_a_failed_run_leaves_neither_files_nor_folders(tmp_path: Path) -> None:
    draft = publish.DraftFolders.open("one", tmp_path / "deep" / "out")
    draft.folder(tmp_path / "other")
    staged(draft, "a", b"half")
    draft.close(failed=True)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_keeps_folders_that_were_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.csv").write_text("old")
    publish.DraftFolders.open("one", tmp_path / "out").close(failed=True)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["old.csv"]


def dies(number: int, files: Mapping[Path, str], home: Path, gone: Sequence[Path] = ()) -> None:
    """What a run leaves that dies before its rename with this number; `gone` are files that it removes."""
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        return
    try:
        done = [0]
        rename = publish._rename

        def dying(each: journal.Rename) -> None:
            if done[0] == number:
                os._exit(9)
            done[0] += 1
            rename(each)

        publish._rename = dying
        draft = publish.DraftFolders.open("dead", home)
        renames = []
        for target, content in files.items():
            source = draft.folder(target.parent) / target.name
            source.write_text(content)
            renames.append(journal.Rename(str(source), str(target)))
        if number >= 0:
            draft.publish(renames + [journal.Rename(None, str(each)) for each in gone])
        os._exit(9)
    finally:
        os._exit(1)


def everything(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("renamed", [0, 1, 2])
@pytest.mark.parametrize("found_by", ["out", "other"])
def test_a_death_among_the_renames_is_completed(tmp_path: Path, renamed: int, found_by: str) -> None:
    """Whichever of its folders the next run touches: all files get their names, once."""
    targets = [tmp_path / "out/a.csv", tmp_path / "other/b.csv"]
    for target in targets:
        target.parent.mkdir()
        target.write_text("old")
    dies(renamed, dict.fromkeys(targets, "new"), tmp_path / "work")
    shutil.rmtree(tmp_path / "work")  # a scheduler may do that
    recovery.recover(tmp_path / found_by)
    assert [target.read_text() for target in targets] == ["new", "new"]
    targets[1].write_text("newer")
    for folder in ("out", "other"):
        recovery.recover(tmp_path / folder)
    assert everything(tmp_path) == {"other/b.csv": "newer", "out/a.csv": "new"}


def test_a_death_before_the_renames_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")
    dies(-1, {tmp_path / "a.csv": "new"}, tmp_path)
    assert everything(tmp_path) != {"a.csv": "old"}
    recovery.recover(tmp_path)
    assert everything(tmp_path) == {"a.csv": "old"}


def test_a_death_leaves_what_a_later_run_wrote(tmp_path: Path) -> None:
    """What was to be removed is known by more than its name."""
    old = tmp_path / "letters.csv"
    old.write_text("old letters")
    dies(1, {tmp_path / "a.csv": "new"}, tmp_path, gone=[old])
    old.unlink()
    old.write_text("new letters")
    recovery.recover(tmp_path)
    assert everything(tmp_path) == {"a.csv": "new", "letters.csv": "new letters"}


def test_a_file_that_still_cannot_get_its_name_is_told(tmp_path: Path) -> None:
    dies(0, {tmp_path / "a.csv": "new"}, tmp_path)
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(OSError, match=r"a run that died while .* make room for it, or remove that folder") as told:
        recovery.recover(tmp_path)
    assert told.value.filename == str(tmp_path / "a.csv")
    assert "new" in everything(tmp_path).values()


@pytest.mark.parametrize("how", ["no lock", "another lock", "a link", "a file"])
def test_what_is_not_ours_is_left_alone(tmp_path: Path, how: str) -> None:
    mine = tmp_path / ".clinker-notes"
    if how == "a file":
        mine.write_text("precious")
    else:
        folder = tmp_path / "elsewhere" if how == "a link" else mine
        folder.mkdir()
        (folder / "gold.txt").write_text("precious")
        if how == "a link":
            mine.symlink_to(folder)
        if how == "another lock":
            (folder / "lock").write_text("of mine")
    before = everything(tmp_path)
    assert recovery.recover(tmp_path) == []
    publish.DraftFolders.open("one", tmp_path).close(failed=True)
    assert everything(tmp_path) == before
    with pytest.raises(FileExistsError):
        publish.DraftFolders.open("notes", tmp_path)


@pytest.mark.parametrize("left", ["nothing", "an empty lock"])
def test_the_folder_of_a_run_that_died_making_it_goes(tmp_path: Path, left: str) -> None:
    (tmp_path / ".clinker-dead").mkdir()
    if left == "an empty lock":
        (tmp_path / ".clinker-dead/lock").touch()
    recovery.recover(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_has_one_lock_however_it_is_spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    monkeypatch.chdir(tmp_path)
    draft = publish.DraftFolders.open("one", Path("out"))
    assert draft.folder(tmp_path / "link").samefile(draft.home)
    assert draft.folder(tmp_path / "out/../link") == draft.home
    draft.close(failed=True)
    assert everything(tmp_path) == {}


def test_runs_publish_one_after_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The second one waits; in whatever order they name the folders, they do not wait for each other."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    order: list[str] = []

    def second() -> None:
        with publish.exclusive(reversed(folders)):
            order.append("second")

    waiting = threading.Thread(target=second)
    caplog.set_level(logging.INFO, "clinker.run")
    with publish.exclusive(folders):
        waiting.start()
        waiting.join(0.1)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
    assert [record.getMessage() for record in caplog.records] == [
        f"waiting for another run that publishes into {folders[0]}"
    ]


def test_a_living_run_is_left_alone(tmp_path: Path) -> None:
    living = publish.DraftFolders.open("living", tmp_path)
    staged(living, "a", b"half")
    assert recovery.recover(tmp_path) == []
    assert (living.home / "a").exists()
    living.close(failed=False)


def test_a_removal_is_part_of_publishing(tmp_path: Path) -> None:
    old = tmp_path / "dead.csv"
    old.write_text("old letters")
    draft = publish.DraftFolders.open("one", tmp_path)
    draft.publish([journal.Rename(None, str(old))])
    draft.close(failed=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("start", [b"", b"HEAD\n"])
@pytest.mark.parametrize("separator", [b"", b",\n"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_parts_are_joined_in_order(tmp_path: Path, start: bytes, separator: bytes, count: int) -> None:
    contents = [bytes([65 + i]) * (1000 * i + 1) for i in range(count)]
    parts: list[PartRange] = []
    for i, content in enumerate(contents):
        path = tmp_path / f"{i}.part"
        path.write_bytes(content)
        parts.append(whole(str(path), len(content)))
    size = joining.join(Content(tuple(parts), start, separator, b"END", uses_up=True), tmp_path / "whole")
    everything = start + separator.join(contents) + b"END"
    assert (tmp_path / "whole").read_bytes() == everything
    assert size == len(everything)
    assert [p.name for p in tmp_path.iterdir()] == ["whole"], "parts are used up"


def test_a_folder_that_another_run_takes_for_a_dead_ones_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making a draft folder and locking it, another run may look at it."""
    flock = fcntl.flock
    seen: list[list[Path]] = []

    def meanwhile(lock: object, operation: int) -> None:
        if not seen and operation == fcntl.LOCK_EX:
            seen.append([])
            seen[0] = recovery.recover(tmp_path)
        flock(lock, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", meanwhile)
    draft = publish.DraftFolders.open("one", tmp_path)
    assert seen == [[draft.home]], "the other run removed the folder"
    assert (draft.home / "lock").exists()
    assert recovery.recover(tmp_path) == [], "now it is locked"
    draft.close(failed=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_tasks_that_still_write_do_not_keep_a_folder_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "draft"
    folder.mkdir()
    rmdir, late = os.rmdir, [0, 1, 2]

    def written_into(path: object, **options: object) -> None:
        if late:
            (folder / f"{late.pop()}.part").touch()
        rmdir(path, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "rmdir", written_into)
    draft_folder.remove(folder)
    assert late == []
    assert not folder.exists()


def test_a_journal_that_nobody_could_read_again_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft, renames = two_files(tmp_path)
    monkeypatch.setattr(journal, "MOST_BYTES", 100)
    with pytest.raises(OSError, match=r"the journal of 3 files would have \d+ bytes, more than 100: write fewer"):
        draft.publish(renames)
    draft.close(failed=True)
    assert contents(tmp_path) == {"a": "old", "b": "old"}


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    names = ["out/a", "other/b \N{BULLET}", "out/c,]}", "out/gone"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    draft = publish.DraftFolders.open("one", tmp_path / "out", [tmp_path / "other"])
    renames = [journal.Rename(f"/staged/{number}", str(tmp_path / name)) for number, name in enumerate(names[:3])]
    journal.write([*renames, journal.Rename(None, str(tmp_path / names[3]))], draft.home)
    opened = os.open(draft.home, os.O_RDONLY)
    known = journal.Journal.read(opened)
    os.close(opened)
    draft.close(failed=True)
    assert known is not None
    found = journal.identity(str(tmp_path / "out/gone"))
    assert [(known.folders[each.folder], each.source, each.target, each.identity) for each in known.entries] == [
        (str(tmp_path / "out"), "0", "a", None),
        (str(tmp_path / "other"), "1", "b \N{BULLET}", None),
        (str(tmp_path / "out"), "2", "c,]}", None),
        (str(tmp_path / "out"), None, "gone", found),
    ]


def test_publishing_holds_little_of_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may have a million of them."""
    count = 2000
    monkeypatch.setattr(durable, "_PORTION", 50)  # what is held of each portion counts once
    draft = publish.DraftFolders.open("one", tmp_path)
    renames = [journal.Rename(staged(draft, f"{n}", b""), str(tmp_path / f"{n}.csv")) for n in range(count)]
    draft.publish(renames[:50])  # what is made once
    tracemalloc.start()
    draft.publish(renames[50:])
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    draft.close(failed=False)
    assert len(contents(tmp_path)) == count
    assert held / count < 150


def two_files(folder: Path) -> tuple[publish.DraftFolders, list[journal.Rename]]:
    """Old files `a` and `b`, and a run that has new ones, and a new file `c`."""
    for name in "ab":
        (folder / name).write_text("old")
    draft = publish.DraftFolders.open("one", folder)
    return draft, [journal.Rename(staged(draft, name, b"new"), str(folder / name)) for name in "abc"]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize("at", ["a", "b", "c"])
def test_a_rename_that_fails_undoes_those_before_it(
    at: str, has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, renames = two_files(tmp_path)
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
            draft.publish(renames)
    assert contents(tmp_path) == {"a": "old", "b": "old"}
    draft.close(failed=True)
    assert recovery.recover(tmp_path) == []
    assert contents(tmp_path) == {"a": "old", "b": "old"}


@pytest.mark.parametrize("has_links", [True, False])
def test_renames_replace_old_files(has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlinked(*arguments: object, **options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    draft, renames = two_files(tmp_path)
    if not has_links:
        monkeypatch.setattr(os, "link", unlinked)
    draft.publish(renames)
    draft.close(failed=False)
    assert contents(tmp_path) == {"a": "new", "b": "new", "c": "new"}
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_folders_that_could_not_all_be_made_are_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OSError, match="file"):
        publish.DraftFolders.open("one", tmp_path / "file" / "deep")
    draft = publish.DraftFolders.open("one", tmp_path / "new")
    with pytest.raises(OSError, match="file"):
        draft.folder(tmp_path / "file" / "deep")
    draft.close(failed=True)
    assert contents(tmp_path) == {"file": "no folder"}
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
