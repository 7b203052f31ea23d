"""A task's part file, and how the system's refusals are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa


class PartFile:
    """A part file whose failures name it: the system does not when a write fails."""

    def __init__(self, opener: Callable[[str], Any], path: str) -> None:
        self._path = path
        self._is_open = True
        self._file = self._named(opener, path)
        #: How many records it has; its writer counts.
        self.records = 0

    def write(self, *data: Any) -> None:
        """Append what the file takes."""
        self._named(self._file.write, *data)

    def write_batch(self, batch: pa.RecordBatch, metadata: Mapping[str, str] | None = None) -> None:
        """Append records, where the file holds records."""
        self._named(self._file.write_batch, batch, metadata)

    def close(self) -> None:
        """Write what is held back; may be said again."""
        if self._is_open:
            self._is_open = False
            self._named(self._file.close)

    def _named(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), self._path) from error


def describe(error: OSError) -> str:
    """What the system said, with the path it is about."""
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"
