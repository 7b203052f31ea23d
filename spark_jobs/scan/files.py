"""Opens input files through Arrow's file systems: local paths now, URIs with a scheme by the same calls.

Arrow is loaded when a file is opened: plans look for files and open none.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_jobs.disk import shared_paths, system_errors, volumes
from spark_jobs.scan.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyarrow import fs


class FormatError(Exception):
    """A file that cannot be read or written at all: exit 4, whatever the error strategy.

    Args:
        message: what is wrong, without the path.
        path: the file, as the pipeline's messages print it.
        code: the id of a diagnostic, where one is declared for this problem.
        node: the node that cannot write it; None where the file is read.
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
    """Bytes that are as a whole no text of their encoding; the name of the file is known to whoever opened it."""


def network_file(source: str) -> str:
    """What `$source.file` is for the records of a network source."""
    return f"<source:{source}>"


@dataclass(frozen=True)
class InputFile:
    """A file of a source.

    Args:
        path: where its bytes are read, absolute or a URI.
        name: how `$source.file`, dead letters and messages call it.
        size: its length in bytes.
        mtime_ns: when it was last changed, in nanoseconds since 1970.
        source_file: what `$source.file` is where that is not the name.
        most_records: how many records it counts for; what follows them is as if it were not there. None for all.
        origin: where the file itself is, when `path` is a staged copy.
        identity: its device and inode, where the file system keeps them.
        edges: a digest of its first and its last bytes, once it was opened.
        compression: how it is compressed; its size, inode and edges are those of the compressed file.
        ratio: how many times as much is in it as it is long, about.
        ctime_ns: when its inode was last changed, where the file system keeps inodes; nobody can set that back.
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

    @property
    def plain_size(self) -> int:
        """The length of what is in it, in bytes; an estimate where it is compressed."""
        return int(self.size * self.ratio)

    @property
    def is_compressed(self) -> bool:
        """Whether its bytes have to be unpacked, from the first one on; nobody knows how many they are."""
        return self.compression is not Compression.NONE

    @classmethod
    def of(cls, path: str, name: str, status: os.stat_result) -> InputFile:
        """A file on a local path, as the system describes it."""
        kept = _keeps_inodes(status.st_dev, path)
        identity = (status.st_dev, status.st_ino) if kept else None
        ctime_ns = status.st_ctime_ns if kept else 0
        return cls(path, name, status.st_size, status.st_mtime_ns, identity=identity, ctime_ns=ctime_ns)


class RealPaths:
    """Where paths lead when links are followed; for many files in few folders, which are followed once."""

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
    """Whether a file on a device has one inode for as long as it is there; looked up once for each device."""
    if device not in _INODES_KEPT:
        _INODES_KEPT[device] = volumes.keeps_inodes(path)
    return _INODES_KEPT[device]


@lru_cache(maxsize=32)
def _local() -> fs.LocalFileSystem:
    from pyarrow import fs

    return fs.LocalFileSystem(use_mmap=False)


def _filesystem(path: str, name: str) -> tuple[fs.FileSystem, str]:
    if not _is_unicode(path):
        shown = path.encode("utf-8", "backslashreplace").decode()
        raise FormatError(f"cannot be read: the path {shown} is not UTF-8; rename the file or its folder", name)
    if "://" not in path:
        return _local(), path
    import pyarrow as pa
    from pyarrow import fs

    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise FormatError(f"cannot be read: {error}", name) from error
    return found


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:  # a byte that the system's encoding does not have, as Python spells it
        return False
    return True


def open_input(path: str, name: str) -> pa.NativeFile:
    """A file for reading at any position; who reads it tells of failures (`told`).

    Raises:
        FormatError: it is missing, a folder, or may not be read.
    """
    filesystem, inner = _filesystem(path, name)
    with told(name, path):
        return filesystem.open_input_file(inner)


@contextmanager
def told(name: str, path: str | None = None) -> Iterator[None]:
    """Within, what the system refuses is told with the name of the file that it is about, and with its path when given.

    To stand around calls for a file's bytes alone: whatever else is refused within would be told of it as well.

    Raises:
        FormatError: the file cannot be read.
    """
    try:
        yield
    except OSError as error:
        raise FormatError(
            _reason(error), name, unseen=shared_paths.NotShared.of(error, path) if path else None
        ) from error


def _reason(error: OSError) -> str:
    """The cause in words, without Arrow's wrapping."""
    if isinstance(error, FileNotFoundError):
        return "file not found"
    if isinstance(error, PermissionError) or "Permission denied" in str(error):
        return "permission denied"
    if isinstance(error, IsADirectoryError) or "not a regular file" in str(error):
        return "is not a file"
    return f"cannot be read: {error}{system_errors.remedy(error)}"


@contextmanager
def decoded(name: str) -> Iterator[None]:
    """Within, bytes that are no text are told with the name of their file.

    Raises:
        FormatError: the file is no text of its encoding.
    """
    try:
        yield
    except UnreadableText as error:
        raise FormatError(str(error), name) from error


def describe(path: str, name: str) -> InputFile:
    """What is known of a file without opening it.

    Raises:
        FormatError: it is missing or no file.
    """
    filesystem, inner = _filesystem(path, name)
    try:
        if "://" not in path:
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                return InputFile.of(path, name, status)
            raise FormatError("is not a file", name)
        info = filesystem.get_file_info(inner)
    except OSError as error:
        raise FormatError(_reason(error), name, unseen=shared_paths.NotShared.of(error, path)) from error
    return _described(info, path, name)


def _described(info: fs.FileInfo, path: str, name: str) -> InputFile:
    from pyarrow import fs

    match info.type:
        case fs.FileType.NotFound:
            raise FormatError("file not found", name)
        case fs.FileType.File:
            return InputFile(path, name, info.size, info.mtime_ns or 0)
        case _:
            raise FormatError("is not a file", name)
