"""Refusals of the system that no file causes, and remedies."""

from __future__ import annotations

import errno

#: Resources of the process or the machine that have run out, whatever the file.
_OF_NO_FILE = {
    errno.EMFILE: "; the limit of open files is too low: raise it (ulimit -n)",
    errno.ENFILE: "; the system has no more open files to give",
}
#: The system has the same words for a volume whose room, and for one whose names have run out.
_OF_VOLUMES = {
    errno.ENOSPC: "; free some space, or remove files where there are too many (df, df -i)",
    errno.EDQUOT: "; free some space, or have the quota raised",
}
#: And these words for a file that may not be touched, and for one that cannot be reached through a folder.
_OF_RIGHTS = {
    errno.EACCES: "; the user that runs this needs rights to it, and to pass through the folders that hold it (ls -ld)",
    errno.EPERM: "; the user that runs this may not do that to it (ls -ld, lsattr)",
    errno.EROFS: "; the volume is mounted for reading alone: choose another one, or mount it for writing too",
}


def is_system_wide(error: BaseException | None) -> bool:
    """True if the same would have been said of every file, so that no node is to blame for it."""
    return isinstance(error, OSError) and error.errno in _OF_NO_FILE


def remedy(error: OSError) -> str:
    """A remedy to append to the system's message; empty if the message is enough."""
    return {**_OF_NO_FILE, **_OF_VOLUMES, **_OF_RIGHTS}.get(error.errno or 0, "")
