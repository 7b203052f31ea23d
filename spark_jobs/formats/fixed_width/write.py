"""Batches to fixed-width bytes; `docs/semantics/fixed_width.md` has the rules for values that are too long."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.cxl.dates import strftime
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, encoding, format
from spark_jobs.formats.fixed_width import layout as layouts
from spark_jobs.formats.fixed_width import scales
from spark_jobs.formats.fixed_width.options import LineSeparator
from spark_jobs.formats.fixed_width.widths import Widths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.formats.fixed_width.layout import Field
    from spark_jobs.formats.fixed_width.options import FixedWidthWrite

_LINE_ENDS = {LineSeparator.LF: "\n", LineSeparator.CR_LF: "\r\n", LineSeparator.NONE: ""}
_NUMBERS = (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.NUMERIC)
_TIMES = (Kind.DATE, Kind.DATETIME)
_TIME_HELP = "make the field wider, or give it a `format` that fits, such as '%Y%m%d'"
_ARRAY_HELP = "make a record of each element with `emit each`, or emit its text (`.to_string()`)"
_MAP_HELP = "write its members as columns, or emit its text (`.to_string()`)"


@dataclass
class _Unwritable:
    """The problems of a batch's records, by their rows.

    Args:
        failed: failures of the records that cannot be written.
        unfit: failures of the records with a value that must not be cut.
        cuts: the values that were cut, for warnings.
    """

    failed: dict[int, Failure] = field(default_factory=dict)
    unfit: dict[int, Failure] = field(default_factory=dict)
    cuts: list[format.Cut] = field(default_factory=list)

    def take(self, other: _Unwritable, rows: NDArray[np.int64]) -> None:
        """Add the problems of another batch; `rows` are the places of its records in this batch."""
        for mine, its in ((self.failed, other.failed), (self.unfit, other.unfit)):
            mine |= {int(rows[row]): failure for row, failure in its.items()}
        for cut in other.cuts:
            self.cuts.append(replace(cut, values={int(rows[row]): value for row, value in cut.values.items()}))


class FixedWidthWriter:
    """Writes the fields of a layout, each from the column of its name; see `format.Writer`."""

    separator = b""
    end = b""

    def __init__(self, schema: Schema, options: FixedWidthWrite, layout: Any) -> None:
        self._kinds = layouts.kinds_of(layout)
        self._places = {column.name: (number, column) for number, column in enumerate(schema.columns)}
        self._line_end = _LINE_ENDS[options.line_separator]
        self._encoding = encoding.Encoding(options.encoding)
        self._widths = Widths(options.encoding)
        self.start = self.continued = self.empty = self._encoding.mark

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> format.Encoded:
        """The bytes of a batch that has the writer's columns, in their order; with `ends` where its records end.

        A record is unfit where a value is longer than its field and must not be cut.
        """
        if not batch.num_rows:
            return format.Encoded(b"", 0)
        try:
            lines, unwritable = self._lines(batch)
        except pa.ArrowCapacityError:
            # More than 2 GB of text: halves fit.
            half = batch.num_rows // 2
            first = self.encode(batch.slice(0, half), ends=ends)
            return format.concatenated(first, self.encode(batch.slice(half), ends=ends), half)
        unfit = {row: failure for row, failure in unwritable.unfit.items() if row not in unwritable.failed}
        gone = {*unwritable.failed, *unfit}
        if gone:
            rows: Sequence[int] = [row for row in range(batch.num_rows) if row not in gone]
            lines = lines.take(pa.array(rows, pa.int64()))
        else:
            rows = range(batch.num_rows)
        found = self._encoding.encode_column(lines, ends=ends) if len(lines) else format.Encoded(b"", 0)
        failed = unwritable.failed | {rows[each.row]: each.failure for each in found.failures}
        gone |= failed.keys()
        cuts = [
            replace(cut, values={row: value for row, value in cut.values.items() if row not in gone})
            for cut in unwritable.cuts
        ]
        return format.Encoded(
            found.data,
            found.rows,
            [RowFailure(row, failed[row]) for row in sorted(failed)],
            found.ends,
            unfit=[RowFailure(row, unfit[row]) for row in sorted(unfit)],
            cuts=[cut for cut in cuts if cut.values],
        )

    def _lines(self, batch: pa.RecordBatch) -> tuple[pa.StringArray, _Unwritable]:
        """The records of a batch as lines, and the problems of records that cannot be written."""
        unwritable = _Unwritable()
        if self._kinds.tags is None:
            return self._joined(self._kinds.kinds[0].fields, batch, unwritable), unwritable
        parts: list[pa.StringArray] = []
        order: list[np.ndarray] = []
        kinds = self._kind(batch, unwritable.failed)
        for number, kind in enumerate(self._kinds.kinds):
            rows = np.flatnonzero(kinds == number)
            if len(rows):
                mine = _Unwritable()
                parts.append(self._joined(kind.fields, batch.take(pa.array(rows)), mine))
                unwritable.take(mine, rows)
                order.append(rows)
        strange = np.flatnonzero(kinds < 0)
        parts.append(pa.nulls(len(strange), pa.string()))
        place = np.empty(batch.num_rows, dtype=np.int64)
        place[np.concatenate([*order, strange])] = np.arange(batch.num_rows)
        return pa.concat_arrays(parts).take(pa.array(place)), unwritable

    def _kind(self, batch: pa.RecordBatch, failed: dict[int, Failure]) -> NDArray[np.int64]:
        """The number of each record's kind, by the column that has its tag; -1 where no kind has it."""
        name = self._kinds.column
        known = self._places.get(name or "")
        tags = pa.array([kind.tag for kind in self._kinds.kinds], pa.string())
        if known is None:
            texts = pa.nulls(batch.num_rows, pa.string())
        else:
            texts = cell_text.texts(batch.column(known[0]), known[1].type)
        found: NDArray[np.int64] = pc.fill_null(
            pc.index_in(pc.utf8_trim_whitespace(texts), value_set=tags), -1
        ).to_numpy()
        for row in np.flatnonzero(found < 0).tolist():
            text = texts[row].as_py()
            detail = f"no kind of records has the tag '{text or ''}' (there are {', '.join(tags.to_pylist())})"
            failed[row] = Failure(detail, value=text, field=name)
        return found

    def _joined(self, fields: Sequence[Field], batch: pa.RecordBatch, unwritable: _Unwritable) -> pa.StringArray:
        """Records of one kind, each with its line end."""
        if not fields:
            return pa.repeat(self._line_end, batch.num_rows)
        cells = [self._filled(field, self._cell(field, batch, unwritable)) for field in fields]
        joined: pa.StringArray = pc.binary_join_element_wise(*cells, self._line_end, "")
        return joined

    def _cell(self, field: Field, batch: pa.RecordBatch, unwritable: _Unwritable) -> pa.StringArray:
        """The texts of a field, none longer than it is."""
        if field.column not in self._places:
            return self._fitting(field, pa.repeat(field.default or "", batch.num_rows), None, unwritable)
        number, column = self._places[field.column]
        text = self._texts(field, column, batch.column(number), unwritable.failed)
        if field.scale:
            text = self._scaled(field, text, unwritable.failed)
        text = pc.fill_null(text, field.default or "")
        data = cell_text.characters(text)
        if self._line_end and (data.find(b"\n") >= 0 or data.find(b"\r") >= 0):
            for row in pc.indices_nonzero(pc.match_substring_regex(text, "[\r\n]")).to_pylist():
                unwritable.failed.setdefault(row, Failure(f"column '{column.name}': a line end cannot stand in it"))
        return self._fitting(field, text, batch.column(number) if column.type.is_dynamic else None, unwritable)

    def _fitting(
        self, field: Field, text: pa.StringArray, dynamic: pa.Array | None, unwritable: _Unwritable
    ) -> pa.StringArray:
        """Texts that fit: longer ones are cut, or their records are unfit. `dynamic` says of what kind they are."""
        sizes = self._widths.sizes(text)
        long = pc.indices_nonzero(pc.greater(sizes, field.width)).to_pylist()
        if not long:
            return text
        cut: dict[int, str] = {}
        texts = text.to_pylist()
        for row in long:
            shown = texts[row]
            if (field.truncation or self._policy(field, dynamic, row)) == "error":
                message = f"field '{field.name}': value '{shown}' ({sizes[row]} bytes) exceeds width {field.width}"
                help_text = f"; {_TIME_HELP}" if self._is_time(field) else ""
                detail = f"{message} — truncation policy is 'error'{help_text}"
                unwritable.unfit.setdefault(row, Failure(detail, value=shown, field=field.name))
                texts[row] = ""
                continue
            cut[row] = shown
            texts[row] = self._widths.cut(shown, field.width)
        if cut and field.truncation != "silent":
            width = "1 byte" if field.width == 1 else f"{field.width} bytes"
            unwritable.cuts.append(format.Cut(field.name, f"field '{field.name}': values cut to its {width}", cut))
        return pa.array(texts, pa.string())

    def _policy(self, field: Field, dynamic: pa.Array | None, row: int) -> str:
        """The policy for a long value if its field has none: a number or a date would become another one."""
        if self._is_number(field) or self._is_time(field):
            return "error"
        if dynamic is None or field.type is not None:
            return "warn"
        value = values.decode(dynamic[row].as_py() or "null")
        is_whole = isinstance(value, (int, float, Decimal, date)) and not isinstance(value, bool)
        return "error" if is_whole else "warn"

    def _scaled(self, field: Field, text: pa.StringArray, failed: dict[int, Failure]) -> pa.StringArray:
        """Numbers without their decimal points; a text that is no number is a failure of its record."""
        found, bad = scales.without_point(text, field.scale)
        for row in bad:
            shown = text[row].as_py()
            detail = f"field '{field.name}': '{shown}' is not a number with {field.scale} decimal places"
            failed.setdefault(row, Failure(detail, value=shown, field=field.name))
        return found

    def _is_number(self, field: Field) -> bool:
        """Whether a field holds numbers, by its own type, or else by the type of its column."""
        return field.is_number or (field.type is None and self._kind_of(field) in _NUMBERS)

    def _is_time(self, field: Field) -> bool:
        """Whether a field holds dates or date-times, likewise."""
        return field.is_time or (field.type is None and self._kind_of(field) in _TIMES)

    def _kind_of(self, field: Field) -> Kind | None:
        known = self._places.get(field.column)
        return None if known is None else known[1].type.kind

    def _filled(self, field: Field, cell: pa.StringArray) -> pa.StringArray:
        """The texts as long as the field: numbers stand to the right where nothing else is said."""
        is_right = field.justify == "right" or (field.justify is None and self._is_number(field))
        return self._widths.filled(cell, field.width, field.pad, is_right=is_right)

    def _texts(self, field: Field, column: Column, array: pa.Array, failed: dict[int, Failure]) -> pa.StringArray:
        if column.type.is_dynamic:
            return self._dynamic(field, column, array, failed)
        if field.format and column.type.kind in _TIMES:
            form = field.format
            return pa.array(
                [None if one is None else strftime.write(one, form) for one in array.to_pylist()], pa.string()
            )
        return cast("pa.StringArray", array) if column.type.kind is Kind.STRING else cell_text.texts(array, column.type)

    def _dynamic(self, field: Field, column: Column, array: pa.Array, failed: dict[int, Failure]) -> pa.StringArray:
        """Texts of values that carry their kind; an array or a map has no place in a field."""
        for row, value in cell_text.containers(array, column.type).items():
            what, help_text = ("a map", _MAP_HELP) if isinstance(value, dict) else ("an array", _ARRAY_HELP)
            detail = f"column '{column.name}': {what} cannot be written as fixed width; {help_text}"
            failed.setdefault(row, Failure(detail, value=values.json_text(value), field=column.name))
        return cell_text.texts(array, column.type)


def open_writer(
    schema: Schema, options: FixedWidthWrite, *, include_header: bool, preserve_nulls: bool, layout: Any
) -> FixedWidthWriter:
    """The writer of an output."""
    return FixedWidthWriter(schema, options, layout)
