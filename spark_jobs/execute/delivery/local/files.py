"""Local files as a destination, on whatever file system is mounted: drafts in folders beside them, then renames."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs import ownership
from spark_jobs.execute.delivery.destination import Content, FileType
from spark_jobs.execute.delivery.local import descriptors, draft_folder, joining, publish, recovery
from spark_jobs.execute.delivery.local.journal import Rename
from spark_jobs.execute.delivery.local.part_store import LocalPartStore
from spark_jobs.execute.delivery.participant import Address, NotCompleted, Rank, StorageAccess
from spark_jobs.scan import unpacking
from spark_jobs.scan.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark_jobs.stores.location import FilePath

_LONGEST_NAME = 255


@dataclass
class LocalDraft:
    """Files in a run's draft folders, and the renames that publish them; see `Publication`, `Participant`, `Home`."""

    folders: publish.DraftFolders
    changes: list[Rename] = field(default_factory=list)
    part_store: LocalPartStore = field(default_factory=LocalPartStore)
    _is_alone: bool = False

    rank = Rank.FILES

    @property
    def home(self) -> Path:
        """See `Draft`."""
        return self.folders.home

    def parts(self, target: Path) -> str:
        """See `Draft`: beside the file, so that its last step is a rename within one file system."""
        return str(self.folders.folder(target.parent))

    def assemble(self, target: Path, content: Content) -> None:
        """See `Draft`."""
        staged = self.folders.folder(target.parent) / _name(target)
        joining.join(content, staged)
        self.changes.append(Rename(str(staged), str(target)))

    def remove(self, target: Path) -> None:
        """See `Draft`."""
        if os.path.lexists(target):
            self.changes.append(Rename(None, str(target)))

    def finish(self, spark: SparkSession | None) -> None:
        """See `FileDraft`. Local files have already been assembled."""

    def stamps(self) -> dict[str, str]:
        """See `FileDraft`."""
        return {each.target: _stamp(os.stat(each.source)) for each in self.changes if each.source}

    def exclusive(self) -> AbstractContextManager[None]:
        """See `FileDraft`."""
        return publish.exclusive((folder.parent for folder in self.folders.folders), self.folders.access)

    @property
    def has_changes(self) -> bool:
        """See `FileDraft`."""
        return bool(self.changes)

    @property
    def address(self) -> Address:
        """See `Participant`."""
        return recovery.address(self.folders.place(self.changes))

    @property
    def label(self) -> str:
        """See `Participant`."""
        return str(self.folders.place(self.changes).parent)

    def prepare(self, home: Address | None) -> None:
        """See `Participant`: the files are already finished. If there are other participants, the home is here."""
        self._is_alone = home is None

    def announce(self, others: Sequence[Address]) -> None:
        """See `Home`."""
        self.folders.announce(self.changes, others)

    def decide(self, others: Sequence[Address]) -> None:
        """See `Home`."""
        self.folders.decide(self.changes, others)

    def complete(self) -> None:
        """See `Participant`."""
        try:
            if self._is_alone:
                self.folders.publish(self.changes)
            else:
                self.folders.rename(self.changes)
        except OSError as error:
            is_visible = isinstance(error, publish.Mixed)
            raise NotCompleted(error, is_visible=is_visible, can_be_later=True) from error

    def is_completed(self) -> bool:
        """See `Participant`."""
        return not any(os.path.lexists(each.source or each.target) for each in self.changes)

    def take_back(self) -> bool:
        """See `Home`."""
        return self.folders.take_back(self.changes)

    def give_up(self) -> None:
        """See `Participant`: the prepared files are removed with the draft."""

    def forget(self) -> None:
        """See `Home`."""
        self.folders.finish_publishing(self.changes)

    def stay(self) -> None:
        """See `Home`."""
        self.folders.stay()

    def close(self, *, failed: bool) -> None:
        """See `FileDraft`."""
        self.folders.close(failed=failed)


@dataclass(frozen=True)
class LocalFiles:
    """See `Destination`.

    Args:
        access: access to other places into which dead runs have written.
    """

    access: StorageAccess = field(default_factory=StorageAccess)

    def problem(self, path: Path) -> str | None:
        """See `Destination`. The limit is the one of common file systems."""
        return f"the name has more than {_LONGEST_NAME} bytes" if len(os.fsencode(path.name)) > _LONGEST_NAME else None

    def standing(self, path: Path) -> FileType:
        """See `Destination`. A link counts as its target."""
        if not os.path.lexists(path):
            return FileType.NOTHING
        if path.is_file():
            return FileType.FILE
        return FileType.FOLDER if path.is_dir() else FileType.OTHER

    def stamp(self, path: Path) -> str | None:
        """See `Destination`."""
        try:
            return _stamp(os.stat(path))
        except OSError:
            return None

    def names(self, folder: Path) -> list[str]:
        """See `Destination`."""
        return sorted(os.listdir(folder)) if folder.is_dir() else []

    def own(self, path: Path, most: int) -> bytes:
        """See `Destination`: the file and its folder belong to this user alone."""
        with open(ownership.open_file(path), "rb") as file:
            return file.read(most)

    def real(self, path: Path) -> str:
        """See `Destination`: the path without links."""
        return os.path.realpath(path)

    def recover(self, folder: Path) -> None:
        """See `Destination`."""
        recovery.recover(folder, self.access)

    def open(self, run: str, home: Path, folders: Iterable[Path]) -> LocalDraft:
        """See `Destination`."""
        wanted = [*folders]
        descriptors.provide(len({*wanted, home}))
        return LocalDraft(publish.DraftFolders.open(run, home, wanted, self.access))


@dataclass(frozen=True)
class Preview:
    """A draft that is never published: files in a folder that is thrown away."""

    home: Path
    part_store: LocalPartStore = field(default_factory=LocalPartStore)

    def parts(self, target: FilePath) -> str:
        """See `Draft`."""
        return str(self.home)

    def assemble(self, target: FilePath, content: Content) -> None:
        """See `Draft`."""
        joining.join(content, self.home / _name(target))

    def remove(self, target: FilePath) -> None:
        """See `Draft`: nothing is published, so nothing is removed."""

    def text(self, target: FilePath, encoding: str, compression: Compression = Compression.NONE) -> str:
        """The text that a file would have."""
        return unpacking.whole((self.home / _name(target)).read_bytes(), compression).decode(encoding)

    def close(self) -> None:
        """Remove the folder."""
        draft_folder.remove(self.home)


def _stamp(found: os.stat_result) -> str:
    """A stamp of properties that a rename keeps and that no other file shares."""
    return f"{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"


def _name(target: FilePath) -> str:
    """A file's name in a draft. Its own name could be too long with a suffix."""
    return f"{uuid.uuid5(uuid.NAMESPACE_OID, str(target)).hex}.file"
