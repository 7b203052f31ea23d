"""The destinations of a run as one: each file goes where its path leads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from spark_jobs.contract import ExitCode
from spark_jobs.execute.verdict import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.execute.delivery.destination import Destination, Publication, Standing
    from spark_jobs.stores.location import FilePath


@dataclass(frozen=True)
class Destinations:
    """See `Destination`.

    Args:
        local: where local paths lead.
    """

    local: Destination[Path]

    def problem(self, path: FilePath) -> str | None:
        """See `Destination`."""
        return self._of(path).problem(path)

    def standing(self, path: FilePath) -> Standing:
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
        """See `Destination`."""
        wanted = [*folders]
        for folder in wanted:
            self._of(folder)
        return cast("Publication[FilePath]", self.local.open(run, home, cast("list[Path]", wanted)))

    def _of(self, path: FilePath) -> Destination[Any]:
        if isinstance(path, Path):
            return self.local
        raise RunFailed(ExitCode.CONFIG, "E400", f"{path}: outputs do not go into stores yet")
