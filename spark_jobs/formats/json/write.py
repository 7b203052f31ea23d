"""Batches to JSON bytes: one array, or one object a line, each with a line end.

Like CSV, records are texts joined by one Arrow kernel: keys are constants between the value columns. Unless
`preserve_nulls` is set, the key of a null is left out: a column with nulls first becomes a column of `,"key":value`
pieces, and the join skips the null ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, encoding, format
from spark_jobs.formats.json.options import JsonLayout
from spark_jobs.formats.typed import spelling

if TYPE_CHECKING:
    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.json.options import JsonWrite

_QUOTED_KINDS = (Kind.STRING, Kind.DATE, Kind.DATETIME)
_SMALLEST_WITHOUT_EXPONENT = 1e-5


class JsonWriter:
    """Writes the columns of an output as JSON; see `format.Writer`."""

    def __init__(self, schema: Schema, options: JsonWrite, *, preserve_nulls: bool = False) -> None:
        self._columns = schema.columns
        self._preserve_nulls = preserve_nulls
        self._pretty = options.pretty
        self._encoding = encoding.Encoding(options.encoding)
        is_lines = options.format is JsonLayout.NDJSON
        encode, mark = self._encoding.encode, self._encoding.mark
        self._ending = "\n" if is_lines else ",\n"
        self.separator = b"" if is_lines else encode(",\n")
        self.start = mark + (b"" if is_lines else encode("[\n"))
        self.continued = self.start
        self.end = b"" if is_lines else encode("\n]\n")
        self.empty = mark + (b"" if is_lines else encode("[]\n"))

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> format.Encoded:
        """The bytes of a batch that has the writer's columns, in their order; with `ends` where its records end."""
        if batch.num_rows == 0:
            return format.Encoded(b"", 0)
        try:
            lines = self._pretty_lines(batch) if self._pretty else self._lines(batch)
        except pa.ArrowCapacityError:
            # More than 2 GB of text: halves fit.
            half = batch.num_rows // 2
            first, second = (self.encode(part, ends=ends) for part in (batch.slice(0, half), batch.slice(half)))
            return format.concatenated(first, second, half, self.separator)
        encoded = self._encoding.encode_column(lines, ends=ends)
        if self.separator and encoded.rows:
            encoded.data = encoded.data[: -len(self.separator)]
        return encoded

    def _lines(self, batch: pa.RecordBatch) -> pa.StringArray:
        """One text per record with its line end.

        The first column without nulls needs no comma before it; those before it bring their comma after, those after
        it in front.
        """
        # Columns without a value are not written; of many columns most may be like that.
        members = [
            self._member(column, array)
            for column, array in zip(self._columns, batch.columns, strict=True)
            if self._preserve_nulls or array.null_count < len(array)
        ]
        anchor = next((index for index, member in enumerate(members) if not member.value.null_count), None)
        if anchor is None:
            return self._lines_without_anchor(members, batch.num_rows)
        parts: list[Any] = ["{"]
        for index, member in enumerate(members):
            before = "," if index > anchor else ""
            after = "," if index < anchor else ""
            parts += member.parts(before, after)
        return pc.binary_join_element_wise(*_merged([*parts, "}" + self._ending]), "", null_handling="skip")

    def _lines_without_anchor(self, members: list[_Member], rows: int) -> pa.StringArray:
        if not members:
            return pa.array(["{}" + self._ending] * rows, pa.string())
        pieces = [part for member in members for part in member.parts(",", "")]
        # The join of nulls alone is null: the empty text makes it an empty record.
        joined = pc.binary_join_element_wise("", *pieces, "", null_handling="skip")
        body = pc.binary_replace_slice(joined, 0, 1, "")
        return pc.binary_join_element_wise("{", body, "}" + self._ending, "")

    def _member(self, column: Column, array: pa.Array) -> _Member:
        text = _json_texts(array, column.type)
        mark = '"' if column.type.kind in _QUOTED_KINDS else ""
        if text.null_count and self._preserve_nulls:
            text = pc.binary_join_element_wise(mark, text, mark, "") if mark else text
            text, mark = pc.fill_null(text, "null"), ""
        return _Member(values.json_text(column.name) + ":" + mark, text, mark)

    def _pretty_lines(self, batch: pa.RecordBatch) -> pa.StringArray:
        names = [column.name for column in self._columns]
        columns = zip(batch.columns, self._columns, strict=True)
        items = [values.from_arrow(array, column.type) for array, column in columns]
        rows = zip(*items, strict=True) if items else ((),) * batch.num_rows
        return pa.array([_pretty(self._record(names, row)) + self._ending for row in rows], pa.string())

    def _record(self, names: list[str], row: tuple[Any, ...]) -> dict[str, Any]:
        return {
            name: value for name, value in zip(names, row, strict=True) if self._preserve_nulls or value is not None
        }


class _Member:
    """One member of all objects of a batch: the constant before its value, the values, the constant after."""

    def __init__(self, before: str, value: pa.StringArray, after: str) -> None:
        self._before = before
        self.value = value
        self._after = after

    def parts(self, before: str, after: str) -> list[Any]:
        """Give the parts to join for this member, with its commas. A member that may be absent is one part."""
        if not self.value.null_count:
            return [before + self._before, self.value, self._after + after]
        return [pc.binary_join_element_wise(before + self._before, self.value, self._after + after, "")]


def _merged(parts: list[Any]) -> list[Any]:
    """The parts with neighbouring constants made one, for the kernel appends part by part."""
    merged: list[Any] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return merged


def _json_texts(array: pa.Array, static: Type) -> pa.StringArray:
    """The JSON text of each value, without the quotes of texts and dates; null stays null."""
    if static.is_dynamic:
        return spelling.of_tagged(cast("pa.StringArray", array))
    if static.kind is Kind.ARRAY:
        items = values.from_arrow(array, static)
        return pa.array([None if item is None else values.json_text(item) for item in items], pa.string())
    match static.kind:
        case Kind.STRING:
            return spelling.escaped(cast("pa.StringArray", array))
        case Kind.FLOAT:
            return spelling.floats(array, _SMALLEST_WITHOUT_EXPONENT, values.json_float_text)
        case _:
            return cell_text.texts(array, static)


def _pretty(value: Any, indent: str = "") -> str:
    """A value over several lines with two spaces of indentation; empty containers stay on one line."""
    inner = indent + "  "
    if value.__class__ is dict and value:
        entries = [f"{inner}{values.json_text(key)}: {_pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
    if value.__class__ is list and value:
        return "[\n" + ",\n".join(inner + _pretty(item, inner) for item in value) + f"\n{indent}]"
    return values.json_text(value)


def open_writer(
    schema: Schema, options: JsonWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> JsonWriter:
    """The writer of an output."""
    return JsonWriter(schema, options, preserve_nulls=preserve_nulls)
