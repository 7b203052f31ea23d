"""Collects the metrics files of runs from a spool folder into one NDJSON archive. Standard library only.

Delivery is at least once: files are deleted after the archive is safely on disk, so a crash between the two leaves
entries that the next collection adds again; `execution_id` tells them apart.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Collected:
    """What a collection found: the files it took (or would take), and those that hold no metrics, with the reason."""

    files: tuple[Path, ...]
    skipped: tuple[tuple[Path, str], ...] = ()


def collect(spool_dir: Path, archive: Path, *, delete: bool = False, dry_run: bool = False) -> Collected:
    """Append each metrics file of the folder to the archive as one line, in the order of the file names.

    Args:
        spool_dir: the folder; only `*.json` directly in it is looked at.
        archive: the NDJSON file; made, with its folder, when there is something to write.
        delete: remove the files that were collected, after the archive is on disk.
        dry_run: look only.

    Raises:
        OSError: when the folder cannot be read (`FileNotFoundError`: it does not exist), or the archive cannot be
            written; then no file is deleted.
    """
    taken: list[Path] = []
    lines: list[str] = []
    skipped: list[tuple[Path, str]] = []
    # A run writes aside under a name with a leading dot.
    candidates = (path for path in spool_dir.iterdir() if path.suffix == ".json" and not path.name.startswith("."))
    for path in sorted(candidates):
        try:
            lines.append(_line(path))
            taken.append(path)
        except ValueError as error:
            skipped.append((path, str(error)))
    if lines and not dry_run:
        _append(archive, lines)
        if delete:
            for path in taken:
                path.unlink()
    return Collected(tuple(taken), tuple(skipped))


def _line(path: Path) -> str:
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or "execution_id" not in document:
        raise ValueError("no metrics: `execution_id` is missing")
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _append(archive: Path, lines: list[str]) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.open("ab+") as file:
        # An earlier process may have died in the middle of a line.
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write("".join(f"{line}\n" for line in lines).encode())
        file.flush()
        os.fsync(file.fileno())
