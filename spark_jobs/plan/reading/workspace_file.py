"""Finds `clinker.toml`, in the base folder or above it. Loads nothing but the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.disk import small_files

if TYPE_CHECKING:
    from pathlib import Path

NAME = "clinker.toml"


def find(base_dir: Path) -> Path | None:
    """The file of the workspace that an absolute base folder belongs to, in that folder or nearest above it."""
    candidates = (folder / NAME for folder in (base_dir, *base_dir.parents))
    return next((path for path in candidates if small_files.is_there(path)), None)
