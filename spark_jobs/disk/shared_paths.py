"""Files that one machine sees and another does not: on a cluster, local paths have to be on a mount that all share."""

from __future__ import annotations

import errno
import os
import platform
from dataclasses import dataclass

from spark_jobs.disk import volumes

#: The diagnostic of such a file.
UNSHARED = "E909"
_UNSEEN = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ESTALE)


@dataclass(frozen=True)
class NotShared:
    """A path that a process did not find, or may not use.

    Args:
        path: it, absolute.
        host: the machine of the process.
        reach: which file systems the process can reach.
        is_new: whether the process was to make it, in a folder that is there.
    """

    path: str
    host: str
    reach: str
    is_new: bool = False

    @classmethod
    def of(cls, error: OSError, path: str | None = None, *, is_new: bool = False) -> NotShared | None:
        """The local path that an error of the system is about; None for any other error.

        Args:
            error: what the system said.
            path: what it is about; the path in the error when left out.
            is_new: whether it was to be made.
        """
        found = path or error.filename
        # Arrow gives its errors numbers of its own, or none.
        is_unseen = error.errno in _UNSEEN or isinstance(error, FileNotFoundError | PermissionError)
        if not is_unseen or not isinstance(found, str) or "://" in found:
            return None
        return cls(os.path.abspath(found), platform.node(), volumes.reach(), is_new)

    def explained(self) -> str | None:
        """A remedy if this process sees a path that the other one did not; None if it does not see it either."""
        if self.reach == volumes.reach():
            return None
        if os.path.exists(self.path):
            seen = f"the driver sees {self.path}, and the executor on {self.host} does not"
        elif self.is_new and os.path.isdir(folder := os.path.dirname(self.path)):
            seen = (
                f"the driver sees the folder {folder}, and the executor on {self.host} does not, or may not write there"
            )
        else:
            return None
        return f"{seen}: on a cluster, local paths have to be on a mount that the driver and all executors share"
