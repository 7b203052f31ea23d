"""The parts of a workbook beside its sheets: list of sheets, shared texts, cell formats, named ranges."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import IO, TYPE_CHECKING
from xml.parsers import expat

from spark_jobs.formats.excel import moments, ranges
from spark_jobs.formats.isolated.program import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.excel.moments import Kind
    from spark_jobs.formats.excel.ranges import Range
    from spark_jobs.formats.isolated.program import RemoteFile

_READ_BYTES = 1 << 16
_BUFFER_BYTES = 1 << 20
#: The first bytes of files that are no workbooks of this kind.
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
#: Between the name of a namespace and the name of an element.
_BETWEEN = " "
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_SAVE = "open it in a spreadsheet program and save it as an Excel workbook (.xlsx)"


@dataclass(frozen=True)
class Sheet:
    """A sheet: its name, the part of the file that has it, and whether it is shown."""

    name: str
    part: str
    is_visible: bool


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turns errors of libraries about bytes into errors of the file.

    Raises:
        Refused: the file is broken.
    """
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, expat.ExpatError, UnicodeDecodeError) as problem:
        why = "it ends too early" if isinstance(problem, EOFError) else problem
        raise Refused(f"is a broken Excel workbook: {why}") from problem
    except (NotImplementedError, RuntimeError) as problem:
        # The zip archive needs an unsupported compression method or a password.
        raise Refused(f"cannot be read as an Excel workbook: {problem}; {_SAVE}") from problem


def parser() -> expat.XMLParserType:
    """A parser of a part; a declaration of document types ends it, for workbooks have none."""
    made = expat.ParserCreate(namespace_separator=_BETWEEN)
    made.buffer_text = True
    made.buffer_size = _READ_BYTES
    made.StartDoctypeDeclHandler = _refuse_declaration
    return made


def _refuse_declaration(*_: object) -> None:
    raise Refused("is not a readable Excel workbook: its XML declares a document type")


def local(name: str) -> str:
    """The name of an element or attribute without its namespace."""
    return name.rpartition(_BETWEEN)[2]


def unescaped(text: str) -> str:
    """A text with the characters that XML cannot have."""
    return _ESCAPED.sub(_character, text) if "_x" in text else text


