"""What is found in an output folder is believed only when this user's runs have left it there."""

from __future__ import annotations

import json
import logging
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.delivery.local import draft_folder, journal, publish, recovery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from spark_jobs.execute.delivery.participant import StorageAccess

RUN = ".clinker-a"


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """Nothing that is planted makes a run wait."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(20)
    yield
    signal.alarm(0)


class Planted:
    """A draft folder as a run leaves it that died before its first rename; tests spoil one thing."""

    def __init__(self, root: Path) -> None:
        self.out = root / "out"
        self.draft = self.out / RUN
        self.draft.mkdir(parents=True, mode=0o700)
        self.victim = root / "victim"
        self.victim.mkdir()
        (self.victim / "keys").write_text("precious")
        (self.out / "a.csv").write_text("old")
        (self.draft / "lock").write_bytes(draft_folder.MARK)
        (self.draft / "key").write_text("new")
        self.point(self.draft)
        self.entries([[0, "key", "a.csv", None]])

    def point(self, place: object) -> None:
        (self.draft / "journal.at").write_text(str(place))

    def entries(self, entries: Any, folders: list[str] | None = None) -> None:
        known = {"folders": folders or [str(self.out)], "entries": entries}
        (self.draft / "journal.json").write_text(json.dumps(known))


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


def everything(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = f"-> {path.readlink()}"
        elif path.is_file():
            with path.open("rb") as file:
                found[str(path)] = repr(file.read(100))
    return found


def test_what_is_not_spoilt_is_completed(planted: Planted) -> None:
    """The floor of the tests below."""
    assert recovery.recover(planted.out) == [planted.draft]
    assert (planted.out / "a.csv").read_text() == "new"
    assert not planted.draft.exists()


def linked(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def hard_linked(path: Path, other: Path) -> None:
    os.link(path, other)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


SPOILT: dict[str, Callable[[Planted], object]] = {
    "a target above": lambda p: p.entries([[0, "key", "../victim/keys", None]]),
    "an absolute target": lambda p: p.entries([[0, "key", str(p.victim / "keys"), None]]),
    "a source above": lambda p: p.entries([[0, "../../victim/keys", "a.csv", None]]),
    "a relative folder": lambda p: p.entries([[0, "key", "keys", None]], ["../victim"]),
    "a number of no folder": lambda p: p.entries([[1, "key", "a.csv", None]]),
    "a negative number": lambda p: p.entries([[-1, "key", "a.csv", None]]),
    "the folder itself": lambda p: p.entries([[0, "key", ".", None]]),
    "no name": lambda p: p.entries([[0, "key", "", None]]),
    "a name with NUL": lambda p: p.entries([[0, "key", "a\0b", None]]),
    "the old form": lambda p: (p.draft / "journal.json").write_text('[["key", "../victim/keys", null]]'),
    "no list": lambda p: p.entries({"0": "key"}),
    "entries of numbers": lambda p: p.entries([1, 2]),
    "no JSON": lambda p: (p.draft / "journal.json").write_text("{"),
    "deep JSON": lambda p: (p.draft / "journal.json").write_text("[" * 200_000),
    "no text": lambda p: (p.draft / "journal.json").write_bytes(b"\xff\xfe"),
    "a huge journal": lambda p: huge(p.draft / "journal.json"),
    "a huge pointer": lambda p: huge(p.draft / "journal.at"),
    "a journal that is a link": lambda p: linked(p.draft / "journal.json", p.victim / "keys"),
    "a pointer that is a link": lambda p: linked(p.draft / "journal.at", p.victim / "keys"),
    "a lock that is a link": lambda p: linked(p.draft / "lock", p.victim / "keys"),
    "a journal that is a FIFO": lambda p: fifo(p.draft / "journal.json"),
    "a pointer that is a FIFO": lambda p: fifo(p.draft / "journal.at"),
    "a lock that is a FIFO": lambda p: fifo(p.draft / "lock"),
    "a journal that is a folder": lambda p: folder_instead(p.draft / "journal.json"),
    "a journal with a second name": lambda p: hard_linked(p.draft / "journal.json", p.victim / "other"),
    "a lock with a second name": lambda p: hard_linked(p.draft / "lock", p.victim / "other"),
    "a relative pointer": lambda p: p.point(f"out/{RUN}"),
    "a pointer to itself by another way": lambda p: p.point(f"{p.out}/../out/{RUN}"),
    "a pointer to itself through a link": lambda p: (linked(p.victim / "way", p.out), p.point(p.victim / "way" / RUN)),
    "a pointer to another name": lambda p: p.point(p.victim),
    "a folder that others can write": lambda p: p.draft.chmod(0o777),
    "a folder that its group can write": lambda p: p.draft.chmod(0o770),
    "a journal that others can write": lambda p: (p.draft / "journal.json").chmod(0o666),
    "a lock that others can write": lambda p: (p.draft / "lock").chmod(0o666),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILT)
def test_what_somebody_planted_renames_and_removes_nothing(
    how: str, planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder of a clone, of an archive, or in a folder that several users share."""
    monkeypatch.chdir(tmp_path)
    SPOILT[how](planted)
    before = everything(tmp_path)
    caplog.set_level(logging.WARNING, "clinker.run")
    assert recovery.recover(planted.out) == []
    assert everything(tmp_path) == before
    if "lock that is a" not in how:  # without a lock of a run it is nobody's business
        assert "is left as it is" in caplog.text
    publish.DraftFolders.open("mine", planted.out).close(failed=True)
    assert everything(tmp_path) == before


