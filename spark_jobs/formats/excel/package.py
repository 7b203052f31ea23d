"""Writes the archive of a workbook as a stream: sheets row by row, then the parts that name them.

Libraries that write workbooks round numbers to 16 digits and change or refuse some texts (control characters, texts
that look like markup), so the parts are written here. Nothing is kept but the compressor's window, and no temporary
files are made.
"""

from __future__ import annotations

import zipfile
from typing import IO, TYPE_CHECKING, cast

from spark_jobs.formats.excel.ranges import ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The formats of cells, by their index in the styles: general, names, whole numbers, days, moments, moments with
#: milliseconds, then numbers with 1 to `MOST_PLACES` decimal places.
GENERAL, NAME, WHOLE, DAY, MOMENT, MOMENT_MS, PLACES = range(7)
#: A spreadsheet shows no more digits than 15 of a number.
MOST_PLACES = 15
#: The maximal length of a sheet's name.
MOST_NAME = 31
#: A sheet is closed when its text has so many bytes: an entry of an archive may have 2 GiB without an extension that
#: spreadsheet programs do not all read.
_MOST_SHEET_BYTES = 1 << 30
#: Every entry has the same date, so that equal records make equal files.
_DATE = (1980, 1, 1, 0, 0, 0)
_LEVEL = 6

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


class Package:
    """A workbook on its way.

    Args:
        sink: where it goes; it is only written to, whatever else it can do.
        sheet: the name of its sheet; further sheets are `NAME (2)`, `NAME (3)`, …
        header: the cells of the first row, as XML; empty where there is none.
        widths: the width of each column, in characters.
        most_rows: how many rows a sheet has at most, the header included.
    """

    def __init__(
        self, sink: IO[bytes], sheet: str, header: bytes, widths: Sequence[int], *, most_rows: int = ROWS
    ) -> None:
        stream = cast("IO[bytes]", _Unseekable(sink))
        self._archive = zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)
        self._sheet = sheet
        self._header = header
        self._widths = widths
        self._most_rows = most_rows
        self._names: list[str] = []
        self._entry: IO[bytes] | None = None
        self._bytes = 0
        self.rows = 0
        self._begin()

    @property
    def room(self) -> int:
        """How many more rows the sheet takes."""
        return self._most_rows - self.rows if self._bytes < _MOST_SHEET_BYTES else 0

    def write(self, data: bytes, rows: int) -> None:
        """Write some rows, which are numbered from `self.rows + 1` on; at most as many as there is room for."""
        assert self._entry is not None
        self._entry.write(data)
        self._bytes += len(data)
        self.rows += rows

    def next_sheet(self) -> None:
        """End the sheet, and begin another one with the same header."""
        self._end()
        self._begin()

    def close(self) -> None:
        """Write the parts that name the sheets, and the directory of the archive."""
        self._end()
        for name, text in _parts(self._names).items():
            self._archive.writestr(_entry(name), _XML + text)
        self._archive.close()

    def _begin(self) -> None:
        self._names.append(_numbered(self._sheet, len(self._names) + 1))
        self._entry = self._archive.open(_entry(f"xl/worksheets/sheet{len(self._names)}.xml"), "w")
        self._bytes, self.rows = 0, 0
        pane = '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/>' if self._header else ""
        selected = ' tabSelected="1"' if len(self._names) == 1 else ""
        columns = "".join(
            f'<col min="{number}" max="{number}" width="{width}" customWidth="1"/>'
            for number, width in enumerate(self._widths, 1)
        )
        start = (
            f'{_XML}<worksheet xmlns="{_MAIN}"><sheetViews><sheetView{selected} workbookViewId="0">{pane}</sheetView>'
            f"</sheetViews><cols>{columns}</cols><sheetData>"
        )
        self.write(start.encode(), 0)
        if self._header:
            self.write(b'<row r="1">' + self._header + b"</row>", 1)

    def _end(self) -> None:
        assert self._entry is not None
        self._entry.write(b"</sheetData></worksheet>")
        self._entry.close()


class _Unseekable:
    """A sink that an archive does not go back in, so that files and objects get the same bytes."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink

    def write(self, data: bytes) -> int:
        """Write some bytes."""
        self._sink.write(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits here."""


def _entry(name: str) -> zipfile.ZipInfo:
    found = zipfile.ZipInfo(name, _DATE)
    found.compress_type = zipfile.ZIP_DEFLATED
    found.create_system = 3
    found.external_attr = 0o600 << 16
    return found


def _numbered(name: str, number: int) -> str:
    if number == 1:
        return name
    ending = f" ({number})"
    return name[: MOST_NAME - len(ending)] + ending


def _parts(sheets: Sequence[str]) -> dict[str, str]:
    """The parts of a workbook beside its sheets, by their names in the archive."""
    numbers = range(1, len(sheets) + 1)
    types = "".join(
        f'<Override PartName="/xl/worksheets/sheet{number}.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        for number in numbers
    )
    links = "".join(
        f'<Relationship Id="rId{number}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{number}.xml"/>'
        for number in numbers
    )
    listed = "".join(
        f'<sheet name="{attribute(name)}" sheetId="{number}" r:id="rId{number}"/>'
        for number, name in enumerate(sheets, 1)
    )
    return {
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{links}'
        f'<Relationship Id="rId{len(sheets) + 1}" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": _styles(),
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Override PartName="/xl/workbook.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/styles.xml" '
        f'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/>{types}</Types>',
    }


def _styles() -> str:
    """The part with the formats of cells, in the order of `GENERAL` and what follows it."""
    codes = ["yyyy-mm-dd", "yyyy-mm-dd hh:mm:ss", "yyyy-mm-dd hh:mm:ss.000"]
    codes += ["0." + "0" * places for places in range(1, MOST_PLACES + 1)]
    first = 164
    formats = "".join(f'<numFmt numFmtId="{first + at}" formatCode="{code}"/>' for at, code in enumerate(codes))
    numbers = [0, 0, 1, *range(first, first + len(codes))]
    cells = "".join(
        f'<xf numFmtId="{number}" fontId="{int(at == NAME)}" fillId="0" borderId="0" xfId="0"'
        ' applyFont="1" applyNumberFormat="1"/>'
        for at, number in enumerate(numbers)
    )
    font = '<sz val="11"/><name val="Calibri"/><family val="2"/>'
    return (
        f'<styleSheet xmlns="{_MAIN}"><numFmts count="{len(codes)}">{formats}</numFmts>'
        f'<fonts count="2"><font>{font}</font><font><b/>{font}</font></fonts>'
        '<fills count="2"><fill><patternFill patternType="none"/></fill>'
        '<fill><patternFill patternType="gray125"/></fill></fills>'
        '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
        '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
        f'<cellXfs count="{len(numbers)}">{cells}</cellXfs>'
        '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
    )


def attribute(text: str) -> str:
    """A text as the value of an attribute in double quotes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
