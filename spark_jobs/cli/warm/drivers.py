"""Finds warm drivers: their sockets and environments. Standard library only, because every command loads it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import resource
import socket
import stat
import struct
import sys
import sysconfig
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import engine_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Environment variables of the user's terminal and session, which do not affect a run.
_PASSING = frozenset({
    "_", "COLUMNS", "DISPLAY", "LINES", "OLDPWD", "PWD", "SHLVL", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "TERM",
    "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "TMUX", "TMUX_PANE", "WINDOWID", "XDG_SESSION_ID",
})  # fmt: skip
#: The address of a local socket has 107 bytes at most.
_LONGEST_ADDRESS = 107
_STATE, _SOCKET, _LOCK, LOG = "state.json", "socket", "lock", "log"
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class State:
    """The state that a driver reports.

    Args:
        pid: its process.
        since: when it began, in seconds since 1970.
        version: the engine's version.
        runs: how many commands it has run.
        idle_s: after how many seconds without one it ends.
    """

    pid: int
    since: float
    version: str
    runs: int
    idle_s: float


def where() -> Path:
    """The folder of this user's drivers."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(runtime, "clinker") if runtime else Path(tempfile.gettempdir(), f"clinker-{os.getuid()}")


def root() -> Path | None:
    """The folder of all drivers, created if missing; None if other users could reach it."""
    folder = where()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
    return folder if is_ours else None


def folder() -> Path | None:
    """The folder of the driver that may serve this process; None if there cannot be one.

    It is another one for each interpreter, state of the engine's files, environment, view of the machine and limit of
    this process: a run must not notice whose process it is in.
    """
    parent = root()
    if parent is None:
        return None
    found = parent / _key(os.environ)
    return found if len(os.fsencode(found / _SOCKET)) <= _LONGEST_ADDRESS else None


def _key(environment: Mapping[str, str]) -> str:
    bound = {
        "python": [sys.version, sys.prefix, sys.flags.optimize],
        "engine": [str(engine_files.FOLDER), *engine_files.state()],
        "environment": sorted((key, value) for key, value in environment.items() if key not in _PASSING),
        "packages": os.stat(sysconfig.get_path("purelib")).st_mtime_ns,
        "credentials": [_seen(path) for path in _credentials(environment)],
        "machine": [_namespaces(), *os.stat("/")[1:3], _capabilities()],
        "limits": [
            resource.getrlimit(getattr(resource, name)) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")
        ],
        "cores": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
        "groups": [os.getuid(), os.getgid(), *sorted(os.getgroups())],
        "nice": os.nice(0),
    }
    return hashlib.sha256(json.dumps(bound).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _credentials(environment: Mapping[str, str]) -> list[str]:
    """The files in which stores' clients look for credentials: they read them once."""
    home = environment.get("HOME", "")
    return [
        environment.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(home, ".aws", "credentials"),
        environment.get("AWS_CONFIG_FILE") or os.path.join(home, ".aws", "config"),
        environment.get("GOOGLE_APPLICATION_CREDENTIALS")
        or os.path.join(home, ".config", "gcloud", "application_default_credentials.json"),
    ]


def _seen(path: str) -> list[int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_ino, found.st_mtime_ns, found.st_size]


def _namespaces() -> list[str]:
    """The namespaces of this process, if the system has them: mounts, networks, processes, users."""
    found = []
    for name in ("mnt", "net", "pid", "user"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/ns/{name}"))
    return found


def _capabilities() -> str:
    """The capabilities of this process."""
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        return "".join(line for line in file if line.startswith("Cap"))
    return ""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Locks the start of drivers in a folder, while the context lasts; yields False if another process has the lock."""
    with open(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def listen(folder: Path) -> socket.socket:
    """Listen where clients look; removes the socket that a killed driver left there.

    Raises:
        OSError: it cannot be listened there.
    """
    path = folder / _SOCKET
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)
    listener.listen(16)
    return listener


def connect(folder: Path) -> socket.socket | None:
    """A connection to the driver of a folder; None where none answers, or one of another user."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.fspath(folder / _SOCKET))
    except OSError:
        connection.close()
        return None
    if not is_of_this_user(connection):
        connection.close()
        return None
    return connection


def is_of_this_user(connection: socket.socket) -> bool:
    """Whether the process at the other end has this user's rights."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder is this user's alone
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1]) == os.getuid()


def note(folder: Path, state: State) -> None:
    """Write the state of a driver into its folder."""
    temporary = folder / f"{_STATE}.new"
    temporary.write_text(json.dumps(asdict(state)), encoding="utf-8")
    temporary.replace(folder / _STATE)


def is_listening(folder: Path, identity: int) -> bool:
    """Whether the socket in a folder belongs to this driver, by its inode."""
    try:
        return (folder / _SOCKET).stat().st_ino == identity
    except OSError:
        return False


def identity(folder: Path) -> int:
    """The inode of the socket in a folder."""
    return (folder / _SOCKET).stat().st_ino


def remove(folder: Path, identity: int) -> None:
    """Remove the files of a driver that ends, except its log and the files of another driver."""
    if is_listening(folder, identity):
        for name in (_SOCKET, _STATE):
            (folder / name).unlink(missing_ok=True)


def alive() -> list[tuple[Path, State]]:
    """The drivers of this user that live, the oldest first."""
    parent = root()
    found = []
    for folder in sorted(parent.iterdir()) if parent is not None else ():
        try:
            fields: dict[str, Any] = json.loads((folder / _STATE).read_text(encoding="utf-8"))
            state = State(**fields)
        except (OSError, ValueError, TypeError):
            continue
        connection = connect(folder)
        if connection is not None:
            connection.close()
            found.append((folder, state))
    return sorted(found, key=lambda each: each[1].since)


def age(state: State) -> float:
    """The age of a driver in seconds."""
    return max(time.time() - state.since, 0.0)
