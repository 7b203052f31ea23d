"""`clinker metrics collect`: sweep the metrics files of runs into one NDJSON archive."""

from __future__ import annotations

import sys
from pathlib import Path

from spark_jobs import spool
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable
from spark_jobs.stores import location
from spark_jobs.stores.refusals import StoreError


def main(spool_dir: str, output_file: Path, *, delete: bool, dry_run: bool) -> int:
    """Collect; exit 1 when the folder or the archive cannot be used, 4 when a store refuses.

    Args:
        spool_dir: the folder to sweep, which may be a URI.
        output_file: the archive to append to.
        delete: whether to remove the archived files.
        dry_run: show what would be collected.
    """
    try:
        place = location.located(spool_dir)
        if isinstance(place, Path):
            collected = spool.collect(place, output_file, delete=delete, dry_run=dry_run)
        else:
            from spark_jobs.cli import clinker_toml
            from spark_jobs.stores import spooled

            settings = clinker_toml.stores()
            collected = spooled.collect(place, output_file, settings, delete=delete, dry_run=dry_run)
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
