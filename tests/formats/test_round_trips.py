"""What an output wrote is what a source with the same options reads, whatever the values, options and splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import options, reading, registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.csv.options import CsvRead, CsvWrite
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.json.options import JsonLayout, JsonRead, JsonWrite
from spark_jobs.scan import files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from spark_jobs.formats.reader import Reader

#: One of each kind; none in which Python writes two characters alike, as `shift_jis` does a yen and a backslash.
ENCODINGS = (
    "utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-7", "ascii", "latin-1", "windows-1252", "cp037",
    "cp949", "gb18030", "hz", "big5hkscs",
)  # fmt: skip
ODD = st.sampled_from(
    ["", " ", '"', "'", '""', ",", ";", "\n", "\r", "\r\n", "\\", "null", "#", "é", "日本", "\x00", "~{"]
)
TEXTS = st.one_of(st.text(max_size=6), st.lists(ODD, max_size=4).map("".join))
BY_KIND: dict[types.Type, st.SearchStrategy[Any]] = {
    types.STRING: TEXTS,
    types.INT: st.integers(values.MIN_INT, values.MAX_INT),
    types.FLOAT: st.floats(allow_nan=False, allow_infinity=False),
    types.BOOL: st.booleans(),
    types.DATE: st.dates(),
    types.DATETIME: st.datetimes().map(lambda moment: moment.replace(fold=0)),
}
NESTED: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-1e9, 1e9), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
CHARACTERS = st.characters(max_codepoint=127)


@dataclass
class Table:
    """Columns with the values of each record."""

    schema: Schema
    records: list[tuple[Any, ...]]


@st.composite
def tables(draw: st.DrawFn, kinds: dict[types.Type, st.SearchStrategy[Any]], encoding: str) -> Table:
    """Some records under names that the encoding has."""
    names = st.text(min_size=1, max_size=4).filter(
        lambda name: options.missing_character(name, encoding) is None and not name.startswith("\ufeff")
    )
    found = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    columns = [Column(name, draw(st.sampled_from([*kinds]))) for name in found]
    cells = [st.one_of(st.none(), kinds[column.type]) for column in columns]
    return Table(Schema(tuple(columns)), draw(st.lists(st.tuples(*cells), max_size=8)))


def written(name: str, table: Table, chosen: Any, piece: int, path: Path, **wanted: bool) -> list[int]:
    """Write a table in pieces of some records; gives the records that could not be written."""
    writer = registry.named(name).writer(table.schema, chosen, **wanted)
    pieces, failed = [], []
    for start in range(0, len(table.records), piece):
        part = table.records[start : start + piece]
        arrays = [
            values.to_arrow([record[i] for record in part], column.type)
            for i, column in enumerate(table.schema.columns)
        ]
        encoded = writer.encode(pa.RecordBatch.from_arrays(arrays, names=[c.name for c in table.schema.columns]))
        failed += [start + failure.row for failure in encoded.failures]
        if encoded.rows:
            pieces.append(bytes(encoded.data))
    body = writer.start + writer.separator.join(pieces) + writer.end
    path.write_bytes(body if pieces else writer.empty)
    return failed


def read(name: str, table: Table, chosen: Any, split_bytes: int, path: Path) -> list[tuple[Any, ...]]:
    """The records of a file, whose columns are those of the table."""
    columns = table.schema.columns
    declared = [column.name for column in columns]
    file = files.describe(str(path), path.name)
    reader = registry.named(name).reader(chosen)
    scan = reader.plan(declared, [file], OnUnmapped.REJECT)
    want = Reading(tuple(SourceColumn(column.name, column.type) for column in columns))
    parts = splits.plan(scan.files, split_bytes)
    found, consistent = _read(reader, parts, scan, want, table)
    if not consistent:
        exact = reader.exact_splits(scan.files[0], parts)
        found, consistent = _read(reader, exact, scan, want, table)
        assert consistent
    return found


def _read(
    reader: Reader, parts: Iterable[splits.Split], scan: Any, want: Reading, table: Table
) -> tuple[list[tuple[Any, ...]], bool]:
    found: list[tuple[Any, ...]] = []
    failures: list[Any] = []
    consistent = True
    for part in parts:
        outcome = reading.SplitOutcome()
        for block in reader.read(part, scan.files[part.file], want, outcome):
            failures += block.failures
            columns = [
                values.from_arrow(block.batch.column(column.name), column.type) for column in table.schema.columns
            ]
            found += zip(*columns, strict=True)
        consistent &= outcome.is_consistent
    assert not consistent or not failures, failures
    return found, consistent


def unwritable(table: Table, encoding: str) -> list[int]:
    """The records that have a text, however deep, that the encoding cannot hold."""

    def has_none(value: Any) -> bool:
        match value:
            case str():
                return options.missing_character(value, encoding) is not None
            case list():
                return any(map(has_none, value))
            case dict():
                return any(map(has_none, [*value, *value.values()]))
            case _:
                return False

    return [row for row, record in enumerate(table.records) if any(map(has_none, record))]


def kept(table: Table, encoding: str) -> list[tuple[Any, ...]]:
    lost = unwritable(table, encoding)
    return [record for row, record in enumerate(table.records) if row not in lost]


def shown(records: list[tuple[Any, ...]]) -> list[str]:
    """Values with their kinds: 1, 1.0 and true are not the same, nor are 0.0 and -0.0."""
    return [repr(record) for record in records]


@given(
    data=st.data(),
    encoding=st.sampled_from(ENCODINGS),
    delimiter=st.one_of(st.sampled_from(",;\t|"), CHARACTERS),
    quote=st.one_of(st.sampled_from("\"'"), CHARACTERS),
    piece=st.integers(1, 8),
    split_bytes=st.integers(1, 60),
)
def test_csv(
    data: st.DataObject, encoding: str, delimiter: str, quote: str, piece: int, split_bytes: int, tmp_path: Path
) -> None:
    chosen = CsvRead(delimiter=delimiter, quote_char=quote, encoding=encoding)
    written_with = CsvWrite(delimiter=delimiter, quote_char=quote, encoding=encoding)
    assert chosen.problems() == written_with.problems()
    assume(not chosen.problems())
    table = data.draw(tables(BY_KIND, encoding))
    path = tmp_path / "rows.csv"
    assert written("csv", table, written_with, piece, path) == unwritable(table, encoding)
    # An empty cell is the empty text: CSV has no null texts (decision 26).
    empty = ["" if column.type == types.STRING else None for column in table.schema.columns]
    expected = [
        tuple(nothing if value is None else value for value, nothing in zip(record, empty, strict=True))
        for record in kept(table, encoding)
    ]
    assert shown(read("csv", table, chosen, split_bytes, path)) == shown(expected)


@given(
    data=st.data(),
    encoding=st.sampled_from(ENCODINGS),
    layout=st.sampled_from([JsonLayout.ARRAY, JsonLayout.NDJSON]),
    pretty=st.booleans(),
    preserve_nulls=st.booleans(),
    piece=st.integers(1, 8),
    split_bytes=st.integers(1, 60),
)
def test_json(
    data: st.DataObject,
    encoding: str,
    layout: JsonLayout,
    pretty: bool,
    preserve_nulls: bool,
    piece: int,
    split_bytes: int,
    tmp_path: Path,
) -> None:
    pretty = pretty and layout is JsonLayout.ARRAY
    chosen = JsonRead(format=layout, encoding=encoding)
    written_with = JsonWrite(format=layout, pretty=pretty, encoding=encoding)
    table = data.draw(tables({**BY_KIND, types.ANY: NESTED}, encoding))
    path = tmp_path / "rows.json"
    failed = written("json", table, written_with, piece, path, preserve_nulls=preserve_nulls)
    assert failed == unwritable(table, encoding)
    assert shown(read("json", table, chosen, split_bytes, path)) == shown(kept(table, encoding))