def _character(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return found[0] if 0xD800 <= code < 0xE000 else chr(code)


class Workbook:
    """A workbook.

    Args:
        file: its bytes.

    Raises:
        Refused: it is none, or is broken.
    """

    def __init__(self, file: RemoteFile) -> None:
        _refuse_others(file)
        with translated_errors():
            self._zip = zipfile.ZipFile(io.BufferedReader(file, _BUFFER_BYTES))
        self._parts = {name.lower(): name for name in self._zip.namelist()}
        self._main = self._main_part()
        self.from_1904 = False
        self.sheets: list[Sheet] = []
        self.named: dict[str, tuple[str, str]] = {}
        self._read_main()

    def open(self, part: str) -> IO[bytes]:
        """A part of the file.

        Raises:
            Refused: there is none.
        """
        name = self._parts.get(part.lstrip("/").lower())
        if name is None:
            raise Refused(f"is a broken Excel workbook: it has no part '{part}'")
        with translated_errors():
            return self._zip.open(name)

    def _main_part(self) -> str:
        for kind, part in self._relations("_rels/.rels", "").values():
            if kind == "officeDocument":
                if part.lower().endswith(".bin"):
                    raise Refused(f"is a binary workbook (.xlsb), which is not read; {_SAVE}")
                return part
        if self._parts.get("mimetype"):
            raise Refused(f"is an OpenDocument file, which is not read; {_SAVE}")
        raise Refused("is not an Excel workbook: it is a zip archive without one")

    def _relations(self, part: str, folder: str) -> dict[str, tuple[str, str]]:
        """The parts that another one refers to: the last word of their kinds, and where they are, by their ids."""
        if part.lower() not in self._parts:
            return {}
        found = {}
        for name, attributes in self._starts(part):
            if name == "Relationship" and attributes.get("TargetMode") != "External":
                target = attributes.get("Target", "")
                where = target.lstrip("/") if target.startswith("/") else posixpath.normpath(f"{folder}/{target}")
                kind = attributes.get("Type", "").rpartition("/")[2]
                found[attributes.get("Id", "")] = kind, where.lstrip("/")
        return found

    @cached_property
    def _main_relations(self) -> dict[str, tuple[str, str]]:
        folder, _, name = self._main.rpartition("/")
        return self._relations(f"{folder}/_rels/{name}.rels".lstrip("/"), folder)

    def _part_of(self, kind: str) -> str | None:
        return next((part for found, part in self._main_relations.values() if found == kind), None)

    def _starts(self, part: str) -> Iterator[tuple[str, dict[str, str]]]:
        """The elements of a part with their attributes, both without namespaces."""
        found: list[tuple[str, dict[str, str]]] = []

        def start(name: str, attributes: dict[str, str]) -> None:
            found.append((local(name), {local(key): value for key, value in attributes.items()}))

        reading = parser()
        reading.StartElementHandler = start
        for _ in parsed(reading, self.open(part)):
            yield from found
            found.clear()

    def _read_main(self) -> None:
        """The sheets and the named ranges."""
        name: list[str] = []
        text: list[str] = []

        def start(tag: str, attributes: dict[str, str]) -> None:
            found = {local(key): value for key, value in attributes.items()}
            match local(tag):
                case "workbookPr":
                    self.from_1904 = found.get("date1904", "0") in ("1", "true", "on")
                case "sheet":
                    kind, part = self._main_relations.get(found.get("id", ""), ("", ""))
                    if kind == "worksheet":
                        is_visible = found.get("state", "visible") == "visible"
                        self.sheets.append(Sheet(found.get("name", ""), part, is_visible))
                case "definedName":
                    name.append(found.get("name", ""))
                    text.clear()

        def end(tag: str) -> None:
            if local(tag) == "definedName" and name:
                written = name.pop()
                if (where := _place("".join(text))) is not None:
                    self.named.setdefault(written.casefold(), where)

        reading = parser()
        reading.StartElementHandler, reading.EndElementHandler = start, end
        reading.CharacterDataHandler = text.append
        for _ in parsed(reading, self.open(self._main)):
            continue
        if not self.sheets:
            raise Refused("has no sheet with cells")

    def cells(self, written: str) -> tuple[str | None, Range]:
        """The cells of a range, and the sheet that they are in where the range has a name.

        Raises:
            Refused: there is no range of that name.
        """
        if not written:
            return None, ranges.Range()
        if (cells := ranges.parsed(written)) is not None:
            return None, cells
        if (place := self.named.get(written.casefold())) is None:
            known = ", ".join(sorted(self.named)) or "none"
            raise Refused(
                f"has no range '{written}': it is not a range of cells, and the names of the workbook are {known}"
            )
        cells = ranges.parsed(place[1])
        if cells is None:
            raise Refused(f"has a range '{written}' that is not a range of cells of one sheet: {place[1]}")
        return place[0], cells

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kind of numbers for each cell style."""
        formats, texts = self._formats
        known = {number: moments.kind_of(number, texts) for number in set(formats)}
        return [known[number] for number in formats]

    @cached_property
    def digits(self) -> list[int]:
        """The digits of codes for each cell style, 0 for ordinary numbers; empty if no style is for codes."""
        formats, texts = self._formats
        found = [moments.digits_of(number, texts) for number in formats]
        return found if any(found) else []

    @cached_property
    def _formats(self) -> tuple[list[int], dict[int, str]]:
        """The number of the format of each cell style, and the texts of the formats that the workbook defines."""
        part = self._part_of("styles")
        if part is None:
            return [], {}
        texts: dict[int, str] = {}
        formats: list[int] = []
        is_inside = False
        for name, found in self._starts(part):
            if name == "numFmt":
                texts[_number(found.get("numFmtId"))] = found.get("formatCode", "")
            elif name in ("cellXfs", "cellStyleXfs", "cellStyles", "dxfs"):
                is_inside = name == "cellXfs"
            elif name == "xf" and is_inside:
                formats.append(_number(found.get("numFmtId")))
        return formats, texts

    def texts(self) -> Iterator[str]:
        """The shared texts of cells, in order; runs of one text are joined, phonetic readings left out."""
        part = self._part_of("sharedStrings")
        if part is None:
            return
        done: list[str] = []
        text: list[str] = []
        depth = {"t": 0, "rPh": 0}

        def start(tag: str, _: dict[str, str]) -> None:
            name = local(tag)
            if name in depth:
                depth[name] += 1
            elif name == "si":
                text.clear()

        def end(tag: str) -> None:
            name = local(tag)
            if name in depth:
                depth[name] -= 1
            elif name == "si":
                done.append(unescaped("".join(text)))

        def characters(data: str) -> None:
            if depth["t"] and not depth["rPh"]:
                text.append(data)

        reading = parser()
        reading.StartElementHandler, reading.EndElementHandler = start, end
        reading.CharacterDataHandler = characters
        for _ in parsed(reading, self.open(part)):
            yield from done
            done.clear()


def parsed(reading: expat.XMLParserType, part: IO[bytes]) -> Iterator[None]:
    """Parse a part cell_batch by cell_batch; after each cell_batch, handlers have seen its content.

    Raises:
        Refused: it is broken.
    """
    with part:
        while True:
            with translated_errors():
                data = part.read(_READ_BYTES)
                reading.Parse(data, not data)
            yield
            if not data:
                return


def _place(text: str) -> tuple[str, str] | None:
    """The sheet and the cells of a name; None where it stands for something else."""
    sheet, mark, cells = text.strip().rpartition("!")
    if not mark or not cells:
        return None
    if sheet.startswith("'") and sheet.endswith("'"):
        sheet = sheet[1:-1].replace("''", "'")
    return sheet, cells


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() else 0


def _refuse_others(file: RemoteFile) -> None:
    """Refuse a file that is no zip archive, and name its real format.

    Raises:
        Refused: it is none.
    """
    head = file.read(8)
    if head.startswith(b"PK"):
        file.seek(0)
        return
    if head == _OLE:
        file.seek(0)
        # The directory of an OLE file has the names of its streams.
        is_encrypted = any(_ENCRYPTED in cell_batch for cell_batch in iter(lambda: file.read(_BUFFER_BYTES), b""))
        if is_encrypted:
            raise Refused("is protected by a password: save it without one")
        raise Refused(f"is a workbook of Excel 97 to 2003 (.xls), which is not read; {_SAVE}")
    raise Refused(f"is not an Excel workbook: it begins with {head!r}; {_SAVE}")
