"""Workbooks that outputs write: what another reader finds in them, and what no cell holds."""

from __future__ import annotations

import io
import zipfile
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import openpyxl
import pyarrow as pa
import pytest

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import format, registry
from spark_jobs.formats.excel import package, ranges
from spark_jobs.formats.excel.options import ExcelWrite
from spark_jobs.formats.excel.write import MOST_TEXT, Workbook
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from openpyxl.cell import Cell

    Columns = dict[str, tuple[types.Type, list[Any]]]


def encoded(columns: Columns, **chosen: Any) -> tuple[Any, format.Encoded]:
    schema = Schema(tuple(Column(name, kind) for name, (kind, _) in columns.items()))
    arrays = [values.to_arrow(found, kind) for kind, found in columns.values()]
    writer: Any = registry.named("excel").writer(schema, ExcelWrite(), **chosen)
    return writer, writer.encode(pa.RecordBatch.from_arrays(arrays, names=[*columns]))


def written(columns: Columns, **chosen: Any) -> bytes:
    writer, done = encoded(columns, **chosen)
    assert done.failures == []
    sink = io.BytesIO()
    writer.convert(io.BytesIO(writer.start + bytes(done.data) + writer.end), sink)
    return sink.getvalue()


def cells(kind: types.Type, found: list[Any]) -> list[Cell]:
    """The cells of a column below its name, as openpyxl reads them."""
    book = openpyxl.load_workbook(io.BytesIO(written({"x": (kind, found)})))
    (column,) = book.active.iter_cols()
    assert (column[0].value, column[0].font.bold) == ("x", True)
    return [*column[1:]]


def shown(kind: types.Type, found: list[Any]) -> list[tuple[Any, str]]:
    return [(cell.value, cell.number_format) for cell in cells(kind, found)]


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        (types.BOOL, True, (True, "General")),
        (types.INT, -7, (-7, "0")),
        (types.INT, 999_999_999_999_999, (999_999_999_999_999, "0")),
        (types.INT, 1_000_000_000_000_000, ("1000000000000000", "General")),
        (types.FLOAT, 0.1 + 0.2, (0.30000000000000004, "General")),
        (types.FLOAT, 1e300, (1e300, "General")),
        (types.FLOAT, float("nan"), ("NaN", "General")),
        (types.FLOAT, float("-inf"), ("-inf", "General")),
        (types.decimal_of(12, 2), Decimal("12.50"), (12.5, "0.00")),
        (types.decimal_of(20, 2), Decimal("-123456789012345.67"), ("-123456789012345.67", "General")),
        (types.decimal_of(9, 0), Decimal(12), (12, "0")),
        (types.STRING, "=1+1", ("=1+1", "General")),
        (types.STRING, "00123", ("00123", "General")),
        (types.STRING, " <r>&amp;</r>\n", (" <r>&amp;</r>\n", "General")),
        (types.DATE, date(2026, 5, 1), (datetime(2026, 5, 1), "yyyy-mm-dd")),
        (types.DATE, date(1900, 3, 1), (datetime(1900, 3, 1), "yyyy-mm-dd")),
        (types.DATE, date(1900, 2, 28), (datetime(1900, 2, 28), "yyyy-mm-dd")),
        (types.DATE, date(1899, 12, 31), ("1899-12-31", "General")),
        (types.DATETIME, datetime(2026, 5, 1, 23, 59, 59), (datetime(2026, 5, 1, 23, 59, 59), "yyyy-mm-dd hh:mm:ss")),
        (
            types.DATETIME, datetime(2026, 5, 1, 0, 0, 0, 1000),
            (datetime(2026, 5, 1, 0, 0, 0, 1000), "yyyy-mm-dd hh:mm:ss.000"),
        ),
        (types.DATETIME, datetime(2026, 5, 1, 0, 0, 0, 1), ("2026-05-01T00:00:00.000001", "General")),
        (types.array_of(types.INT), [1, 2], ("[1,2]", "General")),
        (types.MAP, {"a": 1}, ('{"a":1}', "General")),
    ],
)  # fmt: skip
def test_a_cell_has_the_value_and_the_format_of_its_type(kind: types.Type, value: Any, cell: tuple[Any, str]) -> None:
    assert shown(kind, [value]) == [cell]
    # Values of any kind are written like those of a column of their kind.
    assert shown(types.ANY, [value, None, "text"]) == [cell, (None, "General"), ("text", "General")]


def test_characters_that_xml_has_no_place_for_are_escaped() -> None:
    """openpyxl does not read the escapes of the format; `test_round_trips.py` reads them back."""
    assert shown(types.STRING, ["a\r\nb\x01_x0041_"])[0][0] == "a_x000D_\nb_x0001__x005F_x0041_"


