"""The options of ORC."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Options
from spark_jobs.formats.typed import counterparts

if TYPE_CHECKING:
    from spark_jobs.cxl.types import Type


class StripeCompression(StrEnum):
    """The compression of an ORC file's stripes."""

    ZSTD = "zstd"
    ZLIB = "zlib"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    NONE = "none"


@dataclass(frozen=True)
class OrcRead(Options):
    """`options:` of an ORC source: there are none, the file says all."""


@dataclass(frozen=True)
class OrcWrite(Options):
    """`options:` of an ORC output.

    Args:
        compression: How the stripes in the file are compressed; readers older than ORC 1.6 need `zlib` or `snappy`.
    """

    compression: StripeCompression = StripeCompression.ZSTD  # type: ignore[assignment]  # of stripes, not of files

    @property
    def packs(self) -> bool:
        """Stripes are compressed, and not files."""
        return False

    def type_problem(self, static: Type) -> str | None:
        """The problem of a type that ORC files cannot hold; None if there is none."""
        return counterparts.problem(static)


FORMAT = Format("orc", "ORC", chapter=8.2, read_options=OrcRead, write_options=OrcWrite, is_typed=True)
