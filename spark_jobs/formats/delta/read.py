"""The Delta tables of a source: `log.py` finds their files, and `formats/tables/read.py` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.formats.delta import added, log
from spark_jobs.formats.tables.read import TableReader

if TYPE_CHECKING:
    from spark_jobs.formats.format import ArrayPath
    from spark_jobs.formats.reader import SourceContext
    from spark_jobs.scan.bookmarks import IncrementalRead, Mark
    from spark_jobs.scan.files import FormatError, InputFile


@dataclass(frozen=True)
class DeltaReader(TableReader):
    """Reads Delta tables."""

    title: ClassVar[str] = "Delta"

    def found(self, place: SourceContext) -> tuple[InputFile, ...]:
        """The files of the version that is read.

        Raises:
            FormatError: see `log.files`.
        """
        return log.files(self.options, place, self.declared)

    def news(self, place: SourceContext, wanted: IncrementalRead) -> tuple[tuple[InputFile, ...], Mark | None]:
        """The files that versions have added.

        Raises:
            FormatError: see `added.news`.
        """
        return added.news(self.options, place, self.declared, wanted)

    def is_gone(self, file: InputFile) -> FormatError:
        """The table was vacuumed."""
        return log.vacuumed(file)


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> DeltaReader:
    """The reader of a source's tables."""
    return DeltaReader(options, arrays, layout)
