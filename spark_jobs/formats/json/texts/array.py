"""The text of a JSON array, element by element or many elements at once; it need not fit into memory."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.byte_stream import TooHeavy, TooLong
from spark_jobs.formats.json.texts import decoding, portions, structure
from spark_jobs.tuning import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.byte_stream import ByteStream, RangeStats
    from spark_jobs.formats.json.texts.portions import Portion

_SPACE = " \t\n\r"


class ArrayText:
    """A stream as text, taken apart from its beginning on.

    Args:
        stream: its bytes.
        stats: the counts of records and bytes; filled in.
        chunk_bytes: how much is read at once.
        most_bytes: how long an element may be.
        most_elements: how many elements make a piece.
    """

    def __init__(
        self,
        stream: ByteStream,
        stats: RangeStats,
        chunk_bytes: int = DEFAULT.json_portion_bytes,
        most_bytes: int = sys.maxsize,
        most_elements: int = sys.maxsize,
    ) -> None:
        self._stream = stream
        self._stats = stats
        self._chunk_bytes = chunk_bytes
        self._most_bytes = most_bytes
        self._most_elements = most_elements
        self._end: int | None = None
        self._bytes_read = 0
        self._bytes_after = 0
        self._taken = 0
        self._text = ""
        self._bytes = b""
        self._position = 0
        self._at_end = False
        self._is_open = self._is_over = False
        self._piece_end: int | None = None
        #: Whether only elements have the text between them that is between elements; None while that is not known.
        self._is_plain: bool | None = None
        self._between = b""

    def _more(self, size: int) -> None:
        """Read on; complete characters are added to the text, and consumed ones are dropped."""
        chunk = self._stream.read(size)
        self._stats.bytes_read += len(chunk)
        self._bytes_read += len(chunk)
        self._at_end = not chunk
        data = self._bytes + chunk
        cut = len(data) if self._at_end else _whole_characters(data)
        self._bytes = data[cut:]
        try:
            more = data[:cut].decode()
        except UnicodeDecodeError as problem:
            at = self._bytes_read - len(data) + problem.start
            raise decoding.Undecodable("the bytes are not UTF-8 text", at) from None
        self._text = self._text[self._position :] + more
        if self._end is not None:
            self._end -= self._position
        self._position = 0
        self._cut()

    def end_after(self, size: int) -> None:
        """Let the text end after so many more characters."""
        self._end = self._position + size
        self._cut()

    def broken(self, problem: ValueError | str, start: int | None = None) -> ValueError:
        """Make the error, with its place in the text.

        Args:
            problem: the problem, at the next character unless it has a place.
            start: where the text begins that it is about.
        """
        at = self._position if start is None else start
        if isinstance(problem, json.JSONDecodeError):
            at += problem.pos
            problem = decoding.what(problem)
        elif isinstance(problem, decoding.HalfPair):
            at += problem.at
            problem = str(problem)
        elif isinstance(problem, ValueError):
            return problem
        bytes_left = len(self._bytes) + self._bytes_after + len(self._text[at:].encode())
        return decoding.Broken(problem, self._bytes_read - bytes_left)

    def _cut(self) -> None:
        if self._end is not None and len(self._text) >= self._end:
            self._bytes_after += len(self._text[self._end :].encode())
            self._text = self._text[: self._end]
            self._at_end = True

    def rest(self) -> Any:
        """The one value that all that follows is.

        Raises:
            ValueError: it is none.
            TooLong: it is longer than an element may be, or has too many values.
        """
        while not self._at_end:
            self._more(self._chunk_bytes)
            if len(self._text) > self._most_bytes:
                raise TooLong
        if portions.is_heavy(self._text.count(","), len(self._text), self._most_bytes):
            raise TooHeavy
        text = self._text[self._position :].removeprefix("\ufeff")
        start = len(self._text) - len(text)
        try:
            return decoding.parse(text)
        except ValueError as problem:
            raise self.broken(problem, start) from None

    def elements(self) -> Iterator[Any]:
        """The elements of the array that the text is, from the next one on; can be called again to go on.

        Raises:
            ValueError: the text is no array, or ends too early.
            TooLong: an element is longer than it may be.
        """
        while self._has_more():
            yield self._value()

    def some(self, most: int) -> list[Any]:
        """The next elements, at most so many and about as many bytes as are read at once; none at the end.

        Raises:
            ValueError: the text is no array, or ends too early.
            TooLong: an element is longer than it may be.
        """
        found = []
        before = self._taken
        for value in self.elements():
            found.append(value)
            if len(found) >= most or self._taken - before >= self._chunk_bytes:
                break
        return found

    def piece(self) -> Portion | None:
        """Take the next lines if they look like whole elements: if each line is an object, each is an element."""
        if self._piece_end is not None:
            # The last one was refused: by counting brackets at first, and then the elements are taken one by one.
            self._piece_end = None
            if not self._is_plain:
                return None
            self._is_plain = False
        if not self._is_open or self._next() != ",":
            return None
        while not self._at_end and len(self._text) - self._position < self._chunk_bytes:
            self._more(self._chunk_bytes)
        data = self._text[self._position + 1 :].encode()
        found = self._whole(data)
        if found is None:
            return None
        text, count, end = found
        lines = portions.Portion(text)
        if lines.count != count:
            return None
        self._piece_end = self._position + 1 + (end if data.isascii() else len(data[:end].decode()))
        return lines

    def _whole(self, data: bytes) -> tuple[bytes, int, int] | None:
        """Whole elements as lines, how many, and where they end; counts brackets only where it must."""
        if self._is_plain:
            return structure.alike(data, self._between, is_end=self._at_end, most=self._most_elements)
        found = structure.elements(data, self._most_elements)
        if self._is_plain is None and found is not None and (between := structure.between(data)) is not None:
            alike = structure.alike(data, between, is_end=self._at_end, most=self._most_elements)
            self._is_plain = alike is not None and alike[1:] == found[1:]
            self._between = between
        return found

    def take(self) -> None:
        """Go on after the last piece."""
        assert self._piece_end is not None
        self._position, self._piece_end = self._piece_end, None

    def _has_more(self) -> bool:
        """Go to the next element, if there is one; after the last one go to the end, where nothing may follow."""
        if self._is_over:
            return False
        found = self._next()
        if not self._is_open:
            if found != "[":
                raise ValueError("the file is not an array")
            self._position += 1
            self._is_open = True
            if self._next() != "]":
                return True
        elif found == ",":
            self._position += 1
            return True
        elif found != "]":
            raise self.broken(decoding.no_comma(found))
        self._position += 1
        self._is_over = True
        if found := self._next():
            raise self.broken(f"only white space may follow the array, found {found}")
        return False

    def _next(self) -> str:
        """The next character that is no white space, empty at the end."""
        while True:
            while self._position < len(self._text):
                if self._text[self._position] not in _SPACE:
                    return self._text[self._position]
                self._position += 1
            if self._at_end:
                return ""
            self._more(self._chunk_bytes)

    def _value(self) -> Any:
        """The next value. A value that the text does not hold completely is tried again with as much text more."""
        self._next()
        while True:
            try:
                value, end = decoding.decoder.raw_decode(self._text, self._position)
            except RecursionError:
                raise self.broken(decoding.TOO_DEEP) from None
            except ValueError as problem:
                if self._at_end:
                    raise self.broken(problem, 0) from None
            else:
                # A number that ends with the text may go on.
                if end < len(self._text) or self._at_end:
                    try:
                        decoding.check(value, self._text[self._position : end])
                    except decoding.HalfPair as problem:
                        raise self.broken(problem, self._position) from None
                    except ValueError as problem:
                        raise self.broken(str(problem)) from None
                    self._taken += end - self._position
                    self._position = end
                    return value
            if len(self._text) - self._position > self._most_bytes:
                raise TooLong
            self._more(max(self._chunk_bytes, len(self._text)))
            self._refuse_heavy()

    def _refuse_heavy(self) -> None:
        """Look at a value that goes on and on: no element after it is in the text then.

        Raises:
            TooHeavy: it has more values than a task has memory for.
        """
        size = len(self._text) - self._position
        if size > 2 * self._chunk_bytes:
            values = self._text.count(",", self._position, self._position + size // 2)
            if portions.is_heavy(values, size // 2, self._most_bytes):
                raise TooHeavy


def _whole_characters(data: bytes) -> int:
    """Count the bytes up to the last whole character of some UTF-8; invalid bytes are not looked for."""
    for back in range(1, min(len(data), 4) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < size else len(data)
    return len(data)
