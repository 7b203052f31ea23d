"""Batches to EDIFACT interchanges."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats import cell_text
from spark_jobs.formats.edi.frame import InterchangeFrame
from spark_jobs.formats.edi.writing import InterchangeWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.formats.edifact.options import EdifactWrite

_RELEASE = "?"
#: Characters that are data only after a release character; components and repetitions are part of an element's text.
_RELEASED = (_RELEASE, "+", "'")
_ADVICE = "UNA:+.? "
#: Syntax, sender, recipient and time stand before the reference of the interchange.
_BEFORE_REFERENCE = 4


@dataclass(frozen=True)
class EdifactFrame(InterchangeFrame):
    """See `InterchangeFrame`."""

    options: EdifactWrite

    opening = "UNH"
    services = ("UNB", "UNZ", "UNH", "UNT")
    tag = re.compile("[A-Za-z]{3}")
    tags = "three letters"
    elsewhere = ("UNG", "UNE")
    separator = "+"
    terminator = "'"
    first_reference = "1"

    def safe(self, texts: pa.StringArray) -> pa.StringArray:
        """Delimiters of a text get a release character."""
        characters = cell_text.characters(texts)
        for sign in _RELEASED:
            if characters.find(sign.encode()) >= 0:
                texts = pc.replace_substring(texts, sign, _RELEASE + sign)
        return texts

    def ended(self, lines: pa.StringArray) -> pa.StringArray:
        """So does a line end at the end of a segment."""
        characters = cell_text.characters(lines)
        if characters.find(b"\n") < 0 and characters.find(b"\r") < 0:
            return lines
        return pc.replace_substring_regex(lines, r"([\r\n])\z", rf"{_RELEASE}\1")

    def opened(self, reference: Any, kind: Any, rest: Any) -> tuple[Any, ...]:
        return ("UNH+", reference, "+", kind, rest, self.end_of_segment)

    def closed(self, count: Any, reference: Any) -> tuple[Any, ...]:
        return ("UNT+", count, "+", reference, self.end_of_segment)

    def header(self, elements: Sequence[str], *, messages: bool) -> str:
        """`UNA` (optional) and `UNB`."""
        advice = _ADVICE + self.end_of_segment if self.options.write_una else ""
        return advice + self.segment("UNB", *elements)

    def trailer(self, elements: Sequence[str], messages: int) -> str:
        control = next(filter(None, elements[_BEFORE_REFERENCE:]), "")
        return self.segment("UNZ", str(messages), control)


def open_frame(options: EdifactWrite) -> EdifactFrame:
    """The frame around the records of a file."""
    return EdifactFrame(options)


def open_writer(
    schema: Schema, options: EdifactWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> InterchangeWriter:
    """The writer of an output."""
    return InterchangeWriter(schema, EdifactFrame(options))
