"""`clinker serve`: lists, starts and stops warm drivers."""

from __future__ import annotations

import sys

from spark_jobs.cli.warm import client, drivers
from spark_jobs.contract import ExitCode


def status() -> int:
    """Show the drivers that there are."""
    found = drivers.alive()
    for folder, state in found:
        sys.stdout.write(
            f"pid {state.pid}: clinker {state.version}, for {_duration(drivers.age(state))}, {state.runs} "
            f"command{'' if state.runs == 1 else 's'}; log {folder / drivers.LOG}\n"
        )
    if not found:
        sys.stdout.write(
            "no warm driver is running; set keep_warm = true under [local] in clinker.toml, or CLINKER_KEEP_WARM=1, "
            "to let `clinker run` start one\n"
        )
    return ExitCode.SUCCESS


def start(idle_minutes: float) -> int:
    """Start a driver for this environment; it ends after so long without work."""
    folder = drivers.folder()
    if folder is None:
        return _failed(
            f"{drivers.where()} is not a folder that only you may enter: check its owner, and `chmod 700` it"
        )
    connection = drivers.connect(folder) or client.start(folder, idle_minutes)
    if connection is None:
        return _failed(f"no driver started; see {folder / drivers.LOG}, and `clinker serve --status`")
    connection.close()
    return status()


def stop() -> int:
    """Let each driver end when it has run the command that it is running."""
    stopped = [state for folder, state in drivers.alive() if client.stop(folder)]
    for state in stopped:
        sys.stdout.write(f"pid {state.pid} stops\n")
    if not stopped:
        sys.stdout.write("no warm driver is running\n")
    return ExitCode.SUCCESS


def _failed(why: str) -> int:
    sys.stderr.write(f"clinker serve error: {why}\n")
    return ExitCode.IO


def _duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {int(seconds % 60)} s"
