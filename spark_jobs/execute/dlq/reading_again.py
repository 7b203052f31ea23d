"""Writes the records of dead letters to files that their source reads instead of its own, whatever its format.

A dead letter shows each value in the usual spelling, and one that did not convert as it was read. People mend cells in
either. So the field that failed is read by the column's rules first, every other cell by the usual rules first; what
neither reads stays a text, and fails again. A record that could not be read has cells that people copied from the
source's file: all of them are read by the column's rules first. The files are NDJSON, where a text, a number, a null
and a map are not the same.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import values
from spark_jobs.cxl.failure import Category
from spark_jobs.cxl.types import Kind
from spark_jobs.cxl.written_numbers import number_of
from spark_jobs.formats import cell_text, coerce, format
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.formats.spelling import USUAL
from spark_jobs.nodes.source.step import FileMatch
from spark_jobs.scan.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_jobs.execute.dlq.work_list import Entry
    from spark_jobs.formats.format import SourceColumn
    from spark_jobs.formats.spelling import Spelling
    from spark_jobs.nodes.source.step import SourceStep

_CONTAINERS = (Kind.MAP, Kind.ARRAY)


@dataclass
class Files:
    """The files that a source reads instead of its own in a replay, with the record of each line.

    `origins` has the original records by file and row, as dead letters of the replay name them.
    """

    step: SourceStep
    origins: dict[tuple[str, str], tuple[str, str, str]]


def write_replay_files(step: SourceStep, entries: Sequence[Entry], folder: Path) -> Files:
    """Write the records of some entries, one of each record, and give the source that reads them.

    Each file of the source has one of the same name, in the order of their first entries.

    Raises:
        OSError: a file cannot be written.
    """
    files: dict[str, list[Entry]] = {}
    for entry in entries:
        files.setdefault(entry.file, []).append(entry)
    found = dict(zip(map(id, entries), rows(step, entries), strict=True))
    paths, origins = [], {}
    for number, (name, mine) in enumerate(files.items()):
        path = folder / str(number) / (Path(name).name or "records")
        path.parent.mkdir(parents=True)
        with path.open("x", encoding="utf-8") as file:
            for row, entry in enumerate(mine, 1):
                file.write(values.json_text(found[id(entry)]) + "\n")
                origins[str(path), str(row)] = entry.origin
        paths.append(str(path))
    if not paths:  # the source gives no record
        path = folder / "none.ndjson"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        paths.append(str(path))
    return Files(_reading(step, paths), origins)


def _reading(step: SourceStep, paths: Iterable[str]) -> SourceStep:
    """The source on other files: values are in the usual spelling, whatever its own files have."""
    columns = tuple(_usual(column) for column in step.columns)
    options = JsonRead(format=JsonLayout.NDJSON, compression=Compression.NONE)
    match = FileMatch(paths=tuple(paths))
    return replace(
        step, format="json", options=options, match=match, columns=columns, array_paths=(),
        sections=(), layout=None, typed_fields=(), endpoint=None, passes=(),
    )  # fmt: skip


def _usual(column: SourceColumn) -> SourceColumn:
    return replace(column, alias=None, spelling=USUAL)


def rows(step: SourceStep, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The records as NDJSON, a line each."""
    found: list[dict[str, Any]] = [{} for _ in entries]
    records = [entry.record for entry in entries]
    # The whole before its parts: `address` before `address.city`.
    for column in sorted(step.columns, key=lambda each: each.name.count(".")):
        texts = [record.get(column.name) for record in records]
        is_mended = np.array([column.name == entry.field or entry.category == Category.MALFORMED for entry in entries])
        for row, value in zip(found, _values(step, column, texts, is_mended), strict=True):
            if value is not None:
                _put(row, column.name, value)
    return found


def _put(row: dict[str, Any], name: str, value: Any) -> None:
    *parents, last = name.split(".")
    for parent in parents:
        inner = row.setdefault(parent, {})
        if not isinstance(inner, dict):
            return  # the parent is what it was read as
        row = inner
    row[last] = value


def _values(step: SourceStep, column: SourceColumn, texts: list[str | None], is_mended: np.ndarray) -> list[Any]:
    """A column's cells as JSON has them."""
    kind = column.type.kind
    if kind is Kind.STRING:
        # Only formats of texts know a text without characters from none at all, unless they have words for none.
        has_empty = step.file_format.values_are_text and not column.spelling.null_values
        return [text if text or has_empty else None for text in texts]
    known = [text or None for text in texts]
    if kind is Kind.DECIMAL:
        return _converted(step, column, pa.array(known, pa.string()), is_mended)
    if kind in _CONTAINERS or (column.type.is_dynamic and not step.file_format.values_are_text):
        return [_parsed(text) for text in known]
    if column.type.is_dynamic:
        return list(known)
    return _converted(step, column, pa.array(known, pa.string()), is_mended)


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text, parse_int=number_of, parse_float=number_of)
    except ValueError:
        return text


def _converted(step: SourceStep, column: SourceColumn, texts: pa.StringArray, is_mended: np.ndarray) -> list[Any]:
    usual = _texts(column, texts, (), USUAL)
    ruled = _texts(column, texts, format.forms(column, step.date_formats), column.spelling)
    found: list[Any] = []
    for text, plain, by_rule, mended in zip(texts.to_pylist(), usual, ruled, is_mended.tolist(), strict=True):
        first, second = (by_rule, plain) if mended else (plain, by_rule)
        read = first if first is not None else second
        if mended and text in column.spelling.null_values:
            found.append(None)
        else:
            found.append(text if read is None else _scalar(column, read))
    return found


def _texts(column: SourceColumn, texts: pa.StringArray, forms: tuple[str, ...], spelling: Spelling) -> list[str | None]:
    """The texts of the values that are read; None if none is."""
    done = coerce.convert(texts, column.type, forms, spelling)
    return list(cell_text.texts(done.array, column.type).to_pylist())


def _scalar(column: SourceColumn, text: str) -> Any:
    match column.type.kind:
        case Kind.INT:
            return int(text)
        case Kind.BOOL:
            return text == "true"
        case Kind.FLOAT:
            number = float(text)
            return number if math.isfinite(number) else text
    return text


def original(name: str, row: str, known: Mapping[tuple[str, str], tuple[str, str, str]]) -> tuple[str, str, str] | None:
    """The record at a row of a file of the replay, by the file's name in a dead letter."""
    return known.get((os.path.abspath(name), row)) or known.get((name, row))
