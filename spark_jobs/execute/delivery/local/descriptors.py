"""The limit of open files: a run holds two descriptors for each folder that it publishes into."""

from __future__ import annotations

import os
import resource

from spark_jobs.contract import ExitCode
from spark_jobs.execute.verdict import RunFailed

#: The lock of the draft folder, and the folder itself while the run publishes.
OF_A_FOLDER = 2
#: Further descriptors of a run: Spark's connections, open files, libraries.
_OTHERS = 256


def provide(folders: int) -> None:
    """Raise the soft limit of open files, if necessary, so that a run can publish into this many folders.

    Raises:
        RunFailed: the hard limit is too low (E908).
    """
    wanted = folders * OF_A_FOLDER + _OTHERS + _in_use()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    if hard == resource.RLIM_INFINITY or wanted <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return
    raise RunFailed(
        ExitCode.IO,
        "E908",
        f"the run publishes into {folders} folders and needs {wanted} open files for them, but the process may have "
        f"{hard}: raise the hard limit (ulimit -Hn), or write into fewer folders",
    )


def _in_use() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:  # on systems without this folder few are open
        return 0
