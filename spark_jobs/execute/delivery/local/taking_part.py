"""Local files as the home of a run that publishes into other places, too."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.execute.delivery.local import recovery
from spark_jobs.execute.delivery.local.draft_folder import PREFIX
from spark_jobs.execute.delivery.participant import Address, Answer

if TYPE_CHECKING:
    from spark_jobs.execute.delivery.participant import DeadParticipant, StorageAccess


def dead_participant(address: Address, home: Address, access: StorageAccess) -> DeadParticipant:
    """See `joint.py:KINDS`. Local files are always the home, so nobody else completes them.

    Raises:
        OSError: always.
    """
    text = f"{home.place} says that it publishes local files, which no run leaves to another place: look at it"
    raise OSError(errno.EINVAL, text, address.place)


def resolve(home: Address, access: StorageAccess) -> Answer:
    """See `joint.py:KINDS`.

    Raises:
        OSError: the folder is not on this machine, or nobody can tell; or see `joint.resolve`.
    """
    path = Path(home.place)
    if path.name != PREFIX + home.run or not path.is_absolute() or os.path.realpath(path) != str(path):
        raise OSError(errno.EINVAL, "is no draft folder of a run", home.place)
    if not path.is_dir():
        text = (
            "is not on this machine. A run died while it published into several places, and has noted there whether "
            "what it had prepared counts. Run `clinker recover` with the folder around it on the machine that has it; "
            "where it is lost, remove what was prepared (`prepared.json` below the prefix of the run)"
        )
        raise OSError(errno.EREMOTE, text, home.place)
    if recovery.is_cleared(path, access) or not path.is_dir():
        return Answer.RESOLVED
    return Answer.LIVES
