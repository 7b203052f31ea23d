"""The state of the engine's own files: whatever is kept between processes holds for one state of them.

Standard library only, because every command loads it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: The folder of the engine.
FOLDER = Path(__file__).parent


def state() -> list[int]:
    """The number of the engine's files, and their newest modification time in nanoseconds since 1970."""
    newest = count = 0
    for path, folders, names in os.walk(FOLDER):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            with contextlib.suppress(OSError):
                newest = max(newest, os.stat(os.path.join(path, name)).st_mtime_ns)
            count += 1
    return [count, newest]
