"""CSV files that have none of the columns that their source declares, and the options that would fit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.diagnostics import nearest
from spark_jobs.formats.csv import parser, rewriting
from spark_jobs.formats.misread import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.csv.head import Head
    from spark_jobs.formats.csv.options import CsvRead

#: No header that somebody wrote is longer; each way to read it takes time and memory.
_LONGEST = 1 << 16
_DELIMITERS = ",;\t|:~^"
_EXCELS_LINE = re.compile(r'"?sep=([^\r\n])"?', re.IGNORECASE)
_QUOTES = "\"'"


def foreign(head: Head, declared: Sequence[str], options: CsvRead, lines_before: int | None = None) -> str:
    """The error for a file whose header has none of the declared columns, with suggestions.

    Args:
        head: the file's.
        declared: the columns.
        options: how the file is read.
        lines_before: after how many lines there is a header that has some of them, if there is one.
    """
    if lines_before is None:
        proposals = list(_proposals(head, declared, options))
    else:
        proposals = [f"a header that has them follows: `options.skip_rows: {lines_before}`"]
    proposals = proposals or ["check the path, the header and `schema`"]
    return (
        f"the header has none of the declared columns ({', '.join(declared)}): it is {shown(head.header)}; "
        + ", or ".join(proposals)
    )


def _proposals(head: Head, declared: Sequence[str], options: CsvRead) -> Iterator[str]:
    """Settings under which the file would have declared columns, or seems to have its records."""
    if len(head.header) > _LONGEST:
        return
    text = head.header.lstrip()
    if text.startswith(("{", "[")):
        yield "it looks like JSON: `type: json`"
        return
    if text.startswith("<"):
        yield "it looks like XML: `type: xml`"
        return
    if (found := _EXCELS_LINE.fullmatch(head.header.strip())) is not None:
        fitting = f"`options.skip_rows: 1` and `options.delimiter: {found[1]!r}`"
        yield f"it is a line that Excel writes before the header: {fitting}"
        return
    if "\0" in text:
        order = "be" if text.startswith("\0") else "le"
        yield f"it looks like UTF-16: `options.encoding: utf-16-{order}`"
        return
    written = _fitting_options(head.header, declared, options)
    if written:
        yield f"it fits with {written}"
        return
    for column in declared:
        if name := nearest.nearest(column, head.names):
            yield f"did you mean `{name}` by `{column}`?"
            return
    if len(head.names) == len(declared) and any(map(_is_number, head.names)):
        yield "it looks like a record: `options.has_header: false`"


def _fitting_options(header: str, declared: Sequence[str], options: CsvRead) -> str:
    """The delimiter and quotes under which a header names most of the declared columns."""
    best, found = 0, ""
    for delimiter in _DELIMITERS:
        for quote in _QUOTES:
            other = replace(options, delimiter=delimiter, quote_char=quote)
            if other.problems():
                continue
            names = {name.strip().casefold() for name in _fields(header, other)}
            count = sum(column.casefold() in names for column in declared)
            if count > best:
                changed = [f"`options.delimiter: {delimiter!r}`"] * (delimiter != options.delimiter)
                changed += [f"`options.quote_char: {quote!r}`"] * (quote != options.quote_char)
                best, found = count, " and ".join(changed) or "blanks around its names removed"
    return found


def _fields(header: str, options: CsvRead) -> list[str]:
    """The fields of a header under other options; none where they do not fit."""
    try:
        made = rewriting.of(options)
        data = header.encode()
        return parser.parse_record(data if made is None else made.rewritten(data), options)
    except pa.ArrowInvalid:
        return []


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
