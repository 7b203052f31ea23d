"""Parts as objects below a prefix of their run. Tasks write and read them from any machine."""

from __future__ import annotations

import io
import os
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

import pyarrow as pa

from spark_jobs.stores import location
from spark_jobs.stores.reading import ObjectReader
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from spark_jobs.stores.location import Location
    from spark_jobs.stores.writing import ObjectInfo, Upload, WritableStore

#: The bytes that are buffered in memory before they spill to an unnamed file.
_HELD_BYTES = 1 << 20
#: After this many requests each one sends more, because an upload has at most 10,000 parts.
_REQUESTS = 1000


@dataclass(frozen=True)
class ObjectPartStore:
    """See `PartStore`. Paths are URIs. It is sent to tasks, so it has settings but no credentials."""

    store: WritableStore

    def create(self, path: str) -> IO[bytes]:
        """See `PartStore`."""
        return cast("IO[bytes]", ObjectWriter(self.store, location.parse(path)))

    def open(self, path: str) -> IO[bytes]:
        """See `PartStore`."""
        return cast("IO[bytes]", self._opened(path))

    def arrow(self, path: str) -> pa.NativeFile:
        """See `PartStore`: read by ranges."""
        return pa.PythonFile(self._opened(path), mode="r")

    def size(self, path: str) -> int:
        """See `PartStore`."""
        return self._look(location.parse(path)).size

    def _opened(self, path: str) -> ObjectFile:
        place = location.parse(path)
        found = self._look(place)
        return ObjectFile(ObjectReader(self.store, place, found.size, found.version), found.size)

    def _look(self, place: Location) -> ObjectInfo:
        found = self.store.look(place)
        if found is None:
            raise StoreError(Kind.MISSING, "a part of the run is gone: somebody has removed it; run again", str(place))
        return found


class ObjectFile(io.RawIOBase):
    """An object as a readable file."""

    def __init__(self, reader: ObjectReader, size: int) -> None:
        super().__init__()
        self._reader = reader
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._at

    def size(self) -> int:
        """The size in bytes."""
        return self._size

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a position."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._reader.seek(self._at)

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; all remaining ones if `size` is negative."""
        data = self._reader.read(self._size - self._at if size < 0 else size)
        self._at += len(data)
        return data

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # memory is all that is ever given
        """The next bytes; 0 at the end."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the object's stream."""
        if not self.closed:
            self._reader.close()
        super().close()


class ObjectWriter(io.RawIOBase):
    """An object as a writable file. The object exists once the file is closed.

    A small object is one request. A larger one is sent in pieces as they fill up, so a task buffers one piece, on disk
    if it exceeds a megabyte. The run aborts an upload that a dead task has begun.
    """

    def __init__(self, store: WritableStore, place: Location) -> None:
        super().__init__()
        self._store = store
        self._place = place
        self._held = tempfile.SpooledTemporaryFile(_HELD_BYTES)  # noqa: SIM115 - closed with this file
        self._waiting = self._written = 0
        self._piece = store.limits(place).piece
        self._upload: Upload | None = None
        self._tags: list[str] = []

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The number of bytes written."""
        return self._written

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # whatever has bytes
        """Append bytes.

        Raises:
            StoreError: the store refuses.
        """
        view = memoryview(data).cast("B")
        self._held.write(view)
        self._waiting += len(view)
        self._written += len(view)
        if self._waiting >= self._piece * (1 + len(self._tags) // _REQUESTS):
            if self._upload is None:
                self._upload = self._store.begin(self._place, self._place.with_name(f"{self._place.name}.upload"))
            self._send(self._upload)
        return len(view)

    def close(self) -> None:
        """Make the object.

        Raises:
            StoreError: the store refuses.
        """
        if self.closed:
            return
        super().close()
        with self._held:
            if self._upload is None:
                self._held.seek(0)
                self._store.put(self._place, self._held.read())
                return
            if self._waiting:
                self._send(self._upload)
        self._store.complete(self._upload, self._tags, "")

    def _send(self, upload: Upload) -> None:
        self._held.seek(0)
        self._tags.append(self._store.send(upload, len(self._tags) + 1, self._held.read()))
        self._held.seek(0)
        self._held.truncate()
        self._waiting = 0
