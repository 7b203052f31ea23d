"""The options of Delta sources and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Between, Listed, Options
from spark_jobs.formats.parquet.options import PageCompression
from spark_jobs.formats.tables import columns, modes, moments
from spark_jobs.formats.tables.modes import Mode
from spark_jobs.formats.typed import counterparts
from spark_jobs.scan.bookmarks import Growth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from spark_jobs.cxl.types import Type

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
        return moments.of(self.timestamp) if self.timestamp else None

    def problems(self) -> list[tuple[str, str]]:
        """A version is chosen in one way, by a moment that there is."""
        if self.version is not None and self.timestamp:
            return [("timestamp", "`version` and `timestamp` exclude each other")]
        wrong = moments.problem(self.timestamp) if self.timestamp else None
        return [("timestamp", wrong)] if wrong else []


@dataclass(frozen=True)
class DeltaWrite(Options):
    """`options:` of a Delta output.

    Args:
        mode: Whether the records of the output are added to the table, or replace all of its records (`overwrite`), its
            records in the same partitions (`overwrite_partitions`), or its records with the same keys (`merge`).
        key: With `merge`, the columns whose values tell records apart. A record without a value in one of them is a
            dead letter.
        delete_flag: With `merge`, a column of type Bool, which is not written: where it is true, the record of the
            table with this key goes, and no record takes its place.
        partition_by: The columns by which a new table is partitioned; the table has them already where there is one.
        evolve: Whether columns that the table lacks are added to it.
        compression: How the pages in the files are compressed.
    """

    mode: Mode = Mode.APPEND
    key: Listed = ()
    delete_flag: str = ""
    partition_by: Listed = ()
    evolve: bool = False
    compression: PageCompression = PageCompression.SNAPPY  # type: ignore[assignment]  # of pages, not of files

    @property
    def packs(self) -> bool:
        """Pages are compressed, and not files."""
        return False

    def problems(self) -> list[tuple[str, str]]:
        """Keys and flags belong to `merge`, and to it alone."""
        return modes.problems(self.mode, self.key, self.delete_flag, self.partition_by)

    def type_problem(self, static: Type) -> str | None:
        """Say why a type has no counterpart among the columns of a table; None where it has one."""
        return counterparts.problem(static)

    def column_problems(self, names: Sequence[str]) -> Iterator[tuple[str | None, str]]:
        """Names differ in more than letter case, and partitions are columns."""
        yield from columns.problems(names)
        for name in self.partition_by:
            if name not in names:
                yield "partition_by", f"there is no column '{name}' to partition by"
        yield from modes.column_problems(names, self.key, self.delete_flag)
        if names and not set(names) - {*self.partition_by, self.delete_flag}:
            yield "partition_by", "no column is left for the files"


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
    growth=Growth.VERSION,
    ending="parquet",
)
