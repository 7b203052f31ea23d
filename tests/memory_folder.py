"""A folder in memory for files that nobody keeps: quick lanes and attacks make very many small ones."""

from __future__ import annotations

import os
import shutil

_FOLDER = "/dev/shm"
_ROOM_BYTES = 1 << 30


def memory_folder() -> str | None:
    """Where files are in memory and there is room for them, else None: the usual place for temporary files."""
    if not os.access(_FOLDER, os.W_OK | os.X_OK) or shutil.disk_usage(_FOLDER).free < _ROOM_BYTES:
        return None
    return _FOLDER
