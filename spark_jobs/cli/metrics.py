"""`clinker metrics collect`: sweep the metrics files of runs into one NDJSON archive."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import spool
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable
from spark_jobs.stores import location
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from spark_jobs.stores.location import Location
    from spark_jobs.stores.writing import WritableStore


def main(spool_dir: str, output_file: Path, *, delete: bool, dry_run: bool) -> int:
    """Collect; exit 1 when the folder or the archive cannot be used, 4 when a store refuses.

    Args:
        spool_dir: the folder to sweep, which may be a URI.
        output_file: the archive to append to.
        delete: whether what has been archived is removed.
        dry_run: show what would be collected.
    """
    try:
        place = location.located(spool_dir)
        if isinstance(place, Path):
            collected = spool.collect(place, output_file, delete=delete, dry_run=dry_run)
        else:
            collected = _of_store(place / "", output_file, delete=delete, dry_run=dry_run)
    except location.BadLocation as error:
        shown = location.without_credentials(spool_dir)
        sys.stderr.write(printable(f"clinker metrics error: {shown}: {error.message}; {error.remedy}") + "\n")
        return ExitCode.CONFIG
    except StoreError as error:
        sys.stderr.write(printable(f"clinker metrics error: {error.code}: {error}") + "\n")
        return ExitCode.IO
    except OSError as error:
        where = error.filename or output_file
        sys.stderr.write(f"clinker metrics error: {where}: {error.strerror or error}\n")
        return ExitCode.CONFIG
    for path, reason in collected.skipped:
        sys.stderr.write(f"warning: {printable(str(path))} is skipped: {reason}\n")
    for path, reason in collected.kept:
        sys.stderr.write(f"warning: {printable(str(path))} could not be removed: {reason}\n")
    count = len(collected.documents)
    if dry_run:
        sys.stdout.write(f"Would collect {count} file(s) from {spool_dir}\n")
        for document in collected.documents:
            sys.stdout.write(f"  {printable(f'{document.path} ({document.pipeline_name})')}\n")
    else:
        sys.stdout.write(f"Collected {count} file(s) → {output_file}\n")
    return ExitCode.SUCCESS


def _of_store(folder: Location, archive: Path, *, delete: bool, dry_run: bool) -> spool.Collected:
    """Collect objects: they are copied to a folder of this process, and removed once the archive is on disk."""
    from spark_jobs.cli import clinker_toml
    from spark_jobs.stores import opening

    if folder.scheme not in location.WRITABLE:
        raise StoreError(Kind.UNSUPPORTED, "metrics are not collected from this kind of store", str(folder))
    store = opening.writable(clinker_toml.stores())
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
    """Remove what is in the archive; gives the objects for which that did not work."""
    kept = []
    for each in documents:
        place = location.parse(str(each.path))
        try:
            store.delete(place)
        except StoreError as error:
            kept.append((place, error.message))
    return tuple(kept)
