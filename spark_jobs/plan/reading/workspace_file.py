"""Finds `clinker.toml`, in the base folder or above it; standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = "clinker.toml"


def find(base_dir: Path) -> Path | None:
    """The file of the workspace that an absolute base folder belongs to, in that folder or nearest above it."""
    return next((folder / NAME for folder in (base_dir, *base_dir.parents) if (folder / NAME).is_file()), None)
