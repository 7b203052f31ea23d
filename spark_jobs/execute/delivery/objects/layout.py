"""The objects of a live run in a store, and their names.

A run has a prefix `.clinker-<execution id>/` in every folder into which it publishes. In the first of them, its *home*,
are its lease, its journal and the list of its uploads. The others have an object that points to the home. A user who
can write such an object can also write the outputs in that folder. So a journal counts only for its own folder, and for
folders that point to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.stores.location import Location

PREFIX = ".clinker-"
#: In a folder: the lock, which names the home of the run that publishes into it.
LOCK = ".clinker-publishing"
#: In a draft: the pointer to the run's home, the run's lease, its journal, the list of its uploads, and its parts.
POINTER, LEASE, JOURNAL, UPLOADS, PARTS = "at", "lease", "journal.json", "uploads.json", "parts"
#: In a draft: the pieces of uploads, on stores that compose objects of other objects.
DEPOT = "uploads"
#: In the home of a run with several places: the list of the others, until the journal has them. In a draft about which
#: another place decides: the journal that counts in that case.
ANNOUNCED, PREPARED = "announced.json", "prepared.json"


def draft(folder: Location, run: str) -> Location:
    """The prefix of a run in a folder."""
    return folder / f"{PREFIX}{run}/"


def folder_of(draft: Location) -> Location:
    """The folder that contains a draft."""
    return draft.at(draft.key.rstrip("/")).parent


def is_draft(place: Location) -> bool:
    """True if a location has the name of a run's draft."""
    return place.key.endswith("/") and place.at(place.key[:-1]).name.startswith(PREFIX)


def depot(folders: Iterable[Location], target: Location, run: str) -> Location:
    """The prefix of uploads to a target that are composed of objects: next to the run's parts in that bucket."""
    return draft(homes(folders)[target.bucket], run) / DEPOT


def homes(folders: Iterable[Location]) -> dict[str, Location]:
    """The first folder in each bucket. A run has its parts there, so that the store copies within a bucket."""
    found: dict[str, Location] = {}
    for folder in folders:
        found.setdefault(folder.bucket, folder)
    return found
