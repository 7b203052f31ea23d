"""Batches to X12 interchanges."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.formats import format
from spark_jobs.formats.edi.frame import InterchangeFrame
from spark_jobs.formats.edi.writing import InterchangeWriter
from spark_jobs.formats.x12.options import NO_GROUP, OUTSIDE_GROUPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.formats.x12.options import X12Write

#: The elements of GS, and which of them is the number of the group: a file has one.
_GROUP_ELEMENTS, _GROUP_NUMBER, _GROUP = 8, 6, "1"
#: The element of ISA that is the control number of the interchange.
_CONTROL = 13


@dataclass(frozen=True)
class X12Frame(InterchangeFrame):
    """See `InterchangeFrame`."""

    options: X12Write

    opening = "ST"
    services = ("ISA", "IEA", "GS", "GE", "ST", "SE")
    tag = re.compile("[0-9A-Za-z]{2,3}")
    tags = "two or three letters or digits"
    elsewhere = OUTSIDE_GROUPS
    separator = "*"
    terminator = "~"
    barred = "*~"
    keeps_line_ends = False
    first_reference = "0001"

    def safe(self, texts: pa.StringArray) -> pa.StringArray:
        """The texts unchanged: X12 has no release character."""
        return texts

    def ended(self, lines: pa.StringArray) -> pa.StringArray:
        """The lines unchanged: none of them has a line end."""
        return lines

    def opened(self, reference: Any, kind: Any, rest: Any) -> tuple[Any, ...]:
        return ("ST*", kind, "*", reference, rest, self.end_of_segment)

    def closed(self, count: Any, reference: Any) -> tuple[Any, ...]:
        return ("SE*", count, "*", reference, self.end_of_segment)

    def header(self, elements: Sequence[str], *, messages: bool) -> str:
        """`ISA`, and `GS` around sets."""
        header = self.segment("ISA", *elements)
        if not messages:
            return header
        group = list(self.options.group_header or ())
        group += [""] * (_GROUP_NUMBER - len(group))
        group[_GROUP_NUMBER - 1] = _GROUP
        return header + self.segment("GS", *group)

    def trailer(self, elements: Sequence[str], messages: int) -> str:
        """`GE` and `IEA`; `IEA` alone if there are no messages."""
        control = elements[_CONTROL - 1] if len(elements) >= _CONTROL else ""
        if not messages:
            return self.segment("IEA", "0", control)
        return self.segment("GE", str(messages), _GROUP) + self.segment("IEA", "1", control)


def open_frame(options: X12Write) -> X12Frame:
    """The frame around the records of a file."""
    return X12Frame(options)


def open_writer(
    schema: Schema, options: X12Write, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> InterchangeWriter:
    """The writer of an output."""
    if options.group_header is None:
        raise format.UnwritableFile(NO_GROUP)
    return InterchangeWriter(schema, X12Frame(options))
