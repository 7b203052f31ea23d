"""Excel workbooks: what other writers wrote, cell by cell; errors, moments, ranges; broken and hostile files."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import openpyxl
import pytest
import xlsxwriter

from spark_jobs.cxl import types, values
from spark_jobs.formats import registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.excel.options import ExcelRead
from spark_jobs.formats.format import UNDECLARED_PREFIX, Reading, SourceColumn
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.formats.spelling import Spelling
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Fill = Callable[[xlsxwriter.Workbook], None]


def made(fill: Fill, **options: Any) -> bytes:
    """A workbook as Excel writes it."""
    sink = io.BytesIO()
    book = xlsxwriter.Workbook(sink, {"in_memory": True, **options})
    fill(book)
    book.close()
    return sink.getvalue()


def of_rows(*rows: Sequence[Any], name: str = "Data") -> bytes:
    """A workbook with a sheet of some rows."""

    def fill(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet(name)
        day = book.add_format({"num_format": "dd/mm/yyyy"})
        moment = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        for at, row in enumerate(rows):
            for column, value in enumerate(row):
                if isinstance(value, datetime):
                    sheet.write_datetime(at, column, value, moment)
                elif isinstance(value, date):
                    sheet.write_datetime(at, column, value, day)
                elif isinstance(value, str) and value.startswith("#"):
                    sheet.write_formula(at, column, "=1/0", None, value)
                else:
                    sheet.write(at, column, value)

    return made(fill)


def changed(data: bytes, part: str, change: Callable[[str], str]) -> bytes:
    """A workbook with another text in one of its parts."""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            text = old.read(name)
            new.writestr(name, change(text.decode()).encode() if name == part else text)
    return sink.getvalue()


class Read:
    """What a source reads of a workbook."""

    def __init__(
        self,
        folder: Path,
        data: bytes,
        columns: Sequence[SourceColumn] = (),
        on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
        options: ExcelRead | None = None,
        **wanted: Any,
    ) -> None:
        path = folder / "in.xlsx"
        path.write_bytes(data)
        options = options or ExcelRead()
        reader = registry.named("excel").reader(options).knowing(columns)
        scan = reader.plan([one.key for one in columns], [files.describe(str(path), path.name)], on_unmapped)
        want = replace(
            Reading(tuple(columns), scan.undeclared, failure_texts=True, null_values=options.null_values), **wanted
        )
        (split,) = splits.plan(scan.files)
        outcome, counted = SplitOutcome(), SplitOutcome()
        kinds = {one.name: one.type for one in columns}
        self.records: list[dict[str, Any]] = []
        self.failures: list[Any] = []
        self.shown: list[dict[str, Any]] = []
        self.documents: list[Any] = []
        for block in reader.read(split, scan.files[0], want, outcome):
            arrays = {
                name.removeprefix(UNDECLARED_PREFIX): values.from_arrow(array, kinds.get(name, types.ANY))
                for name, array in zip(block.batch.schema.names, block.batch.columns, strict=True)
            }
            self.records += [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]
            self.failures += block.failures
            self.shown += block.failed_rows.to_pylist() if block.failed_rows else []
            self.documents.append(block.documents)
        self.warnings = outcome.warnings
        reader.count(split, scan.files[0], counted)
        assert outcome.records == counted.records == len(self.records) + len(self.failures)

    @property
    def details(self) -> list[str]:
        return [each.failure.detail for each in self.failures]


def test_each_cell_is_what_it_is(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["id", "text", "share", "day", "at", "is", 2024],
        [1, "tëxt", 0.1, date(2024, 2, 29), datetime(2024, 2, 29, 0, 0), True, "x"],
        [2, " two ", -2.5, date(1999, 12, 31), datetime(2024, 2, 29, 13, 14, 15, 250_000), False, 7],
        [3, None, 1e20, None, None, None, 1.5],
    ]
    read = Read(tmp_path, of_rows(*rows))
    assert read.records == [
        {"id": 1, "text": "tëxt", "share": 0.1, "day": date(2024, 2, 29), "at": datetime(2024, 2, 29), "is": True,
         "2024": "x"},
        {"id": 2, "text": " two ", "share": -2.5, "day": date(1999, 12, 31),
         "at": datetime(2024, 2, 29, 13, 14, 15, 250_000), "is": False, "2024": 7},
        {"id": 3, "text": None, "share": 1e20, "day": None, "at": None, "is": None, "2024": 1.5},
    ]  # fmt: skip
    assert not read.warnings


def test_cells_become_values_of_declared_types(tmp_path: Path) -> None:
    columns = [
        SourceColumn("a", types.STRING), SourceColumn("b", types.FLOAT), SourceColumn("c", types.INT),
        SourceColumn("d", types.DATETIME), SourceColumn("e", types.DATE), SourceColumn("f", types.BOOL),
    ]  # fmt: skip
    rows = [
        ["a", "b", "c", "d", "e", "f"],
        [1, 1, 1.0, date(2024, 5, 1), datetime(2024, 5, 1, 12), 1],
        [1.1, "2.5", "3", "2024-05-01 10:00:00", "2024-05-02", "no"],
        [True, 1e-3, 12345678901, None, None, False],
        [date(2024, 5, 1), None, None, None, None, None],
    ]
    read = Read(tmp_path, of_rows(*rows), columns)
    assert read.details == []
    assert read.records == [
        {"a": "1", "b": 1.0, "c": 1, "d": datetime(2024, 5, 1), "e": date(2024, 5, 1), "f": True},
        {"a": "1.1", "b": 2.5, "c": 3, "d": datetime(2024, 5, 1, 10), "e": date(2024, 5, 2), "f": False},
        {"a": "true", "b": 0.001, "c": 12345678901, "d": None, "e": None, "f": False},
        {"a": "2024-05-01", "b": None, "c": None, "d": None, "e": None, "f": None},
    ]


def test_numbers_keep_their_digits(tmp_path: Path) -> None:
    data = of_rows(["n"], *([row] for row in range(6)))
    numbers = [
        "1234567890123456789",
        "12345678901234567890",
        "1.1000000000000001",
        "12345678901234567.8",
        "1E+400",
        "0",
    ]

    def with_numbers(text: str) -> str:
        for row, number in enumerate(numbers):
            text = text.replace(f'<c r="A{row + 2}"><v>{row}</v>', f'<c r="A{row + 2}"><v>{number}</v>')
        return text

    data = changed(data, "xl/worksheets/sheet1.xml", with_numbers)
    expected = [1234567890123456789, "12345678901234567890", 1.1, "12345678901234567.8", "1E+400", 0]
    assert [record["n"] for record in Read(tmp_path, data).records] == expected
    read = Read(tmp_path, data, [SourceColumn("n", types.STRING)])
    assert [record["n"] for record in read.records] == [*map(str, expected)]
    read = Read(tmp_path, data, [SourceColumn("n", types.INT)])
    assert [record["n"] for record in read.records] == [1234567890123456789, 0]
    assert len(read.failures) == 4


@pytest.mark.parametrize("word", ["#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"])
@pytest.mark.parametrize("kind", [types.STRING, types.INT, types.FLOAT, types.DATE, types.BOOL, types.ANY])
def test_an_error_in_a_cell_is_a_failure_with_its_place(word: str, kind: types.Type, tmp_path: Path) -> None:
    data = of_rows(["id", "x"], [1, None], [2, word], [3, None], name="Q1's net")
    columns = [SourceColumn("id", types.INT), SourceColumn("x", kind, required=False)]
    read = Read(tmp_path, data, columns)
    assert [record["id"] for record in read.records] == [1, 3]
    assert read.details == [f"the cell has the error {word} (cell 'Q1''s net'!B3)"]
    assert [(each.row, each.failure.field, each.failure.value) for each in read.failures] == [(1, "x", word)]
    assert read.shown == [{"id": "2", "x": word}]


def test_an_undeclared_column_carries_the_word_of_an_error(tmp_path: Path) -> None:
    read = Read(tmp_path, of_rows(["id", "x"], [1, 5], [2, "#DIV/0!"]), [SourceColumn("id", types.INT)])
    assert read.records == [{"id": 1, "x": 5}, {"id": 2, "x": "#DIV/0!"}]


def test_words_for_nothing_are_null_among_texts_and_errors(tmp_path: Path) -> None:
    data = of_rows(["id", "x", "y"], [1, "#N/A", "n/a"], [2, 5, 6], [3, "#REF!", "z"])
    said = Spelling(null_values=("#N/A", "n/a"))
    columns = [
        SourceColumn("id", types.INT),
        SourceColumn("x", types.INT, spelling=said),
        SourceColumn("y", types.STRING, spelling=said),
    ]
    read = Read(tmp_path, data, columns)
    assert read.records == [{"id": 1, "x": None, "y": None}, {"id": 2, "x": 5, "y": "6"}]
    assert len(read.failures) == 1
    undeclared = Read(tmp_path, data, columns[:1], options=ExcelRead(null_values=("#N/A", "n/a")))
    assert undeclared.records[0] == {"id": 1, "x": None, "y": None}


def test_numbers_among_texts_are_spelled_as_the_column_says(tmp_path: Path) -> None:
    columns = [SourceColumn("x", types.FLOAT, spelling=Spelling(decimal_separator=","))]
    read = Read(tmp_path, of_rows(["x"], [1.5], ["2,5"], ["2.5"]), columns)
    assert read.records == [{"x": 1.5}, {"x": 2.5}]
    assert [each.failure.value for each in read.failures] == ["2.5"]


def test_a_formula_without_a_value_is_no_empty_cell(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["a", "b"])
    book.active.append([1, "=A2*2"])
    book.active.append([2, '=IF(A3=2,"","x")'])
    sink = io.BytesIO()
    book.save(sink)
    read = Read(tmp_path, sink.getvalue(), [SourceColumn("a", types.INT), SourceColumn("b", types.INT)])
    assert read.details == [
        f"the cell has the error formula without a value (cell Sheet!B{row})" for row in (2, 3)
    ]  # fmt: skip

    def with_empty_text(text: str) -> str:
        return text.replace('<c r="B2"><f>A2*2</f><v></v></c>', '<c r="B2" t="str"><f>A2*2</f><v></v></c>')

    data = changed(sink.getvalue(), "xl/worksheets/sheet1.xml", with_empty_text)
    assert Read(tmp_path, data, [SourceColumn("b", types.INT)]).records[0]["b"] is None


def test_what_does_not_convert_is_a_failure_with_its_cell(tmp_path: Path) -> None:
    data = of_rows([], ["id", "n"], [1, "x"], [], [2, None], [3, 4])
    columns = [SourceColumn("id", types.INT), SourceColumn("n", types.INT, required=True)]
    read = Read(tmp_path, data, columns)
    assert read.records == [{"id": 3, "n": 4}]
    assert read.details == [
        "conversion failed: cannot convert 'x' to Int (cell Data!B3)",
        "missing required field 'n' (cell Data!B5)",
    ]
    assert [each.failure.category for each in read.failures] == [
        "required_field_conversion_failure",
        "missing_required_field",
    ]


@pytest.mark.parametrize("from_1904", [False, True])
def test_moments_are_of_the_system_of_their_workbook(from_1904: bool, tmp_path: Path) -> None:
    moments: list[Any] = [date(1904, 1, 2), date(2024, 2, 29), datetime(2024, 12, 31, 23, 59, 59, 999_000)]
    moments += [time(8, 30), timedelta(hours=36, minutes=15)]

    def fill(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet()
        forms = ["d.m.yy", '"Tag" [$-407]dd. mmmm yyyy;@', "m/d/yyyy h:mm AM/PM", "hh:mm", "[h]:mm:ss"]
        sheet.write(0, 0, "x")
        for row, (moment, form) in enumerate(zip(moments, forms, strict=True), 1):
            sheet.write(row, 0, moment, book.add_format({"num_format": form}))

    read = Read(tmp_path, made(fill, date_1904=from_1904))
    assert [record["x"] for record in read.records] == [*moments[:3], "08:30:00", "36:15:00"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("1", date(1900, 1, 1)),
        ("59", date(1900, 2, 28)),
        ("61", date(1900, 3, 1)),
        ("2958465", date(9999, 12, 31)),
        ("45351.5", datetime(2024, 2, 29, 12)),
        ("60", "60, which is no day that a calendar has"),
        ("0", "0, which is no day that a calendar has"),
        ("-5", "-5, which is no day that a calendar has"),
        ("2958466", "2958466, which is no day that a calendar has"),
        ("1E300", "1E300, which is no day that a calendar has"),
        ("abc", "abc, which is no day that a calendar has"),
    ],
)
def test_days_are_those_of_a_calendar(number: str, expected: Any, tmp_path: Path) -> None:
    data = of_rows(["x"], [date(2024, 1, 1)])
    data = changed(data, "xl/worksheets/sheet1.xml", lambda text: text.replace("<v>45292</v>", f"<v>{number}</v>"))
    read = Read(tmp_path, data, [SourceColumn("x", types.ANY)])
    if isinstance(expected, str):
        assert read.details == [f"the cell has the error {expected} (cell Data!A2)"]
    else:
        assert read.records == [{"x": expected}]


def test_formats_that_only_look_like_those_of_dates_are_of_numbers(tmp_path: Path) -> None:
    forms = [
        "0.00",
        '#,##0 "days"',
        "[Red]-#,##0;[Blue]0",
        r"0\d",
        "General",
        "_-* #,##0.00_-",
        "[$$-409]#,##0",
        "@",
        "0%",
    ]

    def fill(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet()
        sheet.write(0, 0, "x")
        for row, form in enumerate(forms, 1):
            sheet.write(row, 0, row, book.add_format({"num_format": form}))

    assert [record["x"] for record in Read(tmp_path, made(fill)).records] == [*range(1, len(forms) + 1)]


def _coded(book: xlsxwriter.Workbook) -> None:
    """Postal codes in a format of zeros, numbers in one with a point, and ordinary ones."""
    sheet = book.add_worksheet()
    codes, amounts = book.add_format({"num_format": "00000"}), book.add_format({"num_format": "000.0"})
    for column, name in enumerate(("zip", "amount", "n")):
        sheet.write(0, column, name)
    for row, number in enumerate((1234, 80331, 123456, -5, 1.5), 1):
        sheet.write(row, 0, number, codes)
        sheet.write(row, 1, number, amounts)
        sheet.write(row, 2, number)


def test_whole_numbers_in_a_format_of_zeros_keep_those_that_are_shown(tmp_path: Path) -> None:
    found = Read(tmp_path, made(_coded)).records
    assert [record["zip"] for record in found] == ["01234", "80331", "123456", -5, 1.5]
    assert [record["amount"] for record in found] == [record["n"] for record in found] == [1234, 80331, 123456, -5, 1.5]


def test_codes_are_what_their_column_declares(tmp_path: Path) -> None:
    text = Read(tmp_path, made(_coded), [SourceColumn("zip", types.STRING)])
    assert [record["zip"] for record in text.records][:3] == ["01234", "80331", "123456"]
    number = Read(tmp_path, made(_coded), [SourceColumn("zip", types.INT)])
    assert [record["zip"] for record in number.records] == [1234, 80331, 123456, -5]


def test_iso_dates_inline_and_rich_texts_are_read(tmp_path: Path) -> None:
    data = of_rows(["x"], *([row] for row in range(5)))
    cells = [
        '<c r="A2" t="d"><v>2024-02-29</v></c>',
        '<c r="A3" t="d"><v>2024-02-29T12:30:00Z</v></c>',
        '<c r="A4" t="inlineStr"><is><r><t>in</t></r><r><t xml:space="preserve"> line</t></r></is></c>',
        '<c r="A5" t="inlineStr"><is><t>漢字</t><rPh sb="0" eb="2"><t>かんじ</t></rPh></is></c>',
        '<c t="str"><f>A1</f><v>a_x000D_b_x005F_x_xD800_</v></c>',
    ]

    def with_cells(text: str) -> str:
        for row, cell in enumerate(cells):
            text = text.replace(f'<c r="A{row + 2}"><v>{row}</v></c>', cell)
        return text

    read = Read(tmp_path, changed(data, "xl/worksheets/sheet1.xml", with_cells))
    expected = [date(2024, 2, 29), datetime(2024, 2, 29, 12, 30), "in line", "漢字", "a\rb_x_xD800_"]
    assert [record["x"] for record in read.records] == expected


def several(book: xlsxwriter.Workbook) -> None:
    for name, rows in (
        ("Notes", [["see below"]]),
        ("Jan", [["id", "v"], [1, "a"], [2, "b"]]),
        ("Feb", [["V", "id"], ["c", 3]]),
        ("Empty", []),
    ):
        sheet = book.add_worksheet(name)
        for at, row in enumerate(rows):
            sheet.write_row(at, 0, row)
    book.get_worksheet_by_name("Notes").hide()
    book.get_worksheet_by_name("Jan").activate()
    book.define_name("table", "=Feb!$A$1:$B$2")


def test_sheets_are_read_one_after_the_other(tmp_path: Path) -> None:
    columns = [SourceColumn("id", types.INT), SourceColumn("v", types.STRING)]
    data = made(several)
    assert [record["id"] for record in Read(tmp_path, data, columns).records] == [1, 2]
    options = ExcelRead(sheets=("feb", "J*"))
    read = Read(tmp_path, data, columns, OnUnmapped.DROP, options, documents=frozenset({"doc.sheet.name"}))
    assert read.records == [{"id": 3, "v": None}, {"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    assert read.documents == [{"doc.sheet.name": "Feb"}, {"doc.sheet.name": "Jan"}]
    names = Read(tmp_path, data, [SourceColumn("id", types.INT)], options=ExcelRead(sheets=("*",)))
    assert len(names.records) == 3
    assert Read(tmp_path, data, options=ExcelRead(range="TABLE")).records == [{"V": "c", "id": 3}]
    with pytest.raises(FormatError, match="has no sheet 'March'; it has 'Notes', 'Jan', 'Feb', 'Empty'"):
        Read(tmp_path, data, options=ExcelRead(sheets=("Jan", "March")))
    with pytest.raises(FormatError, match="has no names of columns in any row of sheet 'Empty'"):
        Read(tmp_path, data, options=ExcelRead(sheets=("Empty",)))
    with pytest.raises(FormatError, match=r"has no range 'tables'.*the names of the workbook are table"):
        Read(tmp_path, data, options=ExcelRead(range="tables"))


def framed() -> bytes:
    return of_rows(
        ["Report"], [], [None, "id", "v", "w"], [None, 1, "a", 5], [None, 2, "b", 6], [], [None, "total", None, 11]
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ExcelRead(range="B3:C5"), [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]),
        (ExcelRead(range="$B$3:$D$5"), [{"id": 1, "v": "a", "w": 5}, {"id": 2, "v": "b", "w": 6}]),
        (ExcelRead(range="B3:C"), [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": "total", "v": None}]),
        (ExcelRead(range="3:4"), [{"id": 1, "v": "a", "w": 5}]),
        (ExcelRead(range="C3"), [{"v": "a", "w": 5}, {"v": "b", "w": 6}, {"v": None, "w": 11}]),
        (ExcelRead(header_row=3, range="1:5"), [{"id": 1, "v": "a", "w": 5}, {"id": 2, "v": "b", "w": 6}]),
        (ExcelRead(range="B4:C5", has_header=False, columns=("x", "y")), [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]),
        (ExcelRead(range="B3:C5", columns=("x",)), [{"x": 1, "v": "a"}, {"x": 2, "v": "b"}]),
    ],
)
def test_ranges_and_headers(options: ExcelRead, expected: list[dict[str, Any]], tmp_path: Path) -> None:
    assert options.problems() == []
    assert Read(tmp_path, framed(), options=options).records == expected


def test_without_a_header_columns_follow_the_declared_ones(tmp_path: Path) -> None:
    columns = [SourceColumn("a", types.INT), SourceColumn("b", types.STRING)]
    read = Read(tmp_path, of_rows([1, "x", "more"], [2, "y"]), columns, options=ExcelRead(has_header=False))
    assert read.records == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert read.warnings == [
        "in.xlsx: values in columns that the header of sheet 'Data' does not name, which are left out: 1, the "
        "first in C1; name the columns, or give a `range`"
    ]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (ExcelRead(range="B3:"), "range"),
        (ExcelRead(range="B9:A1"), "range"),
        (ExcelRead(range="A1:ZZZZ9"), "range"),
        (ExcelRead(range="A1:B2:C3"), "range"),
        (ExcelRead(range="A5:B9", header_row=3), "header_row"),
        (ExcelRead(has_header=False, header_row=3), "header_row"),
        (ExcelRead(columns=("a", "a")), "columns"),
        (ExcelRead(sheets=("",)), "sheets"),
    ],
)
def test_options_that_make_no_sense_are_told(options: ExcelRead, key: str) -> None:
    assert [key for key, _ in options.problems()] == [key]


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="sheet 'Data' names column 'a' twice, in A and C") as refused:
        Read(tmp_path, of_rows(["a", "b", "a"], [1, 2, 3]))
    assert refused.value.code == "E217"
    named = ExcelRead(columns=("a", "b", "c"))
    assert Read(tmp_path, of_rows(["a", "b", "a"], [1, 2, 3]), options=named).records == [{"a": 1, "b": 2, "c": 3}]


def test_merged_cells_have_their_value_in_the_first_one(tmp_path: Path) -> None:
    def fill(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["a", "b"])
        sheet.merge_range(1, 0, 2, 0, "both")
        sheet.write(1, 1, 1)
        sheet.write(2, 1, 2)

    assert Read(tmp_path, made(fill)).records == [{"a": "both", "b": 1}, {"a": None, "b": 2}]


def test_small_pieces_give_the_same(tmp_path: Path) -> None:
    rows = [["id", "v", "d"], *([row, f"t{row % 7}", date(2024, 1, 1 + row % 30)] for row in range(2000))]
    data = of_rows(*rows)
    columns = [SourceColumn("id", types.INT), SourceColumn("v", types.STRING)]
    small = Read(tmp_path, data, columns, block_bytes=500)
    assert len(small.documents) > 50
    assert small.records == Read(tmp_path, data, columns).records
    assert [record["id"] for record in small.records] == [*range(2000)]


def zipped(parts: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as book:
        for name, data in parts.items():
            book.writestr(name, data)
    return sink.getvalue()


def with_change(part: str, change: Callable[[str], str]) -> bytes:
    where = {"sheet": "xl/worksheets/sheet1.xml", "book": "xl/workbook.xml"}
    return changed(of_rows(["a"]), where[part], change)


def replacing(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


DECLARED = '<!DOCTYPE x [<!ENTITY a "b">]>'
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
BINARY = b'<Relationships><Relationship Id="r" Type="x/officeDocument" Target="xl/workbook.bin"/></Relationships>'


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (OLE + "EncryptedPackage".encode("utf-16-le"), r"is protected by a password: save it without one"),
        (OLE + "Workbook".encode("utf-16-le"), r"is a workbook of Excel 97 to 2003 \(\.xls\), which is not read"),
        (b"id;name\n1;Ada\n", r"is not an Excel workbook: it begins with b'id;name\\n'"),
        (zipped({"mimetype": b"application/vnd.oasis.opendocument.spreadsheet"}), r"is an OpenDocument file"),
        (zipped({"_rels/.rels": BINARY}), r"is a binary workbook \(\.xlsb\), which is not read"),
        (zipped({"a.csv": b"1"}), r"is not an Excel workbook: it is a zip archive without one"),
        (of_rows(["a"])[:-30], r"is a broken Excel workbook: File is not a zip file"),
        (with_change("sheet", lambda text: text[:-40]), r"in\.xlsx: is a broken Excel workbook: unclosed token"),
        (with_change("book", lambda text: text.replace("?>", f"?>{DECLARED}", 1)), r"its XML declares a document type"),
        (with_change("sheet", replacing("<v>0<", "<v>9<")), r"has the shared text '9', and there is none"),
        (with_change("sheet", replacing('<row r="1"', '<row r="1048577"')), r"row '1048577' follows row 0"),
        (with_change("sheet", replacing('"A1"', '"XFE1"')), r"a cell is in column 'XFE', which no sheet has"),
    ],
)  # fmt: skip
def test_other_files_are_refused_with_what_they_are(data: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=said):
        Read(tmp_path, data)


def test_a_file_that_unfolds_to_gigabytes_is_refused(tmp_path: Path) -> None:
    many = "<si><t>" + "x" * 100_000 + "</t></si>"

    def swollen(text: str) -> str:
        return text.replace("</sst>", many * 1000 + "</sst>")

    data = of_rows(["a"], ["last"])
    data = changed(data, "xl/sharedStrings.xml", swollen)
    assert len(data) < 1 << 20
    assert Read(tmp_path, data).records == [{"a": "last"}]
    data = changed(data, "xl/worksheets/sheet1.xml", lambda text: text.replace("<v>1<", "<v>999<"))
    with pytest.raises(FormatError, match=r"raise memory\.limit") as refused:
        Read(tmp_path, data, record_bytes=24 << 20)
    assert refused.value.code == "E310"


def test_one_long_text_in_many_cells_takes_bounded_memory(tmp_path: Path) -> None:
    text = "x" * 32_000
    data = of_rows(["a"], *([text] for _ in range(5000)))
    read = Read(tmp_path, data, [SourceColumn("a", types.STRING)], record_bytes=8 << 20, block_bytes=1 << 20)
    assert len(read.records) == 5000
    assert len(read.documents) > 100
