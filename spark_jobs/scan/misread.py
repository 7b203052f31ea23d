"""Files that have none, or not all, of the columns that their source declares (decision 86): what to say of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.diagnostics import nearest, visible
from spark_jobs.formats.csv import parser
from spark_jobs.formats.json import members

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from spark_jobs.formats.options import CsvOptions
    from spark_jobs.scan.csv_head import Head

#: The diagnostic of a file without any declared column, and the warning of a column that no file has. JSON files, whose
#: records may differ, warn in both cases.
FOREIGN = "E222"
MISSING = "W210"
_DELIMITERS = ",;\t|:~^"
_QUOTES = "\"'"
_SHOWN = 200


def foreign(head: Head, declared: Sequence[str], options: CsvOptions) -> str:
    """What is wrong with a file whose header has none of the declared columns, and what would fit."""
    proposals = list(_proposals(head, declared, options)) or ["check the path, the header and `schema`"]
    return (
        f"the header has none of the declared columns ({', '.join(declared)}): it is {shown(head.header)}; "
        + ", or ".join(proposals)
    )


def missing(column: str, file: str, header: str, names: Iterable[str]) -> str:
    """What to say of a declared column that no file has."""
    hint = nearest.hint(column, names)
    text = f"{MISSING}: no file has the declared column '{column}', which is null in every record; "
    return f"{text}the header of {file} is {shown(header)}{f'; {hint}' if hint else ''}"


def missing_member(column: str, names: Iterable[str]) -> str:
    """What to say of a declared column that no record of any JSON file has."""
    hint = nearest.hint(column, names)
    text = f"{MISSING}: no file has the declared column '{column}', which is null in every record"
    return f"{text}{f'; {hint}' if hint else ''}"


def foreign_records(file: str, more: int, record: dict[str, Any], declared: Sequence[str]) -> str:
    """What to say of a JSON file whose records have none of the declared columns, and of so many like it.

    Args:
        file: the first such file.
        more: how many there are beside it.
        record: the file's first record.
        declared: the declared columns.
    """
    files = f"{file} and {more} more" if more else file
    names = [name for name, _ in members.Undeclared(()).leaves(record)]
    proposal = next(_record_proposals(record, names, declared), "check the path and `schema`")
    return (
        f"{MISSING}: no record of {files} has any of the declared columns ({', '.join(declared)}); "
        f"the first record has {shown(', '.join(names)) if names else 'no member'}; {proposal}"
    )


def _record_proposals(record: dict[str, Any], names: Sequence[str], declared: Sequence[str]) -> Iterator[str]:
    """Settings or names under which the records would have declared columns."""
    for name in names:
        found = members.find(record, name)
        if isinstance(found, list) and any(
            isinstance(item, dict) and members.has(item, column) for item in found[:1] for column in declared
        ):
            yield f"the array '{name}' fits: `options.record_path: {name}`"
    for column in declared:
        if near := nearest.nearest(column, names):
            yield f"did you mean `{near}` by `{column}`?"


def shown(header: str) -> str:
    """A header on one line."""
    text = visible.visible(header.strip("\r\n"))
    return f"`{text}`" if len(text) <= _SHOWN else f"`{text[:_SHOWN]}…`"


def _proposals(head: Head, declared: Sequence[str], options: CsvOptions) -> Iterator[str]:
    """Settings under which the file would have declared columns, or seems to have its records."""
    text = head.header.lstrip()
    if text.startswith(("{", "[")):
        yield "it looks like JSON: `type: json`"
        return
    if text.startswith("<"):
        yield "it looks like XML: `type: xml`"
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


def _fitting_options(header: str, declared: Sequence[str], options: CsvOptions) -> str:
    """The delimiter and quotes under which a header names most of the declared columns."""
    best, found = 0, ""
    for delimiter in _DELIMITERS:
        for quote in _QUOTES:
            other = replace(options, delimiter=delimiter, quote_char=quote)
            names = {name.strip().casefold() for name in _fields(header, other)}
            count = sum(column.casefold() in names for column in declared)
            if count > best:
                changed = [f"`options.delimiter: {delimiter!r}`"] * (delimiter != options.delimiter)
                changed += [f"`options.quote_char: {quote!r}`"] * (quote != options.quote_char)
                best, found = count, " and ".join(changed) or "blanks around its names removed"
    return found


def _fields(header: str, options: CsvOptions) -> list[str]:
    """The fields of a header under other options; none where they do not fit."""
    try:
        return parser.parse_record(header.encode(), options)
    except pa.ArrowInvalid:
        return []


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
