"""Hands a command over to a warm driver, if there is one. Standard library only, because every start loads it.

`keep_warm` is a setting of `[local]` in `clinker.toml`, or CLINKER_KEEP_WARM=1 in the environment, which wins.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.warm import drivers, messages
from spark_jobs.contract import ExitCode
from spark_jobs.plan.reading import workspace_file
from spark_jobs.stores import location

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

VARIABLE = "CLINKER_KEEP_WARM"
IDLE_MINUTES = 10.0
#: A week.
MOST_IDLE_MINUTES = 7 * 24 * 60.0
_YES = ("1", "true", "yes", "on")
#: Options whose value may look like a pipeline.
_WITH_PATHS = ("--channel", "--dry-run-output", "--once", "--var")
#: Drivers that a user may have at a time, each for an environment of its own.
MOST_DRIVERS = 3
#: The commands that gain by it; `run` alone starts a driver.
_COMMANDS = frozenset({"run", "validate", "explain", "lineage", "preview", "test"})
#: Options and variables that need a session of their own: they affect the start of the JVM, or where the run is found.
_OWN_SESSION = ("--conf", "--master", "--remote", "--work-dir", "--log-level")
_OWN_SESSION_VARIABLES = ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR")
#: How long a driver may take to listen, on a machine that others keep busy.
_TIMEOUT_S = 20.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Settings:
    """Whether a driver stays warm, and after how long without work it ends."""

    keeps: bool = False
    idle_minutes: float = IDLE_MINUTES


def run(argv: Sequence[str]) -> int | None:
    """Let a warm driver run a command.

    Returns:
        Its exit status; None where this process has to run it.
    """
    if not argv or argv[0] not in _COMMANDS or not hasattr(os, "fork"):
        return None
    settings = _settings(argv)
    if not settings.keeps or _needs_own_session(argv):
        return None
    folder = drivers.folder()
    if folder is None:
        return None
    connection = drivers.connect(folder)
    if connection is None and argv[0] == "run":
        connection = start(folder, settings.idle_minutes)
    if connection is None:
        return None
    with connection:
        return _served(connection, argv)


def _needs_own_session(argv: Sequence[str]) -> bool:
    is_given = any(word.split("=", 1)[0] in _OWN_SESSION for word in argv)
    return is_given or any(os.environ.get(name) for name in _OWN_SESSION_VARIABLES)


def _settings(argv: Sequence[str]) -> Settings:
    """The settings of the workspace that a command line belongs to; planning reports their problems."""
    wanted = os.environ.get(VARIABLE, "").strip().lower()
    if wanted and wanted not in _YES:
        return Settings()
    table = _workspace(argv)
    if table is None:
        return Settings()
    local = table.get("local")
    local = local if isinstance(local, dict) else {}
    minutes = local.get("idle_minutes", IDLE_MINUTES)
    is_number = isinstance(minutes, int | float) and not isinstance(minutes, bool) and minutes > 0
    keeps = bool(wanted) or local.get("keep_warm") is True
    return Settings(keeps, min(float(minutes), MOST_IDLE_MINUTES) if is_number else IDLE_MINUTES)


def _workspace(argv: Sequence[str]) -> dict[str, Any] | None:
    """The tables of `clinker.toml`; None where it says where a run spills, which a JVM has to know at its start."""
    folder = _base(argv)
    if location.is_uri(folder):
        return None  # only planning asks a store
    try:
        found = workspace_file.find(Path(os.path.abspath(folder)))
        data = found.read_bytes() if isinstance(found, Path) else b""
        if b"spill" in data:
            return None
        return tomllib.loads(data.decode()) if b"local" in data else {}
    except (OSError, ValueError):
        return None


def _base(argv: Sequence[str]) -> str:
    """The base folder of a command line, as far as it is known without parsing the whole command line."""
    for at, word in enumerate(argv):
        if word == "--base-dir" and at + 1 < len(argv):
            return argv[at + 1]
        if word.startswith("--base-dir="):
            return word.partition("=")[2]
    words = [word for before, word in pairwise(argv) if before not in _WITH_PATHS]
    named = next((word for word in words if word.endswith((".yaml", ".yml"))), None)
    return os.path.dirname(named) or "." if named is not None else "."


def start(folder: Path, idle_minutes: float) -> socket.socket | None:
    """Start a driver; returns a connection to it, or None where none comes."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with drivers.locked(folder) as is_ours:
            process = None
            if is_ours:
                if len(drivers.alive()) >= MOST_DRIVERS:
                    return None
                process = _started(folder, idle_minutes * 60)
            return _connected(folder, process)
    except OSError:
        return None


def _started(folder: Path, idle_s: float) -> subprocess.Popen[bytes]:
    with open(os.open(folder / drivers.LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as log:
        return subprocess.Popen(
            # No module comes from the folder that somebody happens to be in.
            [sys.executable, "-P", "-m", "spark_jobs.cli.warm.server", os.fspath(folder), str(idle_s)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # it outlives this terminal
            cwd="/",
        )


def _connected(folder: Path, process: subprocess.Popen[bytes] | None) -> socket.socket | None:
    until = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < until and (process is None or process.poll() is None):
        if connection := drivers.connect(folder):
            return connection
        time.sleep(0.01)
    return None


def _served(connection: socket.socket, argv: Sequence[str]) -> int | None:
    """Wait for a driver to run a command line; None if the driver is busy, or has ended before it began."""
    mask = os.umask(0o077)
    os.umask(mask)
    try:
        here = _open_folder(".")
        try:
            messages.send_request(connection, messages.Request(list(argv), dict(os.environ), mask), [0, 1, 2, here])
        finally:
            os.close(here)
        if connection.recv(1) != messages.TAKEN:
            return None
    except OSError:
        return None
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: _pass_on(connection, number))
    status = messages.receive_status(connection)
    if status is None:
        sys.stderr.write(
            f"clinker {argv[0]} error: the warm driver ended before the command finished; see its log, "
            f"{drivers.folder()}/{drivers.LOG}. Files that were already published stay; nothing else is visible. "
            f"Run the command again, or run it without a warm driver: {VARIABLE}=0\n"
        )
        return ExitCode.IO
    return status


def _open_folder(path: str) -> int:
    """A descriptor that says which folder is meant, even one whose path a driver may not follow."""
    return os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)


def _pass_on(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):
        connection.send(bytes([number]))


def stop(folder: Path) -> bool:
    """Ask a driver to end after its current command; returns whether it received the request."""
    connection = drivers.connect(folder)
    if connection is None:
        return False
    with connection, contextlib.suppress(OSError):
        here = _open_folder("/")
        try:
            messages.send_request(connection, messages.Request([], {}, 0o077), [0, 1, 2, here])
        finally:
            os.close(here)
        return connection.recv(1) == messages.TAKEN
    return False
