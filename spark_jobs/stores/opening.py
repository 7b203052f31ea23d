"""The store that a URI leads to, and its objects, opened for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.stores import gcs, s3
from spark_jobs.stores import location as locations
from spark_jobs.stores.reading import ObjectReader
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from spark_jobs.stores.objects import Store
    from spark_jobs.stores.s3_writing import WritableS3
    from spark_jobs.stores.settings import StoreSettings


def store(scheme: str, settings: StoreSettings) -> Store:
    """The store of a scheme.

    Args:
        scheme: `s3` or `gs`.
        settings: resolved ones.

    Raises:
        StoreError: there is no such kind of store.
    """
    if scheme == "s3":
        return s3.S3(settings.s3)
    if scheme == "gs":
        return gcs.Gcs(settings.gcs)
    raise StoreError(Kind.FAILED, "no store is known for this scheme", f"{scheme}://")


def writable(settings: StoreSettings) -> WritableS3:
    """The store that files are written to.

    Args:
        settings: resolved ones.
    """
    from spark_jobs.stores.s3_writing import WritableS3

    return WritableS3(settings.s3)


def open_object(uri: str, size: int, version: str, settings: StoreSettings) -> ObjectReader:
    """An object for reading; nothing is asked of the store yet.

    Args:
        uri: where it is.
        size: its length in bytes, as it was looked at.
        version: its version then.
        settings: how its store is reached.
    """
    location = locations.parse(uri)
    return ObjectReader(store(location.scheme, settings), location, size, version)
