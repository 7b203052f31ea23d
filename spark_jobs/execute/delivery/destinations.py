"""The destinations of a run as one: each file goes to the local folder or the store that its path names.

All of a run becomes visible at once, in all destinations (`joint.py`). The journal is in the first local folder that
gets a file; else in the first prefix of a store that gets one; else, if no file is published, at the first participant
that can be a home. A run has a local folder for its internal files, which is the last resort.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from spark_jobs.execute.delivery import joint
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import (
        Content,
        Destination,
        FileDestination,
        FileDraft,
        FileType,
        PartStore,
        Publication,
    )
    from spark_jobs.execute.delivery.participant import Home, Participant
    from spark_jobs.stores.location import FilePath, Location


class Destinations:
    """See `Destination`.

    Args:
        local: the destination of local paths.
        store: makes the destination of objects if it is needed. It loads the client of a store.
    """

    def __init__(self, local: FileDestination[Path], store: Callable[[], FileDestination[Location]]) -> None:
        self._local = local
        self._make = store
        self._store: FileDestination[Location] | None = None

    def problem(self, path: FilePath) -> str | None:
        """See `Destination`."""
        return self._of(path).problem(path)

    def standing(self, path: FilePath) -> FileType:
        """See `Destination`."""
        return self._of(path).standing(path)

    def stamp(self, path: FilePath) -> str | None:
        """See `Destination`."""
        return self._of(path).stamp(path)

    def names(self, folder: FilePath) -> list[str]:
        """See `Destination`."""
        return self._of(folder).names(folder)

    def own(self, path: FilePath, most: int) -> bytes:
        """See `Destination`."""
        return self._of(path).own(path, most)

    def real(self, path: FilePath) -> str:
        """See `Destination`."""
        return self._of(path).real(path)

    def recover(self, folder: FilePath) -> None:
        """See `Destination`."""
        self._of(folder).recover(folder)

    def open(self, run: str, home: Path, folders: Iterable[FilePath]) -> Publication[FilePath]:
        """Begin the drafts of a run; see `FileDestination`.

        Raises:
            OSError: see there.
        """
        wanted = [*folders]
        local = self._local.open(run, home, [folder for folder in wanted if isinstance(folder, Path)])
        drafts = _Drafts(local)
        try:
            away = [folder for folder in wanted if not isinstance(folder, Path)]
            if away:
                drafts.store = self._in_store().open(run, local.home, away)
        except BaseException:
            drafts.close(failed=True)
            raise
        return drafts

    def _of(self, path: FilePath) -> Destination[Any]:
        return self._local if isinstance(path, Path) else self._in_store()

    def _in_store(self) -> FileDestination[Location]:
        if self._store is None:
            self._store = self._make()
        return self._store


@dataclass(frozen=True)
class PartStores:
    """See `PartStore`: URIs lead to a store, paths to local files."""

    local: PartStore
    store: PartStore

    def create(self, path: str) -> IO[bytes]:
        """See `PartStore`."""
        return self._of(path).create(path)

    def open(self, path: str) -> IO[bytes]:
        """See `PartStore`."""
        return self._of(path).open(path)

    def arrow(self, path: str) -> pa.NativeFile:
        """See `PartStore`."""
        return self._of(path).arrow(path)

    def size(self, path: str) -> int:
        """See `PartStore`."""
        return self._of(path).size(path)

    def _of(self, path: str) -> PartStore:
        return self.store if location.is_uri(path) else self.local


@dataclass
class _Drafts:
    """See `Publication`: a local draft, which also has the run's internal files, a draft in a store, and others."""

    local: FileDraft[Path]
    store: FileDraft[Location] | None = None
    joined: list[Participant] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """See `Draft`."""
        return self.local.home

    @property
    def part_store(self) -> PartStore:
        """See `Draft`."""
        return PartStores(self.local.part_store, self.store.part_store) if self.store else self.local.part_store

    def parts(self, target: FilePath) -> str:
        """See `Draft`."""
        return self._of(target).parts(target)

    def assemble(self, target: FilePath, content: Content) -> None:
        """See `Draft`."""
        self._of(target).assemble(target, content)

    def remove(self, target: FilePath) -> None:
        """See `Draft`."""
        self._of(target).remove(target)

    def finish(self, spark: SparkSession | None) -> None:
        """See `Publication`."""
        for each in self._files:
            each.finish(spark)

    def stamps(self) -> dict[str, str]:
        """See `Publication`."""
        return {path: stamp for each in self._files for path, stamp in each.stamps().items()}

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """See `Publication`."""
        with ExitStack() as held:
            for each in self._files:
                held.enter_context(each.exclusive())
            yield

    def join(self, other: Participant) -> None:
        """See `Publication`."""
        self.joined.append(other)

    def publish(self) -> None:
        """See `Publication`."""
        files = [each for each in self._files if each.has_changes]
        taking_part = [*files, *self.joined]
        if taking_part:
            homes = [each for each in taking_part if hasattr(each, "decide")]
            joint.publish(taking_part, cast("Home", homes[0]) if homes else self.local)

    def close(self, *, failed: bool) -> None:
        """See `Publication`."""
        for each in reversed(self._files):
            each.close(failed=failed)

    @property
    def _files(self) -> list[FileDraft[Any]]:
        return [self.local, self.store] if self.store else [self.local]

    def _of(self, path: FilePath) -> FileDraft[Any]:
        if isinstance(path, Path):
            return self.local
        assert self.store is not None, f"no draft was begun for {path}"
        return self.store
