"""Ends a process soon after its outcome is reported, whatever its threads and libraries still do.

Python waits at its end for the threads of thread pools, and takes the interpreter apart under threads that are inside
Arrow or gRPC: the first may take minutes with an endpoint that is away, the second ends some processes by SIGABRT.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from spark_jobs.cli import standard_streams

if TYPE_CHECKING:
    from collections.abc import Callable

#: The time limit for functions that were registered for the exit: they remove folders and release sessions.
_TIMEOUT_S = 5.0


def run(command: Callable[[], int]) -> NoReturn:
    """Run a command and end the process with its exit status."""
    status = command()
    for stream in (sys.stdout, sys.stderr):
        with standard_streams.given_up("clinker", stream):
            stream.flush()
    last = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    last.start()
    last.join(_TIMEOUT_S)
    os._exit(status)
