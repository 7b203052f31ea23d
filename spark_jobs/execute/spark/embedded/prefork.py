"""Starts the process that workers are forked from while the JVM of an embedded session is still starting.

Spark starts `spark.python.daemon.module` when its first task needs a worker, and the task waits for its imports. Here a
process that has already imported everything waits at a socket in a private folder. The process that Spark starts hands
its streams, environment and folder over to the waiting one, and stays as a placeholder: Spark talks to the waiting
process, and ends it by closing its input as usual. If anything is not as expected, the process that Spark has started
does the work itself.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from spark_jobs.execute.spark import shipping

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Tells what Spark starts where a process waits for it.
VARIABLE = "CLINKER_STANDBY"
ARGUMENT = "--standby"
#: The address of a local socket has 107 bytes at most.
_LONGEST_ADDRESS = 107
_LENGTH_BYTES = 8
_YES = b"+"
#: The time in seconds that the waiting process may take to answer: it may still be importing, on a busy machine.
_TIMEOUT_S = 30.0
#: Settings of Spark that become environment variables of workers, or that choose another process instead of them.
_THREADS, _CORES = "spark.executorEnv.OMP_NUM_THREADS", "spark.task.cpus"

_waiting: list[subprocess.Popen[bytes]] = []


def address(folder: Path | str) -> str:
    """The socket of the waiting process of a session with this folder."""
    return os.path.join(folder, "workers")


def begin(folder: Path | str, settings: Mapping[str, str]) -> None:
    """Start a process that waits to be what workers are forked from; it ends with this one, or with Spark.

    Args:
        folder: this user's alone; the JVM knows it from `VARIABLE`.
        settings: the settings of the session.
    """
    if settings.get(shipping.DAEMON_SETTING) != shipping.DAEMON or os.environ.get("PYSPARK_PYTHON") != sys.executable:
        return
    path = address(folder)
    if len(os.fsencode(path)) > _LONGEST_ADDRESS or os.path.exists(path):
        return
    # Variables that Spark sets for workers. They take effect when libraries are loaded.
    added = {
        "OMP_NUM_THREADS": settings.get(_THREADS) or settings.get(_CORES) or "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "YES",
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (shipping.root(), os.environ.get("PYTHONPATH")))),
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        process = subprocess.Popen(
            [sys.executable, "-m", shipping.DAEMON, ARGUMENT, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **added},
            pass_fds=(listener.fileno(),),
            process_group=0,  # Ctrl-C is not for it
        )
    _waiting[:] = [each for each in _waiting if each.poll() is None] + [process]


def stand_in() -> bool:
    """Give what Spark has given this process to the one that waits, and stay until that one ends.

    Returns:
        Whether it took them; False when this process has to do the work.
    """
    path = os.environ.pop(VARIABLE, None)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(path)
            os.unlink(path)  # it is here for one
            request = json.dumps(
                {
                    "environment": dict(os.environ),
                    "arguments": sys.argv,
                    "path": sys.path,
                    "folder": os.getcwd(),
                    "start": _start(),
                }
            ).encode()
            socket.send_fds(connection, [len(request).to_bytes(_LENGTH_BYTES)], [0, 1, 2])
            connection.sendall(request)
            if connection.recv(1) != _YES:
                return False
        except OSError:
            return False
        connection.settimeout(None)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        connection.recv(1)
        return True


def take_over(listener: int) -> bool:
    """Wait for the process that Spark starts, and take its place.

    Returns:
        Whether somebody came; False when the driver has ended before.
    """
    with socket.socket(fileno=listener) as waiting:
        driver = sys.stdin.fileno()
        ready, _, _ = select.select([waiting, driver], [], [])
        if waiting not in ready:
            return False
        connection, _ = waiting.accept()
    length, streams, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, 3)
    with connection.makefile("rb") as incoming:
        given = json.loads(incoming.read(int.from_bytes(length)) or b'{"start": null}')
    if given["start"] != _start() or len(streams) != 3:
        return False
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.environ.clear()
    os.environ.update(given["environment"])
    sys.argv[:], sys.path[:] = given["arguments"], given["path"]
    os.chdir(given["folder"])
    connection.sendall(_YES)
    # The connection stays open as long as this process lives; its end tells the other process.
    connection.detach()
    return True


def _start() -> list[object]:
    """Settings that cannot change after the start: the interpreter, and variables that it and libraries read early."""
    read = ("PYTHONHASHSEED", "OMP_", "ARROW_", "LD_", "MALLOC_", "MIMALLOC_")
    return [sys.version, sys.prefix, {key: value for key, value in os.environ.items() if key.startswith(read)}]
