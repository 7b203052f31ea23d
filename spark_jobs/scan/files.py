"""Input files and their bytes: local ones through Arrow, objects through their store.

Arrow is loaded when a local file is opened: plans look for files and open none.
"""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from spark_jobs.disk import shared_paths, system_errors, volumes
from spark_jobs.scan.compression import Compression
from spark_jobs.stores import location
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyarrow import fs

    from spark_jobs.stores.objects import Object
    from spark_jobs.stores.reading import ObjectReader
    from spark_jobs.stores.settings import StoreSettings

#: So many small objects are fetched before a task reads them: it waits once for all of them, and not for each.
_SMALL_WAITING = 16
#: The diagnostic of a file that changed.
CHANGED = "E907"
#: The diagnostic of a store that refuses or fails.
STORE_FAILED = "E910"


class FormatError(Exception):
    """A file that cannot be read or written at all: exit 4, whatever the error strategy.

    Args:
        message: what is wrong, without the path.
        path: the file, as the pipeline's messages print it.
        code: the id of a diagnostic, where one is declared for this problem.
        node: the node that cannot write it; None if the file is read.
        unseen: what this process does not find, where another one may.
    """

    def __init__(
        self,
        message: str,
        path: str,
        code: str | None = None,
        node: str | None = None,
        unseen: shared_paths.NotShared | None = None,
    ) -> None:
        super().__init__(message, path, code, node, unseen)
        self.message = message
        self.path = path
        self.code = code
        self.node = node
        self.unseen = unseen

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class UnreadableText(Exception):
    """Bytes are no text of their encoding. The caller knows the name of the file."""


def network_file(source: str) -> str:
    """The value of `$source.file` for records of a network source."""
    return f"<source:{source}>"


@dataclass(frozen=True)
class InputFile:
    """A file of a source.

    Args:
        path: where its bytes are read, absolute or a URI.
        name: how `$source.file`, dead letters and messages call it.
        size: its length in bytes.
        mtime_ns: when it was last changed, in nanoseconds since 1970.
        source_file: the value of `$source.file` if it is not the name.
        most_records: the number of its records that count; None for all.
        origin: where the file itself is, when `path` is a staged copy.
        identity: its device and inode, where the file system keeps them.
        edges: a digest of its first and its last bytes, once it was opened.
        compression: its compression. Size, inode and edges belong to the compressed file.
        ratio: how many times as much is in it as it is long, about.
        ctime_ns: when its inode was last changed, where the file system keeps inodes; nobody can set that back.
        version: identifies the content of an object's key; empty for files, and for stores without versions.
        stores: how the object's store is reached; None for local files.
        table: facts of its format if it is a table and no file: `path` is its name in that case, and `version` the
            state that is read. For a file of a table, the table's facts about the file.
        is_immutable: whether nobody writes a file of this name again, so that it need not be looked at a second time.
    """

    path: str
    name: str
    size: int
    mtime_ns: int = 0
    source_file: str | None = None
    most_records: int | None = None
    origin: str | None = None
    identity: tuple[int, int] | None = None
    edges: int | None = None
    compression: Compression = Compression.NONE
    ratio: float = 1.0
    ctime_ns: int = 0
    version: str = ""
    stores: StoreSettings | None = None
    table: Any = None
    is_immutable: bool = False

    @property
    def is_object(self) -> bool:
        """True if it is in a store, and its path a URI."""
        return self.stores is not None

    @property
    def plain_size(self) -> int:
        """The length of what is in it, in bytes; an estimate where it is compressed."""
        return int(self.size * self.ratio)

    @property
    def is_compressed(self) -> bool:
        """True if its bytes have to be unpacked from the first one on. Their number is unknown."""
        return self.compression is not Compression.NONE

    @classmethod
    def of(cls, path: str, name: str, status: os.stat_result) -> InputFile:
        """A file on a local path, as the system describes it."""
        kept = _keeps_inodes(status.st_dev, path)
        identity = (status.st_dev, status.st_ino) if kept else None
        ctime_ns = status.st_ctime_ns if kept else 0
        return cls(path, name, status.st_size, status.st_mtime_ns, identity=identity, ctime_ns=ctime_ns)

    @classmethod
    def of_object(cls, found: Object, name: str, stores: StoreSettings) -> InputFile:
        """An object, as its store describes it."""
        return cls(str(found.location), name, found.size, found.mtime_ns, version=found.version, stores=stores)


