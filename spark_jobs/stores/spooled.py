"""Collects metrics files from a store into a local archive, as `spool.py` does from a folder."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import spool
from spark_jobs.stores import location, opening
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from spark_jobs.stores.location import Location
    from spark_jobs.stores.settings import StoreSettings
    from spark_jobs.stores.writing import WritableStore


def collect(
    spool_dir: Location, archive: Path, settings: StoreSettings, *, delete: bool = False, dry_run: bool = False
) -> spool.Collected:
    """Collect objects: they are copied to a folder of this process, and removed once the archive is on disk.

    Args:
        spool_dir: the folder that runs write their metrics to; only `*.json` directly in it is looked at.
        archive: the NDJSON file; made, with its folder, when there is something to write.
        settings: how the store is reached, resolved.
        delete: remove the objects that were collected, after the archive is on disk.
        dry_run: look only.

    Raises:
        StoreError: the store refuses.
        OSError: the archive cannot be written; then nothing is deleted.
    """
    if spool_dir.scheme not in location.WRITABLE:
        raise StoreError(Kind.UNSUPPORTED, "metrics are not collected from this kind of store", str(spool_dir))
    store, folder = opening.writable(settings), spool_dir / ""
    names = [
        each.location.name
        for page in store.pages(folder, deep=False)
        for each in page.objects
        if each.location.name.endswith(".json") and not each.location.name.startswith(".")
    ]
    with tempfile.TemporaryDirectory(prefix="clinker-metrics-") as copies:
        for name in names:
            if (data := store.get(folder / name)) is not None:
                (Path(copies) / name).write_bytes(data)
        found = spool.collect(Path(copies), archive, dry_run=dry_run)
    documents = tuple(replace(each, path=folder / each.path.name) for each in found.documents)
    skipped = tuple((folder / path.name, reason) for path, reason in found.skipped)
    kept = _removed(store, documents) if delete and not dry_run else ()
    return spool.Collected(documents, skipped, kept)


def _removed(store: WritableStore, documents: tuple[spool.Document, ...]) -> tuple[tuple[Location, str], ...]:
    """Remove the archived objects; returns the objects that could not be removed, with their errors."""
    kept = []
    for each in documents:
        place = location.parse(str(each.path))
        try:
            store.delete(place)
        except StoreError as error:
            kept.append((place, error.message))
    return tuple(kept)
