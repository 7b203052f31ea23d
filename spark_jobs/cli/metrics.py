"""`clinker metrics collect`: sweep the metrics files of runs into one NDJSON archive."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

#: The versions of metrics files that can be archived.
VERSIONS = (1,)


def main(arguments: argparse.Namespace) -> int:
    """Collect; exit 1 when the folder or the archive cannot be used."""
    try:
        return _collect(arguments)
    except OSError as error:
        sys.stderr.write(f"clinker metrics error: {error.filename or arguments.spool_dir}: {error.strerror}\n")
        return ExitCode.CONFIG


def _collect(arguments: argparse.Namespace) -> int:
    spool: Path = arguments.spool_dir
    found = sorted(_readable(spool), key=lambda entry: str(entry[1].get("execution_id", "")))
    if arguments.dry_run:
        sys.stdout.write(f"Would collect {len(found)} file(s) from {spool}\n")
        for path, document in found:
            sys.stdout.write(f"  {path} ({document.get('pipeline_name', '?')})\n")
        return ExitCode.SUCCESS
    _append(arguments.output_file, [document for _, document in found])
    if arguments.delete_after_collect:
        for path, _ in found:
            _remove(path)
    sys.stdout.write(f"Collected {len(found)} file(s) → {arguments.output_file}\n")
    return ExitCode.SUCCESS


def _readable(spool: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The metrics files of a folder; what is none is left alone, with a warning."""
    found = []
    for path in sorted(spool.iterdir()):
        if path.suffix != ".json" or not path.is_file():
            continue
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            sys.stderr.write(f"warning: {path} is skipped: {error}\n")
            continue
        version = document.get("schema_version") if isinstance(document, dict) else None
        if version not in VERSIONS:
            sys.stderr.write(f"warning: {path} is skipped: schema_version {version} is not known\n")
            continue
        found.append((path, document))
    return found


def _append(archive: Path, documents: list[dict[str, Any]]) -> None:
    """Append one compact line per document; on the disk before any file is removed."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.open("a", encoding="utf-8") as stream:
        for document in documents:
            stream.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        sys.stderr.write(f"warning: {path} could not be removed: {error.strerror}\n")
