"""The options of Avro."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Options
from spark_jobs.formats.typed import counterparts

if TYPE_CHECKING:
    from spark_jobs.cxl.types import Type

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class BlockCompression(StrEnum):
    """The compression of an Avro file's blocks."""

    DEFLATE = "deflate"
    SNAPPY = "snappy"
    ZSTD = "zstd"
    NONE = "none"


@dataclass(frozen=True)
class AvroRead(Options):
    """`options:` of an Avro source: there are none, the file says all."""


@dataclass(frozen=True)
class AvroWrite(Options):
    """`options:` of an Avro output.

    Args:
        compression: How the blocks in the file are compressed; every reader supports `deflate`.
    """

    compression: BlockCompression = BlockCompression.DEFLATE  # type: ignore[assignment]  # of blocks, not of files

    @property
    def packs(self) -> bool:
        """Blocks are compressed, and not files."""
        return False

    def type_problem(self, static: Type) -> str | None:
        """The problem of a type that Avro files cannot hold; None if there is none."""
        return counterparts.problem(static)

    def writes_names(self, *, include_header: bool) -> bool:
        return True

    def name_problem(self, name: str) -> str | None:
        """Avro is strict about names."""
        if _NAME.fullmatch(name):
            return None
        return "names in an Avro file are letters, digits and underscores, and begin with no digit"


FORMAT = Format("avro", "Avro", chapter=8.1, read_options=AvroRead, write_options=AvroWrite, is_typed=True)
