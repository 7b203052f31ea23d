"""The Iceberg tables of a source: see `formats/tables/read.py`, which reads their files, and `snapshots.py`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.formats.iceberg import added, snapshots
from spark_jobs.formats.tables.read import TableReader

if TYPE_CHECKING:
    from spark_jobs.formats.format import ArrayPath
    from spark_jobs.formats.reader import SourceContext
    from spark_jobs.scan.bookmarks import IncrementalRead, Mark
    from spark_jobs.scan.files import FormatError, InputFile


@dataclass(frozen=True)
class IcebergReader(TableReader):
    """Reads Iceberg tables."""

    title: ClassVar[str] = "Iceberg"

    def found(self, place: SourceContext) -> tuple[InputFile, ...]:
        """The files of the snapshot that is read.

        Raises:
            FormatError: see `snapshots.files`; or a local file is gone (E912).
        """
        return self._there(snapshots.files(self.options, place, self.declared))

    def news(self, place: SourceContext, wanted: IncrementalRead) -> tuple[tuple[InputFile, ...], Mark | None]:
        """The files that snapshots have added.

        Raises:
            FormatError: see `added.news`; or a local file is gone (E912).
        """
        files, mark = added.news(self.options, place, self.declared, wanted)
        if files:
            # All files have one snapshot, which is pickled once.
            asked = replace(files[0].table.snapshot, incremental=wanted.source)
            files = tuple(replace(file, table=replace(file.table, snapshot=asked)) for file in files)
        return self._there(files), mark

    def _there(self, files: tuple[InputFile, ...]) -> tuple[InputFile, ...]:
        for file in files:
            if not file.is_object and not os.path.exists(file.path):
                raise self.is_gone(file)
        return files

    def facts(self, file: InputFile) -> dict[str, str]:
        """The snapshot."""
        return {"snapshot": str(file.table.snapshot.version)}

    def is_gone(self, file: InputFile) -> FormatError:
        """The snapshot has expired."""
        return snapshots.expired(file)


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> IcebergReader:
    """The reader of a source's tables."""
    return IcebergReader(options, arrays, layout)
