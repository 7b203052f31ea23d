"""JSON documents with an array of records inside: the array is read like one that is the whole file.

The text is walked through twice. The first time proves that it is one JSON value in which the path leads once to an
array, whose elements are only passed over; the second time they are read. So memory does not grow with the array.
Every other document is read whole: broken ones, duplicate keys, values that nest too deeply.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.json.texts import array, decoding, structure
from spark_jobs.tuning import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.byte_stream import ByteStream, RangeStats


#: The keys of the members that are wanted of an object: of each all of it, or some of its own members.
Parts = Mapping[str, "Parts | None"]


class DocumentText(array.ArrayText):
    """The text of a document; its elements are the elements of the array at a path.

    Args:
        stream: its bytes.
        stats: the counts of records and bytes; filled in.
        keys: the path.
        chunk_bytes: how much is read at once.
        most_bytes: how long an element, or a value beside the array, may be.
        most_elements: how many elements make a piece.
    """

    def __init__(
        self,
        stream: ByteStream,
        stats: RangeStats,
        keys: Sequence[str],
        chunk_bytes: int = DEFAULT.json_portion_bytes,
        most_bytes: int = sys.maxsize,
        most_elements: int = sys.maxsize,
    ) -> None:
        super().__init__(stream, stats, chunk_bytes, most_bytes, most_elements)
        self._keys = keys
        self._size: int | None = None

    def size_of_array(self) -> int | None:
        """Count the characters of the array; None where the document has to be read whole. Takes all of the text."""
        try:
            is_regular = self._walk(0) and self._size is not None and self._next() == ""
        except ValueError:
            return None
        return self._size if is_regular else None

    def go_to_array(self, size: int) -> None:
        """Go on to the array of a document that is known to have one; the text ends with it."""
        for key in self._keys:
            for found in self._members():
                if found == key:
                    break
                self._value()
        self._next()
        self.end_after(size)

    def _walk(self, depth: int) -> bool:
        """Go past the value to which the first keys lead; false where the array is not surely found."""
        if depth == len(self._keys):
            is_array = self._size is None and self._next() == "["
            self._size = self._pass_over(depth) if is_array else None
            return self._size is not None
        is_found = False
        for key in self._members():
            if key != self._keys[depth]:
                self._value()
            elif is_found or not self._walk(depth + 1):
                return False
            else:
                is_found = True
        return is_found

    def _members(self) -> Iterator[str]:
        """The keys of an object; after each key, the caller moves past the value.

        Raises:
            ValueError: the text is no object, or ends too early.
        """
        self._expect("{")
        if self._next() == "}":
            self._position += 1
            return
        while True:
            if self._next() != '"':
                raise ValueError("expected a key")
            key = self._value()
            self._expect(":")
            self._next()
            yield key
            if self._next() == "}":
                self._position += 1
                return
            self._expect(",")

    def _expect(self, character: str) -> None:
        if self._next() != character:
            raise ValueError(f"expected {character}")
        self._position += 1

    def parts(self, wanted: Parts) -> Any:
        """Read the values of some keys of the document, and skip all others. Takes all of the text.

        Args:
            wanted: the keys.

        Raises:
            ValueError: the text is no JSON value; not all mistakes in skipped parts are found.
            TooLong: one of these values is longer than it may be.
        """
        found = self._parts(wanted, 0)
        if character := self._next():
            raise self.broken(f"only white space may follow the value, found {character}")
        return found

    def _parts(self, wanted: Parts | None, depth: int) -> Any:
        if wanted is None or self._next() != "{":
            return self._value()
        found: dict[str, Any] = {}
        for key in self._members():
            if key in wanted:
                found[key] = self._parts(wanted[key], depth + 1)
            elif self._next() not in ("{", "["):
                self._value()
            elif self._pass_over(depth + 1) is None:
                raise self.broken("the value has no end, or is nested too deeply")
        return found

    def _pass_over(self, depth: int) -> int | None:
        """Go past an array or object; returns its size, or None where it has no end or nests too deeply."""
        brackets = structure.Brackets()
        size = 0
        while True:
            data = self._text[self._position :].encode()
            end = brackets.end(data)
            if brackets.deepest + depth > decoding.MAX_DEPTH:
                return None
            if end is not None:
                taken = len(data[:end].decode())
                self._position += taken
                return size + taken
            size += len(self._text) - self._position
            self._position = len(self._text)
            if self._at_end:
                return None
            self._more(self._chunk_bytes)
