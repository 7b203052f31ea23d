"""The interface of stores for publishing: whole objects, invisible uploads, conditions.

A request may have been carried out although its answer was lost, and the client then sends it again. So what must
happen once carries a *mark*, which the object keeps among its metadata: a request that is refused because its
condition does not hold any more has succeeded after all where the object has its mark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from spark_jobs.stores.objects import Store
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_jobs.stores.location import Location

#: The condition that there is no object yet; any other one is the version that it must have.
ABSENT = "*"
#: The name of the mark among the metadata of an object.
MARK = "clinker-file"
#: Up to so many bytes are one request.
SMALL_BYTES = 5 << 20
#: Data that is read and sent again comes in pieces of this size.
SENT_BYTES = 16 << 20


@dataclass(frozen=True)
class ObjectInfo:
    """An object as it was looked at.

    Args:
        version: identifies the content of the key: an ETag, a generation.
        size: its length in bytes.
        age_s: seconds since it was written, by the store's own clock.
        mark: the mark that it was written with; empty where it has none.
    """

    version: str
    size: int
    age_s: float
    mark: str


@dataclass(frozen=True)
class Upload:
    """An incomplete upload."""

    location: Location
    id: str


@dataclass(frozen=True)
class Limits:
    """The limits that decide how a file is cut into the parts of an upload.

    Args:
        least_sent: all parts that are sent, but the last, have so many bytes at least.
        least_copied: shorter ranges are sent, not copied by the store.
        most_copied: longer ranges are copied as several parts.
        most_parts: an upload has so many parts at most.
        piece: whoever writes one byte after the other sends so many at a time.
    """

    least_sent: int
    least_copied: int
    most_copied: int
    most_parts: int
    piece: int = 8 << 20


class WritableStore(Store, Protocol):
    """A store for reading and writing. It travels, so it has settings and no credentials.

    All of its calls may come from several threads at a time, and raise `StoreError`.
    """

    def look(self, location: Location) -> ObjectInfo | None:
        """An object without its bytes; None when it is not there."""

    def get(self, location: Location) -> bytes | None:
        """All bytes of a small object; None when it is not there."""

    def put(self, location: Location, data: bytes, mark: str = "", when: str | None = None) -> str:
        """Write an object; returns its version.

        Args:
            location: where.
            data: its bytes.
            mark: see the module.
            when: None for no condition; else `ABSENT`, or the version that is to be replaced.

        Raises:
            StoreError: the condition does not hold (`Kind.TAKEN`), or the store refuses.
        """

    def limits(self, location: Location) -> Limits:
        """The limits of uploads to a location."""

    def begin(self, location: Location, depot: Location, mark: str = "") -> Upload:
        """Begin an upload; nothing is to be seen of it.

        Args:
            location: where the object will be.
            depot: a prefix in the same bucket that the run removes, for stores whose uploads are made of objects.
            mark: see the module.
        """

    def send(self, upload: Upload, number: int, data: bytes) -> str:
        """Send a part of an upload; returns its tag, which `complete` wants."""

    def copy(self, upload: Upload, number: int, source: Location, start: int, end: int) -> str:
        """Make bytes of an object a part of an upload, within the store if it can; returns the part's tag."""

    def complete(self, upload: Upload, tags: Sequence[str], mark: str, when: str | None = None) -> str:
        """Make an object of the parts of an upload; see `put`. Gives its version."""

    def reads(self, upload: Upload, tags: Sequence[str]) -> list[Location]:
        """The objects that completing an upload reads, so that a forged journal cannot name others."""

    def abort(self, upload: Upload) -> None:
        """Abort an upload. It may be gone already."""

    def uploads(self, prefix: Location) -> Iterator[Upload]:
        """The incomplete uploads to keys with a prefix, if the store lists them."""

    def delete(self, location: Location) -> None:
        """Remove an object; one that is gone already is fine."""


def small(store: WritableStore, location: Location) -> bytes | None:
    """See `WritableStore.get`."""
    found = store.look(location)
    if found is None:
        return None
    try:
        return store.fetch(location, 0, found.size, "")
    except StoreError as error:
        if error.kind is Kind.MISSING:
            return None
        raise


def mine(store: WritableStore, error: StoreError, location: Location, mark: str, when: str | None) -> str:
    """The version of an object that was written although the request was refused.

    Raises:
        StoreError: it was not, or nobody can tell.
    """
    if error.kind not in (Kind.TAKEN, Kind.MISSING) or not mark:
        raise error
    found = store.look(location)
    if found is not None and found.mark == mark:
        return found.version
    if error.kind is Kind.MISSING and when not in (None, ABSENT) and found is None:
        text = "another program has removed it, since this run looked at it"
        raise StoreError(Kind.TAKEN, text, str(location)) from error
    raise error


def taken(location: Location) -> StoreError:
    """The error for an object whose condition does not hold."""
    return StoreError(Kind.TAKEN, "another run has written it meanwhile", str(location))


def changed(location: Location) -> StoreError:
    """The error for an object whose version has changed since reading began."""
    return StoreError(Kind.CHANGED, "the file was replaced by another one, while the run was reading it", str(location))


def sent_as_objects(
    fetch: Callable[[int, int], bytes], send: Callable[[str, bytes], str], number: int, start: int, end: int
) -> str:
    """Send a range of an object as objects of an upload, in a store that joins objects; returns their tag.

    Args:
        fetch: reads a range of the object.
        send: sends an object of the upload by its name; returns its tag, a JSON list.
        number: the number of the part.
        start: the first byte of the range.
        end: the byte after its last one.
    """
    tags = [json.loads(send(f"{number:06}-{at:015}", fetch(at, until))) for at, until in chunks(start, end)]
    return json.dumps([each for tag in tags for each in tag])


def chunks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split a range into ranges that are sent at a time."""
    for at in range(start, end, SENT_BYTES):
        yield at, min(at + SENT_BYTES, end)
