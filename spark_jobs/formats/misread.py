"""Messages about files that lack some or all of the columns that their source declares."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import nearest, printable
from spark_jobs.scan import compression
from spark_jobs.scan.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The diagnostic of a file without any declared column, and the warning of a column that no file has. JSON files, whose
#: records may differ, warn in both cases.
FOREIGN = "E222"
MISSING = "W210"
_SHOWN = 200
#: The hint if the encoding of texts cannot be guessed.
OTHER_ENCODING = "`options.encoding` names another one, such as `latin-1` or `cp1252`"
_ZIP, _OLE, _PDF = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"%PDF-"
_BZ2_BLOCK = b"1AY&SY"
#: Signs near the beginning of Excel files.
_EXCEL = (b"[Content_Types].xml", b"xl/", b"docProps/")
_WORKBOOK = "the file is an Excel workbook: read it with `type: excel`; `clinker guess` prints such a source"
_OLD_WORKBOOK = (
    "the file is an Excel workbook of an old form (`.xls`) or with a password, which is not read: save it as `.xlsx` "
    "without a password, and read that file with `type: excel`"
)


def missing(column: str, file: str, header: str, names: Iterable[str]) -> str:
    """The warning about a declared column that no file has."""
    hint = nearest.hint(column, names)
    text = f"{MISSING}: no file has the declared column '{column}', which is null in every record; "
    return f"{text}the header of {file} is {shown(header)}{f'; {hint}' if hint else ''}"


def missing_member(column: str, names: Iterable[str]) -> str:
    """The warning about a declared column that no record of any file has."""
    hint = nearest.hint(column, names)
    text = f"{MISSING}: no file has the declared column '{column}', which is null in every record"
    return f"{text}{f'; {hint}' if hint else ''}"


def shown(header: str) -> str:
    """A header on one line."""
    text = printable.printable(header.strip("\r\n"))
    return f"`{text}`" if len(text) <= _SHOWN else f"`{text[:_SHOWN]}…`"


def of_bytes(head: bytes) -> str | None:
    """The problem of a file whose first bytes are no text of the format; None where they show nothing."""
    if head.startswith(_OLE):
        return _OLD_WORKBOOK
    if head.startswith(_ZIP):
        is_workbook = any(name in head[:4096] for name in _EXCEL)
        return _WORKBOOK if is_workbook else "the file is compressed in a way that is not read: unpack it"
    if head.startswith(_PDF):
        return "the file is a PDF document, which is not read"
    packed = compression.of_bytes(head)
    if packed is not Compression.NONE and (packed is not Compression.BZ2 or head[4:10] == _BZ2_BLOCK):
        return f"the file is compressed, and its name does not say so: `options.compression: {packed}`"
    return None


def encoding_hint(data: bytes) -> str:
    """A hint about bytes that are no text in the source's encoding."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "it looks like UTF-16: `options.encoding: utf-16`"
    if data[1:2] == b"\0" or data[:1] == b"\0":
        return f"it looks like UTF-16: `options.encoding: utf-16-{'be' if data[:1] == bytes(1) else 'le'}`"
    return OTHER_ENCODING


def undecodable(charset: str) -> str:
    """The problem of a record with undecodable bytes."""
    text = f"bytes are no {charset} text"
    return f"{text}; {OTHER_ENCODING}" if codecs.lookup(charset).name == "utf-8" else text
