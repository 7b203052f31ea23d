"""Batches to X12 interchanges (spec/formats.md 7.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats import cell_text, format
from spark_jobs.formats.edi.frame import InterchangeFrame
from spark_jobs.formats.edi.writing import InterchangeWriter
from spark_jobs.formats.x12.options import NO_GROUP

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    separator = "*"
    terminator = "~"
    first_reference = "0001"

    def safe(self, texts: pa.StringArray, tags: pa.StringArray, what: str) -> pa.StringArray:
        """X12 has no release character: a delimiter cannot stand in a text."""
        characters = cell_text.characters(texts)
        for sign in (self.separator, self.terminator):
            if characters.find(sign.encode()) >= 0:
                row = pc.indices_nonzero(pc.match_substring(texts, sign))[0].as_py()
                message = f"{what} '{texts[row].as_py()}' has the delimiter '{sign}', which X12 cannot escape"
                raise format.Unfit(f"segment {tags[row].as_py()}: {message}")
        return texts

    def ended(self, lines: pa.StringArray, tags: pa.StringArray) -> pa.StringArray:
        """A line end at the end of a segment would be lost when it is read."""
        characters = cell_text.characters(lines)
        if characters.find(b"\n") >= 0 or characters.find(b"\r") >= 0:
            rows = pc.indices_nonzero(pc.match_substring_regex(lines, r"[\r\n]\z"))
            if len(rows):
                text = "the last element ends with a line end, which X12 cannot escape"
                raise format.Unfit(f"segment {tags[rows[0].as_py()].as_py()}: {text}")
        return lines

    def opened(self, reference: Any, kind: Any) -> tuple[Any, ...]:
        """`ST`."""
        return ("ST*", kind, "*", reference, self.end_of_segment)

    def closed(self, count: Any, reference: Any) -> tuple[Any, ...]:
        """`SE`."""
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
        """`GE` and `IEA`; around nothing the latter alone (decision 79)."""
        control = elements[_CONTROL - 1] if len(elements) >= _CONTROL else ""
        if not messages:
            return self.segment("IEA", "0", control)
        return self.segment("GE", str(messages), _GROUP) + self.segment("IEA", "1", control)


def open_frame(options: X12Write) -> X12Frame:
    """What stands around the records of a file."""
    return X12Frame(options)


def open_writer(
    schema: Schema, options: X12Write, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> InterchangeWriter:
    """The writer of an output."""
    if options.group_header is None:
        raise format.Unfit(NO_GROUP)
    return InterchangeWriter(schema, X12Frame(options))
