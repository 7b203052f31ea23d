"""X12: what its options are. Not written yet."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.diagnostics import codes
from spark_jobs.formats.format import Format, SectionPlace
from spark_jobs.formats.options import Name, Options, Positive


@dataclass(frozen=True)
class X12Read(Options):
    """`options:` of an X12 source.

    Args:
        max_elements: How many element columns a segment has.
        encoding: An encoding by its Python name.
    """

    max_elements: Positive = 32
    encoding: str = "utf-8"


@dataclass(frozen=True)
class X12Write(Options):
    """`options:` of an X12 output.

    Args:
        interchange: The elements of the ISA segment.
        interchange_from_doc: The `$doc` section whose elements are used again.
        group_header: The elements of the GS segment.
        set_type: The type in the ST segment.
        segment_newline: Whether a line end follows each segment.
        encoding: An encoding by its Python name.
    """

    interchange: tuple[str, ...] | None = None
    interchange_from_doc: Name | None = None
    group_header: tuple[str, ...] | None = None
    set_type: str | None = None
    segment_newline: bool = True
    encoding: str = "utf-8"


#: The elements of a segment, as `$doc` has them.
_ELEMENTS = tuple(f"e{number:02}" for number in range(1, 33))

FORMAT = Format(
    "x12",
    "X12",
    chapter=7.3,
    read_options=X12Read,
    write_options=X12Write,
    sections=SectionPlace("segment", "ISA"),
    documents=(("functional_group", _ELEMENTS), ("transaction_set", _ELEMENTS)),
    is_one_file=codes.E338,
)
