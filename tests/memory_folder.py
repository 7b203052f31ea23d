"""A folder in memory for files that nobody keeps: quick lanes and attacks make very many small ones."""

from __future__ import annotations

import os

_FOLDER = "/dev/shm"
_ROOM_BYTES = 1 << 30


def memory_folder() -> str | None:
    """Where files are in memory and there is room for them, else None: the usual place for temporary files.

    Tests run scripts that they have written, which containers often forbid there.
    """
    if not os.access(_FOLDER, os.W_OK | os.X_OK):
        return None
    found = os.statvfs(_FOLDER)
    is_fit = found.f_bavail * found.f_frsize >= _ROOM_BYTES and not found.f_flag & os.ST_NOEXEC
    return _FOLDER if is_fit else None
