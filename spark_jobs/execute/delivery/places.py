"""All destinations of files as one: local folders, and stores for paths that lead there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.execute.delivery.destinations import Destinations
from spark_jobs.execute.delivery.local.files import LocalFiles
from spark_jobs.execute.delivery.local.part_store import LocalPartStore
from spark_jobs.tuning import DEFAULT

if TYPE_CHECKING:
    from spark_jobs.execute.delivery.destination import PartStore
    from spark_jobs.execute.delivery.objects.files import ObjectFiles
    from spark_jobs.execute.delivery.participant import StorageAccess
    from spark_jobs.stores.location import FilePath
    from spark_jobs.tuning import Tuning


def destinations(access: StorageAccess, tuning: Tuning = DEFAULT) -> Destinations:
    """The destinations of files.

    Args:
        access: access to stores.
        tuning: the bytes of small files that the driver itself sends to a store.
    """

    def store() -> ObjectFiles:
        from spark_jobs.execute.delivery.objects.files import ObjectFiles  # runs with local files need no store
        from spark_jobs.stores import opening

        return ObjectFiles(opening.writable(access.stores.resolved()), access, tuning)

    return Destinations(LocalFiles(access), store)


def files(access: StorageAccess, path: FilePath) -> PartStore:
    """The files of a path's destination, for reading.

    Raises:
        StoreError: the client of the store is not installed, or cannot be made.
    """
    if isinstance(path, Path):
        return LocalPartStore()
    from spark_jobs.execute.delivery.objects.part_store import ObjectPartStore
    from spark_jobs.stores import opening

    return ObjectPartStore(opening.writable(access.stores.resolved()))
