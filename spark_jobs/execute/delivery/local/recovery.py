"""Recovery from dead runs: publication that had begun is completed, and everything else is removed."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import ownership
from spark_jobs.disk import durable
from spark_jobs.execute import logs
from spark_jobs.execute.delivery import joint
from spark_jobs.execute.delivery.local import journal
from spark_jobs.execute.delivery.local.draft_folder import JOURNAL, PREFIX, DraftFolder
from spark_jobs.execute.delivery.participant import Address, Reach

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The time that a run with a journal may take to complete it, in seconds.
_TIMEOUT_S = 60.0


def recover(parent: Path, reach: Reach | None = None) -> list[Path]:
    """Complete or remove what runs that died left in a folder; gives the draft folders that were cleared.

    A draft folder whose lock is held belongs to a live run and is left alone, as are folders of other users. An empty
    folder was left by a run that died making or removing it; should it be one that is being made, its run makes it
    again. A marked folder that others may have made is left too, with a warning.

    Args:
        parent: the folder that has the draft folders.
        reach: how other places are reached that a dead run has written into as well.

    Raises:
        OSError: a file of a run that died among its renames cannot get its name, or another place does not answer.
    """
    try:
        names = sorted(name for name in os.listdir(parent) if name.startswith(PREFIX))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []  # whoever needs the folder will say so
    cleared = []
    for path in (parent / name for name in names):
        try:
            if is_cleared(path, reach or Reach()):
                cleared.append(path)
        except ownership.NotOwnError as error:
            _warn(str(path), f"{error.filename} {error.strerror}")
        except (PermissionError, FileNotFoundError) as error:
            logs.LOG.debug("%s is left as it is: %s", path, error)
    return cleared


@cache
def _warn(path: str, reason: str) -> None:
    """Tell of a folder once: a run looks at its folders several times."""
    text = "%s is left as it is, because others could have made it (%s): look at it, and remove it"
    logs.LOG.warning(text, path, reason)


def is_cleared(path: Path, reach: Reach) -> bool:
    """Complete or remove the remains of a dead run in a draft folder; False where the run lives, or there is none.

    Raises:
        OSError: see `recover`.
    """
    found = DraftFolder.of_dead(path)
    if found is None:
        return False
    try:
        _complete(found, reach)
    except BaseException:
        found.close()
        raise
    found.remove()
    return True


def _complete(found: DraftFolder, reach: Reach) -> None:
    """Publish the rest of the files of a folder's run, if it had decided."""
    with ExitStack() as held:
        folder = _opened(found, held)
        if folder is None:
            return
        place = journal.pointed(folder, found.path.name)
        if place is None:
            _remove_others(folder, found.path, reach)
            return
        if place != os.path.realpath(found.path):
            home = DraftFolder.of_dead(Path(place), timeout_s=_TIMEOUT_S)
            if home is None:  # the files have their names already
                return
            held.callback(home.close)
            folder = _opened(home, held)
            if folder is None or journal.pointed(folder, found.path.name) != place:
                return
        if (known := journal.Journal.read(folder)) is None:
            _remove_others(folder, Path(place), reach)
            return
        joint.complete_left(known.others, address(Path(place)), reach)
        JournalReplay(known, Path(place)).run()
        with ownership.placed(folder):
            os.unlink(JOURNAL, dir_fd=folder)
        logs.LOG.warning("%s: completed the files of a run that had died while it published them", found.path.parent)


def address(place: Path) -> Address:
    """The address of a run whose journal is in a draft folder."""
    return Address("files", os.path.realpath(place), place.name.removeprefix(PREFIX))


def _remove_others(folder: int, place: Path, reach: Reach) -> None:
    """Remove the work that a run without a journal may have prepared in other places."""
    joint.remove_left(journal.announced(folder), address(place), reach)


def _opened(draft: DraftFolder, held: ExitStack) -> int | None:
    folder = draft.open()
    if folder is not None:
        held.callback(os.close, folder)
    return folder


@dataclass
class JournalReplay:
    """Repeats the renames of a journal; finished renames are left as they are."""

    known: journal.Journal
    place: Path

    def run(self) -> None:
        """Do all of them, or none when a folder is not this run's.

        A folder is opened twice, once to look and once to work, so that thousands of them need no descriptors.

        Raises:
            NotOwnError: the run's draft folder in some folder may be somebody else's.
            OSError: a file cannot get its name.
        """
        for path in self.known.folders:
            with self._opened(path):
                pass  # opening it is the look
        entries: dict[int, list[journal.Entry]] = {}
        for entry in self.known.entries:
            entries.setdefault(entry.folder, []).append(entry)
        for number, of_folder in entries.items():
            with self._opened(self.known.folders[number]) as found:
                if found is None:
                    continue
                for entry in of_folder:
                    try:
                        _redo(entry, *found)
                    except OSError as error:
                        raise self._stuck(error, entry) from error
                durable.sync_folder(self.known.folders[number])

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, int] | None]:
        """A folder that gets files and the run's draft folder in it; None when that is gone, its files published."""
        with ExitStack() as held:
            try:
                folder = ownership.open_folder(path)
                held.callback(os.close, folder)
                draft = ownership.open_folder(self.place.name, folder)
            except FileNotFoundError:
                yield None
                return
            held.callback(os.close, draft)
            ownership.check(draft, os.path.join(path, self.place.name))
            if journal.pointed(draft, self.place.name) != str(self.place):
                raise ownership.NotOwnError(os.path.join(path, self.place.name), "does not belong to the journal")
            yield folder, draft

    def _stuck(self, error: OSError, entry: journal.Entry) -> OSError:
        text = (
            f"{error.strerror or error}; a run that died while it published this file has left it in {self.place}: "
            "make room for it, or remove that folder to give its files up"
        )
        return OSError(error.errno, text, os.path.join(self.known.folders[entry.folder], entry.target))


def _redo(entry: journal.Entry, folder: int, draft: int) -> None:
    if entry.source is None:
        if entry.identity is not None and journal.identity(entry.target, folder) == entry.identity:
            os.unlink(entry.target, dir_fd=folder)  # else it is a later run's
        return
    try:
        os.rename(entry.source, entry.target, src_dir_fd=draft, dst_dir_fd=folder)
    except FileNotFoundError:
        return  # an earlier attempt has done it
