"""The text of a JSON array, element by element or many elements at once; it need not fit into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.formats.json import decoding, portions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.json.portions import Lines
    from spark_jobs.formats.stretch import ByteStream, Stretch

_CHUNK_BYTES = 1 << 20
_SPACE = " \t\n\r"


class ArrayText:
    """A stream as text, taken apart from its beginning on."""

    def __init__(self, stream: ByteStream, stretch: Stretch) -> None:
        self._stream = stream
        self._stretch = stretch
        self._text = ""
        self._bytes = b""
        self._position = 0
        self._at_end = False
        self._is_open = False
        self._blanks = ""
        self._between: str | None = None
        self._piece_end = 0

    def _more(self, size: int) -> None:
        """Read on; complete characters go to the text, what was taken apart is dropped."""
        chunk = self._stream.read(size)
        self._stretch.bytes_read += len(chunk)
        self._at_end = not chunk
        data = self._bytes + chunk
        cut = len(data)
        # A character of UTF-8 has up to four bytes: at most three of the last ones wait for the next read.
        while not self._at_end and cut > max(0, len(data) - 3) and data[cut - 1] >= 0x80:
            cut -= 1
        self._bytes = data[cut:]
        self._text = self._text[self._position :] + data[:cut].decode()
        self._position = 0

    def rest(self) -> str:
        """All that follows."""
        while not self._at_end:
            self._more(_CHUNK_BYTES)
        return self._text[self._position :]

    def elements(self) -> Iterator[Any]:
        """The elements of the array that the text is, from the next one on; can be called again to go on.

        Raises:
            ValueError: the text is no array, or ends too early.
        """
        while self._has_more():
            yield self._value()

    def piece(self) -> Lines | None:
        """What follows as lines, if it is objects with the same text between them as there was between the last ones.

        That is a guess: other arrays may have objects with that text between them, too. But if each line is an object,
        each is an element.
        """
        if self._between is None:
            return None
        while not self._at_end and len(self._text) - self._position < _CHUNK_BYTES:
            self._more(_CHUNK_BYTES)
        joint = f"}}{self._between}{{"
        start = self._position + len(self._between)
        if not self._text.startswith(joint[1:], self._position):
            return None
        if self._at_end:
            end = start + len(self._text[start:].rstrip(_SPACE).removesuffix("]").rstrip(_SPACE))
        else:
            end = self._text.rfind(joint, start) + 1
        body = self._text[start:end]
        if not body or "\0" in body:
            return None
        self._piece_end = end
        # A line end is white space in JSON, and so is a tab; neither may stand in a text.
        lines = body.replace(joint, "}\0{").replace("\n", "\t").replace("\r", "\t").replace("\0", "\n")
        return portions.Lines(lines.encode())

    def take(self) -> None:
        """Go on behind the last piece."""
        self._position = self._piece_end

    def _has_more(self) -> bool:
        """Go to the next element, if there is one."""
        found = self._next()
        if not self._is_open:
            if found != "[":
                raise ValueError("the file is no array")
            self._position += 1
            self._is_open = True
            return self._next() != "]"
        before = self._blanks
        match found:
            case ",":
                self._position += 1
            case "]":
                return False
            case found:
                raise ValueError(f"expected , or ] after an element, found {found or 'the end of the file'}")
        self._next()
        self._between = f"{before},{self._blanks}"
        return True

    def _next(self) -> str:
        """The next character that is no white space, empty at the end."""
        self._blanks = ""
        while True:
            while self._position < len(self._text):
                if self._text[self._position] not in _SPACE:
                    return self._text[self._position]
                self._blanks += self._text[self._position]
                self._position += 1
            if self._at_end:
                return ""
            self._more(_CHUNK_BYTES)

    def _value(self) -> Any:
        """The next value. A value that the text does not hold completely is tried again with as much text more."""
        self._next()
        while True:
            try:
                value, end = decoding.decoder.raw_decode(self._text, self._position)
            except RecursionError:
                raise ValueError("values are nested too deeply") from None
            except ValueError:
                if self._at_end:
                    raise
            else:
                # A number that ends with the text may go on.
                if end < len(self._text) or self._at_end:
                    decoding.check(value, self._text[self._position : end])
                    self._position = end
                    return value
            self._more(max(_CHUNK_BYTES, len(self._text)))
