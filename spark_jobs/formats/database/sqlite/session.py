"""Sessions of SQLite for outputs."""

from __future__ import annotations

import os
import socket
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from spark_jobs.formats.database.sqlite.reading import refuse_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.scan.connections import Connection

#: So long a statement waits for another session, in seconds.
LOCK_S = 60


def reading(path: str) -> sqlite3.Connection:
    """A session that only reads."""
    return _opened(path, "ro")


def writing(path: str) -> sqlite3.Connection:
    """A session that writes, and that checks foreign keys and conditions."""
    found = _opened(path, "rw")
    found.execute("PRAGMA foreign_keys = ON")
    found.execute("PRAGMA ignore_check_constraints = OFF")
    return found


def _opened(path: str, mode: str) -> sqlite3.Connection:
    refuse_missing(path)
    address = f"file:{quote(path)}?mode={mode}"
    # Batches of a task may come in several threads, one after the other.
    return sqlite3.connect(address, uri=True, timeout=LOCK_S, isolation_level=None, check_same_thread=False)


def identity(path: str) -> str:
    """Give a text that identifies a database file across machines: host, device and inode; empty for no file."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{socket.gethostname()}:{status.st_dev}:{status.st_ino}"


@contextmanager
def translated_errors(connection: Connection, name: str = "") -> Iterator[None]:
    """Translate errors of SQLite into diagnostics.

    Raises:
        FormatError: it refuses or fails (E911).
    """
    try:
        yield
    except sqlite3.Error as problem:
        text = str(problem)
        if "locked" in text:
            text = f"another program has held a lock for {LOCK_S} s ({text}): end it, or wait for it, and run again"
        raise connection.failed(text, name) from None
    except OSError as problem:
        raise connection.failed(f"{problem.filename or ''}: {problem.strerror or problem}", name) from None
