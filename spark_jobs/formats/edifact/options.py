"""EDIFACT: what its options are. Not written yet."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.diagnostics import codes
from spark_jobs.formats.format import Format, SectionPlace
from spark_jobs.formats.options import Name, Options, Positive


@dataclass(frozen=True)
class EdifactRead(Options):
    """`options:` of an EDIFACT source.

    Args:
        max_elements: How many element columns a segment has.
        encoding: An encoding by its Python name.
    """

    max_elements: Positive = 32
    encoding: str = "utf-8"


@dataclass(frozen=True)
class EdifactWrite(Options):
    """`options:` of an EDIFACT output.

    Args:
        interchange: The elements of the UNB segment.
        interchange_from_doc: The `$doc` section whose elements are used again.
        message_type: The type in the UNH segment.
        write_una: Whether a UNA segment comes first.
        segment_newline: Whether a line end follows each segment.
        encoding: An encoding by its Python name.
    """

    interchange: tuple[str, ...] | None = None
    interchange_from_doc: Name | None = None
    message_type: str | None = None
    write_una: bool = False
    segment_newline: bool = True
    encoding: str = "utf-8"


FORMAT = Format(
    "edifact",
    "EDIFACT",
    chapter=7.1,
    read_options=EdifactRead,
    write_options=EdifactWrite,
    sections=SectionPlace("segment", "UNB"),
    is_one_file=codes.E323,
)
