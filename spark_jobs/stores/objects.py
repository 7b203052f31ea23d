"""The interface of object stores for reading, and their objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.stores.location import Location


@dataclass(frozen=True, slots=True)
class Object:
    """An object as a store describes it.

    Args:
        location: where it is.
        size: its length in bytes.
        mtime_ns: when it was written, in nanoseconds since 1970, as exactly as the store keeps it.
        version: identifies the content of the key (an ETag); empty where the store has no versions.
    """

    location: Location
    size: int
    mtime_ns: int
    version: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing: objects, and prefixes of keys that continue after a slash."""

    objects: tuple[Object, ...]
    folders: tuple[str, ...] = ()


class Store(Protocol):
    """A store, for reading. All of its calls may come from several threads at a time, and raise `StoreError`."""

    def describe(self, location: Location) -> Object | None:
        """An object without its bytes; None when it is not there."""

    def pages(self, prefix: Location, *, deep: bool, most: int | None = None) -> Iterator[Page]:
        """The objects whose keys begin with a prefix, in pages.

        Args:
            prefix: the beginning; it need not end with a slash.
            deep: whether keys with a further slash are included; else they are folded into `folders`.
            most: where so many objects are enough for whoever asks, pages are no longer than that.
        """

    def fetch(self, location: Location, start: int, end: int, version: str) -> bytes:
        """The bytes of an object from one position to another, which must be in it.

        Raises:
            StoreError: it has another version (`Kind.CHANGED`), is gone, or cannot be read.
        """
