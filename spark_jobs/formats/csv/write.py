"""Batches to CSV bytes.

One Arrow kernel joins the text columns, and the data buffer of its result is the bytes of the file. A column is
examined for quoting only if a character that needs quotes occurs in it at all. A record with a map, or with a character
that the encoding lacks, fails at this output alone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, encoding, format

if TYPE_CHECKING:
    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.formats.csv.options import CsvWrite

#: Kinds whose texts have letters, digits and these signs only: none of the usual delimiters and quote characters.
_PLAIN_KINDS = (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.DATE, Kind.DATETIME)
_PLAIN_SIGNS = "+-.:"
#: The two ways to write a map to CSV.
_MAP_HELP = "write its members as columns, or emit its text (`.to_string()`)"


class CsvWriter:
    """Writes the columns of an output as CSV; see `format.Writer`."""

    separator = b""
    end = b""

    def __init__(self, schema: Schema, options: CsvWrite, *, include_header: bool = True) -> None:
        self._columns = schema.columns
        self._delimiter, self._quote = options.delimiter, options.quote_char
        self._encoding = encoding.Encoding(options.encoding)
        special = (self._delimiter, self._quote, "\n", "\r")
        self._special = tuple(character.encode() for character in special)
        self._needs_quotes = "[" + "".join(map(re.escape, special)) + "]"
        self._plain_kinds = () if any(c.isalnum() or c in _PLAIN_SIGNS for c in special) else _PLAIN_KINDS
        self.header = self._header() if include_header else b""
        self.continued = self._encoding.mark
        self.start = self.continued + self.header
        self.empty = self.start

    def _header(self) -> bytes:
        names = [self._quoted(pa.array([column.name], pa.string())) for column in self._columns]
        return self._encoding.encode(self._joined(names).to_pylist()[0]) if names else b""

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> format.Encoded:
        """The bytes of a batch that has the writer's columns, in their order; with `ends` where its records end."""
        failures: list[RowFailure] = []
        cells = []
        for column, array in zip(self._columns, batch.columns, strict=True):
            cells.append(self._cells(column, array, failures))
        failures = _first_of_each_row(failures)
        if failures:
            kept = _others(batch.num_rows, failures)
            cells = [column.take(kept) for column in cells]
        encoded = self._bytes(cells, batch.num_rows - len(failures), ends)
        if not encoded.failures:
            return replace(encoded, failures=failures)
        rows = kept.to_pylist() if failures else range(batch.num_rows)
        moved = [RowFailure(rows[failure.row], failure.failure) for failure in encoded.failures]
        return replace(encoded, failures=sorted(failures + moved, key=lambda failure: failure.row))

    def _cells(self, column: Column, array: pa.Array, failures: list[RowFailure]) -> pa.StringArray:
        if column.type.is_dynamic:
            # A map has no place in a cell.
            maps = cell_text.containers(array, column.type).items()
            failures += [RowFailure(row, _map_refused(column, map_)) for row, map_ in maps if isinstance(map_, dict)]
        is_text = column.type.kind is Kind.STRING
        text = cast("pa.StringArray", array) if is_text else cell_text.texts(array, column.type)
        return text if column.type.kind in self._plain_kinds else self._quoted(text)

    def _quoted(self, text: pa.StringArray) -> pa.StringArray:
        """The texts, with quotes around each text that needs them."""
        data = cell_text.characters(text)
        if all(data.find(character) < 0 for character in self._special):
            return text
        quote = self._quote
        doubled = pc.replace_substring(text, quote, quote * 2) if data.find(quote.encode()) >= 0 else text
        quoted = pc.binary_join_element_wise(quote, doubled, quote, "")
        return pc.if_else(pc.match_substring_regex(text, self._needs_quotes), quoted, text)

    def _joined(self, cells: list[pa.StringArray]) -> pa.StringArray:
        """Join the cells of each record with a line end.

        A single empty cell is quoted, since empty lines are skipped.
        """
        *others, last = cells
        if not others:
            empty = pa.repeat(self._quote * 2, len(last))
            last = pc.if_else(pc.equal(pc.fill_null(last, ""), ""), empty, last)
        ended = pc.binary_join_element_wise(last, "\n", "", null_handling="replace")
        return (
            pc.binary_join_element_wise(*others, ended, self._delimiter, null_handling="replace") if others else ended
        )

    def _bytes(self, cells: list[pa.StringArray], rows: int, ends: bool) -> format.Encoded:
        if rows == 0:
            return format.Encoded(b"", 0)
        if not cells:
            line = self._encoding.encode("\n")
            return format.Encoded(line * rows, rows, ends=np.arange(1, rows + 1) * len(line))
        try:
            lines = self._joined(cells)
        except pa.ArrowCapacityError:
            # More than 2 GB of text: halves fit.
            half = rows // 2
            first = self._bytes([column.slice(0, half) for column in cells], half, ends)
            second = self._bytes([column.slice(half) for column in cells], rows - half, ends)
            return format.concatenated(first, second, half)
        return self._encoding.encode_column(lines, ends=ends)


def _map_refused(column: Column, value: object) -> Failure:
    detail = f"column '{column.name}': a map cannot be written as CSV; {_MAP_HELP}"
    return Failure(detail, value=values.json_text(value), field=column.name)


def _first_of_each_row(failures: list[RowFailure]) -> list[RowFailure]:
    by_row: dict[int, RowFailure] = {}
    for failure in failures:
        by_row.setdefault(failure.row, failure)
    return [by_row[row] for row in sorted(by_row)]


def _others(rows: int, failures: list[RowFailure]) -> pa.Int64Array:
    failed = {failure.row for failure in failures}
    return pa.array([row for row in range(rows) if row not in failed], pa.int64())


def open_writer(
    schema: Schema, options: CsvWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> CsvWriter:
    """The writer of an output."""
    return CsvWriter(schema, options, include_header=include_header)
