"""`$doc` of interchanges: the elements of the segments that opened the levels around a record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import types, values
from spark_jobs.formats import coerce, format
from spark_jobs.formats.edi.envelope import element
from spark_jobs.formats.edi.segment_batches import BrokenFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.formats.edi.envelope import Envelope, Message
    from spark_jobs.formats.edi.segment_batches import Header, SegmentBatch
    from spark_jobs.formats.format import Reading


class Documents:
    """The wanted fields of the segments around records.

    Args:
        wanted: the requirements for reading the file.
        envelope: the kind of envelope that it has.
    """

    def __init__(self, wanted: Reading, envelope: Envelope) -> None:
        self._sections = {section.name: section for section in wanted.sections}
        self._forms = wanted.date_formats
        self._levels = envelope.levels
        self._wanted = sorted(wanted.documents)
        #: The header of the last record, and what its sections have: messages share it.
        self._last: tuple[Sequence[str], Mapping[str, Any]] | None = None

    def check(self, header: Header) -> None:
        """Refuse an interchange whose header has unconvertible values, even if it has no records.

        Raises:
            BrokenFile: a value does not convert.
        """
        try:
            self._of_header(header.segment)
        except coerce.UnfitSection as problem:
            raise BrokenFile(str(problem), header.number, header.segment[0], header.offset) from None

    def _of_header(self, segment: Sequence[str]) -> Mapping[str, Any]:
        if self._last is None or self._last[0] is not segment:
            texts = {f"e{number:02}": text for number, text in enumerate(segment) if number}
            found: dict[str, Any] = {}
            for section in self._sections.values():
                found |= coerce.section_of_texts(section, texts, self._forms)
            self._last = segment, found
        return self._last[1]

    def values_of(self, segment_batch: SegmentBatch) -> dict[str, pa.Array]:
        """The required values for the records of a batch, by path."""
        owners = pa.array(segment_batch.owners)
        return {path: self._of_each(path, segment_batch.messages).take(owners) for path in self._wanted}

    def _of_each(self, path: str, messages: Sequence[Message]) -> pa.Array:
        """The value of a field for each message; null outside messages."""
        name, _, field = path.removeprefix(format.DOCUMENT).partition(".")
        if name in self._levels:
            level = self._levels.index(name) + 1
            return pa.array([_element(message, level, field) for message in messages], pa.string())
        if field == format.RAW:
            return pa.array([_whole(message) for message in messages], pa.string())
        found = [self._of_header(message.levels[0]).get(path) if message.levels else None for message in messages]
        section = self._sections.get(name)
        return values.to_arrow(found, dict(section.fields)[field] if section else types.STRING)


def _element(message: Message, level: int, field: str) -> str | None:
    """An element of a segment around a message, by the name of its column."""
    number = field[1:]
    if not message.levels or not number.isdecimal() or field != f"e{int(number):02}":
        return None
    return element(message.levels[level], int(number)) or None


def _whole(message: Message) -> str | None:
    """All elements of the header around a message."""
    return json.dumps(message.levels[0][1:], ensure_ascii=False) if message.levels else None
