"""JSON bytes to blocks of typed records: one object a line, one array, or an array inside a document.

Lines can be split and cut like CSV, because no JSON text has a line end inside; a line that is not an object is a
malformed record. An array is read element by element and need not fit into memory; a broken one is an error of the
file, which ends the run. A document with a `record_path` is read whole.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from spark_jobs.formats import encoding, format, misread
from spark_jobs.formats.byte_stream import RangeStats
from spark_jobs.formats.json import undeclared
from spark_jobs.formats.json.exact import objects, one_by_one
from spark_jobs.formats.json.fast import bisection, columnar_explode, name_discovery, quick
from spark_jobs.formats.json.options import JsonLayout
from spark_jobs.formats.json.texts import array, decoding, documents, portions
from spark_jobs.formats.reading import most_rows
from spark_jobs.scan.files import FormatError
from spark_jobs.tuning import DEFAULT, Tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.format import ArrayPath, Block, Reading
    from spark_jobs.formats.json.exact.objects import Declared
    from spark_jobs.formats.json.exact.one_by_one import Item
    from spark_jobs.formats.json.fast.quick import Part
    from spark_jobs.formats.json.options import JsonRead
    from spark_jobs.formats.json.texts.portions import Places, Portion

    Begin = Callable[[], ByteStream]

_T = TypeVar("_T")
#: Records of a block, where bytes do not say how many there are.
_BLOCK_RECORDS = 16_384
#: The bytes to read at once for each record of a block, if a block has few records.
_ROW_BYTES = 64
#: Elements of an array that are read before the text between them is known.
_FIRST_ELEMENTS = 2
_SPACE = " \t\n\r"


class JsonParser:
    """Reads ranges of one file.

    Args:
        path: the name of the file in messages.
        layout: how records stand in it.
        options: how it is read.
        reading: the wanted columns of its records.
        arrays: arrays to explode or join.
        known: the undeclared names that are known, where others are noticed.
        start: the bytes of the file before the part that is read: messages count from its beginning.
    """

    def __init__(
        self,
        path: str,
        layout: JsonLayout,
        options: JsonRead,
        reading: Reading,
        arrays: Sequence[ArrayPath] = (),
        known: Sequence[str] | None = None,
        start: int = 0,
        tuning: Tuning = DEFAULT,
    ) -> None:
        self._tuning = tuning
        self._path = path
        self._start = start
        self._layout = layout
        self._options = options
        self._arrays = tuple(arrays)
        self._reading = reading
        # Exploded arrays exist in a few more forms at the same time.
        size = reading.block_bytes // 2 if self._arrays else reading.block_bytes
        self._most_rows = most_rows(reading)
        self._portion_bytes = max(min(tuning.json_portion_bytes, size, self._most_rows * _ROW_BYTES), 1)
        #: Elements of arrays have two bytes each at least, and a portion may be as long as its last line.
        self._most_spread = 4 * self._portion_bytes
        self._exact = one_by_one.ExactRecords(reading)
        declared = [column.key for column in reading.columns]
        self._noticing = None if known is None else name_discovery.NameDiscovery(declared, known, tuning)
        in_columns = quick.QuickRecords(reading, self._arrays, self._noticing, tuning)
        self._in_columns = in_columns
        self._attempts = bisection.Bisection(in_columns, tuning.json_quick_lines) if in_columns.is_possible else None

    @property
    def has_news(self) -> bool:
        """Whether records have undeclared names that were not known."""
        return self._noticing is not None and self._noticing.has_news

    def blocks(self, begin: Begin, stats: RangeStats) -> Iterator[Block]:
        """The blocks of a range of lines, or of a whole file in the other layouts; fills in `stats` on the way.

        Args:
            begin: gives the bytes from their beginning on, each time.
            stats: the counts of records and bytes; filled in.

        Raises:
            FormatError: the file is broken, or its `record_path` leads to no array.
            TooLong: a record is too long for the memory of a task.
        """
        blocks = self._all(
            begin,
            stats,
            lambda lines: self._of_objects(stats, lines),
            lambda items: self._of_items(stats, items),
        )
        for block in itertools.chain.from_iterable(blocks):
            stats.records += block.count
            yield block

    def _all(
        self,
        begin: Begin,
        stats: RangeStats,
        of_lines: Callable[[Portion], _T | None],
        of_items: Callable[[list[Item]], _T],
    ) -> Iterator[_T]:
        """Convert all objects, many at once where each is on a line of its own, or looks as if it were.

        Args:
            begin: gives the bytes from their beginning on, each time.
            stats: the counts of records and bytes; filled in.
            of_lines: converts objects on lines; gives None where the lines are no elements of an array.
            of_items: converts single records.
        """
        most_bytes = self._reading.record_bytes
        if self._layout is JsonLayout.NDJSON:
            for portion in portions.portions(begin(), stats, self._portion_bytes, most_bytes, self._most_rows):
                made = of_lines(portion)
                assert made is not None
                yield made
            return
        with self._as_format_errors():
            text = self._array_text(begin, stats)
        if text is None:
            with self._as_format_errors():
                whole = array.ArrayText(begin(), stats, self._tuning.json_portion_bytes, most_bytes)
                elements = self._document(whole)
            most = min(_BLOCK_RECORDS, self._most_rows)
            for at in range(0, len(elements), most):
                yield of_items([one_by_one.of_value(value) for value in elements[at : at + most]])
            return
        count = _FIRST_ELEMENTS
        while True:
            made = None
            while made is None and (lines := self._piece(text)) is not None:
                made = of_lines(lines)
            if made is not None:
                text.take()
                yield made
                continue
            with self._as_format_errors():
                values = text.some(count)
            if not values:
                return
            count = min(_BLOCK_RECORDS, self._most_rows)
            yield of_items([one_by_one.of_value(value) for value in values])

    def _array_text(self, begin: Begin, stats: RangeStats) -> array.ArrayText | None:
        """The text of the array of records; None where the document that it is in has to be read whole."""
        most_bytes = self._reading.record_bytes
        if self._options.record_path is None:
            return array.ArrayText(begin(), stats, self._portion_bytes, most_bytes, self._most_rows)
        keys = path_keys(self._options.record_path)
        size = documents.DocumentText(begin(), stats, keys, self._portion_bytes, most_bytes).size_of_array()
        if size is None:
            return None
        text = documents.DocumentText(begin(), RangeStats(), keys, self._portion_bytes, most_bytes, self._most_rows)
        text.go_to_array(size)
        return text

    def _piece(self, text: array.ArrayText) -> Portion | None:
        with self._as_format_errors():
            return text.piece()

    @contextmanager
    def _as_format_errors(self) -> Iterator[None]:
        """Turns errors of JSON texts into errors of the file."""
        try:
            yield
        except ValueError as problem:
            raise FormatError(f"broken JSON: {self._words(problem)}", self._path) from problem

    def _words(self, problem: ValueError) -> str:
        return words_of(problem, self._start, self._options.encoding)

    def _of_objects(self, stats: RangeStats, lines: Portion) -> Iterable[Block] | None:
        """The blocks of a portion of lines, most of them read at once, the odd ones each on its own.

        None where all of them must be objects and one is not.
        """
        # A long object may make any number of records, and each of them has the members beside the array.
        if not self._arrays or lines.size <= self._most_spread:
            try:
                block = self._of_portion(stats, lines)
            except columnar_explode.TooWide:
                pass
            else:
                return None if block is None else [block]
        items = list(one_by_one.of_lines(lines.singly, self._options.encoding))
        self._notice(items)
        is_no_element = self._layout is not JsonLayout.NDJSON and not all(isinstance(item, dict) for item in items)
        return None if is_no_element else self._in_blocks(stats, items)

    def _of_portion(self, stats: RangeStats, lines: Portion) -> Block | None:
        """The one block of a portion of lines; None where all of them must be objects and one is not.

        Raises:
            TooWide: arrays make records of them that are too long together.
        """
        first = stats.records
        is_quick = self._attempts is not None and self._in_columns.is_worth(lines)
        taken = self._attempts.read(lines) if self._attempts and is_quick else bisection.Taken()
        left = taken.left(lines.count)
        if not left and len(taken.parts) == 1 and not self._arrays:
            return format.Block(first, lines.count, taken.parts[0][1].batch)
        singly = lines.singly if left else []
        if self._arrays and self._may_be_wide(singly[at] for at in left):
            raise columnar_explode.TooWide
        items = list(one_by_one.of_lines([singly[at] for at in left], self._options.encoding))
        self._notice(items)
        if self._layout is not JsonLayout.NDJSON and not all(isinstance(item, dict) for item in items):
            return None
        if self._arrays:
            return self._of_spread(
                first, lines.count, taken.parts, left, [list(self._spread([item])) for item in items]
            )
        parts = [(places + first, part.batch) for places, part in taken.parts]
        return _joined(
            first, lines.count, parts, self._exact.block(first, items, [first + at for at in left]) if left else None
        )

    def _may_be_wide(self, lines: Iterable[bytes]) -> bool:
        """Whether the records that some objects make may be longer than a record may be: each element is one."""
        return sum(len(line) * line.count(b",") for line in lines) > self._reading.record_bytes

    def _of_spread(
        self,
        first: int,
        lines: int,
        parts: Sequence[tuple[Places, Part]],
        left: Sequence[int],
        singly: list[list[Item]],
    ) -> Block:
        """The block of the records that lines make, each any number of them.

        Args:
            first: the number of the first record.
            lines: how many there are.
            parts: the lines that were read at once, by their places, and their records.
            left: the places of the others.
            singly: the records of these.
        """
        counts = np.zeros(lines, dtype=np.int64)
        for places, part in parts:
            counts[places] = part.counts
        counts[left] = [len(items) for items in singly]
        starts = first + np.cumsum(counts) - counts
        found = [(_numbers(starts[places], counts[places]), part.batch) for places, part in parts]
        items = list(itertools.chain.from_iterable(singly))
        numbers = _numbers(starts[left], counts[left]).tolist()
        return _joined(first, int(counts.sum()), found, self._exact.block(first, items, numbers))

    def _notice(self, items: list[Item]) -> None:
        if self._noticing is not None:
            self._noticing.look_at(items)

    def _of_items(self, stats: RangeStats, items: list[Item]) -> Iterable[Block]:
        self._notice(items)
        return self._in_blocks(stats, items)

    def _in_blocks(self, stats: RangeStats, items: list[Item]) -> Iterator[Block]:
        """The blocks of the records that objects make, which are there a block at a time."""
        most = min(_BLOCK_RECORDS, self._most_rows)
        records: list[Item] = []
        size = 0
        for record in self._spread(items):
            records.append(record)
            if self._arrays and isinstance(record, dict):
                # Each record of an array has the members beside the array.
                size += sum(len(value) for value in record.values() if value.__class__ is str)
            if len(records) == most or size > self._reading.block_bytes:
                yield self._exact.block(stats.records, records)
                records, size = [], 0
        if records:
            yield self._exact.block(stats.records, records)

    def keys(self, begin: Begin, most_records: int | None = None) -> dict[str, None]:
        """The names of all undeclared leaves in first-seen order; of the first records alone if a number is given.

        Args:
            begin: gives the bytes from their beginning on, each time.
            most_records: how many records.

        Raises:
            FormatError: the file is broken.
            TooLong: a record is too long for the memory of a task.
            TooMany: there are more of them than a run can carry.
        """
        keys = [column.key for column in self._reading.columns]
        names = undeclared.Names(keys, self._arrays, tuning=self._tuning)
        if most_records is not None:
            names.look_at(itertools.islice(self._items(begin()), most_records))
            return names.known
        are_objects = self._layout is not JsonLayout.NDJSON

        def add(lines: Portion) -> bool | None:
            return names.add(lines, all_of_them=are_objects) or None

        def look_at(items: list[Item]) -> bool:
            names.look_at(self._spread(items))
            return True

        for _ in self._all(begin, RangeStats(), add, look_at):
            # All that is wanted is noted on the way.
            continue
        return names.known

    def look_for(self, columns: Declared, stream: ByteStream, most_records: int | None = None) -> None:
        """Look which declared columns the records have, all of them or the first ones alone if a number is given.

        Raises:
            FormatError, TooLong: as `blocks` does; the records before that were looked at.
        """
        for item in itertools.islice(self._items(stream), most_records):
            if isinstance(item, dict):
                columns.note(item)

    def _items(self, stream: ByteStream) -> Iterator[Item]:
        """Records and malformed ones, each on its own; a malformed one is a `RowFailure` without its row."""
        most_bytes = self._reading.record_bytes
        if self._layout is JsonLayout.NDJSON:
            for lines in portions.portions(stream, RangeStats(), self._tuning.json_portion_bytes, most_bytes):
                yield from self._spread(one_by_one.of_lines(lines.singly, self._options.encoding))
            return
        text = array.ArrayText(stream, RangeStats(), self._tuning.json_portion_bytes, most_bytes)
        with self._as_format_errors():
            values = text.elements() if self._options.record_path is None else self._document(text)
            yield from self._spread(map(one_by_one.of_value, values))

    def _document(self, text: array.ArrayText) -> list[Any]:
        """The elements of a document that is read whole."""
        return self._at_record_path(text.rest())

    def _spread(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if self._arrays and isinstance(item, dict):
                yield from objects.spread(item, self._arrays)
            else:
                yield item

    def _at_record_path(self, document: Any) -> list[Any]:
        """The array that `record_path` leads to: `$.a.b`, `a.b` or `/a/b`."""
        path = self._options.record_path or ""
        for key in path_keys(path):
            if not isinstance(document, dict) or key not in document:
                raise FormatError(f"record_path '{path}': key '{key}' not found", self._path)
            document = document[key]
        if not isinstance(document, list):
            raise FormatError(f"record_path '{path}' leads to no array", self._path)
        return document


def _numbers(starts: Places, counts: Places) -> Places:
    """Numbers from each start on, so many."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))


