"""Fixed width: what its options are. Neither read nor written yet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Options, Words


class LineSeparator(StrEnum):
    """What stands between fixed-width records."""

    LF = "lf"
    CR_LF = "cr_lf"
    NONE = "none"


@dataclass(frozen=True)
class FixedWidthRead(Options):
    """`options:` of a fixed-width source.

    Args:
        line_separator: What stands between records.
        encoding: An encoding by its Python name.
    """

    line_separator: Annotated[LineSeparator, Words(spellings=(("crlf", "cr_lf"),))] = LineSeparator.LF
    encoding: str = "utf-8"


@dataclass(frozen=True)
class FixedWidthWrite(Options):
    """`options:` of a fixed-width output.

    Args:
        line_separator: What stands between records.
        encoding: An encoding by its Python name.
    """

    line_separator: Annotated[LineSeparator, Words(spellings=(("crlf", "cr_lf"),))] = LineSeparator.LF
    encoding: str = "utf-8"


FORMAT = Format(
    "fixed_width",
    "fixed-width",
    chapter=6,
    read_options=FixedWidthRead,
    write_options=FixedWidthWrite,
    needs_layout=True,
)