def test_a_text_that_is_too_long_for_a_cell_is_a_dead_letter() -> None:
    fits, long, pairs = "x" * MOST_TEXT, "y" * (MOST_TEXT + 1), "😀" * (MOST_TEXT // 2 + 1)
    for kind in (types.STRING, types.ANY):
        _, done = encoded({"a": (kind, [fits, long, None, pairs, "é" * MOST_TEXT])})
        assert [(failed.row, failed.failure.field, failed.failure.value) for failed in done.failures] == [
            (1, "a", long[:1000]), (3, "a", pairs[:1000])
        ]  # fmt: skip
        assert "32,768 characters; a cell has no more than 32,767" in done.failures[0].failure.detail
        assert done.rows == 3


def test_too_many_columns_and_too_long_names_end_the_run() -> None:
    with pytest.raises(format.UnwritableFile, match="no more than 16,384 columns"):
        encoded({f"c{number}": (types.INT, [1]) for number in range(ranges.COLUMNS + 1)})
    with pytest.raises(format.UnwritableFile, match="no more than 32,767 characters"):
        encoded({"n" * (MOST_TEXT + 1): (types.INT, [1])})


def test_the_last_column_of_a_sheet_is_xfd() -> None:
    data = written({f"c{number}": (types.INT, [number]) for number in range(ranges.COLUMNS)})
    sheet = openpyxl.load_workbook(io.BytesIO(data)).active
    assert (sheet.dimensions, sheet["XFD2"].value, sheet["ZZ2"].value) == ("A1:XFD2", 16_383, 701)


@pytest.mark.parametrize("include_header", [True, False])
def test_records_beyond_a_sheet_go_on_in_the_next_one(include_header: bool) -> None:
    sink = io.BytesIO()
    book = Workbook(sink, [("id", types.INT)], "A long name of thirty-one signs", include_header, most_rows=4)
    for start in (0, 5):
        book.write_table(pa.table({"id": pa.array(range(start, start + 5))}))
    book.close()
    header = [("id",)] if include_header else []
    found = {sheet.title: [*sheet.iter_rows(values_only=True)] for sheet in openpyxl.load_workbook(sink)}
    size = 3 if include_header else 4
    names = ["A long name of thirty-one signs", *(f"A long name of thirty-one s ({n})" for n in range(2, 5))]
    pieces = [[(row,) for row in range(start, min(start + size, 10))] for start in range(0, 10, size)]
    assert found == {name: header + piece for name, piece in zip(names, pieces, strict=False)}


def test_a_workbook_without_records_has_its_header() -> None:
    writer, _ = encoded({"a": (types.INT, []), "b": (types.STRING, [])})
    assert [*openpyxl.load_workbook(io.BytesIO(writer.empty)).active.iter_rows(values_only=True)] == [("a", "b")]


def test_equal_records_make_equal_files_in_a_sink_that_can_only_be_written_to() -> None:
    class Pipe(io.RawIOBase):
        """What an upload to a store is."""

        def __init__(self) -> None:
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any, /) -> int:
            self.data += bytes(data)
            return len(data)

    columns: Columns = {"a": (types.INT, [1, 2]), "b": (types.STRING, ["x", None])}
    writer, done = encoded(columns)
    pipe = Pipe()
    writer.convert(io.BytesIO(writer.start + bytes(done.data) + writer.end), pipe)
    assert pipe.data == written(columns)
    with zipfile.ZipFile(io.BytesIO(pipe.data)) as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "1 to 31 characters"), ("x" * 32, "1 to 31 characters"), ("a/b", "cannot have '/'"),
        ("a\n", "cannot have"),
        ("'a", "apostrophe"), ("History", "for themselves"), ("x" * package.MOST_NAME, None), ("Q1 & <Q2>", None),
    ],
)  # fmt: skip
def test_names_that_no_sheet_may_have_are_refused(name: str, problem: str | None) -> None:
    found = ExcelWrite(sheet=name).problems()
    assert [key for key, _ in found] == (["sheet"] if problem else [])
    assert problem is None or problem in found[0][1]


PIPELINE = """
pipeline: { name: p }
error_handling: { strategy: continue, dlq: { path: out/dead.csv } }
nodes:
  - { type: source, name: s, config: { type: csv, path: in.csv, schema: { id: int, note: string } } }
  - type: output
    name: o
    input: s
    config: { type: excel, path: out/o.xlsx, sort_order: [{ field: id, order: desc }], options: { sheet: "Q1 & <Q2>" } }
"""


def test_a_run_sorts_a_workbook_and_keeps_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    data = f"id,note,more\n1,a,x\n2,{'y' * 40_000},x\n3,b,7\n"
    pipelines.write(tmp_path, {"in.csv": data, "pipeline.yaml": PIPELINE})
    assert pipelines.run(tmp_path).result.exit_code == 2
    rows = openpyxl.load_workbook(tmp_path / "out/o.xlsx")["Q1 & <Q2>"].iter_rows(values_only=True)
    assert [*rows] == [("id", "note", "more"), (3, "b", "7"), (1, "a", "x")]
    assert "column 'note': 40,000 characters" in (tmp_path / "out/dead.csv").read_text()
