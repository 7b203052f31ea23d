"""Files that tasks and triggers look at, in local folders or in stores. Free of Airflow."""

from __future__ import annotations

import glob
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinker_provider.records import seen
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.stores.settings import StoreSettings

_COPIED_BYTES = 1 << 20


@dataclass(frozen=True)
class Files:
    """Reads files wherever a path or URI leads.

    All methods raise `OSError`, whether a file system or a store refuses, and `ValueError` for a URI that leads
    nowhere.

    Args:
        environ: variables that a store's credentials are looked for in, beside this process's own.
        settings: how stores are reached, where a workspace says so.
    """

    environ: Mapping[str, str] = field(default_factory=dict)
    settings: StoreSettings | None = None

    def matching(self, pattern: str) -> tuple[str, ...]:
        """The file of this very path, or else the files that match it as a glob pattern, in order of their paths."""
        place = location.located(pattern)
        if isinstance(place, Path):
            # A run's own path may hold characters that mean something in patterns.
            candidates = [str(place)] if place.is_file() else glob.glob(str(place), recursive=True)
            return tuple(sorted(path for path in candidates if Path(path).is_file()))
        from spark_jobs.stores import globs

        with seen(self.environ):
            settings = self.resolved()
            named = globs.named(pattern, settings)
            found = [named] if named is not None else globs.matching(pattern, settings)
            return tuple(sorted(str(each.location) for each in found))

    def listed(self, folder: str, suffix: str) -> tuple[str, ...]:
        """The files directly in a folder whose names end so, hidden ones left out; none where there is no folder."""
        place = location.located(folder)
        if isinstance(place, Path):
            found = [(each.name, str(each)) for each in place.iterdir()] if place.is_dir() else []
        else:
            from spark_jobs.stores import opening

            with seen(self.environ):
                pages = opening.writable(self.resolved()).pages(place / "", deep=False)
                found = [(each.location.name, str(each.location)) for page in pages for each in page.objects]
        return tuple(sorted(path for name, path in found if name.endswith(suffix) and not name.startswith(".")))

    @contextmanager
    def local(self, path: str) -> Iterator[Path]:
        """A file as a local one; a store's is copied for as long as the context lasts.

        Raises:
            FileNotFoundError: there is none.
        """
        place = location.located(path)
        if isinstance(place, Path):
            yield place
            return
        from spark_jobs.stores import globs, opening

        with tempfile.NamedTemporaryFile(prefix="clinker-copy-") as copy:
            with seen(self.environ):
                settings = self.resolved()
                found = globs.named(path, settings)
                if found is None:
                    raise FileNotFoundError(2, "there is no such object", str(place))
                with opening.open_object(path, found.size, found.version, settings) as reader:
                    while data := reader.read(_COPIED_BYTES):
                        copy.write(data)
            copy.flush()
            yield Path(copy.name)

    def resolved(self) -> Any:
        """The settings, completed from the environment; call it within `seen`."""
        from spark_jobs.stores.settings import StoreSettings

        return (self.settings or StoreSettings()).resolved()
