"""The options of EDIFACT."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.diagnostics import codes
from spark_jobs.formats.edi.settings import InterchangeRead, InterchangeWrite
from spark_jobs.formats.format import Format, SectionPlace


@dataclass(frozen=True)
class EdifactRead(InterchangeRead):
    """`options:` of an EDIFACT source.

    Args:
        encoding: The encoding, by its Python name; when absent, UTF-8 if the file is valid UTF-8, else as `UNB` says.
    """

    encoding: str | None = None  # type: ignore[assignment]  # the header may say it


@dataclass(frozen=True)
class EdifactWrite(InterchangeWrite):
    """`options:` of an EDIFACT output.

    Args:
        message_type: The type in the UNH segment, for messages whose records have none.
        write_una: Whether a UNA segment comes first.
    """

    message_type: str | None = None
    write_una: bool = False

    title = "EDIFACT"
    reference = "msg_ref"
    kind = "msg_type"
    default_kind = "message_type"


FORMAT = Format(
    "edifact",
    "EDIFACT",
    chapter=7.1,
    values_are_text=True,
    read_options=EdifactRead,
    write_options=EdifactWrite,
    sections=SectionPlace("segment", "UNB"),
    is_framed=True,
    is_one_file=codes.E323,
)
