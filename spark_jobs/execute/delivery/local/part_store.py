"""Parts as local files, for tasks and a driver on the same file system."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO

import pyarrow as pa


@dataclass(frozen=True)
class LocalPartStore:
    """Parts are files."""

    def create(self, path: str) -> IO[bytes]:
        """See `PartStore`."""
        return open(path, "wb")

    def open(self, path: str) -> IO[bytes]:
        """See `PartStore`."""
        return open(path, "rb")

    def arrow(self, path: str) -> pa.NativeFile:
        """See `PartStore`."""
        return pa.memory_map(path)

    def size(self, path: str) -> int:
        """See `PartStore`."""
        return os.stat(path).st_size
