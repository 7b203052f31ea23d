"""Recovery from dead runs in a store: a publication that had begun is completed, and all other remains are removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_jobs.execute import logs
from spark_jobs.execute.delivery import joint
from spark_jobs.execute.delivery.objects import journal, layout, lease
from spark_jobs.execute.delivery.objects.lease import Lease, find
from spark_jobs.execute.delivery.objects.remains import Remains, sweep
from spark_jobs.execute.delivery.participant import Address, Answer, StorageAccess
from spark_jobs.stores import location
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from spark_jobs.execute.delivery.objects.lease import ExistingLease
    from spark_jobs.stores.location import Location
    from spark_jobs.stores.writing import WritableStore

_PAUSE_S = 0.5


def recover(
    store: WritableStore, folder: Location, own: str = "", access: StorageAccess | None = None
) -> list[Location]:
    """Complete or remove the remains of dead runs in a folder. Returns the homes that were cleared.

    Drafts of live runs are left alone.

    Args:
        store: the store.
        folder: the folder.
        own: the execution id of the calling run, whose own draft is skipped.
        access: access to other places into which a dead run has written as well.

    Raises:
        StoreError: the store refuses.
        OSError: another place refuses.
    """
    start = folder / layout.PREFIX
    drafts = [start.at(key) for page in store.pages(start, deep=False) for key in page.folders]
    others = [draft for draft in drafts if draft != layout.draft(folder, own)]
    return [home for draft in others if (home := clear_draft(store, draft, access or StorageAccess())) is not None]


def clear_draft(store: WritableStore, draft: Location, access: StorageAccess) -> Location | None:
    """Clear the draft of a dead run. Returns the run's home; None if the run lives.

    Raises:
        OSError: see `recover`.
    """
    pointer = store.get(draft / layout.POINTER)
    home = draft if pointer is None else _pointed(pointer, draft)
    if home is None:
        return None
    found = find(store, home)
    if found is None:  # its run died while it removed the draft, or a task wrote late
        sweep(store, draft)
        return home
    if not found.is_dead:
        return None
    prepared = _read(store, home / layout.PREPARED)
    if prepared is not None and prepared.by is not None:
        if joint.resolve(prepared.by, access) is Answer.LIVES:
            return None
        found = find(store, home)
        if found is None:
            return home
    return home if _is_cleared(store, home, found, access) else None


def resolve_dead(store: WritableStore, home: Location, by: Address, access: StorageAccess, *, is_decided: bool) -> None:
    """Complete or remove the draft of a dead run in a store, according to the decision of its home elsewhere.

    Args:
        store: the store.
        home: the run's home in the store.
        by: the home that has decided; the prepared journal must name it.
        access: see `recover`.
        is_decided: the prepared work is to be published.

    Raises:
        StoreError: the store refuses, or another place decides.
    """
    until = time.monotonic() + lease.LEASE_S + lease.RENEWAL_S
    while (found := find(store, home)) is not None:
        prepared = _read(store, home / layout.PREPARED)
        if prepared is not None and prepared.by != by:
            text = f"is to be published as another place says, not as {by.place} says: look at it, and remove it"
            raise StoreError(Kind.FORBIDDEN, text, str(home / layout.PREPARED))
        if found.is_dead and _is_cleared(store, home, found, access, prepared if is_decided else None):
            return
        if time.monotonic() > until:
            text = "another process recovers the remains of a dead run; run again later"
            raise StoreError(Kind.TAKEN, text, str(home))
        time.sleep(_PAUSE_S)


def _is_cleared(
    store: WritableStore,
    home: Location,
    found: ExistingLease,
    access: StorageAccess,
    decided: journal.Journal | None = None,
) -> bool:
    """Complete or remove the remains of a dead run. Returns False if another process has taken that over."""
    taken = Lease(store, home, found.folders)
    try:
        taken.take(found.version)
    except StoreError as error:
        if error.kind is Kind.TAKEN:
            return False
        raise
    try:
        _complete(store, Remains(store, home, found.folders), access, decided)
    except BaseException:
        taken.give_up()
        raise
    taken.stop()
    store.delete(home / layout.LEASE)
    return True


def _read(store: WritableStore, place: Location) -> journal.Journal | None:
    data = store.get(place)
    return None if data is None else journal.read(data, place)


def _pointed(pointer: bytes, draft: Location) -> Location | None:
    """The home to which a draft points; None, with a warning, if it points to no home of its run."""
    try:
        home = location.parse(pointer.decode())
    except (UnicodeDecodeError, location.BadLocation):
        home = draft
    if not layout.is_draft(home) or _run_of(home) != _run_of(draft) or home == draft:
        logs.LOG.warning("%s is left as it is: it is no draft of a run; look at it, and remove it", draft)
        return None
    return home


def _run_of(draft: Location) -> str:
    return draft.at(draft.key[:-1]).name


def _complete(store: WritableStore, left: Remains, access: StorageAccess, decided: journal.Journal | None) -> None:
    """Publish the remaining files of the run if it had decided, and remove its draft.

    A lease or a journal counts for a folder only if the folder points to their home.
    """
    known: dict[Location, bool] = {}

    def may(folder: Location) -> bool:
        if folder not in known:
            pointer = store.get(layout.draft(folder, left.run) / layout.POINTER)
            known[folder] = layout.draft(folder, left.run) == left.home or pointer == str(left.home).encode()
        return known[folder]

    place = left.home / (layout.JOURNAL if decided is None else layout.PREPARED)
    mine = Address("objects", str(left.home), left.run)
    found = decided or _read(store, place)
    if found is not None:
        for entry in found.entries:
            if not may(entry.target.parent):
                text = f"names {entry.target}, and that folder does not belong to its run: look at it, and remove it"
                raise StoreError(Kind.FORBIDDEN, text, str(place))
            for source in journal.reads(store, entry):
                if source != entry.target and not any(
                    may(folder) and _is_in(source, layout.draft(folder, left.run)) for folder in left.folders
                ):
                    text = f"reads {source}, which does not belong to its run: look at it, and remove it"
                    raise StoreError(Kind.FORBIDDEN, text, str(place))
        joint.complete_dead(found.others, mine, access)
        for entry in found.entries:
            _redo(store, entry)
        logs.LOG.warning("%s: completed the files of a run that had died while it published them", left.folders[0])
        # The journal is removed first: without the pointers it would not count any more.
        store.delete(place)
    elif (announced := _read(store, left.home / layout.ANNOUNCED)) is not None:
        joint.remove_dead(announced.others, mine, access)
    left.abort_uploads(may)
    for folder in left.folders:
        _unlock(store, folder, left.home)
    Remains(store, left.home, tuple(filter(may, left.folders))).clear()


def _is_in(place: Location, draft: Location) -> bool:
    return place.bucket == draft.bucket and place.key.startswith(draft.key)


def _redo(store: WritableStore, entry: journal.Entry) -> None:
    try:
        journal.apply(store, entry, keeps_conditions=True)
    except StoreError as error:
        if error.kind is Kind.UNSUPPORTED:
            journal.apply(store, entry, keeps_conditions=False)
        elif error.kind in (Kind.TAKEN, Kind.MISSING):
            logs.LOG.warning("%s is left as it is: it was written by somebody else since its run died", entry.target)
        else:
            raise


def _unlock(store: WritableStore, folder: Location, home: Location) -> None:
    lock = folder / layout.LOCK
    if store.get(lock) == str(home).encode():
        store.delete(lock)
