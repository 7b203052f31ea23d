"""The store that a URI leads to, and its objects, opened for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.stores import location as locations
from spark_jobs.stores.any_store import AnyStore, store
from spark_jobs.stores.reading import ObjectReader

if TYPE_CHECKING:
    from spark_jobs.stores.settings import StoreSettings

__all__ = ["open_object", "store", "writable"]


def writable(settings: StoreSettings) -> AnyStore:
    """The stores that URIs lead to, as one.

    Args:
        settings: resolved ones.
    """
    return AnyStore(settings)


def open_object(uri: str, size: int, version: str, settings: StoreSettings) -> ObjectReader:
    """An object for reading; sends no request yet.

    Args:
        uri: where it is.
        size: its length in bytes, as it was looked at.
        version: its version then.
        settings: how its store is reached.
    """
    location = locations.parse(uri)
    return ObjectReader(store(location.scheme, settings), location, size, version)
