"""Objects of a store as a destination: a listing shows the object of a name and its version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.execute import logs
from spark_jobs.execute.delivery.destination import FileType
from spark_jobs.execute.delivery.objects import layout, remains
from spark_jobs.execute.delivery.objects.draft import ObjectDraft
from spark_jobs.execute.delivery.objects.lease import Lease
from spark_jobs.execute.delivery.objects.recovery import recover
from spark_jobs.execute.delivery.participant import StorageAccess
from spark_jobs.stores.location import MOST_KEY_BYTES, Location
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.tuning import DEFAULT, Tuning

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from spark_jobs.stores.objects import Object
    from spark_jobs.stores.writing import WritableStore


@dataclass
class ObjectFiles:
    """See `Destination`.

    The run stores the version of an object when it first looks at its name, and replaces only this version. If the name
    has another version when the run publishes, another run or program was faster, and this run ends.
    """

    store: WritableStore
    #: Access to the other places into which dead runs have written.
    access: StorageAccess = field(default_factory=StorageAccess)
    tuning: Tuning = DEFAULT
    _first: dict[Location, str] = field(default_factory=dict)
    _run: str = ""

    def problem(self, path: Location) -> str | None:
        """See `Destination`."""
        if not path.name:
            return "it names no object: its key ends with a slash"
        if len(path.key.encode("utf-8", "surrogateescape")) > MOST_KEY_BYTES:
            return f"its key has more than {MOST_KEY_BYTES} bytes"
        return None

    def standing(self, path: Location) -> FileType:
        """See `Destination`. A folder is a prefix of a key."""
        found = next(iter(self.store.pages(path, deep=True, most=1)), None)
        objects = found.objects if found is not None else ()
        self._note(path, next((each for each in objects if each.location == path), None))
        if not objects:
            return FileType.NOTHING
        if objects[0].location == path:
            return FileType.FILE
        below = next(iter(self.store.pages(path / "", deep=True, most=1)), None)
        return FileType.FOLDER if below is not None and below.objects else FileType.NOTHING

    def stamp(self, path: Location) -> str | None:
        """See `Destination`: the mark with which it was written."""
        try:
            found = self.store.look(path)
        except StoreError:
            return None
        return found.mark or None if found is not None else None

    def names(self, folder: Location) -> list[str]:
        """See `Destination`."""
        start = folder / ""
        found: list[str] = []
        for page in self.store.pages(start, deep=False):
            for each in page.objects:
                self._note(each.location, each)
                found.append(each.location.name)
            found += [key[len(start.key) : -1] for key in page.folders]
        return sorted(found)

    def own(self, path: Location, most: int) -> bytes:
        """See `Destination`: a user who may write the object may write all others in the folder."""
        found = self.store.look(path)
        if found is None:
            raise StoreError(Kind.MISSING, "file not found", str(path))
        return self.store.fetch(path, 0, min(found.size, most), found.version)

    def real(self, path: Location) -> str:
        """See `Destination`: keys have no links."""
        return str(path).rstrip("/")

    def recover(self, folder: Location) -> None:
        """See `Destination`."""
        recover(self.store, folder, self._run, self.access)

    def open(self, run: str, home: Path, folders: Iterable[Location]) -> ObjectDraft:
        """See `Destination`."""
        self._run = run
        wanted = tuple(dict.fromkeys(folder / "" for folder in folders))
        lease = Lease(self.store, layout.draft(wanted[0], run), wanted)
        lease.take()
        try:
            if not lease.keeps_conditions:
                text = (
                    "%s: this store ignores conditions, so two runs that publish the same names at the same time are "
                    "not told apart: let only one run at a time write there"
                )
                logs.LOG.warning(text, wanted[0])
            pointer = str(lease.home).encode()
            others = [layout.draft(folder, run) / layout.POINTER for folder in wanted[1:]]
            remains.at_once(lambda place: self.store.put(place, pointer), others)
        except BaseException:
            ObjectDraft(lease, run, home, self._before, self.access, self.tuning).close(failed=True)
            raise
        return ObjectDraft(lease, run, home, self._before, self.access, self.tuning)

    def _before(self, path: Location) -> str:
        if path not in self._first:
            self._note(path, self.store.describe(path))
        return self._first[path]

    def _note(self, path: Location, found: Object | None) -> None:
        self._first.setdefault(path, found.version if found is not None else "")
