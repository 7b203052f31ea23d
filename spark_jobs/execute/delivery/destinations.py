"""The destinations of a run as one: each file goes where its path leads, to a local folder or to a store.

All files of a destination become visible at once, and its journal is what a death leaves. Two journals would need a
third, so the files of a run go all to one of them; plans say so (`plan/pending.py`).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from spark_jobs.contract import ExitCode
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import Content, Destination, FileType, PartStore, Publication
    from spark_jobs.stores.location import FilePath, Location


class Destinations:
    """See `Destination`.

    Args:
        local: where local paths lead.
        store: makes the destination of objects, where there are any: it loads the client of a store.
    """

    def __init__(self, local: Destination[Path], store: Callable[[], Destination[Location]]) -> None:
        self._local = local
        self._make = store
        self._store: Destination[Location] | None = None

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
        """See `Destination`.

        Raises:
            OSError: see there.
            RunFailed: some of the folders are local, and some in a store.
        """
        wanted = [*folders]
        here = [folder for folder in wanted if isinstance(folder, Path)]
        away = [folder for folder in wanted if not isinstance(folder, Path)]
        if here and away:
            text = f"{here[0]} and {away[0]}: the outputs and dead letters of a run are all local, or all in a store"
            raise RunFailed(ExitCode.CONFIG, "E400", text)
        local = self._local.open(run, home, here)
        if not away:
            return cast("Publication[FilePath]", local)
        try:
            return _Drafts(local, self._of(away[0]).open(run, local.home, away))
        except BaseException:
            local.close(failed=True)
            raise

    def _of(self, path: FilePath) -> Destination[Any]:
        if isinstance(path, Path):
            return self._local
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


@dataclass(frozen=True)
class _Drafts:
    """See `Publication`: a draft in a store, and a local one for what stays inside the run."""

    local: Publication[Path]
    store: Publication[Location]

    @property
    def home(self) -> Path:
        """See `Draft`."""
        return self.local.home

    @property
    def part_store(self) -> PartStore:
        """See `Draft`."""
        return PartStores(self.local.part_store, self.store.part_store)

    def parts(self, target: FilePath) -> str:
        """See `Draft`."""
        return self._of(target).parts(target)

    def assemble(self, target: FilePath, content: Content) -> None:
        """See `Draft`."""
        self._of(target).assemble(target, content)

    def remove(self, target: FilePath) -> None:
        """See `Draft`."""
        self._of(target).remove(target)

    def finish(self, spark: SparkSession) -> None:
        """See `Publication`."""
        self.local.finish(spark)
        self.store.finish(spark)

    def stamps(self) -> dict[str, str]:
        """See `Publication`."""
        return {**self.local.stamps(), **self.store.stamps()}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """See `Publication`."""
        with ExitStack() as held:
            held.enter_context(self.local.alone())
            held.enter_context(self.store.alone())
            yield

    def publish(self) -> None:
        """See `Publication`."""
        self.store.publish()
        self.local.publish()

    def close(self, *, failed: bool) -> None:
        """See `Publication`."""
        self.store.close(failed=failed)
        self.local.close(failed=failed)

    def _of(self, path: FilePath) -> Publication[Any]:
        return self.local if isinstance(path, Path) else self.store
