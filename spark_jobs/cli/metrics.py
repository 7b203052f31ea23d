"""`clinker metrics collect`: sweep the metrics files of runs into one NDJSON archive."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs import spool
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from pathlib import Path


def main(spool_dir: Path, output_file: Path, *, delete: bool, dry_run: bool) -> int:
    """Collect; exit 1 when the folder or the archive cannot be used.

    Args:
        spool_dir: the folder to sweep.
        output_file: the archive to append to.
        delete: whether what has been archived is removed.
        dry_run: show what would be collected.
    """
    try:
        collected = spool.collect(spool_dir, output_file, delete=delete, dry_run=dry_run)
    except OSError as error:
        place = error.filename or output_file
        sys.stderr.write(f"clinker metrics error: {place}: {error.strerror or error}\n")
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
