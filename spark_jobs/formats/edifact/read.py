"""The EDIFACT files of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.edi import interchanges
from spark_jobs.formats.edifact import envelope

if TYPE_CHECKING:
    from spark_jobs.formats.edifact.options import EdifactRead
    from spark_jobs.formats.format import ArrayPath


@dataclass(frozen=True)
class EdifactReader(interchanges.InterchangeReader):
    """Reads EDIFACT files."""

    options: EdifactRead

    title = "EDIFACT"
    reference = ("msg_ref", "msg_type")

    def envelope(self) -> envelope.EdifactEnvelope:
        """A new tracker of a file's envelope."""
        return envelope.EdifactEnvelope(self.options.trailers)

    def charset_of(self, head: bytes) -> str | None:
        """The character set of the first UNB."""
        return envelope.EdifactEnvelope().charset(head)


def open_reader(options: EdifactRead, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> EdifactReader:
    """The reader of a source's files."""
    return EdifactReader(options, arrays, layout)
