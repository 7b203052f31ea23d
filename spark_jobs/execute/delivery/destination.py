"""The interface of destinations: the places to which a run publishes files. Local files are one implementation.

A run has a *draft* there, which is invisible to others. Tasks write parts to its part store, the driver assembles files
from them, and publishing makes all files visible, or none. If a run dies, the next one completes or removes its draft.
A run has a draft in each kind of destination, and publishes all of them together, and together with other participants,
such as tables (`participant.py`).
"""

from __future__ import annotations

import enum
import errno
import itertools
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from spark_jobs.disk import durable
from spark_jobs.execute.delivery.participant import Home, Participant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession


#: A file name in a kind of destination: a local path, or a location in a store.
Where = TypeVar("Where", contravariant=True)


@dataclass(frozen=True, slots=True)
class PartRange:
    """A range of a part, in bytes. `before` is the text in front of it in the file, besides the separator."""

    path: str
    start: int
    size: int
    before: bytes = b""


#: A piece of a file: bytes, or a range of a part.
Segment: TypeAlias = bytes | PartRange


def length(found: Segment) -> int:
    """The number of bytes."""
    return found.size if isinstance(found, PartRange) else len(found)


def cut(found: Segment, start: int, end: int) -> Segment:
    """The bytes from `start` to `end`."""
    if isinstance(found, PartRange):
        return PartRange(found.path, found.start + start, end - start)
    return found[start:end]


def read(part_store: PartStore, found: Segment) -> bytes:
    """Read the bytes.

    Raises:
        OSError: a part is shorter than the data written to it, or cannot be read.
    """
    if isinstance(found, bytes):
        return found
    with durable.about(found.path), part_store.open(found.path) as source:
        source.seek(found.start)
        data = source.read(found.size)
    if len(data) < found.size:
        raise OSError(errno.EIO, "is shorter than what was written to it; run again", found.path)
    return data


def whole(path: str, size: int) -> PartRange:
    """A whole part, with the size that its task reported."""
    return PartRange(path, 0, size)


@dataclass(frozen=True, slots=True)
class Content:
    """The ranges and texts from which a file is assembled.

    Args:
        ranges: ranges of parts, in order.
        start: the text before the first range.
        separator: the text between two ranges.
        end: the text after the last range.
        trailing: the number of bytes at the end of the last range that are left out.
        uses_up: the ranges cover whole parts that are not needed afterwards.
    """

    ranges: tuple[PartRange, ...] = ()
    start: bytes = b""
    separator: bytes = b""
    end: bytes = b""
    trailing: int = 0
    uses_up: bool = False

    def laid_out(self) -> Iterator[Segment]:
        """The contents of the file, in order."""
        yield self.start
        last = len(self.ranges) - 1
        for number, part_range in enumerate(self.ranges):
            yield self.separator if number else b""
            yield part_range.before
            if number == last:
                part_range = replace(part_range, size=part_range.size - self.trailing, before=b"")
            yield part_range
        yield self.end

    @property
    def whole_parts(self) -> Iterator[PartRange]:
        """The whole parts that it uses up, to be checked for completeness."""
        if self.uses_up:
            for path, group in itertools.groupby(self.ranges, key=lambda part_range: part_range.path):
                yield whole(path, sum(part_range.size for part_range in group))

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        around = len(self.start) + len(self.end)
        if not self.ranges:
            return around
        inside = sum(len(part_range.before) + part_range.size for part_range in self.ranges)
        return around + inside + len(self.separator) * (len(self.ranges) - 1) - self.trailing


class FileType(enum.Enum):
    """The kinds of things that a name may stand for."""

    NOTHING = "nothing"
    FILE = "a file"
    FOLDER = "a folder"
    OTHER = "not a regular file"


class PartStore(Protocol):
    """Stores parts until files are assembled from them. Tasks read and write there, so it must be picklable."""

    def create(self, path: str) -> IO[bytes]:
        """Create a part, or a file next to one. It exists as a whole once it is closed."""

    def open(self, path: str) -> IO[bytes]:
        """A part, to read at any place."""

    def arrow(self, path: str) -> pa.NativeFile:
        """A file of Arrow batches, for reading them one by one; mapped if possible."""

    def size(self, path: str) -> int:
        """The size of a part in bytes."""


