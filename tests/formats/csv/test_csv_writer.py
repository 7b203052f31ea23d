from __future__ import annotations

import csv
import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats.csv.options import CsvWrite
from spark_jobs.formats.csv.write import CsvWriter
from spark_jobs.formats.format import Encoded


def write(
    columns: dict[str, tuple[types.Type, list[Any]]], options: CsvWrite | None = None, **wanted: bool
) -> tuple[CsvWriter, Encoded]:
    schema = Schema(tuple(Column(name, static) for name, (static, _) in columns.items()))
    arrays = [values.to_arrow(items, static) for static, items in columns.values()]
    writer = CsvWriter(schema, options or CsvWrite(), **wanted)
    return writer, writer.encode(pa.RecordBatch.from_arrays(arrays, names=list(columns)))


def column_bytes(static: types.Type, items: list[Any]) -> bytes:
    return bytes(write({"x": (static, items), "end": (types.STRING, ["."] * len(items))})[1].data)


def test_values_have_one_text_everywhere() -> None:
    _, encoded = write(
        {
            "s": (types.STRING, ["plain", "", None]),
            "i": (types.INT, [-(2**63), 7, None]),
            "b": (types.BOOL, [True, False, None]),
            "d": (types.DATE, [dt.date(2024, 2, 29), dt.date(1, 1, 1), None]),
            "t": (types.DATETIME, [dt.datetime(2024, 2, 29, 8, 30), dt.datetime(9999, 12, 31, 23, 59, 59), None]),
        }
    )
    assert encoded.data == (
        b"plain,-9223372036854775808,true,2024-02-29,2024-02-29T08:30:00\n"
        b",7,false,0001-01-01,9999-12-31T23:59:59\n"
        b",,,,\n"
    )
    assert encoded.rows == 3


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, b"1"),
        (2.5, b"2.5"),
        (1e21, b"1000000000000000000000"),
        (1e-7, b"0.0000001"),
        (-0.0, b"-0"),
        (float("nan"), b"NaN"),
        (float("-inf"), b"-inf"),
        (333333333333333300000.0, b"333333333333333300000"),
        (3.3333333333333334e-8, b"0.000000033333333333333334"),
        (1e15, b"1000000000000000"),
        (5e-324, b"0." + b"0" * 323 + b"5"),
    ],
)
def test_floats_have_no_exponent_and_no_trailing_zero(number: float, text: bytes) -> None:
    assert column_bytes(types.FLOAT, [0.5, number, None]) == b"0.5,.\n" + text + b",.\n,.\n"


def test_large_whole_floats_have_all_their_digits() -> None:
    numbers = [1.7e12, -98765432109876.0, None, float(2**53 - 1), 1e15]
    assert column_bytes(types.FLOAT, numbers) == (
        b"1700000000000,.\n-98765432109876,.\n,.\n9007199254740991,.\n1000000000000000,.\n"
    )


def test_fractions_of_seconds_are_written_when_they_are_not_zero() -> None:
    moments = [dt.datetime(2024, 1, 2, 3, 4, 5, micros) for micros in (0, 120_000, 123_456)]
    assert column_bytes(types.DATETIME, moments) == (
        b"2024-01-02T03:04:05,.\n2024-01-02T03:04:05.120,.\n2024-01-02T03:04:05.123456,.\n"
    )


def test_arrays_are_plain_json() -> None:
    assert column_bytes(types.ARRAY, [["a", "b,c", None, 2, 1.5, True], [], [{"k": "v"}], None]) == (
        b'"[""a"",""b,c"",null,2,1.5,true]",.\n[],.\n"[{""k"":""v""}]",.\n,.\n'
    )
    assert column_bytes(types.array_of(types.INT), [[1, 2], []]) == b'"[1,2]",.\n[],.\n'


def test_only_cells_that_need_quotes_get_them() -> None:
    cells = ["a", "a,b", 'say "hi"', "two\nlines", "a\rb", " pad ", "", "a;b"]
    assert column_bytes(types.STRING, cells) == (
        b'a,.\n"a,b",.\n"say ""hi""",.\n"two\nlines",.\n"a\rb",.\n pad ,.\n,.\na;b,.\n'
    )


def test_another_delimiter_decides_what_is_quoted() -> None:
    columns = {"a": (types.STRING, ["1,5", "x;y"]), "b": (types.STRING, ["k", "l"])}
    writer, encoded = write(columns, CsvWrite(delimiter=";"))
    assert writer.start + bytes(encoded.data) == b'a;b\n1,5;k\n"x;y";l\n'


