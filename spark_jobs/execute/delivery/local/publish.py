"""Publishing of local files: everything is written to draft folders, and becomes visible by renames.

Each run has a draft folder next to every file that it will publish, so that the last step is a rename within one file
system. Before the first rename, the list of renames is written to a *journal*. If a run dies during the renames, the
next run that touches any of the folders completes it. If a run dies earlier, it leaves only unlocked folders, which the
next run removes. So a reader sees either the old files or the new ones. After the renames the run has succeeded, and
later problems are warnings.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.disk import durable, locks
from spark_jobs.execute import logs
from spark_jobs.execute.delivery.local import journal
from spark_jobs.execute.delivery.local.draft_folder import JOURNAL, DraftFolder
from spark_jobs.execute.delivery.local.recovery import recover
from spark_jobs.execute.delivery.participant import StorageAccess

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.execute.delivery.local.journal import Rename
    from spark_jobs.execute.delivery.participant import Address


@dataclass
class DraftFolders:
    """The draft folders of a run. `home` is the folder for its internal files."""

    run: str
    home: Path
    #: Access to the other places into which dead runs have written.
    access: StorageAccess = field(default_factory=StorageAccess)
    _known: dict[str, DraftFolder] = field(default_factory=dict)
    #: The same by unresolved folder paths, since one folder may receive very many files.
    _spelled: dict[Path, DraftFolder] = field(default_factory=dict)
    _made: list[Path] = field(default_factory=list)
    #: The journal stays with its files, and the next run publishes them.
    _is_stuck: bool = False
    #: Some files are new, but could not be renamed back.
    _is_mixed: bool = False
    #: The folders stay, without a journal.
    _stays: bool = False

    @classmethod
    def open(
        cls, run: str, home: Path, folders: Iterable[Path] = (), access: StorageAccess | None = None
    ) -> DraftFolders:
        """Lock a draft folder under `home` and one in each of some folders, after clearing remains of dead runs there.

        Raises:
            OSError: a folder cannot be made or written.
        """
        draft = cls(run, home, access or StorageAccess())
        try:
            draft.home = draft.folder(home)
            for folder in folders:
                draft.folder(folder)
        except BaseException:
            draft.close(failed=True)
            raise
        return draft

    @property
    def folders(self) -> list[Path]:
        """All draft folders."""
        return [each.path for each in self._known.values()]

    def folder(self, parent: Path) -> Path:
        """The run's draft folder in a folder. Missing folders are made."""
        if parent in self._spelled:
            return self._spelled[parent].path
        real = os.path.realpath(parent)  # one folder has one lock, however it is spelled
        if real not in self._known:
            self._made += [each for each in (parent, *parent.parents) if not each.exists()]
            durable.make_folder(parent, exist_ok=True)
            recover(parent, self.access)
            self._known[real] = DraftFolder.make(parent, self.run)
        self._spelled[parent] = self._known[real]
        return self._known[real].path

    def publish(self, renames: Sequence[Rename]) -> None:
        """Make all files visible, or none. If the run dies meanwhile, `recover` completes it. Must not be interrupted.

        Raises:
            OSError: a file cannot be renamed; files that had been renamed have their old names again.
        """
        if not renames:
            return
        try:
            self.decide(renames)
            self.rename(renames)
        except BaseException:
            self.take_back(renames)
            raise
        self.finish_publishing(renames)

    def place(self, renames: Sequence[Rename]) -> Path:
        """The draft folder for the journal.

        It is next to the files, not in the run's home, because a scheduler may remove a folder made for one attempt.
        """
        staged = next((rename.source for rename in renames if rename.source), None)
        return Path(staged).parent if staged else self.home

    def announce(self, renames: Sequence[Rename], others: Sequence[Address]) -> None:
        """Write the addresses of the other places in which something will be prepared.

        Raises:
            OSError: they cannot be written.
        """
        journal.announce(others, self.place(renames))

    def decide(self, renames: Sequence[Rename], others: Sequence[Address] = ()) -> None:
        """Write the journal: from now on the next run completes whatever this one does not.

        Raises:
            OSError: it cannot be written; the caller must call `take_back`.
        """
        self._is_stuck = True
        durable.sync_files([rename.source for rename in renames if rename.source])
        place = self.place(renames)
        for folder in self.folders:
            journal.point(folder, os.path.realpath(place))
        journal.write(renames, place, others)

    def rename(self, renames: Sequence[Rename]) -> None:
        """Rename the files to their final names.

        Raises:
            Mixed: a file cannot be renamed, and others keep their new names.
            OSError: a file cannot be renamed; files that had been renamed have their old names again.
        """
        try:
            _rename_or_restore(renames)
        except Mixed:
            self._is_stuck = self._is_mixed = True
            raise

    def take_back(self, renames: Sequence[Rename]) -> bool:
        """Remove the journal. Returns False if that fails or some files are new: the next run then publishes all."""
        place = self.place(renames)
        if not self._is_mixed:
            try:
                (place / JOURNAL).unlink(missing_ok=True)
                self._is_stuck = False
            except OSError:
                self._is_stuck = True
        if self._is_stuck:
            logs.LOG.warning("the next run that writes there publishes the files of this run, from %s", place)
        return not self._is_stuck

    def finish_publishing(self, renames: Sequence[Rename]) -> None:
        """Remove the journal after the renames. An error here does not undo the success of the run."""
        try:
            durable.sync_folders(os.path.dirname(rename.target) for rename in renames)
            (self.place(renames) / JOURNAL).unlink()
        except OSError as error:
            logs.LOG.warning("the files are published, but: %s", error)
        self._is_stuck = False

    def stay(self) -> None:
        """Leave the draft folders to the next run, which removes them together with the other participants' remains."""
        self._stays = True

    def close(self, *, failed: bool) -> None:
        """Remove the draft folders, and after a failure the empty folders that the run made. Does not fail."""
        for folder in self._known.values():
            try:
                if self._is_stuck or self._stays:
                    folder.close()
                else:
                    folder.remove()
            except OSError as error:
                logs.LOG.warning("%s is left to the next run that writes there: %s", folder.path, error)
        if failed:
            for made in self._made:
                with suppress(OSError):  # something else is in it by now, or it is gone
                    made.rmdir()
        self._known.clear()
        self._spelled.clear()


