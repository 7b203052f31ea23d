"""Guesses the source of an XML file: which elements are records, and the types of their values."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from spark_jobs.cli.guess import values
from spark_jobs.cli.guess.source import Guess
from spark_jobs.cxl import values as cxl_values
from spark_jobs.formats import format, reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading
from spark_jobs.formats.xml.options import XmlRead
from spark_jobs.formats.xml.read import XmlReader
from spark_jobs.scan import files

if TYPE_CHECKING:
    from spark_jobs.stores.location import FilePath

_MOST_RECORDS = 100_000


_PAGE = re.compile(rb"<(?:!DOCTYPE\s+html|html)\b", re.IGNORECASE)
_OLD_WORKBOOK = b"urn:schemas-microsoft-com:office:spreadsheet"


class NoElements(Exception):
    """A text is no XML, or nothing in it is a record; the message says why."""


@dataclass
class _Path:
    """The elements at a path from the root: their number, and the names of their members."""

    count: int = 0
    members: Counter[str] = field(default_factory=Counter)


def guess(path: FilePath, name: str, head: bytes, *, is_whole: bool, as_text: bool) -> tuple[Guess, int]:
    """The source that reads a file, and how many records were looked at.

    Args:
        path: the file.
        name: its name in messages.
        head: its beginning, or all of it.
        is_whole: whether it is all of it.
        as_text: whether all columns are to be texts.

    Raises:
        FormatError: the file is broken.
        NoElements: nothing in it is a record.
    """
    if _PAGE.search(head[:4096]):
        raise NoElements("it is a page of HTML, as some programs export tables: save it as `.xlsx` or CSV")
    if _OLD_WORKBOOK in head[:4096]:
        raise NoElements("it is a workbook of Excel 2003 in XML: save it as `.xlsx`")
    where = _records(head, is_whole=is_whole)
    texts, count = _texts(path, name, XmlRead(record_path=where))
    if not count:
        raise NoElements("it has no records")
    columns = values.guess([(column, found.texts, count) for column, found in texts.items()])
    if as_text:
        columns = [values.Column(column.name, is_unique=column.is_unique) for column in columns]
    columns = [
        values.Column(column.name, texts[column.name].kind) if texts[column.name].kind else column for column in columns
    ]
    made = Guess("", [], "xml", {"record_path": where}, columns)
    made.remarks += values.column_notes(columns)
    made.doubts += [f"column {values.shown(c.name)}: {r.text}" for c in columns for r in c.remarks if r.is_doubt]
    return made, count


def _records(head: bytes, *, is_whole: bool) -> str:
    """The path of the elements that are most likely records: elements that are frequent and have members."""
    paths: dict[tuple[str, ...], _Path] = {}
    stack: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        stack.append(tag.rpartition(":")[2])
        here = paths.setdefault(tuple(stack), _Path())
        here.count += 1
        here.members.update("@" + key for key in attributes if not key.startswith("xmlns"))
        if len(stack) > 1:
            paths[tuple(stack[:-1])].members[stack[-1]] += 1

    def end(_: str) -> None:
        stack.pop()

    def refuse(*_: object) -> None:
        raise NoElements("it declares entities of its own, which are not read")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(head, is_whole)
    except expat.ExpatError as error:
        if is_whole or not paths:
            raise NoElements(f"it is no XML: {error}") from None
    candidates = {path: one for path, one in paths.items() if len(path) > 1 and one.members}
    if not candidates:
        raise NoElements("no element has anything in it that could be a column")
    # Records are frequent and have several members. An element inside a record is no record of its own.
    best = max(candidates, key=lambda path: (_worth(candidates[path]), -len(path)))
    for end_of in range(2, len(best)):
        outer = candidates.get(best[:end_of])
        if outer is not None and outer.count > 1 and len(outer.members) > 1:
            best = best[:end_of]
            break
    return "/" + "/".join(best)


def _worth(one: _Path) -> float:
    return one.count * min(len(one.members), 3) if one.count > 1 else 0.5


@dataclass
class _Values:
    """The texts of a column with their counts, or what its values are that are no texts."""

    texts: Counter[str] = field(default_factory=Counter)
    kind: str = ""

    def add(self, value: Any) -> None:
        """Note a value."""
        if isinstance(value, (list, dict)):
            kind = "array" if isinstance(value, list) else "map"
            self.kind = kind if self.kind in ("", kind) else "any"
        elif value is not None:
            self.texts[str(value)] += 1


def _texts(path: FilePath, name: str, options: XmlRead) -> tuple[dict[str, _Values], int]:
    """The values of each column that the records of a file have, and how many records there are."""
    reader = XmlReader(options)
    scan = reader.plan([], [files.describe_named(path, name)], OnUnmapped.AUTO_WIDEN)
    found = {column: _Values() for column in scan.undeclared}
    count = 0
    for split in splits.plan(scan.files, 1 << 62):
        outcome = reading.SplitOutcome()
        for block in reader.read(split, scan.files[split.file], Reading((), scan.undeclared), outcome):
            count += block.count
            for column in found:
                for text in block.batch.column(format.UNDECLARED_PREFIX + column).to_pylist():
                    found[column].add(cxl_values.decode(text))
            if count > _MOST_RECORDS:
                return found, count
    return found, count