@dataclass(frozen=True)
class Parts:
    """The folders into which tasks write the parts of outputs: a depot, and in it a folder for each output."""

    part_store: PartStore
    folders: Mapping[str, str]


class Draft(Protocol[Where]):
    """The files of a run before they are published."""

    @property
    def home(self) -> Path:
        """A local folder for the run's internal files: entries of dead letters, build sides, pages."""

    @property
    def part_store(self) -> PartStore:
        """The store of parts."""

    def parts(self, target: Where) -> str:
        """The folder in the depot for parts of a file."""

    def assemble(self, target: Where, content: Content) -> None:
        """Assemble a file, which gets its name when the draft is published.

        Raises:
            OSError: a part differs from what was written, or the file cannot be written.
        """

    def remove(self, target: Where) -> None:
        """Have publishing remove the existing file, if there is one."""


class _Prepared(Draft[Where], Protocol[Where]):
    """A draft whose files can be finished and published."""

    def finish(self, spark: SparkSession | None) -> None:
        """Finish the files (in tasks; without Spark in this process), so that they can be published.

        Raises:
            OSError: a part differs from what was written, or a file cannot be written.
        """

    def stamps(self) -> dict[str, str]:
        """The assembled files, each with its `stamp` after publication."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Inside this context, no other run publishes into the same folders, so that names there stay taken or free."""

    def close(self, *, failed: bool) -> None:
        """Remove the draft, and after a failure the folders that were made for it. Does not fail.

        Files that the next run has to complete stay.
        """


class FileDraft(_Prepared[Where], Participant, Home, Protocol[Where]):
    """The draft in one kind of place, which takes part in the publication of a run."""

    @property
    def has_changes(self) -> bool:
        """True if there is something to publish. Valid only after `finish`."""


class Publication(_Prepared[Where], Protocol[Where]):
    """Everything that a run publishes: the drafts of its files, and the participants that have joined."""

    def join(self, other: Participant) -> None:
        """Publish a participant that is no file together with the files: a table, or rows of a database.

        It may join at any time before `publish`. The caller that opened it closes it.
        """

    def publish(self) -> None:
        """Make everything visible, or nothing. If the run dies meanwhile, `recover` does. Must not be interrupted.

        Raises:
            OSError, RunFailed: see `joint.publish`.
        """


class Destination(Protocol[Where]):
    """A place for files."""

    def problem(self, path: Where) -> str | None:
        """The reason why no file can have a name; None if one can."""

    def standing(self, path: Where) -> FileType:
        """The type of the existing file, if there is one."""

    def stamp(self, path: Where) -> str | None:
        """A stamp that distinguishes a file from earlier and later files of its name; None if there is no file."""

    def names(self, folder: Where) -> list[str]:
        """The names in a folder, sorted; empty if there is no folder."""

    def own(self, path: Where, most: int) -> bytes:
        """The bytes of a file, up to a limit, if only users who may write the folder can have written it.

        Raises:
            OSError: there is none, or others may have written it, or it cannot be read.
        """

    def real(self, path: Where) -> str:
        """The canonical name of a file, however it is spelled."""

    def recover(self, folder: Where) -> None:
        """Complete or remove the drafts that dead runs left in a folder.

        Raises:
            OSError: a file of a run that died while it published cannot get its name.
        """


class FileDestination(Destination[Where], Protocol[Where]):
    """A kind of destination for files, in which a run can begin a draft."""

    def open(self, run: str, home: Path, folders: Iterable[Where]) -> FileDraft[Where]:
        """Begin the draft of a run that will publish into some folders; missing ones are made.

        Raises:
            OSError: a folder cannot be made or written.
            RunFailed: there are too many of them.
        """


def check(part_store: PartStore, part: PartRange) -> None:
    """Refuse a part whose size differs from the size that its task wrote: it was truncated, or somebody has changed it.

    A part may lose bytes without an error of the file system, so its size is compared with the number of bytes written.

    Raises:
        OSError: the size differs, or the part is gone.
    """
    check_size(part, part_store.size(part.path))


def check_size(part: PartRange, found: int) -> None:
    """Refuse a file whose number of bytes differs from that of its part.

    Raises:
        OSError: see `check`.
    """
    if found != part.size:
        text = f"has {found} bytes, but {part.size} were written to it: it was cut off or changed; run again"
        raise OSError(errno.EIO, text, part.path)