class RealPaths:
    """Resolves links in paths; each folder is resolved once."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def of(self, path: str) -> str:
        """The real path of a file."""
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        found = os.path.join(self._folders[folder], name)
        return os.path.realpath(found) if name in ("", ".", "..") or os.path.islink(found) else found


_INODES_KEPT: dict[int, bool] = {}


def _keeps_inodes(device: int, path: str) -> bool:
    """True if a file on a device has one inode for as long as it is there; looked up once for each device."""
    if device not in _INODES_KEPT:
        _INODES_KEPT[device] = volumes.keeps_inodes(path)
    return _INODES_KEPT[device]


@lru_cache(maxsize=32)
def _local() -> fs.LocalFileSystem:
    from pyarrow import fs

    return fs.LocalFileSystem(use_mmap=False)


def _refuse_unreadable(path: str, name: str) -> None:
    if not _is_unicode(path):
        shown = path.encode("utf-8", "backslashreplace").decode()
        raise FormatError(f"cannot be read: the path {shown} is not UTF-8; rename the file or its folder", name)


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:  # a byte that the system's encoding does not have, as Python spells it
        return False
    return True


def open_input(file: InputFile) -> pa.NativeFile | ObjectReader:
    """A file for reading at any position; calls that read it belong into `translated_errors`.

    Raises:
        FormatError: it is missing, a folder, or may not be read.
    """
    with translated_errors(file.name, file.path):
        if file.stores is not None:
            from spark_jobs.stores import opening  # as below: runs that read local files alone do without

            return opening.open_object(file.path, file.size, file.version, file.stores)
        _refuse_unreadable(file.path, file.name)
        return _local().open_input_file(file.path)


def prefetched(files: Sequence[InputFile]) -> AbstractContextManager[None]:
    """Within, the beginnings of files in stores are prefetched."""
    objects = objects_of(files)
    if not objects:
        return nullcontext()
    from spark_jobs.stores import heads

    return heads.prefetched([(each.path, each.version, partial(_beginning, each)) for each in objects])


def prefetched_small_files(files: Sequence[InputFile]) -> AbstractContextManager[None]:
    """Within, those files that are small objects are fetched as a whole before they are read, in this order."""
    if not any(each.is_object for each in files):
        return nullcontext()
    from spark_jobs.stores import heads, reading

    small = {(each.path, each.version): each for each in objects_of(files) if each.size <= reading.LEAST_BYTES}
    wanted = [(*key, partial(_fetched, each, each.size)) for key, each in small.items()]
    return heads.prefetched(wanted, _SMALL_WAITING)


def prefetched_in_batches(
    batches: Sequence[Sequence[InputFile]], fetch: Callable[[Sequence[InputFile]], Sequence[bytes | StoreError]]
) -> AbstractContextManager[None]:
    """Within, the beginnings of objects are fetched batch by batch, as `beginnings` does it."""
    from spark_jobs.stores import heads

    keys = [[(each.path, each.version) for each in batch] for batch in batches]
    return heads.batches(keys, lambda number: fetch(batches[number]))


def objects_of(files: Sequence[InputFile]) -> list[InputFile]:
    """The files that are objects and not empty."""
    return [each for each in files if each.is_object and each.size]


def beginnings(files: Sequence[InputFile]) -> list[bytes | StoreError]:
    """The beginnings of some objects, or why they cannot be read, in the order of the objects."""
    from spark_jobs.stores import heads

    def answer(file: InputFile) -> bytes | StoreError:
        try:
            return _beginning(file)
        except StoreError as error:
            return error

    with ThreadPoolExecutor(heads.THREADS) as threads:
        return [*threads.map(answer, files)]


def beginning_bytes(file: InputFile) -> int:
    """The bytes of an object's beginning."""
    from spark_jobs.stores import heads

    return min(file.size, heads.HEAD_BYTES)


