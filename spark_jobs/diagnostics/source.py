"""Places in source files: offsets, lines and columns, also of texts inside other texts.

A CXL program usually stands in a YAML scalar. `Text` carries such a program together with the places its
characters have in the file, so that a message about the program points into the file the user has open.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class SourceFile:
    """A file's name, as messages print it, and its decoded text.

    Ranges of the text can be hidden because they are credentials. Excerpts show stars in their place.
    """

    name: str
    text: str = field(repr=False)
    _hidden: list[tuple[int, int]] = field(default_factory=list, init=False, repr=False, compare=False)

    def hide(self, start: int, end: int) -> None:
        """Never show this range in messages: it holds a secret."""
        if start < end:
            self._hidden.append((start, end))

    def is_hidden(self, start: int, end: int) -> bool:
        """True if a part of this range is hidden."""
        return any(first < end and start < last for first, last in self._hidden)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character offset; an offset past the end is the end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The character offset of a 1-based line and column."""
        return min(self._line_starts[min(line, len(self._line_starts)) - 1] + column - 1, len(self.text))

    def line(self, number: int) -> str:
        """The text of a 1-based line as everybody may see it, without its line end."""
        start = self._line_starts[number - 1]
        end = self._line_starts[number] - 1 if number < len(self._line_starts) else len(self.text)
        shown = self.text[start:end].rstrip("\r\n")
        for first, last in self._hidden:
            first, last = max(first - start, 0), min(last - start, len(shown))
            if first < last:
                shown = shown[:first] + "*" * (last - first) + shown[last:]
        return shown


@dataclass(frozen=True)
class Span:
    """A range of a file: character offsets, the end excluded."""

    file: SourceFile
    start: int
    end: int

    @property
    def is_hidden(self) -> bool:
        """True if a part of the span is hidden."""
        return self.file.is_hidden(self.start, self.end)

    @property
    def line(self) -> int:
        """The 1-based line of the first character."""
        return self.file.position(self.start)[0]

    @property
    def column(self) -> int:
        """The 1-based column of the first character."""
        return self.file.position(self.start)[1]

    def __str__(self) -> str:
        line, column = self.file.position(self.start)
        return f"{self.file.name}:{line}:{column}"


@dataclass(frozen=True)
class Text:
    """A text and the places of its characters in a file.

    `segments` maps ranges: each `(value offset, file offset)` says that from this character of `value` on, until the
    next segment, characters stand one after another in the file from that offset. A plain text has one segment.
    """

    value: str
    file: SourceFile
    segments: tuple[tuple[int, int], ...] = ((0, 0),)

    @classmethod
    def whole(cls, value: str, name: str = "<inline>") -> Text:
        """A text that is a file of its own."""
        return cls(value, SourceFile(name, value))

    def _file_offset(self, offset: int) -> int:
        index = bisect_right(self.segments, (offset, float("inf"))) - 1
        value_offset, file_offset = self.segments[max(index, 0)]
        return min(file_offset + offset - value_offset, len(self.file.text))

    def lines(self) -> Iterator[tuple[int, int, int]]:
        """The offset of each line of `value`, with its line and column in the file."""
        offset = 0
        for line in self.value.splitlines(keepends=True) or [""]:
            yield offset, *self.file.position(self._file_offset(offset))
            offset += len(line)

    def span(self, start: int, end: int) -> Span:
        """The place in the file of `value[start:end]`."""
        file_start = self._file_offset(start)
        if end <= start:
            return Span(self.file, file_start, file_start)
        return Span(self.file, file_start, max(self._file_offset(end - 1) + 1, file_start))