def test_a_delimiter_that_occurs_in_numbers_quotes_them() -> None:
    _, encoded = write({"a": (types.INT, [15, 20]), "b": (types.BOOL, [True, None])}, CsvWrite(delimiter="5"))
    assert encoded.data == b'"15"5true\n205\n'


def test_the_quote_character_is_the_one_that_was_asked_for() -> None:
    columns = {"it's": (types.STRING, ['a"b', "it's", "c,d", "e"]), "n": (types.INT, [1, 2, 3, 4])}
    writer, encoded = write(columns, CsvWrite(quote_char="'"))
    assert writer.start == b"'it''s',n\n"
    assert encoded.data == b"a\"b,1\n'it''s',2\n'c,d',3\ne,4\n"
    assert write({"x": (types.STRING, [None])}, CsvWrite(quote_char="'"))[1].data == b"''\n"


def test_a_quote_character_that_occurs_in_numbers_quotes_them() -> None:
    _, encoded = write({"a": (types.FLOAT, [-1.5, 2.0])}, CsvWrite(quote_char="-"))
    assert encoded.data == b"---1.5-\n2\n"


def test_a_record_of_one_empty_cell_is_a_pair_of_quotes() -> None:
    assert write({"a": (types.STRING, ["x", "", None, " "])})[1].data == b'x\n""\n""\n \n'


def test_the_header_is_quoted_like_cells_and_may_be_left_out() -> None:
    columns = {"a,b": (types.INT, [1]), 'q"': (types.INT, [2])}
    assert write(columns)[0].start == b'"a,b","q"""\n'
    assert write(columns)[0].empty == b'"a,b","q"""\n'
    assert write(columns, include_header=False)[0].empty == b""


def test_maps_are_refused_record_by_record() -> None:
    _, encoded = write({"id": (types.INT, [1, 2, 3]), "m": (types.ANY, ["x", {"k": 1}, 2.5])})
    assert encoded.data == b"1,x\n3,2.5\n"
    assert encoded.rows == 2
    assert [(failed.row, failed.failure.field, failed.failure.value) for failed in encoded.failures] == [
        (1, "m", '{"k":1}')
    ]
    detail = encoded.failures[0].failure.detail
    assert detail.startswith("column 'm': a map cannot be written as CSV")
    assert detail.endswith("write its members as columns, or emit its text (`.to_string()`)")


def test_an_unwritable_character_fails_its_record_only() -> None:
    columns = {
        "id": (types.INT, [1, 2, 3, 4]),
        "größe": (types.STRING, ["Åse", "Łucja", "Zoë", "Эра"]),
        "m": (types.ANY, [{"k": 1}, 1, 2, 3]),
    }
    writer, encoded = write(columns, CsvWrite(encoding="latin-1"))
    assert writer.start + bytes(encoded.data) == "id,größe,m\n3,Zoë,2\n".encode("latin-1")
    assert [(failed.row, failed.failure.value) for failed in encoded.failures] == [(0, '{"k":1}'), (1, "Ł"), (3, "Э")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "windows-1252"])
def test_pieces_make_up_a_file_in_the_encoding(encoding: str) -> None:
    columns = {"a": (types.STRING, ["é", "x,y"])}
    writer, encoded = write(columns, CsvWrite(encoding=encoding))
    assert (writer.start + bytes(encoded.data) * 2 + writer.end).decode(encoding) == 'a\né\n"x,y"\né\n"x,y"\n'


def test_slices_of_a_batch_are_written_as_slices() -> None:
    schema = Schema((Column("a", types.STRING), Column("n", types.FLOAT)))
    batch = pa.record_batch({"a": ["x,", "y", "z"], "n": [1e30, 2.0, 1e-9]})
    writer = CsvWriter(schema, CsvWrite())
    assert writer.encode(batch.slice(1)).data == b"y,2\nz,0.000000001\n"
    assert writer.encode(batch.slice(1, 0)) == Encoded(b"", 0)


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=8))
def test_what_is_written_reads_back(rows: list[tuple[str, str]]) -> None:
    columns = {"a": (types.STRING, [a for a, _ in rows]), "b": (types.STRING, [b for _, b in rows])}
    text = bytes(write(columns)[1].data).decode()
    assert [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), strict=True)] == rows


@given(st.lists(st.floats() | st.integers(-(2**60), 2**60).map(float), max_size=8))
def test_floats_read_back_as_the_same_numbers(numbers: list[float]) -> None:
    lines = column_bytes(types.FLOAT, numbers).decode().splitlines()
    assert [repr(float(line.removesuffix(",."))) for line in lines] == [repr(number) for number in numbers]
    assert not any("e" in line for line in lines)
