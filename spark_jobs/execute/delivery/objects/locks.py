"""Locks of folders: one run at a time publishes into a folder, from its last look at the objects to its last file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_jobs.execute import logs
from spark_jobs.execute.delivery.objects import layout
from spark_jobs.execute.delivery.objects.lease import find
from spark_jobs.execute.delivery.objects.recovery import recover
from spark_jobs.stores import location
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.writing import ABSENT

if TYPE_CHECKING:
    from spark_jobs.execute.delivery.objects.lease import Lease
    from spark_jobs.execute.delivery.participant import StorageAccess
    from spark_jobs.stores.location import Location

_PAUSE_S = 0.5


def take(lease: Lease, folder: Location, own: str, access: StorageAccess) -> None:
    """Wait until this run holds the lock of the folder.

    The lock of a dead run is taken over after the run's remains have been completed or removed.

    Args:
        lease: the lease of this run.
        folder: the folder.
        own: this run's execution id.
        access: access to other places into which a dead run has written.

    Raises:
        StoreError: this run's own lease is lost, or the store refuses.
    """
    store, place, mine = lease.store, folder / layout.LOCK, str(lease.home).encode()
    when, is_announced = ABSENT, False
    while True:
        lease.check()
        try:
            store.put(place, mine, f"{own}-lock", when if lease.keeps_conditions else None)
            return
        except StoreError as error:
            if error.kind is not Kind.TAKEN:
                raise
        when = ABSENT
        look, data = store.look(place), store.get(place)
        if look is None or data is None:
            continue
        if find(store, _home(data, place)) is None:  # a run without a home is not recovering
            when = look.version
            continue
        recover(store, folder, own, access)
        if not is_announced:
            logs.LOG.info("waiting for another run that publishes into %s", folder)
            is_announced = True
        time.sleep(_PAUSE_S)


def _home(data: bytes, place: Location) -> Location:
    try:
        return location.parse(data.decode())
    except ValueError as error:
        raise StoreError(Kind.FAILED, "is no lock of a run: look at it, and remove it", str(place)) from error


def give_back(lease: Lease, folder: Location) -> None:
    """Release the lock of the folder."""
    place = folder / layout.LOCK
    if not lease.is_lost and lease.store.get(place) == str(lease.home).encode():
        lease.store.delete(place)
