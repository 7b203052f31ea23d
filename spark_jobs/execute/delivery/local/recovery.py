"""Recovery from dead runs: a publication that had begun is completed, and all other remains are removed."""

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
from spark_jobs.execute.delivery.participant import Address, StorageAccess

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How long, in seconds, a live run with a journal may take to complete it.
_TIMEOUT_S = 60.0


def recover(parent: Path, access: StorageAccess | None = None) -> list[Path]:
    """Complete or remove the remains of dead runs in a folder. Returns the draft folders that were cleared.

    A draft folder with a held lock belongs to a live run and is left alone, like folders of other users. An empty
    folder belongs to a run that died while it made or removed it; if a live run is making it, that run makes it again.
    A marked folder that others may have made is left alone, with a warning.

    Args:
        parent: the folder that contains the draft folders.
        access: access to other places into which a dead run has written as well.

    Raises:
        OSError: a file of a run that died during its renames cannot be renamed, or another place does not answer.
    """
    try:
        names = sorted(name for name in os.listdir(parent) if name.startswith(PREFIX))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []  # a run that needs the folder reports the error
    cleared = []
    for path in (parent / name for name in names):
        try:
            if is_cleared(path, access or StorageAccess()):
                cleared.append(path)
        except ownership.NotOwnError as error:
            _warn(str(path), f"{error.filename} {error.strerror}")
        except (PermissionError, FileNotFoundError) as error:
            logs.LOG.debug("%s is left as it is: %s", path, error)
    return cleared


@cache
def _warn(path: str, reason: str) -> None:
    """Warn of a folder once, although a run looks at its folders several times."""
    text = "%s is left as it is, because others could have made it (%s): look at it, and remove it"
    logs.LOG.warning(text, path, reason)


def is_cleared(path: Path, access: StorageAccess) -> bool:
    """Complete or remove the remains of a dead run in a draft folder. Returns False if the run lives, or there is none.

    Raises:
        OSError: see `recover`.
    """
    found = DraftFolder.of_dead(path)
    if found is None:
        return False
    try:
        _complete(found, access)
    except BaseException:
        found.close()
        raise
    found.remove()
    return True


def _complete(found: DraftFolder, access: StorageAccess) -> None:
    """Publish the remaining files of a folder's run, if it had decided."""
    with ExitStack() as held:
        folder = _opened(found, held)
        if folder is None:
            return
        place = journal.pointed(folder, found.path.name)
        if place is None:
            _remove_others(folder, found.path, access)
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
            _remove_others(folder, Path(place), access)
            return
        joint.complete_dead(known.others, address(Path(place)), access)
        JournalReplay(known, Path(place)).run()
        with ownership.placed(folder):
            os.unlink(JOURNAL, dir_fd=folder)
        logs.LOG.warning("%s: completed the files of a run that had died while it published them", found.path.parent)


def address(place: Path) -> Address:
    """The address of a run, given the draft folder of its journal."""
    return Address("files", os.path.realpath(place), place.name.removeprefix(PREFIX))


def _remove_others(folder: int, place: Path, access: StorageAccess) -> None:
    """Remove the work that a run without a journal may have prepared in other places."""
    joint.remove_dead(journal.announced(folder), address(place), access)


def _opened(draft: DraftFolder, held: ExitStack) -> int | None:
    folder = draft.open()
    if folder is not None:
        held.callback(os.close, folder)
    return folder


@dataclass
class JournalReplay:
    """Repeats the renames of a journal. Finished renames are skipped."""

    known: journal.Journal
    place: Path

    def run(self) -> None:
        """Do all renames, or none if a folder is not this run's.

        Each folder is opened twice, once to check it and once to work in it, so that thousands of them need no
        descriptors.

        Raises:
            NotOwnError: the run's draft folder in some folder may be somebody else's.
            OSError: a file cannot be renamed.
        """
        for path in self.known.folders:
            with self._opened(path):
                pass  # opening it is the check
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
        """A folder that receives files, and the run's draft folder in it; None if all its files are published."""
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
            os.unlink(entry.target, dir_fd=folder)  # another file would belong to a later run
        return
    try:
        os.rename(entry.source, entry.target, src_dir_fd=draft, dst_dir_fd=folder)
    except FileNotFoundError:
        return  # an earlier attempt has done it