@contextmanager
def exclusive(folders: Iterable[Path], access: StorageAccess | None = None) -> Iterator[None]:
    """Inside this context, no other run publishes into these folders, so that names there stay taken or free.

    If a run died while this one waited, it is completed first, because its files are older. On file systems without
    locks, two runs that publish into a folder at the same moment are not kept apart.
    """
    paths = sorted({os.path.realpath(folder) for folder in folders})  # all runs wait in the same order
    with ExitStack() as held:
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            held.callback(_close, descriptor)
            _lock(descriptor, path)
        for path in paths:
            recover(Path(path), access)
        yield


def _close(descriptor: int) -> None:
    with suppress(OSError):  # it is closed despite the error, and the run's files have their names
        os.close(descriptor)


def _lock(descriptor: int, path: str) -> None:
    try:
        locks.hold(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, path)
    except BlockingIOError:
        logs.LOG.info("waiting for another run that publishes into %s", path)
        locks.hold(descriptor, fcntl.LOCK_EX, path)
    except OSError as error:
        logs.LOG.debug("%s", error)


class Mixed(OSError):
    """A rename failed, and so did undoing the renames before it: some files are new."""


def _rename_or_restore(renames: Sequence[Rename]) -> None:
    """Do all renames. If one fails, undo the earlier ones, so that the old files are back."""
    done: list[tuple[Rename, str | None]] = []
    try:
        for rename in sorted(renames, key=lambda each: each.source is None):  # removals come last
            done.append((rename, None))
            done[-1] = (rename, _kept(rename))
            _rename(rename)
    except OSError as error:
        try:
            for rename, old in reversed(done):
                _undo(rename, old)
        except OSError as second:
            text = f"{error.strerror or error}; files that had their new names could not give them back: {second}"
            raise Mixed(error.errno, text, error.filename, None, error.filename2) from error
        raise


def _undo(rename: Rename, old: str | None) -> None:
    if rename.source and not os.path.lexists(rename.source):
        os.replace(rename.target, rename.source)
    if old:
        os.replace(old, rename.target)


def _kept(rename: Rename) -> str | None:
    """A second name, in the draft folder, for the file that will be replaced; None if there is no such file."""
    if rename.source is None or not os.path.lexists(rename.target) or os.path.isdir(rename.target):
        return None
    kept = f"{rename.source}.old"
    try:
        os.link(rename.target, kept, follow_symlinks=False)
    except OSError:  # a file system without hard links
        os.rename(rename.target, kept)
    return kept


def _rename(rename: Rename) -> None:
    if rename.source is None:
        Path(rename.target).unlink(missing_ok=True)
    else:
        os.replace(rename.source, rename.target)
