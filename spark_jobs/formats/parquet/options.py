"""The options of Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Options
from spark_jobs.formats.typed import counterparts

if TYPE_CHECKING:
    from spark_jobs.cxl.types import Type


class PageCompression(StrEnum):
    """The compression of a Parquet file's pages."""

    SNAPPY = "snappy"
    ZSTD = "zstd"
    GZIP = "gzip"
    LZ4 = "lz4"
    NONE = "none"


@dataclass(frozen=True)
class ParquetRead(Options):
    """`options:` of a Parquet source: there are none, the file says all."""


@dataclass(frozen=True)
class ParquetWrite(Options):
    """`options:` of a Parquet output.

    Args:
        compression: How the pages in the file are compressed.
    """

    compression: PageCompression = PageCompression.SNAPPY  # type: ignore[assignment]  # of pages, not of files

    @property
    def packs(self) -> bool:
        """Pages are compressed, and not files."""
        return False

    def type_problem(self, static: Type) -> str | None:
        """The problem of a type that Parquet files cannot hold; None if there is none."""
        return counterparts.problem(static)


FORMAT = Format(
    "parquet",
    "Parquet",
    chapter=8,
    read_options=ParquetRead,
    write_options=ParquetWrite,
    is_typed=True,
    has_statistics=True,
)
