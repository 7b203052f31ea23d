"""Volumes: the kind of file system of a folder, its device, its free space, and who can reach it.

The kind comes from the kernel's list of mounts, and is unknown on systems that have none.
"""

from __future__ import annotations

import os
import platform
import re
from enum import StrEnum
from pathlib import Path

#: The kernel's list of this process's mounts, proc(5).
MOUNTINFO = Path("/proc/self/mountinfo")
#: The kernel's name for itself since it was started, proc(5), and for the mounts that a process sees, namespaces(7).
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS = Path("/proc/self/ns/mnt")

_IN_MEMORY = frozenset(["tmpfs", "ramfs"])
#: NFS, SMB, CIFS and FUSE. `fuseblk` is not among them: it is a local disk with a driver of its own.
_REMOTE = re.compile(r"nfs\d*|cifs|smbfs|smb\d|fuse(\..+)?")
_MAKES_UP_INODES = re.compile(r"cifs|smbfs|smb\d|fuse(\..+)?")
#: The root of containers without privileges, which is a local folder.
_LOCAL_FUSE = "fuse.fuse-overlayfs"
_OCTAL = re.compile(r"\\([0-7]{3})")


class Kind(StrEnum):
    """Where the bytes of a volume are."""

    MEMORY = "memory"
    NETWORK = "network"
    OTHER = "other"


def kind(path: str, mountinfo: str | None = None) -> Kind | None:
    """The kind of volume that holds a path; None if the system does not report it.

    Args:
        path: a file or folder; symbolic links are followed.
        mountinfo: the list of mounts to ask; the kernel's own when left out.
    """
    mounts = _mountinfo() if mountinfo is None else mountinfo
    found = file_system(os.path.realpath(path), mounts) if mounts else None
    if found is None:
        return None
    if found in _IN_MEMORY:
        return Kind.MEMORY
    return Kind.NETWORK if _REMOTE.fullmatch(found) and found != _LOCAL_FUSE else Kind.OTHER


def keeps_inodes(path: str, mountinfo: str | None = None) -> bool:
    """True if files of a path's volume keep their inodes: SMB and FUSE may make up new ones at any time."""
    mounts = _mountinfo() if mountinfo is None else mountinfo
    found = file_system(os.path.realpath(path), mounts) if mounts else None
    return found is None or found == _LOCAL_FUSE or not _MAKES_UP_INODES.fullmatch(found)


def _mountinfo() -> str | None:
    try:
        return MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None


def file_system(path: str, mountinfo: str) -> str | None:
    """The type of the file system of a canonical path, from its longest mount point.

    Of several mounts on one point the last counts, for it hides the others.
    """
    longest, found = -1, None
    for line in mountinfo.splitlines():
        # 36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw
        before, _, after = line.partition(" - ")
        fields, mount = before.split(" "), after.split(" ")
        if len(fields) < 5 or not mount[0]:
            continue
        point = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), fields[4])
        is_parent = path == point or path.startswith(point.rstrip("/") + "/")
        if is_parent and len(point) >= longest:
            longest, found = len(point), mount[0]
    return found


def share_device(first: str, second: str) -> bool:
    """True if one device holds both paths; a path that is gone shares none."""
    try:
        return os.stat(first).st_dev == os.stat(second).st_dev
    except FileNotFoundError:
        return False


def free_bytes(path: str) -> int:
    """The bytes that this user may still write on a path's volume.

    Raises:
        OSError: there is no such path.
    """
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def reach() -> str:
    """Which file systems this process can reach: two processes of equal reach find the same files at the same paths.

    Where the system has no words for it, the name of the machine has to do.
    """
    try:
        return f"{_BOOT_ID.read_text().strip()} {os.readlink(_MOUNTS)}"
    except OSError:
        return platform.node()