def _beginning(file: InputFile) -> bytes:
    return _fetched(file, beginning_bytes(file))


def _fetched(file: InputFile, end: int) -> bytes:
    from spark_jobs.stores import opening

    assert file.stores is not None
    place = location.parse(file.path)
    return opening.store(place.scheme, file.stores).fetch(place, 0, end, file.version)


@contextmanager
def translated_errors(name: str, path: str | None = None) -> Iterator[None]:
    """Within, errors of the system or a store become a `FormatError` with the name of the file and its path if given.

    Wrap only calls for the bytes of this file: any other error within would be reported as its own.

    Raises:
        FormatError: the file cannot be read.
    """
    try:
        yield
    except StoreError as error:
        raise refused(error, name) from error
    except OSError as error:
        raise FormatError(
            _reason(error), name, unseen=shared_paths.NotShared.of(error, path) if path else None
        ) from error


def refused(error: StoreError, name: str) -> FormatError:
    """A store's refusal as an error of a file."""
    return FormatError(error.message, name, CHANGED if error.kind is Kind.CHANGED else STORE_FAILED)


def _reason(error: OSError) -> str:
    """The cause in words, without Arrow's wrapping."""
    if isinstance(error, FileNotFoundError):
        return "file not found"
    if isinstance(error, PermissionError) or "Permission denied" in str(error):
        return f"permission denied{system_errors.remedy(PermissionError(errno.EACCES, str(error)))}"
    if isinstance(error, IsADirectoryError) or "not a regular file" in str(error):
        return "is not a file"
    return f"cannot be read: {error}{system_errors.remedy(error)}"


@contextmanager
def decoded(name: str) -> Iterator[None]:
    """Within, bytes that are no text become an error with the name of their file.

    Raises:
        FormatError: the file is no text of its encoding.
    """
    try:
        yield
    except UnreadableText as error:
        raise FormatError(str(error), name) from error


def describe(path: str, name: str) -> InputFile:
    """The facts about a local file that are known without opening it.

    Raises:
        FormatError: it is missing or no file.
    """
    _refuse_unreadable(path, name)
    try:
        status = os.stat(path)
    except OSError as error:
        raise FormatError(_reason(error), name, unseen=shared_paths.NotShared.of(error, path)) from error
    if not stat.S_ISREG(status.st_mode):
        raise FormatError("is not a file", name)
    return InputFile.of(path, name, status)


def describe_named(place: location.FilePath, name: str) -> InputFile:
    """The facts about a local file, or about an object that a command names, which are known without opening it.

    Its store is reached as `spark_jobs/stores/small_objects.py:reached` says.

    Raises:
        FormatError: it is missing or no file, or its store refuses to say.
    """
    if not isinstance(place, location.Location):
        return describe(str(place), name)
    from spark_jobs.stores import globs, small_objects

    stores = small_objects.settings()
    with translated_errors(name):
        found = globs.named(str(place), stores) if place.name else None
    if found is None:
        why = "no such object; check its key, character by character" if place.name else "is a folder, and not a file"
        raise FormatError(why, name)
    return InputFile.of_object(found, name, stores)


def look_again(file: InputFile) -> InputFile:
    """The current facts about a file.

    Raises:
        FormatError: it is missing or no file, or its store refuses to say.
    """
    if file.stores is None:
        return describe(file.path, file.name)
    from spark_jobs.stores import opening

    place = location.parse(file.path)
    with translated_errors(file.name):
        found = opening.store(place.scheme, file.stores).describe(place)
    if found is None:
        raise FormatError("file not found", file.name)
    return InputFile.of_object(found, file.name, file.stores)
