"""The options of Excel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from spark_jobs.formats.excel import ranges
from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Between, Listed, Options
from spark_jobs.formats.spelling import Spelling

_MOST_NAME = 31
_NOT_IN_NAMES = "[]:*?/\\"


@dataclass(frozen=True)
class ExcelRead(Options):
    """`options:` of an Excel source.

    Args:
        sheets: The sheets that are read, by their names, one after the other; `*` stands for any characters. The first
            visible sheet when absent.
        range: The cells that have the table, header included: `B3:F200`, `B3:F`, `B:F`, `3:200`, `B3` for all from
            there on, or the name of a range of the workbook. All cells when absent.
        has_header: Whether a row has the names of the columns; else columns follow `schema`.
        header_row: The number of the row that has them, as the sheet counts. The first row of `range`, or the first one
            with a value, when absent.
        columns: The names of the first columns, in place of the names in the header.
        null_values: Texts and words of errors that are null, such as `n/a` or `#N/A`; a column may say otherwise.
    """

    sheets: Listed = ()
    range: str = ""
    has_header: bool = True
    header_row: Annotated[int, Between(1, ranges.ROWS)] | None = None
    columns: Listed = ()
    null_values: Listed = ()

    @property
    def spelling(self) -> Spelling:
        return Spelling(null_values=self.null_values)

    @property
    def reads_whole(self) -> bool:
        """A sheet is one stream that is packed."""
        return True

    def problems(self) -> list[tuple[str, str]]:
        """Problems of the options: the header must be within the range, and names must differ."""
        found = []
        if not self.has_header and self.header_row is not None:
            found.append(("header_row", "there is no header: `has_header: false`"))
        cells = ranges.parsed(self.range)
        if cells is None and ":" in self.range:
            form = "write it as `B3:F200`, `B3:F`, `B:F` or `3:200`"
            found.append(("range", f"'{self.range}' is not a range of cells: {form}"))
        elif cells and self.header_row is not None and not cells.first_row <= self.header_row <= cells.last_row:
            found.append(("header_row", f"row {self.header_row} is not within the range {self.range}"))
        if len(set(self.columns)) < len(self.columns) or "" in self.columns:
            found.append(("columns", "a name is empty, or occurs twice"))
        if "" in self.sheets:
            found.append(("sheets", "a name is empty"))
        return found


@dataclass(frozen=True)
class ExcelWrite(Options):
    """`options:` of an Excel output.

    Args:
        sheet: The name of the sheet. Records beyond its 1,048,576 rows go on in sheets named `NAME (2)`, `NAME (3)`, …
    """

    sheet: str = "Sheet1"

    def problems(self) -> list[tuple[str, str]]:
        """Problems of the options: spreadsheets do not open a workbook with other names."""
        if not 1 <= len(self.sheet.encode("utf-16-le")) // 2 <= _MOST_NAME:
            return [("sheet", f"the name of a sheet has 1 to {_MOST_NAME} characters")]
        if found := [sign for sign in self.sheet if sign in _NOT_IN_NAMES or not sign.isprintable()]:
            return [("sheet", f"the name of a sheet cannot have {found[0]!r}")]
        if self.sheet.startswith("'") or self.sheet.endswith("'"):
            return [("sheet", "the name of a sheet cannot begin or end with an apostrophe")]
        if self.sheet.lower() == "history":
            return [("sheet", "spreadsheets keep the name 'History' for themselves")]
        return []


FORMAT = Format(
    "excel",
    "Excel",
    chapter=8.4,
    read_options=ExcelRead,
    write_options=ExcelWrite,
    is_typed=True,
    documents=(("sheet", ("name",)),),
    known_as=("xlsx", "xls", "xlsm", "spreadsheet"),
)
