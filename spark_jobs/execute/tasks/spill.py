"""The spill file of a task: rows and payloads in a file without a name.

The file is removed from its folder as soon as it is open, so that a task leaves nothing behind however it ends. A run's
tasks on one machine share a ledger beside it, of the run's name: the cap is for all of them, and for that run alone
(`storage.spill.disk_cap_bytes`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from spark_jobs import ownership
from spark_jobs.disk import durable, locks, system_errors, volumes
from spark_jobs.disk.spill_folder import SpillFolder
from spark_jobs.execute import logs
from spark_jobs.execute.tasks import block_codec
from spark_jobs.nodes import spill

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from spark_jobs.plan.reading.workspace import Storage


@dataclass(frozen=True)
class Settings:
    """`[storage.spill]` for the tasks.

    Args:
        folder: the run's folder; tasks that cannot reach it use Spark's local folder.
        cap: bytes that the run may spill on one machine; None for any number.
        compress: `auto`, `on` or `off`.
        made_in: the file systems that the folder was made in, as `volumes.reach` tells them.
    """

    folder: str
    cap: int | None = None
    compress: str = "auto"
    made_in: str = ""


@contextmanager
def folder(storage: Storage) -> Iterator[Settings]:
    """A run's spill folder while it runs."""
    with SpillFolder.open(storage.spill_root) as made:
        for problem in made.problems:
            logs.LOG.warning("%s", problem)
        yield Settings(str(made.path), storage.spill_cap_bytes, storage.compress, volumes.reach())


@dataclass(frozen=True)
class SpilledBytes:
    """Bytes in a task's file."""

    space: TaskSpill
    offset: int
    length: int

    def bytes(self) -> bytes:
        """Read the bytes back."""
        return self.space.get(self.offset, self.length)

    def read(self) -> pa.Table:
        """The rows that were written."""
        return block_codec.decode(self.bytes())


class TaskSpill:
    """The spilled data of one task."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._file: int | None = None
        self._end = 0
        #: Bytes on disk by node.
        self.spilled: dict[str, int] = {}

    @cached_property
    def _folder(self) -> str:
        """The folder of the task's spilled data. If it has been removed, going on would hide that."""
        if self._settings.made_in == volumes.reach() or os.path.isdir(self._settings.folder):
            return self._settings.folder
        return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()

    def put_rows(self, node: str, table: pa.Table) -> SpilledBytes:
        """Write rows down. Raises `ResourcesExhausted`."""
        return self.put(node, block_codec.encode(table, self._settings.compress))

    def put(self, node: str, data: bytes) -> SpilledBytes:
        """Write bytes down. Raises `ResourcesExhausted`."""
        size = len(data)
        folder = self._folder
        try:
            self._claim(folder, node, size)
            if self._file is None:
                with tempfile.TemporaryFile(dir=folder) as opened:
                    self._file = os.dup(opened.fileno())
            self._write(memoryview(data))
        except OSError as error:
            raise _refused(error, folder, node) from error
        self.spilled[node] = self.spilled.get(node, 0) + size
        block = SpilledBytes(self, self._end, size)
        self._end += size
        return block

    def _write(self, data: memoryview) -> None:
        assert self._file is not None
        at = self._end
        while data:
            written = os.pwrite(self._file, data, at)
            data, at = data[written:], at + written

    def _claim(self, folder: str, node: str, size: int) -> None:
        """Add to what the run has spilled on this machine, unless that crosses the cap."""
        cap = self._settings.cap
        if cap is None:
            return
        name = f"{os.path.basename(self._settings.folder)}.spilled"
        ledger = ownership.open_file(os.path.join(folder, name), flags=os.O_RDWR | os.O_CREAT)
        try:
            locks.hold(ledger, fcntl.LOCK_EX, os.path.join(folder, name))
            used = int(os.read(ledger, 32) or b"0")
            if used + size > cap:
                raise spill.ResourcesExhausted(
                    "E320",
                    f"{used} bytes are spilled and {size} more would cross storage.spill.disk_cap_bytes ({cap}); "
                    "raise the cap or memory.limit",
                    node,
                )
            os.pwrite(ledger, str(used + size).encode(), 0)
        finally:
            os.close(ledger)

    def get(self, offset: int, length: int) -> bytes:
        """Bytes that were written."""
        assert self._file is not None
        found = bytearray(length)
        rest = memoryview(found)
        while rest and (count := os.preadv(self._file, [rest], offset)):
            rest, offset = rest[count:], offset + count
        return bytes(found)

    def close(self) -> None:
        """Free the disk space."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def volume_full(folder: str) -> str:
    """The message of E321."""
    return (
        f"the spill volume at {folder} is out of space; free some, or point storage.spill.dir elsewhere "
        "(spark.local.dir where others start Spark)"
    )


def folder_gone(folder: str, reason: str) -> str:
    """The message about a folder that was there when the run began."""
    return (
        f"spill directory {folder} became unavailable mid-run: {reason}; it may have been unmounted, made read-only, "
        "or removed"
    )


def _refused(error: OSError, folder: str, node: str) -> spill.ResourcesExhausted:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return spill.ResourcesExhausted("E321", volume_full(folder), node)
    if system_errors.is_system_wide(error) or isinstance(error, locks.NoLocksError):
        return spill.ResourcesExhausted("E900", durable.describe(error, folder), node)
    return spill.ResourcesExhausted("E900", folder_gone(folder, error.strerror or str(error)), node)
