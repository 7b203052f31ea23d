"""The folder of a table: notes that runs keep there until they have ended, and removal of unlisted files."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs import ownership
from spark_jobs.disk import durable
from spark_jobs.execute import logs
from spark_jobs.stores import location, opening

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.stores.settings import StoreSettings

#: The name of a run's note, by its execution id.
NOTE = ".clinker-{}.json"


@dataclass
class TableFolder:
    """The folder of a table, local or in a store, for files that the table's own library does not handle.

    Args:
        root: its path, absolute or a URI.
        name: its name in messages.
        stores: resolved settings of stores.
    """

    root: str
    name: str
    stores: StoreSettings

    #: The subfolder for notes of runs, which readers do not take for data.
    inner: ClassVar[str] = ""

    @property
    def _is_local(self) -> bool:
        return not location.is_uri(self.root)

    def inside(self, name: str) -> str:
        """The path of a note in the table's folder."""
        return f"{self.inner}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """Write a file next to the table's metadata, atomically.

        Raises:
            OSError: it cannot be written.
        """
        if self._is_local:
            path = self._folder_of_notes / name
            durable.make_folder(path.parent, exist_ok=True)
            durable.write_file(path, data)
        else:
            opening.writable(self.stores).put(self._place_of_notes / name, data)

    def read(self, name: str) -> bytes | None:
        """Read a file next to the table's metadata; None if there is none.

        Raises:
            OSError: it cannot be read.
        """
        if self._is_local:
            try:
                return (self._folder_of_notes / name).read_bytes()
            except FileNotFoundError:
                return None
        store = opening.writable(self.stores)
        found = store.look(self._place_of_notes / name)
        return None if found is None else store.fetch(self._place_of_notes / name, 0, found.size, found.version)

    def notes(self) -> list[str]:
        """The names of the notes of runs.

        Raises:
            OSError: they cannot be listed.
        """
        start, end = NOTE.split("{}")
        if self._is_local:
            names = [path.name for path in self._folder_of_notes.glob(f"{start}*{end}")]
        else:
            pages = opening.writable(self.stores).pages(self._place_of_notes / start, deep=False)
            names = [each.location.name for page in pages for each in page.objects]
        return sorted(name for name in names if name.startswith(start) and name.endswith(end))

    def remove(self, inside: Iterable[str]) -> None:
        """Remove files from the table's folder. Missing files are ignored, and files behind links stay.

        Raises:
            OSError: one cannot be removed.
        """
        for path in inside:
            if ".." in path.split("/") or path.startswith("/"):
                raise OSError(None, "leads out of the table", f"{self.root}/{path}")
            if self._is_local:
                _unlink(self.root, path)
            else:
                opening.writable(self.stores).delete(location.parse(f"{self.root}/{path}"))

    def forget_partial(self, inside: str) -> None:
        """Remove a partial file that `write` left. A store has no partial files.

        Raises:
            OSError: it cannot be removed.
        """
        if self._is_local:
            self.remove([f"{inside}.partial"])

    @property
    def _folder_of_notes(self) -> Path:
        return Path(self.root, self.inner)

    @property
    def _place_of_notes(self) -> Any:
        return location.parse(f"{self.root}/{self.inner}")


def _unlink(root: str, path: str) -> None:
    """Remove a file below a folder. Links are not followed: a user who can write the table may have put one there."""
    *folders, name = path.split("/")
    with ExitStack() as held:
        try:
            folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, folder)
            for each in folders:
                folder = ownership.open_folder(each, folder)
                held.callback(os.close, folder)
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            logs.LOG.warning("%s/%s is left as it is, for a link leads there", root, path)
