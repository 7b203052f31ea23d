"""`clinker metrics collect`: sweep the metrics files of runs into one NDJSON archive."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs import spool
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    import argparse


def main(arguments: argparse.Namespace) -> int:
    """Collect; exit 1 when the folder or the archive cannot be used."""
    try:
        collected = spool.collect(
            arguments.spool_dir,
            arguments.output_file,
            delete=arguments.delete_after_collect,
            dry_run=arguments.dry_run,
        )
    except OSError as error:
        place = error.filename or arguments.output_file
        sys.stderr.write(f"clinker metrics error: {place}: {error.strerror or error}\n")
        return ExitCode.CONFIG
    for path, reason in collected.skipped:
        sys.stderr.write(f"warning: {printable(str(path))} is skipped: {reason}\n")
    for path, reason in collected.kept:
        sys.stderr.write(f"warning: {printable(str(path))} could not be removed: {reason}\n")
    count = len(collected.documents)
    if arguments.dry_run:
        sys.stdout.write(f"Would collect {count} file(s) from {arguments.spool_dir}\n")
        for document in collected.documents:
            sys.stdout.write(f"  {printable(f'{document.path} ({document.pipeline_name})')}\n")
    else:
        sys.stdout.write(f"Collected {count} file(s) → {arguments.output_file}\n")
    return ExitCode.SUCCESS
