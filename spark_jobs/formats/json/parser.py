"""JSON bytes to blocks of typed records: one object a line, one array, or an array inside a document.

The facts are those of spec/formats.md 4.1. Lines can be split and cut like CSV, for no JSON text has a line end inside;
a line that is no object is a malformed record (decision 58). An array is read element by element and need not fit into
memory; a broken one is an error of the file (decision 28). A document with a `record_path` is read whole.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats import format
from spark_jobs.formats.json import array, attempts, decoding, exact, members, portions, quick, undeclared
from spark_jobs.formats.json.options import JsonLayout
from spark_jobs.formats.stretch import Stretch
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.format import ArrayPath, Block, Reading
    from spark_jobs.formats.json.exact import Item
    from spark_jobs.formats.json.members import Declared
    from spark_jobs.formats.json.options import JsonRead
    from spark_jobs.formats.json.portions import Lines, Places
    from spark_jobs.formats.stretch import ByteStream

#: Records of a block, where bytes do not say how many there are.
_BLOCK_RECORDS = 16_384
#: Elements of an array that are read before it is known what stands between them.
_FIRST_ELEMENTS = 2
_SPACE = " \t\n\r"


class JsonParser:
    """Reads stretches of one file."""

    def __init__(
        self, path: str, layout: JsonLayout, options: JsonRead, reading: Reading, arrays: Sequence[ArrayPath] = ()
    ) -> None:
        self._path = path
        self._layout = layout
        self._options = options
        self._arrays = tuple(arrays)
        self._columns = reading.columns
        self._portion_bytes = min(portions.PORTION_BYTES, reading.block_bytes)
        self._exact = exact.ExactRecords(reading)
        in_columns = quick.QuickRecords(reading)
        self._attempts = attempts.Attempts(in_columns) if in_columns.is_possible else None

    def blocks(self, stream: ByteStream, stretch: Stretch) -> Iterator[Block]:
        """The blocks of a stretch of lines, or of a whole file in the other layouts; fills in `stretch` on the way.

        Raises:
            FormatError: the file is broken, or its `record_path` leads to no array.
        """
        if self._layout is JsonLayout.ARRAY and not self._arrays:
            blocks = self._of_array(stretch, array.ArrayText(stream, stretch))
        elif self._layout is JsonLayout.NDJSON and not self._arrays:
            lines_of = portions.portions(stream, stretch, self._portion_bytes)
            blocks = (self._of_lines(stretch, lines) for lines in lines_of)
        else:
            blocks = (self._of_items(stretch, items) for items in self._batches(stream, stretch))
        for block in blocks:
            stretch.records += block.count
            yield block

    def _of_array(self, stretch: Stretch, text: array.ArrayText) -> Iterator[Block]:
        """The blocks of an array: many elements at once where they look like lines."""
        count = _FIRST_ELEMENTS
        while True:
            with self._telling():
                lines = text.piece()
            block = None if lines is None else self._of_objects(stretch, lines)
            if block is not None:
                text.take()
                yield block
                continue
            with self._telling():
                values = list(itertools.islice(text.elements(), lines.count if lines else count))
            if not values:
                return
            count = _BLOCK_RECORDS
            yield self._of_items(stretch, [exact.of_value(value) for value in values])

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Within, a text that is no JSON is an error of the file."""
        try:
            yield
        except ValueError as problem:
            raise FormatError(f"broken JSON: {problem}", self._path) from problem

    def _of_lines(self, stretch: Stretch, lines: Lines) -> Block:
        """The block of a portion of lines."""
        block = self._of_objects(stretch, lines, all_of_them=False)
        assert block is not None
        return block

    def _of_objects(self, stretch: Stretch, lines: Lines, *, all_of_them: bool = True) -> Block | None:
        """The block of a portion of lines, most of them read at once, the odd ones each on its own.

        None where all of them must be objects and one is not.
        """
        first = stretch.records
        taken = self._attempts.read(lines) if self._attempts else attempts.Taken()
        left = taken.left(lines.count)
        if not left and len(taken.parts) == 1:
            return format.Block(first, lines.count, taken.parts[0][1])
        parts = [(places + first, batch) for places, batch in taken.parts]
        if not left:
            return _joined(first, lines.count, parts)
        singly = lines.singly
        items = list(exact.of_lines([singly[at] for at in left], self._options.encoding))
        if all_of_them and not all(isinstance(item, dict) for item in items):
            return None
        return _joined(first, lines.count, parts, self._exact.block(first, items, [first + at for at in left]))

    def _of_items(self, stretch: Stretch, items: list[Item]) -> Block:
        return self._exact.block(stretch.records, items)

    def keys(self, stream: ByteStream, most_records: int | None = None) -> dict[str, None]:
        """The names of all undeclared leaves in first-seen order; of the first records alone if a number is given."""
        names = undeclared.Names([column.key for column in self._columns])
        if self._layout is JsonLayout.NDJSON and not self._arrays and most_records is None:
            for lines in portions.portions(stream, Stretch()):
                names.add(lines)
        else:
            items = itertools.chain.from_iterable(self._batches(stream, Stretch()))
            names.look_at(itertools.islice(items, most_records))
        return names.known

    def look_for(self, columns: Declared, stream: ByteStream, most_records: int | None = None) -> None:
        """Look which declared columns the records have, all of them or the first ones alone if a number is given.

        Raises:
            FormatError: as `blocks` does; the records before that were looked at.
        """
        records = itertools.chain.from_iterable(self._batches(stream, Stretch()))
        for item in itertools.islice(records, most_records):
            if isinstance(item, dict):
                columns.note(item)

    def _batches(self, stream: ByteStream, stretch: Stretch) -> Iterator[list[Item]]:
        """Records and malformed ones, by portions; a malformed one is a `RowFailure` without its row."""
        if self._layout is JsonLayout.NDJSON:
            for lines in portions.portions(stream, stretch, self._portion_bytes):
                yield list(self._spread(exact.of_lines(lines.singly, self._options.encoding)))
            return
        records = self._spread(self._elements(array.ArrayText(stream, stretch)))
        while batch := list(itertools.islice(records, _BLOCK_RECORDS)):
            yield batch

    def _spread(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if self._arrays and isinstance(item, dict):
                yield from members.spread(item, self._arrays)
            else:
                yield item

    def _elements(self, text: array.ArrayText) -> Iterator[Item]:
        with self._telling():
            if self._options.record_path is not None:
                values: Iterable[Any] = self._at_record_path(decoding.parse(text.rest()))
            else:
                values = text.elements()
            yield from map(exact.of_value, values)

    def _at_record_path(self, document: Any) -> list[Any]:
        """The array that `record_path` leads to: `$.a.b`, `a.b` or `/a/b` (decision 2)."""
        path = self._options.record_path or ""
        for key in path_keys(path):
            if not isinstance(document, dict) or key not in document:
                raise FormatError(f"record_path '{path}': key '{key}' not found", self._path)
            document = document[key]
        if not isinstance(document, list):
            raise FormatError(f"record_path '{path}' leads to no array", self._path)
        return document


def _joined(
    first: int, count: int, parts: Sequence[tuple[Places, pa.RecordBatch]], singly: Block | None = None
) -> Block:
    """The block of parts of a portion, by the places of their good records; only what was read singly has bad ones."""
    if singly is not None and singly.rows is not None:
        parts = [*parts, (singly.rows.to_numpy(), singly.batch)]
    places = np.concatenate([rows for rows, _ in parts])
    batch = pa.concat_batches([batch for _, batch in parts])
    if (np.diff(places) < 0).any():
        order = np.argsort(places)
        places, batch = places[order], batch.take(pa.array(order))
    block = format.Block(first, count, batch, pa.array(places, pa.int64()))
    if singly is not None:
        block.failures, block.failed_rows = singly.failures, singly.failed_rows
    return block


def path_keys(path: str) -> list[str]:
    """The keys of a path in any of its spellings: `$.a.b`, `a.b`, `/a/b`."""
    if path.startswith("/"):
        return [key for key in path.split("/") if key]
    return [key for key in path.removeprefix("$").split(".") if key]


def layout_of(head: str, options: JsonRead, path: str) -> JsonLayout | None:
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
            raise FormatError(f"a JSON file begins with [ or {{, not with '{other}'", path)
