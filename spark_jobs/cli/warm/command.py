"""`clinker serve`: which warm drivers there are, and their beginning and end."""

from __future__ import annotations

import sys

from spark_jobs.cli.warm import client, place
from spark_jobs.contract import ExitCode


def status() -> int:
    """Show the drivers that there are."""
    found = place.drivers()
    for folder, state in found:
        sys.stdout.write(
            f"pid {state.pid}: clinker {state.version}, for {_duration(place.age(state))}, {state.runs} "
            f"command{'' if state.runs == 1 else 's'}; log {folder / place.LOG}\n"
        )
    if not found:
        sys.stdout.write(
            "no warm driver; keep_warm = true under [local] in clinker.toml, or CLINKER_KEEP_WARM=1, lets "
            "`clinker run` start one\n"
        )
    return ExitCode.SUCCESS


def start(idle_minutes: float) -> int:
    """Start a driver for this environment, which ends when nobody has come for so long."""
    folder = place.folder()
    if folder is None:
        return _failed(f"no folder of this user's alone can be had in {place.where()}")
    connection = place.connect(folder) or client.start(folder, idle_minutes)
    if connection is None:
        return _failed(f"no driver has started; see {folder / place.LOG}, and `clinker serve --status`")
    connection.close()
    return status()


def stop() -> int:
    """Let each driver end when it has run the command that it is running."""
    stopped = [state for folder, state in place.drivers() if client.stop(folder)]
    for state in stopped:
        sys.stdout.write(f"pid {state.pid} ends\n")
    if not stopped:
        sys.stdout.write("no warm driver\n")
    return ExitCode.SUCCESS


def _failed(why: str) -> int:
    sys.stderr.write(f"clinker serve error: {why}\n")
    return ExitCode.IO


def _duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {int(seconds % 60)} s"
