"""Result records of runs: in a folder that both sides see, or in a store, where nothing else is shared."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinker_provider import validation
from spark_jobs import result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: A process has one environment, and a web server has many threads.
_ENVIRONMENT = threading.RLock()


@dataclass(frozen=True)
class Records:
    """The place where one attempt leaves its result record.

    Args:
        folder: a local folder, or the URI of a store's folder.
        environ: variables that the store's credentials are looked for in, beside this process's own.
        settings: the store's settings (`StoreSettings`), where the pipeline's workspace says some.
    """

    folder: str
    environ: Mapping[str, str] = field(default_factory=dict)
    settings: Any = None

    @property
    def are_stored(self) -> bool:
        """Whether they are in a store."""
        return validation.is_remote(self.folder)

    def read(self, execution_id: str) -> result.RunResult | None:
        """The record of an execution; None where there is none.

        Raises:
            MalformedResult: the file is no record of this execution.
            OSError: it cannot be read, or the store refuses.
        """
        if not self.are_stored:
            return result.read(Path(self.folder), execution_id)
        from spark_jobs.stores import location, results

        with seen(self.environ):
            return results.read(location.parse(self.folder), execution_id, self._settings())

    def make_room(self, execution_id: str) -> None:
        """Remove what stands where the record of an execution will be, as `remove` does.

        Raises:
            OSError: the store refuses, and would refuse to give the record.
        """
        try:
            is_there = self.read(execution_id) is not None
        except result.MalformedResult:
            is_there = True
        try:
            self.remove(execution_id)
        except OSError as error:
            # Without the permission to remove, records stay behind, and can be read.
            if is_there or error.errno != errno.EACCES:
                raise

    def remove(self, execution_id: str) -> None:
        """Remove a record from its store; local folders are removed with all that is in them.

        Raises:
            OSError: the store refuses.
        """
        from spark_jobs.stores import location, results

        with seen(self.environ):
            results.remove(location.parse(self.folder), execution_id, self._settings())

    def try_writing(self) -> None:
        """Whether this side could leave something in the store, as the run will have to.

        Raises:
            OSError: the store refuses.
            ValueError: the URI leads nowhere.
        """
        from spark_jobs.stores import location, results

        with seen(self.environ):
            results.try_writing(location.parse(self.folder), "test", self._settings())

    def _settings(self) -> Any:
        from spark_jobs.stores.settings import StoreSettings

        return self.settings or StoreSettings()


@contextmanager
def seen(environ: Mapping[str, str]) -> Iterator[None]:
    """Have a store's client find the task's variables, as the run itself does; one thread at a time."""
    with _ENVIRONMENT:
        before = {name: os.environ.get(name) for name in environ}
        os.environ.update(environ)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
