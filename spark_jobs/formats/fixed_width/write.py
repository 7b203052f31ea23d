"""Batches to fixed-width bytes (spec/formats.md 6.3; decisions 23, 45, 57 and 79)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.dates import strftime
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, encoding, format
from spark_jobs.formats.fixed_width import layout as layouts
from spark_jobs.formats.fixed_width.options import LineSeparator

if TYPE_CHECKING:
    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.formats.fixed_width.layout import Field
    from spark_jobs.formats.fixed_width.options import FixedWidthWrite

_LINE_ENDS = {LineSeparator.LF: "\n", LineSeparator.CR_LF: "\r\n", LineSeparator.NONE: ""}
_NUMBERS = (Kind.INT, Kind.FLOAT, Kind.NUMERIC)
_MAP_HELP = "make it a scalar in CXL before the emit"


class FixedWidthWriter:
    """Writes the fields of a layout, each from the column of its name; see `format.Writer`."""

    separator = b""
    end = b""

    def __init__(self, schema: Schema, options: FixedWidthWrite, layout: Any) -> None:
        self._fields = layouts.fields_of(layout)
        self._places = {column.name: (number, column) for number, column in enumerate(schema.columns)}
        self._line_end = _LINE_ENDS[options.line_separator]
        self._encoding = encoding.Encoding(options.encoding)
        self._is_utf8 = encoding.is_utf8(options.encoding)
        self.start = self.continued = self.empty = self._encoding.mark

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> format.Encoded:
        """The bytes of a batch that has the writer's columns, in their order; with `ends` where its records end.

        Raises:
            Unfit: a value is longer than its field, and must not be cut.
        """
        failed: dict[int, Failure] = {}
        cells = [self._cell(field, batch, failed) for field in self._fields]
        rows = [row for row in range(batch.num_rows) if row not in failed] if failed else range(batch.num_rows)
        if failed:
            cells = [cell.take(pa.array(rows, pa.int64())) for cell in cells]
        found = self._bytes([self._filled(field, cell) for field, cell in zip(self._fields, cells, strict=True)], ends)
        moved = [RowFailure(rows[each.row], each.failure) for each in found.failures]
        known = [RowFailure(row, failure) for row, failure in failed.items()]
        return format.Encoded(found.data, found.rows, sorted(known + moved, key=lambda each: each.row), found.ends)

    def _bytes(self, cells: list[pa.StringArray], ends: bool) -> format.Encoded:
        count = len(cells[0])
        if not count:
            return format.Encoded(b"", 0)
        try:
            lines = pc.binary_join_element_wise(*cells, self._line_end, "")
        except pa.ArrowCapacityError:
            # More than 2 GB of text: halves fit.
            half = count // 2
            first = self._bytes([cell.slice(0, half) for cell in cells], ends)
            return format.concatenated(first, self._bytes([cell.slice(half) for cell in cells], ends), half)
        return self._encoding.encode_column(lines, ends=ends)

    def _cell(self, field: Field, batch: pa.RecordBatch, failed: dict[int, Failure]) -> pa.StringArray:
        """The texts of a field, none longer than it is."""
        if field.name not in self._places:
            return pa.repeat("", batch.num_rows)
        number, column = self._places[field.name]
        text = pc.fill_null(self._texts(field, column, batch.column(number), failed), "")
        if self._line_end:
            for row in pc.indices_nonzero(pc.match_substring_regex(text, "[\r\n]")).to_pylist():
                failed.setdefault(row, Failure(f"column '{column.name}': a line end cannot stand in it"))
        sizes = pc.binary_length(text) if self._is_utf8 else pc.utf8_length(text)
        long = pc.indices_nonzero(pc.greater(sizes, field.width)).to_pylist()
        if not long:
            return text
        if (field.truncation or ("error" if self._is_number(field) else "warn")) == "error":
            shown = text[long[0]].as_py()
            message = f"field '{field.name}': value '{shown}' ({sizes[long[0]]} bytes) exceeds width {field.width}"
            raise format.Unfit(f"{message} — truncation policy is 'error'")
        texts = text.to_pylist()
        for row in long:
            texts[row] = self._cut(texts[row], field.width)
        return pa.array(texts, pa.string())

    def _cut(self, text: str, width: int) -> str:
        """The beginning of a text that fits, of whole characters."""
        return text.encode()[:width].decode(errors="ignore") if self._is_utf8 else text[:width]

    def _is_number(self, field: Field) -> bool:
        """Whether a field holds numbers, by its own type or else that of its column."""
        known = self._places.get(field.name)
        return field.is_number or (field.type is None and known is not None and known[1].type.kind in _NUMBERS)

    def _filled(self, field: Field, cell: pa.StringArray) -> pa.StringArray:
        """The texts as long as the field: numbers stand to the right where nothing else is said."""
        is_right = field.justify == "right" or (field.justify is None and self._is_number(field))
        if self._is_utf8:
            fill = pc.ascii_lpad if is_right else pc.ascii_rpad
        else:
            fill = pc.utf8_lpad if is_right else pc.utf8_rpad
        filled: pa.StringArray = fill(cell, field.width, field.pad)
        return filled

    def _texts(self, field: Field, column: Column, array: pa.Array, failed: dict[int, Failure]) -> pa.StringArray:
        if column.type.is_dynamic:
            return self._dynamic(field, column, array, failed)
        if field.format and column.type.kind in (Kind.DATE, Kind.DATETIME):
            form = field.format
            return pa.array(
                [None if one is None else strftime.write(one, form) for one in array.to_pylist()], pa.string()
            )
        return cast("pa.StringArray", array) if column.type.kind is Kind.STRING else cell_text.texts(array, column.type)

    def _dynamic(self, field: Field, column: Column, array: pa.Array, failed: dict[int, Failure]) -> pa.StringArray:
        """Texts of values that carry their kind; a map has no place in a field, an array leaves it empty."""
        texts: list[str | None] = []
        for row, value in enumerate(values.from_arrow(array, column.type)):
            texts.append(None if value is None or isinstance(value, dict | list) else values.text_of(value))
            if isinstance(value, dict):
                detail = f"column '{column.name}': a map cannot be written as fixed width; {_MAP_HELP}"
                failed.setdefault(row, Failure(detail, value=values.json_text(value), field=column.name))
        return pa.array(texts, pa.string())


def open_writer(
    schema: Schema, options: FixedWidthWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> FixedWidthWriter:
    """The writer of an output."""
    return FixedWidthWriter(schema, options, layout)
