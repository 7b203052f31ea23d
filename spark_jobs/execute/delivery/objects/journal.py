"""The journal of a run that publishes into a store: the objects to publish, so that another run can complete it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.execute.delivery import participant
from spark_jobs.execute.delivery.participant import Address
from spark_jobs.stores import location
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.writing import ABSENT, Upload

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.writing import WritableStore


@dataclass(frozen=True)
class Put:
    """A small object to be written. The journal contains its bytes.

    Args:
        target: the location.
        mark: the mark that it gets.
        before: the earlier version; empty if there was none.
        data: its bytes.
    """

    target: Location
    mark: str
    before: str
    data: bytes


@dataclass(frozen=True)
class Completion:
    """An upload to be completed; see `Put`.

    Args:
        upload: the upload.
        tags: the tags of its parts, in order.
    """

    target: Location
    mark: str
    before: str
    upload: str
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Removal:
    """An object of an earlier run to be removed, unless it has changed meanwhile."""

    target: Location
    before: str


Entry = Put | Completion | Removal


@dataclass(frozen=True)
class Journal:
    """The objects that a run publishes.

    Args:
        entries: the objects, in order.
        others: the addresses of the run's other participants, in a journal that decides for them as well.
        by: the address of the home that decides, in a journal that is only prepared.
    """

    entries: tuple[Entry, ...]
    others: tuple[Address, ...] = ()
    by: Address | None = None


def text(entries: Iterable[Entry], others: Iterable[Address] = (), by: Address | None = None) -> bytes:
    """The text of a journal; see `Journal`."""
    fields = {"entries": [_as_json(entry) for entry in entries], "others": participant.as_json(others)}
    return json.dumps(fields | ({"by": by.as_json()} if by else {}), separators=(",", ":")).encode()


def read(data: bytes, place: Location) -> Journal:
    """Parse the text of a journal.

    Raises:
        StoreError: it is no journal.
    """
    try:
        known = json.loads(data)
        entries = known if isinstance(known, list) else known["entries"]  # older runs had only one place
        others, by = ([], None) if isinstance(known, list) else (known["others"], known.get("by"))
        return Journal(tuple(map(_entry, entries)), tuple(map(Address.of, others)), Address.of(by) if by else None)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreError(Kind.FAILED, "is no journal of a run: look at it, and remove it", str(place)) from error


def announced(others: Sequence[Address]) -> bytes:
    """The content of a home until the run decides: the places where something may have been prepared."""
    return text((), others)


def apply(store: WritableStore, entry: Entry, *, keeps_conditions: bool) -> None:
    """Publish the object of an entry. An object that is already published stays as it is.

    Raises:
        StoreError: another program has written the object meanwhile (`Kind.TAKEN`), the upload is gone
            (`Kind.MISSING`), or the store refuses.
    """
    if isinstance(entry, Removal):
        found = store.look(entry.target)
        if found is not None and found.version == entry.before:
            store.delete(entry.target)
        return
    when = (entry.before or ABSENT) if keeps_conditions else None
    if isinstance(entry, Put):
        if not keeps_conditions:
            check(store, entry)
        store.put(entry.target, entry.data, entry.mark, when)
        return
    # Some stores support conditions for objects that are put, and ignore them for uploads.
    check(store, entry)
    store.complete(Upload(entry.target, entry.upload), entry.tags, entry.mark, when)


def reads(store: WritableStore, entry: Entry) -> list[Location]:
    """The objects that publishing an entry reads.

    Raises:
        StoreError: the entry does not belong to this store.
    """
    if not isinstance(entry, Completion):
        return []
    try:
        return store.reads(Upload(entry.target, entry.upload), entry.tags)
    except (ValueError, TypeError) as error:
        text = "the journal of its run is none of this store: look at it, and remove it"
        raise StoreError(Kind.FAILED, text, str(entry.target)) from error


def is_done(store: WritableStore, entry: Entry) -> bool:
    """True if the object of an entry is published, or removed."""
    found = store.look(entry.target)
    if isinstance(entry, Removal):
        return found is None or found.version != entry.before
    return found is not None and found.mark == entry.mark


def check(store: WritableStore, entry: Put | Completion) -> None:
    """Stop if an object has neither the earlier version nor the mark of the entry.

    Raises:
        StoreError: it is another one (`Kind.TAKEN`).
    """
    found = store.look(entry.target)
    if (found.version if found else "") != entry.before and (found is None or found.mark != entry.mark):
        raise taken_error(entry.target)


def taken_error(target: Location) -> StoreError:
    """The error for an object that somebody else has written."""
    text = "another run or program has written or removed it, since this run looked at it: run again"
    return StoreError(Kind.TAKEN, text, str(target))


def _as_json(entry: Entry) -> dict[str, Any]:
    fields: dict[str, Any] = {"target": str(entry.target), "before": entry.before}
    match entry:
        case Put():
            return {**fields, "mark": entry.mark, "data": base64.b64encode(entry.data).decode()}
        case Completion():
            return {**fields, "mark": entry.mark, "upload": entry.upload, "tags": entry.tags}
        case Removal():
            return fields


def _entry(fields: dict[str, Any]) -> Entry:
    target, before = location.parse(str(fields["target"])), str(fields["before"])
    if "data" in fields:
        return Put(target, str(fields["mark"]), before, base64.b64decode(fields["data"]))
    if "upload" in fields:
        return Completion(target, str(fields["mark"]), before, str(fields["upload"]), tuple(map(str, fields["tags"])))
    return Removal(target, before)
