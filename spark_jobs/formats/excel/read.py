"""The Excel files of a source: the sheets of each, one after the other, as the records of one file.

One task reads a file. Workbooks are decoded in a process of their own (`decoding.py`), which sends the cells of
required columns; here they are converted to the declared types. Failures name their cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns, types, values
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import format, reader
from spark_jobs.formats.columns import MISFIT
from spark_jobs.formats.excel import numbers, ranges
from spark_jobs.formats.isolated import process
from spark_jobs.formats.typed import reader as typed_reader
from spark_jobs.formats.typed.records import Refusals, TypedShape
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.excel.options import ExcelRead
    from spark_jobs.formats.format import ArrayPath, Block, Reading, SourceColumn
    from spark_jobs.formats.isolated.process import Session
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.files import InputFile

_DECODER = "spark_jobs.formats.excel.decoding"
#: Shared texts and formats of cells need some memory, whatever is read.
_LEAST_MEMORY = 64 << 20
_SHEET_NAME = f"{format.DOCUMENT}sheet.name"
_KINDS = {
    "text": types.STRING,
    "int": types.INT,
    "bool": types.BOOL,
    "date": types.DATE,
    "moment": types.DATETIME,
    "any": types.ANY,
}
#: Numbers of so many characters are floats without loss.
_SHORT = 15


@dataclass(frozen=True)
class ExcelReader(reader.HeadReader[reader.Head]):
    """Reads Excel files.

    Args:
        columns: the declared columns.
    """

    columns: tuple[SourceColumn, ...] = ()

    undeclared_type: ClassVar[Type] = types.ANY

    def knowing(self, declared: Sequence[SourceColumn]) -> ExcelReader:
        """The reader that knows how values are spelled."""
        return replace(self, columns=tuple(declared))

    def _settings(self) -> dict[str, Any]:
        options: ExcelRead = self.options
        columns = options.columns
        if not options.has_header and not columns:
            columns = tuple(column.key for column in self.columns)
        return {
            "sheets": options.sheets,
            "range": options.range,
            "has_header": options.has_header,
            "header_row": options.header_row,
            "columns": columns,
        }

    def head(self, file: InputFile, declared: Sequence[str]) -> reader.Head | None:
        """The names in the headers of the sheets."""
        if not file.size:
            return None
        memory = _memory(self.record_bytes)
        try:
            with changes.opened(file) as stream:
                edges = stream.edges()
                with process.opened(stream, file.name, _DECODER, memory, **self._settings()) as session:
                    columns = _columns(session, file)
        except process.TooLarge:
            text = f"its header, or the texts before it, take {_too_much(memory)}"
            raise FormatError(text, file.name, "E310") from None
        return reader.Head(file=replace(file, edges=edges), names=columns, data_start=0, is_splittable=False)

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a file's sheets."""
        outcome.start, outcome.end = split.start, split.end
        file = file_plan.file
        needed = typed_reader.needed(wanted, file_plan)
        memory = _memory(wanted.record_bytes)
        sheets: list[_Sheet] = []
        try:
            with (
                changes.opened(file) as stream,
                process.opened(stream, file.name, _DECODER, memory, **self._settings()) as session,
            ):
                columns = _columns(session, file)
                sheets = [_Sheet(each["name"], dict(each["columns"])) for each in session.about["sheets"]]
                shape = _Shape(wanted, file_plan, needed, columns)
                for batch in session.batches(
                    names=[columns[at] for at in needed], bytes=wanted.block_bytes, row_bytes=wanted.record_bytes
                ):
                    sheet = sheets[batch.column(0)[0].as_py()]
                    if batch.schema.names[1] == "outside":
                        outcome.warnings.append(_outside(file, sheet, batch))
                        continue
                    first, outcome.records = outcome.records, outcome.records + batch.num_rows
                    yield shape.block(first, batch, sheet)
        except process.TooLarge:
            text = f"a record, or the texts that cells share, take {_too_much(memory)}"
            raise FormatError(text, file.name, "E310") from None


def _memory(record_bytes: int) -> int:
    """The memory limit of the process that decodes a workbook, in bytes."""
    return max(_LEAST_MEMORY, 3 * record_bytes)


def _too_much(memory: int) -> str:
    return (
        f"more memory than memory.limit leaves to each task, {memory} bytes; raise memory.limit, or use fewer threads"
    )


@dataclass(frozen=True)
class _Sheet:
    """The name of a sheet, and the numbers of its columns by their names."""

    name: str
    columns: Mapping[str, int]

    def cell(self, column: str | None) -> str:
        """The beginning of a column's cell references: everything but the row number."""
        number = self.columns.get(column or "")
        name = self.name if self.name.isidentifier() else "'" + self.name.replace("'", "''") + "'"
        return f"{name}!{ranges.letters_of(number) if number else ''}"


