"""Objects as a participant of a dead run: its remains are completed or removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.execute.delivery.objects import layout, recovery
from spark_jobs.execute.delivery.participant import Address, Answer, StorageAccess
from spark_jobs.stores import location, opening
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from spark_jobs.stores.location import Location


@dataclass(frozen=True)
class DeadObjects:
    """See `DeadParticipant`.

    Args:
        place: the run's home in the store.
        home: the home that has decided.
        access: access to the store.
    """

    place: Location
    home: Address
    access: StorageAccess

    def complete(self) -> None:
        """See `DeadParticipant`."""
        self._resolve(is_decided=True)

    def remove(self) -> None:
        """See `DeadParticipant`."""
        self._resolve(is_decided=False)

    def _resolve(self, *, is_decided: bool) -> None:
        store = opening.writable(self.access.stores.resolved())
        recovery.resolve_dead(store, self.place, self.home, self.access, is_decided=is_decided)


def dead_participant(address: Address, home: Address, access: StorageAccess) -> DeadObjects:
    """See `joint.py:KINDS`.

    Raises:
        StoreError: the address is none of objects.
    """
    return DeadObjects(_place(address), home, access)


def resolve(home: Address, access: StorageAccess) -> Answer:
    """See `joint.py:KINDS`: without a home here, work that the run had prepared elsewhere was never decided.

    Raises:
        OSError: see `joint.resolve`.
    """
    place, store = _place(home), opening.writable(access.stores.resolved())
    if store.look(place / layout.PREPARED) is not None:
        raise StoreError(Kind.FORBIDDEN, "is no home of a run, for another place decides about it", str(place))
    return Answer.LIVES if recovery.clear_draft(store, place, access) is None else Answer.RESOLVED


def _place(address: Address) -> Location:
    try:
        place = location.parse(address.place)
    except location.BadLocation as error:
        raise StoreError(Kind.FAILED, f"is no address of objects: {error.message}", address.place) from error
    if place.scheme not in location.WRITABLE or place != layout.draft(layout.folder_of(place), address.run):
        raise StoreError(Kind.FORBIDDEN, "is no draft of a run: nothing is published from there", address.place)
    return place
