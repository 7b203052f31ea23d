"""Frames: the text of a file around its records where it depends on them, such as headers, groups and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


@dataclass(frozen=True)
class Joined:
    """The text around the parts of a file.

    Args:
        start: the text before all of them.
        parts: for each part its ranges: the text before each, and the bytes of each; None stands for the rest.
        end: the text after all of them.
    """

    start: bytes
    parts: Sequence[Sequence[tuple[bytes, int | None]]]
    end: bytes


class Frame(Protocol):
    """The frame of a format whose files are more than records: headers, groups of records, counts.

    A task frames its records as far as its part alone allows, and leaves a note about the rest. When the parts of a
    file are joined, their notes suffice, so no part is read again. A frame travels pickled.
    """

    #: The type of the value for each record that a writer gives to `enclose`.
    marks: ClassVar[pa.DataType]

    def enclose(self, records: pa.Array, marks: pa.Array, note: str) -> tuple[memoryview, str]:
        """The bytes of the next records of a part, with the text between them.

        Args:
            records: their bytes, one value each.
            marks: the writer's values for them, one for each record.
            note: the note about the part so far; empty at its beginning. The new note is returned.

        Raises:
            Unfit: they cannot be written.
        """

    def joined(self, notes: Sequence[str]) -> Joined:
        """The text around parts that have records, from the notes of these parts.

        Raises:
            Unfit: the file cannot be written.
        """