class _Shape:
    """Converts the cells of a file to the records of a source."""

    def __init__(self, wanted: Reading, file_plan: FilePlan, needed: Sequence[int], columns: Sequence[str]) -> None:
        self._shape = TypedShape(wanted, file_plan.columns)
        self._wanted = wanted
        self._needed = needed
        self._columns = columns
        pairs = zip(wanted.columns, file_plan.columns.declared, strict=False)
        self._declared = {field: column for column, field in pairs if field is not None}
        self._fields = {column.name: columns[field] for field, column in self._declared.items()}

    def block(self, first: int, batch: pa.RecordBatch, sheet: _Sheet) -> Block:
        """The records of a batch."""
        count = batch.num_rows
        found: dict[int, tuple[pa.Array, Type]] = {at: (pa.nulls(count, pa.string()), types.ANY) for at in self._needed}
        refused: dict[int, Refusals] = {}
        for name, array in zip(batch.schema.names[2:], batch.columns[2:], strict=True):
            kind, _, number = name.partition(":")
            at = self._needed[int(number)]
            if kind == "error":
                texts = _without(array, self._nulls(at))
                if texts.null_count < count:
                    refused[at] = Refusals(texts, "the cell has the error ")
            else:
                found[at] = self._column(at, kind, array)
        block = self._shape.block(first, count, found, refused)
        if len(block.failures):
            block.failures = self._placed(block.failures, first, batch.column(1), sheet)
        if _SHEET_NAME in self._wanted.documents:
            block.documents = {_SHEET_NAME: sheet.name}
        return block

    def _nulls(self, at: int) -> tuple[str, ...]:
        column = self._declared.get(at)
        return self._wanted.null_values if column is None else column.spelling.null_values

    def _column(self, at: int, kind: str, array: pa.Array) -> tuple[pa.Array, Type]:
        """A column as a column of ours."""
        nulls = self._nulls(at)
        if kind == "number":
            column = self._declared.get(at)
            return _numbers(array, Kind.ANY if column is None else column.type.kind)
        if kind == "any" and nulls:
            return _without(array, [text for text in map(values.encode, nulls) if text]), types.ANY
        if kind == "text" and at not in self._declared:
            return _without(array, nulls), types.STRING
        return array, _KINDS[kind]

    def _placed(
        self, failing: failure_columns.Failures, first: int, rows: pa.Array, sheet: _Sheet
    ) -> failure_columns.Failures:
        """Failures whose details say in which cells they are."""
        details = pa.nulls(len(failing), pa.string()) if failing.details is None else failing.details
        reason = pa.array(failing.reason, pa.int64())
        fields = [None if each.field is None else self._fields.get(each.field) for each in failing.reasons]
        before = pa.array([each.before for each in failing.reasons], pa.string()).take(reason)
        after = pa.array([each.after for each in failing.reasons], pa.string()).take(reason)
        cell = pa.array([f" (cell {sheet.cell(field)}" for field in fields], pa.string()).take(reason)
        whole = pc.binary_join_element_wise(before, pc.fill_null(failing.values, ""), after, "")
        number = rows.take(pa.array(failing.rows - first)).cast(pa.string())
        texts = pc.binary_join_element_wise(pc.coalesce(details, whole, before), cell, number, ")", "")
        reasons = tuple(replace(each, before=None, after=None) for each in failing.reasons)
        return replace(failing, reasons=reasons, details=texts)


def _without(array: pa.Array, nulls: Sequence[str]) -> pa.StringArray:
    """Texts, with null in place of the texts that stand for null."""
    if not nulls:
        return array  # type: ignore[return-value]  # texts
    is_null = pc.is_in(array, value_set=pa.array(nulls, pa.string()))
    return pc.if_else(is_null, pa.scalar(None, pa.string()), array)  # type: ignore[return-value]  # texts


def _numbers(texts: pa.Array, wanted: Kind) -> tuple[pa.Array, Type]:
    """Numbers that are not all ints: floats if the column is declared so, else each with its own type."""
    if wanted is Kind.FLOAT or (wanted is Kind.INT and pc.max(pc.binary_length(texts)).as_py() <= _SHORT):
        return texts.cast(pa.float64()), types.FLOAT
    distinct = pc.dictionary_encode(texts)
    found = [values.encode(numbers.value_of(text)) for text in distinct.dictionary.to_pylist()]
    return pa.array(found, pa.string()).take(distinct.indices), types.ANY


def _columns(session: Session, file: InputFile) -> tuple[str, ...]:
    """The names of the columns of all sheets, in first-seen order.

    Raises:
        FormatError: a sheet names a column twice (E217).
    """
    found: dict[str, None] = {}
    for sheet in session.about["sheets"]:
        here: dict[str, int] = {}
        for name, number in sheet["columns"]:
            if name in here:
                letters = " and ".join(ranges.letters_of(each) for each in (here[name], number))
                text = (
                    f"the header of sheet '{sheet['name']}' names column '{name}' twice, in {letters}; rename one of "
                    "them, or give the names with `options.columns`"
                )
                raise FormatError(text, file.name, MISFIT)
            here[name] = number
        found.update(dict.fromkeys(here))
    return tuple(found)


def _outside(file: InputFile, sheet: _Sheet, batch: pa.RecordBatch) -> str:
    count, cell = batch.column(1), batch.column(2)
    return (
        f"{file.name}: values in columns that the header of sheet '{sheet.name}' does not name, which are left out: "
        f"{count[0]}, the first in {cell[0]}; name the columns, or give a `range`"
    )


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> ExcelReader:
    """The reader of a source's files."""
    return ExcelReader(options, arrays, layout)
