"""The objects of a run in a store besides its published files, and their removal."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.execute import logs
from spark_jobs.execute.delivery.objects import layout
from spark_jobs.stores import location
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.writing import Upload, WritableStore

    _Item = TypeVar("_Item")
    _Answer = TypeVar("_Answer")

#: The number of parallel requests. A store answers each after some ten milliseconds.
THREADS = 16


def at_once(function: Callable[[_Item], _Answer], items: Iterable[_Item]) -> list[_Answer]:
    """Map a function over items with several threads. The first error is raised."""
    wanted = [*items]
    if len(wanted) < 2:
        return [function(each) for each in wanted]
    with ThreadPoolExecutor(min(THREADS, len(wanted))) as threads:
        return [*threads.map(function, wanted)]


@dataclass(frozen=True)
class Remains:
    """The objects of a run in a store.

    Args:
        store: the store.
        home: the run's home.
        folders: the folders into which it publishes.
    """

    store: WritableStore
    home: Location
    folders: Sequence[Location]

    @property
    def run(self) -> str:
        """The run's execution id."""
        return self.home.at(self.home.key[:-1]).name.removeprefix(layout.PREFIX)

    @property
    def drafts(self) -> list[Location]:
        """Its prefixes in all folders."""
        return [layout.draft(folder, self.run) for folder in self.folders]

    def note_uploads(self, known: Mapping[Location, Sequence[str]]) -> None:
        """Write the list of uploads that will be begun: the keys, and the uploads to them that already exist."""
        listed = [[str(target), [*ids]] for target, ids in known.items()]
        self.store.put(self.home / layout.UPLOADS, json.dumps(listed).encode())

    def abort_uploads(self, may: Callable[[Location], bool] = lambda _: True) -> None:
        """Abort the uploads that the run has begun and not completed.

        Args:
            may: returns True if the run publishes into a folder.
        """
        place = self.home / layout.UPLOADS
        if (data := self.store.get(place)) is None:
            return
        try:
            known = {location.parse(target): {*map(str, ids)} for target, ids in json.loads(data)}
        except (ValueError, TypeError) as error:
            raise StoreError(Kind.FAILED, "is no list of uploads: look at it, and remove it", str(place)) from error
        mine = [target for target in known if may(target.parent)]
        found = at_once(lambda target: pending(self.store, target), mine)
        wanted = [each for uploads in found for each in uploads if each.id not in known[each.location]]
        at_once(self.store.abort, wanted)
        self.store.delete(place)

    def clear(self) -> None:
        """Remove everything but the lease, the journal first. Otherwise half of the files could be published."""
        self.store.delete(self.home / layout.JOURNAL)
        for draft in self.drafts:
            if draft != self.home:
                self.store.delete(draft / layout.POINTER)
        for folder in layout.homes(self.folders).values():
            sweep(self.store, layout.draft(folder, self.run), keep=self.home / layout.LEASE)


def pending(store: WritableStore, target: Location) -> list[Upload]:
    """The incomplete uploads to a key; empty without the permission to list them."""
    return [upload for upload in listed(store, target) if upload.location == target]


def listed(store: WritableStore, prefix: Location) -> Iterator[Upload]:
    """The uploads below a prefix, if they may be listed."""
    try:
        yield from store.uploads(prefix)
    except StoreError as error:
        if error.kind not in (Kind.FORBIDDEN, Kind.UNSUPPORTED):
            raise
        logs.LOG.warning("uploads that were never completed may be left in the store: %s", error)


def sweep(store: WritableStore, prefix: Location, keep: Location | None = None) -> None:
    """Remove everything below a prefix, including incomplete uploads."""
    at_once(store.abort, listed(store, prefix))
    for page in store.pages(prefix, deep=True):
        at_once(store.delete, (each.location for each in page.objects if each.location != keep))
