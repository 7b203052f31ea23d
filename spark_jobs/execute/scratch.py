"""The scratch location of a run: files through which its processes exchange data.

Materialized records, dead letters, facts about groups, unpacked inputs: a task writes them, and other tasks or the
driver read them, perhaps on other machines. The location is a folder that all of them see, or a prefix of a store that
all of them reach. Writers and readers need not know which it is: a local file is mapped, an object is read by ranges,
or copied if it is needed as a whole.

The driver makes a `Scratch`, which travels with everything that reads such files. A process that receives one knows how
to reach the store. All files of a run go with its draft (`execute/delivery/`).
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from spark_jobs.disk import durable, volumes
from spark_jobs.execute.delivery.local.part_store import LocalPartStore
from spark_jobs.scan import files
from spark_jobs.stores import location
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from spark_jobs.execute.delivery.destination import PartStore
    from spark_jobs.scan.files import InputFile
    from spark_jobs.stores.any_store import AnyStore

    _Item = TypeVar("_Item")

#: Bytes of an object that are copied at a time, and requests that are on their way together.
_COPIED_BYTES = 8 << 20
_REQUESTS = 16
#: The maximal number of copies in a process. Each job drops the copies of the one before it.
_MOST_COPIES = 64


@dataclass(frozen=True)
class Scratch:
    """The scratch location of a run.

    Args:
        folder: a local folder, or a URI without its last slash.
        store: reaches the URI; None for a local folder.
        local: a folder of the driver for files of a single process; the location itself if it is local.
        made_in: the file systems that `local` was made in, as `volumes.reach` tells them.
    """

    folder: str
    store: AnyStore | None = None
    local: str = ""
    made_in: str = ""

    def __post_init__(self) -> None:
        if self.store is not None:
            _KNOWN[self.folder] = self

    def __reduce__(self) -> tuple[type[Scratch], tuple[str, AnyStore | None, str, str]]:
        return Scratch, (self.folder, self.store, self.local, self.made_in)

    @property
    def is_local(self) -> bool:
        """True if it is a folder, whose files can be mapped."""
        return self.store is None

    @property
    def here(self) -> str:
        """A folder for files that no other process reads."""
        if self.store is None:
            return self.folder
        if self.made_in == volumes.reach() or os.path.isdir(self.local):
            return self.local
        return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()

    def file(self, name: str) -> str:
        """The path of a file."""
        return f"{self.folder}/{name}"

    def close(self) -> None:
        """Close the scratch location at the end of the run."""
        _KNOWN.pop(self.folder, None)
        drop_copies()

    def described(self, path: str, name: str) -> InputFile:
        """Describe one of its files as an input with a readable name.

        Raises:
            FormatError: it is gone.
        """
        if self.store is None:
            return files.describe(path, name)
        found = self.store.describe(location.parse(path))
        if found is None:
            raise files.refused(_gone(path), name)
        return files.InputFile.of_object(found, name, self.store.settings)


#: The locations in stores that this process has been told of, by their folders.
_KNOWN: dict[str, Scratch] = {}
_LOCAL = LocalPartStore()


def create(path: str) -> IO[bytes]:
    """Begin a file. It is there as a whole once it is closed."""
    return _store(path).create(path)


def opened(path: str) -> IO[bytes]:
    """A file, to read at any place."""
    return _store(path).open(path)


def arrow(path: str) -> pa.NativeFile:
    """Open a file of Arrow batches for reading some of them: mapped if it is local, else by ranges."""
    return _store(path).arrow(path)


def mapped(path: str) -> pa.NativeFile:
    """A file of Arrow batches that are all looked at, again and again: mapped, as a copy where it is in a store."""
    return _copied(path) if location.is_uri(path) else _LOCAL.arrow(path)


def size(path: str) -> int:
    """The bytes that a file has.

    Raises:
        OSError: it is gone.
    """
    return _store(path).size(path)


def is_mapped(path: str) -> bool:
    """True if reading some of a file touches mapped memory."""
    return not location.is_uri(path)


def each(function: Callable[[_Item], Any], paths: Iterable[_Item], *, are_local: bool) -> None:
    """Call a function for many files: one after the other, or several at a time where a store answers each of them."""
    wanted = [*paths]
    if are_local or len(wanted) < 2:
        for path in wanted:
            function(path)
        return
    with ThreadPoolExecutor(min(_REQUESTS, len(wanted))) as threads:
        for _ in threads.map(function, wanted):
            pass


def drop_copies() -> None:
    """Give the disk of copies back."""
    _copied.cache_clear()


class ArrowFile:
    """A file of Arrow batches on its way, whose failures name it; `size` is known when it is closed."""

    def __init__(self, path: str, schema: pa.Schema, options: pa.ipc.IpcWriteOptions | None = None) -> None:
        self._path = path
        with durable.about(path):
            self._sink = _sink(path)
            self._writer = pa.ipc.new_file(self._sink, schema, options=options)
        self.size = 0

    def __enter__(self) -> ArrowFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write_batch(self, batch: pa.RecordBatch, metadata: dict[bytes, str] | None = None) -> None:
        """Append a batch."""
        with durable.about(self._path):
            self._writer.write_batch(batch, metadata)

    def write_table(self, table: pa.Table) -> None:
        """Append batches."""
        with durable.about(self._path):
            self._writer.write_table(table)

    def close(self) -> None:
        """Write the footer."""
        with durable.about(self._path):
            self._writer.close()
            self.size = self._sink.tell()
            self._sink.close()


def _sink(path: str) -> pa.NativeFile:
    return pa.PythonFile(create(path), mode="w") if location.is_uri(path) else pa.OSFile(path, mode="w")


def _store(path: str) -> PartStore:
    return _objects(path) if location.is_uri(path) else _LOCAL


def _objects(path: str) -> PartStore:
    from spark_jobs.execute.delivery.objects.part_store import ObjectPartStore  # runs with local files need no store

    known = _known(path)
    assert known.store is not None, path
    return ObjectPartStore(known.store)


def _known(path: str) -> Scratch:
    found = _KNOWN.get(path.rpartition("/")[0])
    assert found is not None, f"{path}: the scratch location has to travel with whoever reads it"
    return found


@lru_cache(maxsize=_MOST_COPIES)
def _copied(path: str) -> pa.MemoryMappedFile:
    """An object as a file without a name: however the process ends, the system frees the space."""
    total = size(path)
    with tempfile.NamedTemporaryFile(dir=_known(path).here, prefix="clinker-") as copy, opened(path) as source:
        while data := source.read(_COPIED_BYTES):
            copy.write(data)
        copy.flush()
        if copy.tell() != total:
            raise _gone(path)
        return pa.memory_map(copy.name)


def _gone(path: str) -> StoreError:
    return StoreError(Kind.MISSING, "a file of the run is gone: somebody has removed it; run again", path)
