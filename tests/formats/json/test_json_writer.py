from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats.format import Encoded
from spark_jobs.formats.json.options import JsonLayout, JsonWrite
from spark_jobs.formats.json.write import JsonWriter

LINES = JsonWrite(format=JsonLayout.NDJSON)


def write(
    columns: dict[str, tuple[types.Type, list[Any]]], options: JsonWrite = LINES, **wanted: bool
) -> tuple[JsonWriter, Encoded]:
    schema = Schema(tuple(Column(name, static) for name, (static, _) in columns.items()))
    arrays = [values.to_arrow(items, static) for static, items in columns.values()]
    writer = JsonWriter(schema, options, **wanted)
    return writer, writer.encode(pa.RecordBatch.from_arrays(arrays, names=list(columns)))


def file_of(writer: JsonWriter, *pieces: Encoded) -> bytes:
    data = writer.separator.join(bytes(piece.data) for piece in pieces if piece.rows)
    return writer.start + data + writer.end if data else writer.empty


def column_lines(static: types.Type, items: list[Any]) -> list[str]:
    text = bytes(write({"x": (static, items)}, preserve_nulls=True)[1].data).decode()
    return [line.removeprefix('{"x":').removesuffix("}") for line in text.splitlines()]


def test_every_kind_of_value() -> None:
    columns = {
        "s": (types.STRING, ["é"]),
        "i": (types.INT, [-5]),
        "f": (types.FLOAT, [2.0]),
        "b": (types.BOOL, [True]),
        "d": (types.DATE, [dt.date(2024, 1, 2)]),
        "t": (types.DATETIME, [dt.datetime(2024, 1, 2, 3, 4, 5)]),
        "a": (types.array_of(types.INT), [[1, None]]),
        "m": (types.MAP, [{"k": None, "x": [1.0, "y"]}]),
    }
    assert (
        write(columns)[1].data
        == (
            '{"s":"é","i":-5,"f":2.0,"b":true,"d":"2024-01-02","t":"2024-01-02T03:04:05",'
            '"a":[1,null],"m":{"k":null,"x":[1.0,"y"]}}\n'
        ).encode()
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (100000.0, "100000.0"),
        (12345678901.5, "12345678901.5"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.5e300, "1.5e+300"),
        (1e-5, "0.00001"),
        (1e-6, "1e-6"),
        (1.234e-6, "1.234e-6"),
        (5e-324, "5e-324"),
        (1.2345678901234568e17, "1.2345678901234568e+17"),
        (float("nan"), "null"),
        (float("-inf"), "null"),
    ],
)
def test_floats(number: float, text: str) -> None:
    assert column_lines(types.FLOAT, [number, None, 0.25]) == [text, "null", "0.25"]


def test_large_whole_floats_have_all_their_digits() -> None:
    assert column_lines(types.FLOAT, [1.7e12, -98765432109876.0, None, 0.5]) == [
        "1700000000000.0",
        "-98765432109876.0",
        "null",
        "0.5",
    ]


@given(st.lists(st.floats() | st.integers(-(2**60), 2**60).map(float), max_size=8))
def test_floats_are_written_like_single_values(numbers: list[float]) -> None:
    assert column_lines(types.FLOAT, numbers) == list(map(values.json_float_text, numbers))


@given(st.lists(st.text(), max_size=8))
def test_texts_are_escaped_like_single_values(texts: list[str]) -> None:
    data = bytes(write({"x": (types.STRING, texts)})[1].data).decode()
    assert data == "".join(f'{{"x":{values.json_text(text)}}}\n' for text in texts)


def test_escapes() -> None:
    assert column_lines(types.STRING, ['q" b\\ s/', "l\n\r\t", "\x07\x1b\b\f", "€ 🍋 <&>\x7f"]) == [
        '"q\\" b\\\\ s/"',
        '"l\\n\\r\\t"',
        '"\\u0007\\u001b\\b\\f"',
        '"€ 🍋 <&>\x7f"',
    ]


rows = st.lists(
    st.tuples(st.none() | st.integers(-9, 9), st.none() | st.sampled_from(["", 'a"b']), st.none() | st.booleans()),
    min_size=1,
    max_size=5,
)


@given(rows, st.booleans())
def test_a_null_leaves_its_key_out_unless_nulls_are_preserved(records: list[tuple[Any, ...]], preserve: bool) -> None:
    kinds = {"a": types.INT, 'k"': types.STRING, "c": types.BOOL}
    columns = {name: (kind, [row[i] for row in records]) for i, (name, kind) in enumerate(kinds.items())}
    data = bytes(write(columns, preserve_nulls=preserve)[1].data).decode()
    expected = [
        {name: value for name, value in zip(kinds, record, strict=True) if preserve or value is not None}
        for record in records
    ]
    assert data == "".join(values.json_text(record) + "\n" for record in expected)


def test_an_array_is_joined_from_pieces() -> None:
    columns = {"a": (types.INT, [1, 2])}
    writer, piece = write(columns, JsonWrite())
    nothing = Encoded(b"", 0)
    assert file_of(writer, piece) == b'[\n{"a":1},\n{"a":2}\n]\n'
    assert file_of(writer, piece, nothing, piece) == b'[\n{"a":1},\n{"a":2},\n{"a":1},\n{"a":2}\n]\n'
    assert file_of(writer, nothing) == b"[]\n"


def test_every_line_of_ndjson_ends() -> None:
    writer, piece = write({"a": (types.INT, [1, None])})
    assert file_of(writer, piece, piece) == b'{"a":1}\n{}\n{"a":1}\n{}\n'
    assert file_of(writer) == b""


def test_pretty_objects_begin_at_the_margin() -> None:
    columns = {
        "id": (types.INT, [1, 2]),
        "doc": (types.ARRAY, [[1, "x", [], {"k": {}}], []]),
        "gone": (types.STRING, [None, None]),
    }
    writer, piece = write(columns, JsonWrite(pretty=True))
    text = file_of(writer, piece).decode()
    assert text == (
        '[\n{\n  "id": 1,\n  "doc": [\n    1,\n    "x",\n    [],\n    {\n      "k": {}\n    }\n  ]\n},\n'
        '{\n  "id": 2,\n  "doc": []\n}\n]\n'
    )
    assert json.loads(text)[1] == {"id": 2, "doc": []}


def test_an_unwritable_character_fails_its_record_only() -> None:
    columns = {"a": (types.STRING, ["é", "Ł", "z"])}
    writer, piece = write(columns, JsonWrite(encoding="latin-1"))
    assert file_of(writer, piece) == '[\n{"a":"é"},\n{"a":"z"}\n]\n'.encode("latin-1")
    assert [failed.row for failed in piece.failures] == [1]


def test_pieces_in_an_encoding_with_a_mark() -> None:
    writer, piece = write({"a": (types.STRING, ["é", "z"])}, JsonWrite(encoding="utf-16"))
    assert file_of(writer, piece, piece).decode("utf-16") == ('[\n{"a":"é"},\n{"a":"z"},\n{"a":"é"},\n{"a":"z"}\n]\n')
