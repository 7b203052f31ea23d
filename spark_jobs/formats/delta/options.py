"""Delta tables: what their options are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Between, Options

_MOST_VERSIONS = (1 << 63) - 1


@dataclass(frozen=True)
class DeltaRead(Options):
    """`options:` of a Delta source.

    Args:
        version: The version of the table that is read. The newest one when absent.
        timestamp: The moment whose version is read, such as `2026-03-01T00:00:00Z`; without an offset it is UTC.
    """

    version: Annotated[int, Between(0, _MOST_VERSIONS)] | None = None
    timestamp: str = ""

    @property
    def shown(self) -> str:
        """Which version is read, for plans."""
        if self.version is not None:
            return f"version {self.version}"
        return f"the version of {self.timestamp}" if self.timestamp else "the newest version"

    @property
    def moment(self) -> datetime | None:
        """The moment whose version is read; None where none is given."""
        if not self.timestamp:
            return None
        found = datetime.fromisoformat(self.timestamp)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    def problems(self) -> list[tuple[str, str]]:
        """A version is chosen in one way, by a moment that there is."""
        if self.version is not None and self.timestamp:
            return [("timestamp", "`version` and `timestamp` exclude each other")]
        try:
            _ = self.moment
        except ValueError:
            return [("timestamp", f"'{self.timestamp}' is no moment: write it as `2026-03-01T00:00:00Z`")]
        return []


@dataclass(frozen=True)
class DeltaWrite(Options):
    """`options:` of a Delta output: there are none."""


FORMAT = Format(
    "delta",
    "Delta",
    chapter=8.7,
    read_options=DeltaRead,
    write_options=DeltaWrite,
    is_typed=True,
    has_statistics=True,
    has_files=False,
    is_in_folder=True,
    growth=None,
)
