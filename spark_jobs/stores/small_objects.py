"""Small objects that people write, such as pipelines: read as a whole, and as they were when looked at."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.objects import Object


class TooLarge(Exception):
    """An object of more bytes than such objects have."""


@dataclass
class _Access:
    """The settings of stores, resolved when the first one is reached, and the objects that have been looked up."""

    settings: Callable[[], StoreSettings]
    known: dict[Location, Object | None] = field(default_factory=dict)
    resolved: StoreSettings | None = None

    def stores(self) -> StoreSettings:
        if self.resolved is None:
            self.resolved = self.settings().resolved()
        return self.resolved


_ACCESS: ContextVar[_Access | None] = ContextVar("reach", default=None)


@contextmanager
def reached(settings: Callable[[], StoreSettings]) -> Iterator[None]:
    """Reach objects with some settings; an object that changes after it was looked at is an error.

    Inside of another such block nothing changes.

    Args:
        settings: gives the settings; called at most once, when the first object is reached.
    """
    if _ACCESS.get() is not None:
        yield
        return
    before = _ACCESS.set(_Access(settings))
    try:
        yield
    finally:
        _ACCESS.reset(before)


def _access() -> _Access:
    return _ACCESS.get() or _Access(StoreSettings)


def settings() -> StoreSettings:
    """Give the resolved settings with which this process reaches stores."""
    return _access().stores()


def is_there(location: Location) -> bool:
    """Whether there is an object.

    Raises:
        StoreError: its store does not say.
    """
    return bool(location.name) and _described(_access(), location) is not None


def read(location: Location, most_bytes: int) -> bytes:
    """All bytes of an object.

    Args:
        location: where it is.
        most_bytes: how many it may have.

    Raises:
        StoreError: it is not there, its store refuses, or it has changed since it was looked at.
        TooLarge: it has more bytes than it may have.
    """
    from spark_jobs.stores import globs, opening

    if not location.name:
        raise StoreError(Kind.MISSING, "it is a folder; write the key of a file", str(location))
    access = _access()
    found = _described(access, location)
    if found is None:
        # Asked for a list, a store says where the bucket is the reason.
        found = globs.named(str(location), access.stores())
    if found is None:
        raise StoreError(Kind.MISSING, "no such object; check its key, character by character", str(location))
    if found.size > most_bytes:
        raise TooLarge(str(location))
    if not found.size:
        return b""
    return opening.store(location.scheme, access.stores()).fetch(location, 0, found.size, found.version)


def _described(access: _Access, location: Location) -> Object | None:
    from spark_jobs.stores import opening

    if location not in access.known:
        access.known[location] = opening.store(location.scheme, access.stores()).describe(location)
    return access.known[location]
