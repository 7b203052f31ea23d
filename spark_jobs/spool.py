"""Collects the metrics files of runs from a spool folder into one NDJSON archive. Standard library only.

Delivery is at least once: files are deleted after the archive is safely on disk, so a crash between the two leaves
entries that the next collection adds again; `execution_id` tells them apart.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs import contract

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Document:
    """A metrics file: where it is (a path, or a place in a store), what names it, and its content as one line."""

    path: Any
    execution_id: str
    pipeline_name: str
    line: bytes


@dataclass(frozen=True)
class Collected:
    """The result of a collection.

    Args:
        documents: what it took (or would take).
        skipped: the files that hold no metrics, with the reason.
        kept: the files that are in the archive and could not be removed, with the reason.
    """

    documents: tuple[Document, ...]
    skipped: tuple[tuple[Any, str], ...] = ()
    kept: tuple[tuple[Any, str], ...] = ()


def collect(spool_dir: Path, archive: Path, *, delete: bool = False, dry_run: bool = False) -> Collected:
    """Append each metrics file of the folder to the archive as one line, in the order of the execution ids.

    Args:
        spool_dir: the folder; only `*.json` directly in it is looked at.
        archive: the NDJSON file; made, with its folder, when there is something to write.
        delete: remove the files that were collected, after the archive is on disk.
        dry_run: look only.

    Raises:
        OSError: when the folder cannot be read (`FileNotFoundError`: it does not exist), or the archive cannot be
            written; then no file is deleted.
    """
    taken: list[Document] = []
    skipped: list[tuple[Path, str]] = []
    # A run writes aside under a name with a leading dot.
    candidates = (path for path in spool_dir.iterdir() if path.suffix == ".json" and not path.name.startswith("."))
    for path in sorted(candidates):
        try:
            taken.append(_read(path))
        except (OSError, ValueError) as error:
            skipped.append((path, str(error)))
        except RecursionError:
            skipped.append((path, "no metrics: it is nested too deeply"))
    taken.sort(key=lambda document: document.execution_id)
    kept: list[tuple[Path, str]] = []
    if taken and not dry_run:
        _append(archive, taken)
        if delete:
            kept = _remove(taken)
    return Collected(tuple(taken), tuple(skipped), tuple(kept))


def _read(path: Path) -> Document:
    if not path.is_file():
        raise ValueError("it is not a file")
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or "execution_id" not in content:
        raise ValueError("no metrics: `execution_id` is missing")
    version = content.get("schema_version")
    if version != contract.METRICS_SCHEMA_VERSION:
        raise ValueError(f"schema_version {version} is not known, only {contract.METRICS_SCHEMA_VERSION}")
    # ASCII only, like the files themselves: what UTF-8 cannot hold, as in the name of a file, stays as it is.
    line = json.dumps(content, separators=(",", ":")).encode("ascii")
    return Document(path, str(content["execution_id"]), str(content.get("pipeline_name", "?")), line)


def _append(archive: Path, documents: list[Document]) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.open("ab+") as file:
        # An earlier process may have died in the middle of a line.
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(b"".join(document.line + b"\n" for document in documents))
        file.flush()
        os.fsync(file.fileno())


def _remove(documents: list[Document]) -> list[tuple[Path, str]]:
    """Remove what is in the archive. Returns the files for which that did not work."""
    kept = []
    for document in documents:
        try:
            document.path.unlink()
        except OSError as error:
            kept.append((document.path, error.strerror or str(error)))
    return kept
