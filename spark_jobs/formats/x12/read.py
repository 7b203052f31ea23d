"""The X12 files of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.edi import interchanges
from spark_jobs.formats.x12 import envelope

if TYPE_CHECKING:
    from spark_jobs.formats.format import ArrayPath
    from spark_jobs.formats.x12.options import X12Read


@dataclass(frozen=True)
class X12Reader(interchanges.InterchangeReader):
    """Reads X12 files."""

    options: X12Read

    title = "X12"
    reference = ("set_ref", "set_type")

    def envelope(self) -> envelope.X12Envelope:
        """A new tracker of a file's envelope."""
        return envelope.X12Envelope(self.options.trailers)


def open_reader(options: X12Read, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> X12Reader:
    """The reader of a source's files."""
    return X12Reader(options, arrays, layout)
