"""Result records in object stores, for drivers and schedulers that share no folder (see `spark_jobs/result.py`)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from spark_jobs import contract, result
from spark_jobs.stores import opening

if TYPE_CHECKING:
    from spark_jobs.result import RunResult
    from spark_jobs.stores.location import Location
    from spark_jobs.stores.settings import StoreSettings


def location_of(work_dir: Location, execution_id: str) -> Location:
    """The location of the result record of an execution."""
    return work_dir / execution_id / contract.RESULT_FILE


def write(work_dir: Location, record: RunResult, settings: StoreSettings) -> Location:
    """Write the record as one object; returns its place.

    Args:
        work_dir: the prefix below which runs leave their records.
        record: the result of the run.
        settings: how the store is reached.

    Raises:
        StoreError: the store refuses, does not answer, or is one that runs do not write to.
    """
    target = location_of(work_dir, record.execution_id)
    opening.writable(settings.resolved()).put(target, result.encoded(record))
    return target


def read(work_dir: Location, execution_id: str, settings: StoreSettings) -> RunResult | None:
    """The record of this execution, or None when there is none.

    Raises:
        MalformedResult: an object is there but is no record of this execution.
        StoreError: the store refuses, or does not answer.
    """
    target = location_of(work_dir, execution_id)
    content = opening.writable(settings.resolved()).get(target)
    return None if content is None else result.decoded(content, execution_id, target)


def remove(work_dir: Location, execution_id: str, settings: StoreSettings) -> None:
    """Remove the record of an execution, if there is one.

    Raises:
        StoreError: the store refuses, or does not answer.
    """
    opening.writable(settings.resolved()).delete(location_of(work_dir, execution_id))


def try_writing(work_dir: Location, execution_id: str, settings: StoreSettings) -> None:
    """Write an empty object where records are left, and remove it again, with the folder that a store may have for it.

    Raises:
        StoreError: the store would not take the record.
    """
    store = opening.writable(settings.resolved())
    place = work_dir / f".clinker-tried-{execution_id}" / uuid.uuid4().hex
    store.put(place, b"")
    store.delete(place)
