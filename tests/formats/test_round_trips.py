"""What an output wrote is what a source with the same options reads, whatever the values, options and splits."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import cell_text, options, reading, registry, splits
from spark_jobs.formats.avro import write as avro_write
from spark_jobs.formats.avro.options import AvroRead, AvroWrite, BlockCompression
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.csv.options import CsvRead, CsvWrite
from spark_jobs.formats.excel.options import ExcelRead, ExcelWrite
from spark_jobs.formats.fixed_width.options import FixedWidthRead, FixedWidthWrite, LineSeparator
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.json.options import JsonLayout, JsonRead, JsonWrite
from spark_jobs.formats.parquet.options import PageCompression, ParquetRead, ParquetWrite
from spark_jobs.formats.typed import write as typed_write
from spark_jobs.formats.xml.options import XmlRead, XmlWrite
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
#: Ends of what a type has, and of what kernels do at once.
FLOATS = st.sampled_from(
    [0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 2.0**53, 1e16, -1e-7, 0.1]
)
DATES = st.sampled_from([date.min, date.max, date(1, 12, 31), date(1582, 10, 4), date(1970, 1, 1), date(2024, 2, 29)])
MOMENTS = st.sampled_from(
    [datetime.min, datetime.max, datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1900, 2, 28, 0, 0, 0, 1000)]
)
BY_KIND: dict[types.Type, st.SearchStrategy[Any]] = {
    types.STRING: TEXTS,
    types.INT: st.one_of(
        st.integers(values.MIN_INT, values.MAX_INT),
        st.sampled_from([values.MIN_INT, values.MAX_INT, 0, -1, 10**18, 10**18 - 1, 1 << 53, (1 << 53) + 1]),
    ),
    types.FLOAT: st.one_of(st.floats(allow_nan=False, allow_infinity=False), FLOATS),
    types.BOOL: st.booleans(),
    types.DATE: st.one_of(st.dates(), DATES),
    types.DATETIME: st.one_of(st.datetimes().map(lambda moment: moment.replace(fold=0)), MOMENTS),
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
def tables(draw: st.DrawFn, kinds: dict[types.Type, st.SearchStrategy[Any]], encoding: str, names: Any = None) -> Table:
    """Some records under names that the encoding has."""
    any_name = st.text(min_size=1, max_size=4).filter(
        lambda name: options.missing_character(name, encoding) is None and not name.startswith("\ufeff")
    )
    found = draw(st.lists(any_name if names is None else names, min_size=1, max_size=3, unique=True))
    columns = [Column(name, draw(st.sampled_from([*kinds]))) for name in found]
    cells = [st.one_of(st.none(), kinds[column.type]) for column in columns]
    return Table(Schema(tuple(columns)), draw(st.lists(st.tuples(*cells), max_size=8)))


def written(
    name: str, table: Table, chosen: Any, piece: int, path: Path, *, moved: bool = False, **wanted: Any
) -> list[int]:
    """Write a table in pieces of some records; gives the records that could not be written.

    Records may be `moved` one by one, as those of sorted and split outputs.
    """
    writer: Any = registry.named(name).writer(table.schema, chosen, **wanted)
    pieces, failed = [], []
    for start in range(0, len(table.records), piece):
        part = table.records[start : start + piece]
        arrays = [
            values.to_arrow([record[i] for record in part], column.type)
            for i, column in enumerate(table.schema.columns)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=[c.name for c in table.schema.columns])
        encoded = writer.encode(batch, ends=moved)
        failed += [start + failure.row for failure in encoded.failures]
        if encoded.rows:
            pieces.append(bytes(encoded.data))
    if not pieces:
        path.write_bytes(writer.empty)
    elif registry.named(name).is_typed:
        sink = io.BytesIO()
        around = (b"", b"") if moved else (writer.start, writer.end)
        writer.convert(io.BytesIO(b"".join(pieces).join(around)), sink, moved=moved)
        path.write_bytes(sink.getvalue())
    else:
        path.write_bytes(writer.start + writer.separator.join(pieces) + writer.end)
    return failed


def read(
    name: str, table: Table, chosen: Any, split_bytes: int, path: Path, *, layout: Any = None
) -> list[tuple[Any, ...]]:
    """The records of a file, whose columns are those of the table; blocks are as small as splits."""
    # What is in an array cannot be declared.
    columns = [
        replace(column, type=types.ARRAY) if column.type.kind is types.Kind.ARRAY else column
        for column in table.schema.columns
    ]
    declared = [column.name for column in columns]
    file = files.describe(str(path), path.name)
    reader = registry.named(name).reader(chosen, layout=layout)
    scan = reader.plan(declared, [file], OnUnmapped.REJECT)
    want = Reading(tuple(SourceColumn(column.name, column.type) for column in columns), block_bytes=split_bytes)
    parts = splits.plan(scan.files, split_bytes)
    found, consistent = _read(reader, parts, scan, want)
    if not consistent:
        exact = reader.exact_splits(scan.files[0], parts)
        found, consistent = _read(reader, exact, scan, want)
        assert consistent
    return found


def _read(
    reader: Reader, parts: Iterable[splits.Split], scan: Any, want: Reading
) -> tuple[list[tuple[Any, ...]], bool]:
    found: list[tuple[Any, ...]] = []
    failures: list[Any] = []
    consistent = True
    for part in parts:
        outcome = reading.SplitOutcome()
        for block in reader.read(part, scan.files[part.file], want, outcome):
            failures += block.failures
            columns = [values.from_arrow(block.batch.column(column.name), column.type) for column in want.columns]
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


def without_null_texts(table: Table, records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Records as text formats have them: an empty cell is the empty text under `string`, and null elsewhere."""
    empty = ["" if column.type == types.STRING else None for column in table.schema.columns]
    return [
        tuple(nothing if value is None else value for value, nothing in zip(record, empty, strict=True))
        for record in records
    ]


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
    # More signs can be read than written.
    assume(not written_with.problems())
    assert chosen.problems() == []
    table = data.draw(tables(BY_KIND, encoding))
    path = tmp_path / "rows.csv"
    assert written("csv", table, written_with, piece, path) == unwritable(table, encoding)
    expected = without_null_texts(table, kept(table, encoding))
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


