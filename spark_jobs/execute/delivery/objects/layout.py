"""The objects of a live run in a store, and their names.

A run has a prefix `.clinker-<execution id>/` in every folder that it publishes into. In the first of them, its *home*,
are its lease, its journal and the list of its uploads; the others have an object that points to the home. Whoever can
write such an object can also write the outputs in that folder. So a journal counts for the folders that point to it,
and for its own.
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
#: In a draft: the pieces of uploads, on stores where these are objects.
DEPOT = "uploads"
#: In the home of a run that publishes into other places too: the list of these, until its journal has it. And in a
#: draft about which another place decides: the journal that counts then.
ANNOUNCED, PREPARED = "announced.json", "prepared.json"


def draft(folder: Location, run: str) -> Location:
    """The prefix of a run in a folder."""
    return folder / f"{PREFIX}{run}/"


def folder_of(draft: Location) -> Location:
    """The folder that a draft is in."""
    return draft.at(draft.key.rstrip("/")).parent


def is_draft(place: Location) -> bool:
    """Whether a place is called as the drafts of runs are."""
    return place.key.endswith("/") and place.at(place.key[:-1]).name.startswith(PREFIX)


def depot(folders: Iterable[Location], target: Location, run: str) -> Location:
    """The prefix of uploads to a target that are composed of objects: next to the run's parts in that bucket."""
    return draft(homes(folders)[target.bucket], run) / DEPOT


def homes(folders: Iterable[Location]) -> dict[str, Location]:
    """For each bucket the first folder in it: a run has its parts there, so that the store copies within a bucket."""
    found: dict[str, Location] = {}
    for folder in folders:
        found.setdefault(folder.bucket, folder)
    return found