def test_another_users_folder_is_left_alone(planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(tmp_path)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert recovery.recover(planted.out) == []
    assert everything(tmp_path) == before
    with pytest.raises(FileExistsError, match="choose another execution id"):
        publish.DraftFolders.open("a", planted.out)


@pytest.mark.parametrize("source", ["key", None])
def test_a_journal_of_folders_in_which_its_run_was_not_changes_nothing_there(
    source: str | None, planted: Planted
) -> None:
    """Its files are published, as far as anybody can tell: all that is left to do is to tidy up."""
    (planted.victim / "key").write_text("precious too")
    before = everything(planted.victim)
    found = None if source else journal.identity(str(planted.victim / "keys"))
    planted.entries([[0, source, "keys", found]], [str(planted.victim)])
    recovery.recover(planted.out)
    assert everything(planted.victim) == before


@pytest.mark.parametrize("name", ["key", "key.old"])
def test_a_link_among_the_finished_files_is_renamed_and_never_followed(planted: Planted, name: str) -> None:
    linked(planted.draft / name, planted.victim / "keys")
    recovery.recover(planted.out)
    assert (planted.victim / "keys").read_text() == "precious"
    assert not planted.draft.exists()


def test_folders_in_a_draft_folder_go_and_what_they_link_to_stays(planted: Planted) -> None:
    (planted.draft / "deep/er").mkdir(parents=True)
    linked(planted.draft / "deep/er/link", planted.victim)
    recovery.recover(planted.out)
    assert not planted.draft.exists()
    assert (planted.victim / "keys").read_text() == "precious"


def test_a_journal_reaches_all_folders_of_its_run_and_no_other(planted: Planted, tmp_path: Path) -> None:
    """The second folder has a draft folder of the run that points to the journal; the third points elsewhere."""
    second, third = tmp_path / "second", tmp_path / "third"
    for folder, place in ((second, planted.draft), (third, third / RUN)):
        (folder / RUN).mkdir(parents=True, mode=0o700)
        (folder / RUN / "lock").write_bytes(draft_folder.MARK)
        (folder / RUN / "journal.at").write_text(str(place))
        (folder / RUN / "key").write_text("new")
        (folder / "b.csv").write_text("old")
    both = [[0, "key", "a.csv", None], [1, "key", "b.csv", None]]
    planted.entries(both, [str(planted.out), str(third)])
    assert recovery.recover(planted.out) == []
    assert [(planted.out / "a.csv").read_text(), (third / "b.csv").read_text()] == ["old", "old"]
    planted.entries(both, [str(planted.out), str(second)])
    assert recovery.recover(second) == [second / RUN]
    assert [(planted.out / "a.csv").read_text(), (second / "b.csv").read_text()] == ["new", "new"]


def test_a_folder_that_is_swapped_for_a_link_is_not_emptied(
    planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between taking a folder and removing it, somebody who may write beside it puts a link in its place."""
    (planted.draft / "journal.at").unlink()
    complete = recovery._complete

    def swapped(found: draft_folder.DraftFolder, access: StorageAccess) -> None:
        complete(found, access)
        planted.draft.rename(planted.out / "aside")
        planted.draft.symlink_to(planted.victim)

    monkeypatch.setattr(recovery, "_complete", swapped)
    recovery.recover(planted.out)
    assert (planted.victim / "keys").read_text() == "precious"


def test_draft_folders_are_their_users_alone_and_files_as_the_umask_says(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    draft = publish.DraftFolders.open("one", tmp_path)
    assert oct(draft.home.stat().st_mode & 0o777) == "0o700"
    (draft.home / "a").write_text("new")
    draft.publish([journal.Rename(str(draft.home / "a"), str(tmp_path / "a"))])
    draft.close(failed=False)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_file_system_without_owners_can_be_published_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As shares have that give every file to one user: nothing on them is believed, but runs work."""
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    draft = publish.DraftFolders.open("one", tmp_path)
    (draft.home / "a").write_text("new")
    draft.publish([journal.Rename(str(draft.home / "a"), str(tmp_path / "a"))])
    draft.close(failed=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_was_renamed_meanwhile_is_removed_where_it_is(tmp_path: Path) -> None:
    draft = publish.DraftFolders.open("one", tmp_path / "out")
    (draft.home / "a.part").write_text("half")
    (tmp_path / "out").rename(tmp_path / "archived")
    draft.close(failed=True)
    assert list((tmp_path / "archived").iterdir()) == []


def test_a_run_that_died_while_this_one_waited_is_completed_first(planted: Planted) -> None:
    """Its files are older: they must not replace this run's later."""
    with publish.exclusive([planted.out]):
        assert (planted.out / "a.csv").read_text() == "new"
