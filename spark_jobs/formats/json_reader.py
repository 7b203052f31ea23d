"""JSON bytes to blocks of typed records: one object a line, one array, or an array inside a document.

The facts are those of spec/formats.md 4.1. Lines can be split and cut like CSV, for no JSON text has a line end inside;
a line that is no object is a malformed record (decision 58). An array is read element by element and need not fit into
memory; a broken one is an error of the file (decision 28). A document with a `record_path` is read whole.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failures as columnar
from spark_jobs.cxl import types, values
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, coerce, csv_pieces, csv_reader, format, json_records, json_values
from spark_jobs.formats.options import JsonLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.cxl.failure import Failure
    from spark_jobs.formats.csv_pieces import ByteStream, Stretch
    from spark_jobs.formats.format import Block, Reading, SourceColumn
    from spark_jobs.formats.json_records import ArrayPath
    from spark_jobs.formats.options import JsonOptions

#: Records of a block, where bytes do not say how many there are.
_BLOCK_RECORDS = 16_384
_CHUNK_BYTES = 1 << 20
_SPACE = " \t\n\r"
#: The type of undeclared values: JSON says of each what kind it is.
WIDENED_TYPE = types.ANY

Item = dict[str, Any] | RowFailure


class JsonReader:
    """Reads stretches of one file."""

    def __init__(
        self, path: str, layout: JsonLayout, options: JsonOptions, reading: Reading, arrays: Sequence[ArrayPath] = ()
    ) -> None:
        self._path = path
        self._layout = layout
        self._options = options
        self._reading = reading
        self._arrays = tuple(arrays)
        self._undeclared = json_records.Undeclared([column.name for column in reading.columns])

    def blocks(self, stream: ByteStream, stretch: Stretch) -> Iterator[Block]:
        """The blocks of a stretch of lines, or of a whole file in the other layouts; fills in `stretch` on the way.

        Raises:
            FormatError: the file is broken, or its `record_path` leads to no array.
        """
        for items in self._batches(stream, stretch):
            first = stretch.records
            stretch.records += len(items)
            yield self._block(first, items)

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
            for lines in _line_pieces(stream, stretch):
                objects: Iterable[Item] | None = json_values.parse_objects(lines)
                if objects is None:
                    objects = (_record_of_line(line, self._options.encoding) for line in lines)
                yield list(self._spread(objects))
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
                yield from map(_record_of, self._at_record_path(json_values.parse(text.rest())))
            else:
                yield from map(_record_of, text.elements())
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

    def _block(self, first: int, items: list[Item]) -> Block:
        failures: dict[int, Failure] = {}
        records: list[dict[str, Any]] = []
        rows: list[int] = []
        for row, item in enumerate(items, first):
            if isinstance(item, dict):
                records.append(item)
                rows.append(row)
            else:
                failures[row] = item.failure
        columns = [self._column(column, records, rows, failures) for column in self._reading.columns]
        batch = self._batch(columns, records)
        if not failures:
            return format.Block(first, len(items), batch)
        is_good = pa.array([row not in failures for row in rows], pa.bool_())
        return format.Block(
            first,
            len(items),
            batch.filter(is_good),
            pa.array(rows, pa.int64()).filter(is_good),
            columnar.of([RowFailure(row, failures[row]) for row in sorted(failures)]),
            self._failed_rows(columns, records, rows, failures) if self._reading.failure_texts else None,
        )

    def _column(
        self, column: SourceColumn, records: list[dict[str, Any]], rows: list[int], failures: dict[int, Failure]
    ) -> pa.Array:
        """The values of a declared column, null where a record fails; notes the first failure of each record."""
        found = _members(records, column.name)
        if column.required:
            for row, value in zip(rows, found, strict=True):
                if value is None:
                    failures.setdefault(row, coerce.absence_of(column))
        formats = self._reading.forms(column)
        usual = _usual_column(found, column.type, formats)
        if usual is not None:
            for index in usual.failed:
                failures.setdefault(rows[index], coerce.failure_of(column, found[index]))
            return usual.array
        converted: list[Any] = []
        for value, row in zip(found, rows, strict=True):
            try:
                converted.append(None if value is None else json_values.convert(value, column.type.kind, formats))
            except ValueError:
                failures.setdefault(row, coerce.failure_of(column, json_values.raw_text(value)))
                converted.append(None)
        return values.to_arrow(converted, column.type)

    def _batch(self, columns: list[pa.Array], records: list[dict[str, Any]]) -> pa.RecordBatch:
        names, arrays = [], []
        for column, array in zip(self._reading.columns, columns, strict=True):
            if self._reading.carries(column.name):
                names.append(column.name)
                arrays.append(array)
        if self._reading.widened:
            leaves = [dict(self._undeclared.leaves(record)) for record in records]
            for name in self._reading.widened:
                names.append(format.WIDENED + name)
                arrays.append(values.to_arrow((json_values.plain(leaf.get(name)) for leaf in leaves), WIDENED_TYPE))
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, names=names)
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(records), pa.struct([])))

    def _failed_rows(
        self, columns: list[pa.Array], records: list[dict[str, Any]], rows: list[int], failures: dict[int, Failure]
    ) -> pa.RecordBatch:
        """The failing records as dead letters show them; nulls for malformed ones."""
        places = {row: index for index, row in enumerate(rows)}
        chosen = [places.get(row) for row in sorted(failures)]
        arrays = []
        for column, array in zip(self._reading.columns, columns, strict=True):
            shown = cell_text.texts(array.take(pa.array(chosen, pa.int64())), column.type).to_pylist()
            for at, index in enumerate(chosen):
                if shown[at] is None and index is not None:
                    raw = json_records.find(records[index], column.name)
                    shown[at] = None if raw is None else json_values.raw_text(raw)
            arrays.append(pa.array(shown, pa.string()))
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._reading.columns])


def _members(records: list[dict[str, Any]], name: str) -> list[Any]:
    if "." in name:
        return [json_records.find(record, name) for record in records]
    return [record.get(name) for record in records]


def _usual_column(found: list[Any], static: types.Type, date_formats: tuple[str, ...]) -> coerce.Converted | None:
    """A column whose values all have the JSON kind that goes with its type, as an array; None for other columns.

    Dates are texts in JSON, so their column is converted like a column of cells.
    """
    classes = set(map(type, found)) - {type(None)}
    match static.kind:
        case Kind.STRING if classes <= {str}:
            return coerce.Converted(pa.array(found, pa.string()), coerce.NO_ROWS)
        case Kind.BOOL if classes <= {bool}:
            return coerce.Converted(pa.array(found, pa.bool_()), coerce.NO_ROWS)
        case Kind.DATE | Kind.DATETIME if classes <= {str}:
            return coerce.convert(pa.array(found, pa.string()), static, date_formats)
        case Kind.INT if classes <= {int}:
            return _without_overflow(found, pa.int64())
        case Kind.FLOAT if classes <= {int, json_values.Number}:
            return _without_overflow(found, pa.float64())
        case _:
            return None


def _without_overflow(found: list[Any], kind: pa.DataType) -> coerce.Converted | None:
    """Numbers as an array, unless one is larger than its type allows."""
    try:
        numbers = [None if value is None else float(value) for value in found] if kind == pa.float64() else found
        array = pa.array(numbers, kind)
    except (OverflowError, pa.ArrowInvalid):
        return None
    if kind == pa.float64() and not pc.all(pc.is_finite(array), min_count=0).as_py():
        return None
    return coerce.Converted(array, coerce.NO_ROWS)


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


def _record_of_line(line: bytes, encoding: str) -> Item:
    try:
        value = json_values.parse(line.decode())
    except UnicodeDecodeError:
        return RowFailure(0, csv_reader.malformed(f"bytes are no {encoding} text", line))
    except ValueError as problem:
        return RowFailure(0, csv_reader.malformed(f"broken JSON: {problem}", line))
    return value if isinstance(value, dict) else RowFailure(0, csv_reader.malformed("line is no object", line))


def _record_of(value: Any) -> Item:
    if isinstance(value, dict):
        return value
    return RowFailure(0, csv_reader.malformed("element is no object", json_values.raw_text(value)))


def _line_pieces(stream: ByteStream, stretch: Stretch) -> Iterator[list[bytes]]:
    """The lines of a stream by portions, without blank ones."""
    rest = b""
    while chunk := stream.read(max(_CHUNK_BYTES, len(rest))):
        stretch.bytes_read += len(chunk)
        data = rest + chunk
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        rest = data[end:]
        yield [line for line in data[:end].splitlines() if line.strip()]
    if rest.strip():
        yield [rest]


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
