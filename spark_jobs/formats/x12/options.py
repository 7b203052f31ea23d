"""The options of X12."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.formats.edi.settings import InterchangeRead, InterchangeWrite
from spark_jobs.formats.format import Format, SectionPlace

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The functional group has no header.
NO_GROUP = "there is no functional group: the option group_header, which has the elements of GS, is missing"
#: Segments that are about interchanges, and stand beside their groups.
OUTSIDE_GROUPS = ("ISB", "ISE", "TA1")
#: The number of elements of ISA.
HEADER_ELEMENTS = 16


@dataclass(frozen=True)
class X12Read(InterchangeRead):
    """`options:` of an X12 source."""


@dataclass(frozen=True)
class X12Write(InterchangeWrite):
    """`options:` of an X12 output.

    Args:
        group_header: The elements of the GS segment; the sixth, the number of the group, is always 1.
        set_type: The type in the ST segment, for sets whose records have none.
    """

    group_header: tuple[str, ...] | None = None
    set_type: str | None = None

    title = "X12"
    reference = "set_ref"
    kind = "set_type"
    default_kind = "set_type"
    delimiters = "*~"

    @property
    def _segments(self) -> Iterator[tuple[str, str]]:
        yield from super()._segments
        yield from (("group_header", text) for text in self.group_header or ())

    def problems(self) -> list[tuple[str, str]]:
        """A header with more or fewer elements is not read by anybody."""
        found = super().problems()
        if self.group_header is None:
            found.append(("group_header", NO_GROUP))
        if self.interchange is not None and len(self.interchange) != HEADER_ELEMENTS:
            found.append(
                ("interchange", f"an ISA segment has {HEADER_ELEMENTS} elements, found {len(self.interchange)}")
            )
        return found


#: The elements of a segment, as `$doc` has them.
_ELEMENTS = tuple(f"e{number:02}" for number in range(1, 33))

FORMAT = Format(
    "x12",
    "X12",
    chapter=7.3,
    values_are_text=True,
    read_options=X12Read,
    write_options=X12Write,
    sections=SectionPlace("segment", "ISA"),
    documents=(("functional_group", _ELEMENTS), ("transaction_set", _ELEMENTS)),
    is_framed=True,
    is_one_file=codes.E338,
)
