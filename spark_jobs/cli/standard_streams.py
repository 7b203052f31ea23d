"""Standard output and error of the commands: their encoding, and what happens when they cannot be written."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def ensure() -> None:
    """Let streams that a process was started without lead nowhere: other files would get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))


def prepare() -> None:
    """Write UTF-8 whatever the system's settings are; characters that do not fit are escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def completed(name: str, command: Callable[[], int], failed: int) -> int:
    """Run a command until its output is written; returns its exit status, and `failed` when that cannot be done."""
    try:
        status = command()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe is gone; there is nobody to tell.
        discard(sys.stdout)
        discard(sys.stderr)
        return 0
    except OSError as error:
        _complain(name, error)
        discard(sys.stdout)
        return failed
    return status


@contextmanager
def given_up(name: str, stream: TextIO) -> Iterator[None]:
    """Ignores errors of a closed stream: the work is done and the exit status stands."""
    try:
        yield
        stream.flush()
    except OSError as error:
        if stream is not sys.stderr and not isinstance(error, BrokenPipeError):
            _complain(name, error)
        discard(stream)


def discard(stream: TextIO) -> None:
    """Discard unwritten output: at exit Python would try to write it again, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _complain(name: str, error: OSError) -> None:
    with given_up(name, sys.stderr):
        place = printable(str(error.filename or "standard output"))
        sys.stderr.write(f"{name} error: {place}: {error.strerror or error}\n")