@given(data=st.data(), piece=st.integers(1, 8), moved=st.booleans())
def test_excel(data: st.DataObject, piece: int, moved: bool, tmp_path: Path) -> None:
    """Empty texts are empty cells, and rows without a value are no records."""
    table = data.draw(tables(BY_KIND, "utf-8"))
    path = tmp_path / "rows.xlsx"
    assert written("excel", table, ExcelWrite(), piece, path, moved=moved) == []
    expected = [tuple(None if value == "" else value for value in record) for record in table.records]
    expected = [record for record in expected if any(value is not None for value in record)]
    assert shown(read("excel", table, ExcelRead(), 1, path)) == shown(expected)


#: What no document has, and what is lost around elements.
XML_TEXTS = TEXTS.filter(
    lambda text: (
        text == text.strip(" \t\r\n") and not any((c < " " and c not in "\t\n\r") or c in "\ufffe\uffff" for c in text)
    )
)
XML_NAMES = st.sampled_from(["s", "@a", "p.q", "p.@b", "p", "é.日", "p.r.@c", "q-1", "_"])


@given(
    data=st.data(),
    encoding=st.sampled_from(["utf-8", "utf-16", "latin-1", "windows-1252", "ascii"]),
    preserve_nulls=st.booleans(),
    piece=st.integers(1, 8),
    split_bytes=st.integers(1, 80),
)
def test_xml(
    data: st.DataObject, encoding: str, preserve_nulls: bool, piece: int, split_bytes: int, tmp_path: Path
) -> None:
    names = XML_NAMES.filter(lambda name: options.missing_character(name, encoding) is None)
    table = data.draw(tables({**BY_KIND, types.STRING: XML_TEXTS}, encoding, names))
    path = tmp_path / "rows.xml"
    failed = written("xml", table, XmlWrite(encoding=encoding), piece, path, preserve_nulls=preserve_nulls)
    assert failed == unwritable(table, encoding)
    expected = kept(table, encoding)
    if preserve_nulls:
        # An empty element is the empty text, and so is an empty attribute.
        expected = without_null_texts(table, expected)
    names_known = [column.name for column in table.schema.columns]
    if "p" in names_known:
        # One with attributes or elements has no text then; with nulls written it has all of them, empty ones too.
        own, around = names_known.index("p"), [at for at, name in enumerate(names_known) if name.startswith("p.")]
        expected = [
            tuple(
                None
                if at == own and value == "" and any(preserve_nulls or record[each] is not None for each in around)
                else value
                for at, value in enumerate(record)
            )
            for record in expected
        ]
    found = read("xml", table, XmlRead("Root/Record"), split_bytes, path)
    assert shown(found) == shown(expected)


