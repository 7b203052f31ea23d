"""JSON bytes to blocks of typed records: one object a line, one array, or an array inside a document.

The facts are those of spec/formats.md 4.1. Lines can be split and cut like CSV, for no JSON text has a line end inside;
a line that is no object is a malformed record (decision 58). An array is read element by element and need not fit into
memory; a broken one is an error of the file (decision 28). A document with a `record_path` is read whole.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats import csv_pieces, format, json_attempts, json_exact, json_lines, json_records, json_values
from spark_jobs.formats.options import JsonLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.csv_pieces import ByteStream, Stretch
    from spark_jobs.formats.format import Block, Reading
    from spark_jobs.formats.json_exact import Item
    from spark_jobs.formats.json_lines import Lines, Places
    from spark_jobs.formats.json_records import ArrayPath
    from spark_jobs.formats.options import JsonOptions

#: Records of a block, where bytes do not say how many there are.
_BLOCK_RECORDS = 16_384
_CHUNK_BYTES = 1 << 20
_SPACE = " \t\n\r"


class JsonReader:
    """Reads stretches of one file."""

    def __init__(
        self, path: str, layout: JsonLayout, options: JsonOptions, reading: Reading, arrays: Sequence[ArrayPath] = ()
    ) -> None:
        self._path = path
        self._layout = layout
        self._options = options
        self._arrays = tuple(arrays)
        self._undeclared = json_records.Undeclared([column.name for column in reading.columns])
        self._exact = json_exact.ExactRecords(reading)
        self._attempts = json_attempts.Attempts(reading)

    def blocks(self, stream: ByteStream, stretch: Stretch) -> Iterator[Block]:
        """The blocks of a stretch of lines, or of a whole file in the other layouts; fills in `stretch` on the way.

        Raises:
            FormatError: the file is broken, or its `record_path` leads to no array.
        """
        if self._layout is JsonLayout.NDJSON and not self._arrays:
            blocks = (self._of_lines(stretch, lines) for lines in json_lines.portions(stream, stretch))
        else:
            blocks = (self._of_items(stretch, items) for items in self._batches(stream, stretch))
        for block in blocks:
            stretch.records += block.count
            yield block

    def _of_lines(self, stretch: Stretch, lines: Lines) -> Block:
        """The block of a portion of lines: most of them at once, the odd ones each on its own."""
        first = stretch.records
        taken = self._attempts.read(lines)
        left = taken.left(lines.count)
        if not left and len(taken.parts) == 1:
            return format.Block(first, lines.count, taken.parts[0][1])
        parts = [(places + first, batch) for places, batch in taken.parts]
        if not left:
            return _joined(first, lines.count, parts)
        singly = lines.singly
        items = json_exact.of_lines([singly[at] for at in left], self._options.encoding)
        return _joined(first, lines.count, parts, self._exact.block(first, list(items), [first + at for at in left]))

    def _of_items(self, stretch: Stretch, items: list[Item]) -> Block:
        return self._exact.block(stretch.records, items)

    def keys(self, stream: ByteStream, most_records: int | None = None) -> dict[str, None]:
        """The names of all undeclared leaves in first-seen order; of the first records alone if a number is given."""
        found: dict[str, None] = {}
        records = itertools.chain.from_iterable(self._batches(stream, csv_pieces.Stretch()))
        for item in itertools.islice(records, most_records):
            if isinstance(item, dict):
                found.update(dict.fromkeys(name for name, _ in self._undeclared.leaves(item)))
        return found

    def _batches(self, stream: ByteStream, stretch: Stretch) -> Iterator[list[Item]]:
        """Records and malformed ones, by portions; a malformed one is a `RowFailure` without its row."""
        if self._layout is JsonLayout.NDJSON:
            for lines in json_lines.portions(stream, stretch):
                yield list(self._spread(json_exact.of_lines(lines.singly, self._options.encoding)))
            return
        records = self._spread(self._elements(_Text(stream, stretch)))
        while batch := list(itertools.islice(records, _BLOCK_RECORDS)):
            yield batch

    def _spread(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if self._arrays and isinstance(item, dict):
                yield from json_records.spread(item, self._arrays)
            else:
                yield item

    def _elements(self, text: _Text) -> Iterator[Item]:
        try:
            if self._options.record_path is not None:
                yield from map(json_exact.of_value, self._at_record_path(json_values.parse(text.rest())))
            else:
                yield from map(json_exact.of_value, text.elements())
        except ValueError as problem:
            raise format.FormatError(f"broken JSON: {problem}", self._path) from problem

    def _at_record_path(self, document: Any) -> list[Any]:
        """The array that `record_path` leads to: `$.a.b`, `a.b` or `/a/b` (decision 2)."""
        path = self._options.record_path or ""
        for key in path_keys(path):
            if not isinstance(document, dict) or key not in document:
                raise format.FormatError(f"record_path '{path}': key '{key}' not found", self._path)
            document = document[key]
        if not isinstance(document, list):
            raise format.FormatError(f"record_path '{path}' leads to no array", self._path)
        return document


def _joined(
    first: int, count: int, parts: Sequence[tuple[Places, pa.RecordBatch]], exact: Block | None = None
) -> Block:
    """The block of parts of a portion, by the places of their good records; only the exact part has bad ones."""
    if exact is not None and exact.rows is not None:
        parts = [*parts, (exact.rows.to_numpy(), exact.batch)]
    places = np.concatenate([rows for rows, _ in parts])
    batch = pa.concat_batches([batch for _, batch in parts])
    if (np.diff(places) < 0).any():
        order = np.argsort(places)
        places, batch = places[order], batch.take(pa.array(order))
    block = format.Block(first, count, batch, pa.array(places))
    if exact is not None:
        block.failures, block.failed_rows = exact.failures, exact.failed_rows
    return block


def path_keys(path: str) -> list[str]:
    """The keys of a path in any of its spellings: `$.a.b`, `a.b`, `/a/b`."""
    if path.startswith("/"):
        return [key for key in path.split("/") if key]
    return [key for key in path.removeprefix("$").split(".") if key]


def layout_of(head: str, options: JsonOptions, path: str) -> JsonLayout | None:
    """How a file is laid out, by its options or its first character; None when there is no character.

    Raises:
        FormatError: the first character begins neither an array nor an object.
    """
    text = head.lstrip("\ufeff" + _SPACE)
    if not text:
        return None
    if options.record_path is not None:
        return JsonLayout.OBJECT
    if options.format is not None:
        return options.format
    match text[0]:
        case "[":
            return JsonLayout.ARRAY
        case "{":
            return JsonLayout.NDJSON
        case other:
            raise format.FormatError(f"a JSON file begins with [ or {{, not with '{other}'", path)


class _Text:
    """A stream as text, taken apart from its beginning on."""

    def __init__(self, stream: ByteStream, stretch: Stretch) -> None:
        self._stream = stream
        self._stretch = stretch
        self._text = ""
        self._bytes = b""
        self._position = 0
        self._at_end = False

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
        """The elements of the array that the text is.

        Raises:
            ValueError: the text is no array, or ends too early.
        """
        if self._next() != "[":
            raise ValueError("the file is no array")
        self._position += 1
        if self._next() == "]":
            return
        while True:
            yield self._value()
            match self._next():
                case ",":
                    self._position += 1
                case "]":
                    return
                case found:
                    raise ValueError(f"expected , or ] after an element, found {found or 'the end of the file'}")

    def _next(self) -> str:
        """The next character that is no white space, empty at the end."""
        while True:
            while self._position < len(self._text):
                if self._text[self._position] not in _SPACE:
                    return self._text[self._position]
                self._position += 1
            if self._at_end:
                return ""
            self._more(_CHUNK_BYTES)

    def _value(self) -> Any:
        """The next value. A value that the text does not hold completely is tried again with as much text more."""
        self._next()
        while True:
            try:
                value, end = json_values.decoder.raw_decode(self._text, self._position)
            except RecursionError:
                raise ValueError("values are nested too deeply") from None
            except ValueError:
                if self._at_end:
                    raise
            else:
                # A number that ends with the text may go on.
                if end < len(self._text) or self._at_end:
                    json_values.check(value, self._text[self._position : end])
                    self._position = end
                    return value
            self._more(max(_CHUNK_BYTES, len(self._text)))