def _joined(
    first: int, count: int, parts: Sequence[tuple[Places, pa.RecordBatch]], singly: Block | None = None
) -> Block:
    """Join the parts of a portion to a block, by the places of good records; only records read singly may be bad."""
    if singly is not None and singly.rows is not None:
        parts = [*parts, (singly.rows.to_numpy(), singly.batch)]
    places = np.concatenate([rows for rows, _ in parts])
    batch = pa.concat_batches([batch for _, batch in parts])
    if (np.diff(places) < 0).any():
        order = np.argsort(places)
        places, batch = places[order], batch.take(pa.array(order))
    block = format.Block(first, count, batch, pa.array(places, pa.int64()))
    if singly is not None:
        block.failures, block.failed_rows, block.doubled = singly.failures, singly.failed_rows, singly.doubled
    return block


def words_of(problem: ValueError, start: int, charset: str) -> str:
    """Say why a file is no JSON, and at which byte.

    Args:
        problem: the error of the parser.
        start: the bytes of the file, as UTF-8, before the text that was parsed.
        charset: the encoding of the file.
    """
    if not isinstance(problem, decoding.Broken):
        return decoding.words(problem)
    is_utf8 = encoding.is_utf8(charset)
    hint = f"; {misread.OTHER_ENCODING}" if is_utf8 and isinstance(problem, decoding.Undecodable) else ""
    return f"{problem}, at byte {start + problem.at}{'' if is_utf8 else ' of its text as UTF-8'}{hint}"


def path_keys(path: str) -> list[str]:
    """The keys of a path in any of its spellings: `$.a.b`, `a.b`, `/a/b`."""
    if path.startswith("/"):
        return [key for key in path.split("/") if key]
    return [key for key in path.removeprefix("$").split(".") if key]


def layout_of(head: str, options: JsonRead, path: str) -> JsonLayout | None:
    """Find the layout of a file by its options or its first character; None for a file without characters.

    Raises:
        FormatError: the first character begins neither an array nor an object.
    """
    text = head.lstrip("\ufeff" + _SPACE)
    if not text:
        return None
    if options.record_path is not None:
        return JsonLayout.OBJECT
    if options.format is not None:
        return JsonLayout(options.format)
    match text[0]:
        case "[":
            return JsonLayout.ARRAY
        case "{":
            return JsonLayout.NDJSON
        case other:
            raise FormatError(f"a JSON file begins with [ or {{, not with '{other}'", path)