@given(
    data=st.data(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "windows-1252", "ascii", "cp949", "gb18030"]),
    separator=st.sampled_from(LineSeparator),
    justify=st.sampled_from([None, "left", "right"]),
    pad=st.sampled_from(" _~"),
    piece=st.integers(1, 8),
    split_bytes=st.integers(1, 80),
)
def test_fixed_width(
    data: st.DataObject,
    encoding: str,
    separator: LineSeparator,
    justify: str | None,
    pad: str,
    piece: int,
    split_bytes: int,
    tmp_path: Path,
) -> None:
    table = data.draw(
        tables({**BY_KIND, types.STRING: TEXTS.map(lambda text: text.strip().strip(pad).strip())}, encoding)
    )
    lost = [*unwritable(table, encoding)]
    if separator is not LineSeparator.NONE:
        lost += [
            row for row, record in enumerate(table.records) if any({"\r", "\n"}.intersection(str(v)) for v in record)
        ]
    width = 1 + max(
        (
            _width(value, column.type, encoding)
            for record in table.records
            for value, column in zip(record, table.schema.columns, strict=True)
        ),
        default=0,
    )
    fields = [
        {
            "name": column.name,
            "start": place * width,
            "width": width,
            "pad": pad,
            **({"justify": justify} if justify else {}),
        }
        for place, column in enumerate(table.schema.columns)
    ]
    layout = (("fields_", tuple(tuple(one.items()) for one in fields)),)
    path = tmp_path / "rows.txt"
    written_with = FixedWidthWrite(line_separator=separator, encoding=encoding)
    failed = written("fixed_width", table, written_with, piece, path, layout=layout)
    assert failed == sorted({*lost})
    expected = without_null_texts(table, [record for row, record in enumerate(table.records) if row not in lost])
    chosen = FixedWidthRead(line_separator=separator, encoding=encoding)
    assert shown(read("fixed_width", table, chosen, split_bytes, path, layout=layout)) == shown(expected)


def _width(value: Any, static: types.Type, encoding: str) -> int:
    """How many bytes a value may take."""
    (text,) = cell_text.texts(values.to_arrow([value], static), static).to_pylist()
    return max(len((text or "").encode(encoding, "replace")), len((text or "").encode()))


#: Names in an Avro file are letters, digits and underscores.
TYPED_NAMES = {"parquet": None, "avro": st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,3}", fullmatch=True)}
TYPED_KINDS = {
    **BY_KIND,
    types.FLOAT: st.one_of(st.floats(), FLOATS),
    types.array_of(types.INT): st.lists(st.none() | BY_KIND[types.INT], max_size=3),
    types.array_of(types.STRING): st.lists(st.none() | TEXTS, max_size=3),
}


@pytest.mark.parametrize("name", ["parquet", "avro"])
@given(data=st.data(), moved=st.booleans(), piece=st.integers(1, 8), split_bytes=st.sampled_from([1, 64, 100, 400]))
def test_files_of_columns(
    name: str, data: st.DataObject, moved: bool, piece: int, split_bytes: int, tmp_path: Path
) -> None:
    """Groups of rows and blocks are small; bytes are the same however the records came together."""
    table = data.draw(tables(TYPED_KINDS, "utf-8", TYPED_NAMES[name]))
    path = tmp_path / "rows"
    written_with: Any
    if name == "parquet":
        chosen, written_with = ParquetRead(), ParquetWrite(data.draw(st.sampled_from(PageCompression)))
    else:
        chosen, written_with = AvroRead(), AvroWrite(data.draw(st.sampled_from(BlockCompression)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed_write, "GROUP_ROWS", 3)
        patch.setattr(avro_write, "BLOCK_BYTES", 30)
        assert written(name, table, written_with, 100, path) == []
        whole = path.read_bytes()
        assert written(name, table, written_with, piece, path, moved=moved) == []
    assert path.read_bytes() == whole
    assert shown(read(name, table, chosen, split_bytes, path)) == shown(table.records)
