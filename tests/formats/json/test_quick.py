"""Which records are read by columns, and which are left to the exact way."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cxl import types
from spark_jobs.formats.byte_stream import RangeStats
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import ArrayPath, Reading, SourceColumn
from spark_jobs.formats.json import parser
from spark_jobs.formats.json.exact import one_by_one
from spark_jobs.formats.json.fast import quick
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.scan.files import FormatError
from tests.formats.json.test_reading_json import read_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

COLUMNS = {"id": types.INT, "name": types.STRING, "price": types.FLOAT, "day": types.DATE, "at.city": types.STRING}
LINE = '{{"id":{},"name":"n\\n{}","price":{}.5,"day":"2024-01-31","at":{{"city":"é"}},"extra":[{{"k":1}}]}}'
LINES = [LINE.format(i, i, i) for i in range(400)]


@pytest.fixture
def exactly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that go the exact way."""
    seen: list[str] = []
    real = one_by_one.of_lines

    def of_lines(lines: Sequence[bytes], encoding: str) -> object:
        seen.extend(line.decode() for line in lines)
        return real(lines, encoding)

    monkeypatch.setattr(one_by_one, "of_lines", of_lines)
    return seen


def read(text: str, columns: dict[str, types.Type] = COLUMNS, undeclared: tuple[str, ...] = ()) -> list[pa.RecordBatch]:
    wanted = Reading(tuple(SourceColumn(name, static) for name, static in columns.items()), undeclared)
    reader = parser.JsonParser("in.ndjson", JsonLayout.NDJSON, JsonRead(), wanted)
    return [block.batch for block in reader.blocks(lambda: io.BytesIO(f"{text}\n".encode()), RangeStats())]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "  \n"], ids=repr)
def test_records_that_are_what_they_are_declared_are_read_by_columns(exactly: list[str], end: str) -> None:
    (batch,) = read(end.join(LINES))
    assert exactly == []
    assert batch.column("id").to_pylist() == list(range(400))
    assert batch.to_pylist()[7]["name"] == "n\n7"


def test_columns_with_another_name_in_the_file_are_read_by_columns(exactly: list[str]) -> None:
    columns = (
        SourceColumn("name", types.INT, alias="id"),
        SourceColumn("id", types.STRING, alias="at.city"),
        SourceColumn("at", types.FLOAT, alias="price", required=True),
    )
    reader = parser.JsonParser("in.ndjson", JsonLayout.NDJSON, JsonRead(), Reading(columns, ("name",)))
    (block,) = reader.blocks(lambda: io.BytesIO(f"{chr(10).join(LINES)}\n".encode()), RangeStats())
    assert exactly == []
    assert block.batch.to_pylist()[7] == {"name": 7, "id": "é", "at": 7.5, "$widened.name": '"n\\n7"'}


@pytest.mark.parametrize(
    "odd",
    [
        '{"id":"x"}',
        '{"id":7,"day":"n/a"}',
        '{"id":9223372036854775808}',
        '{"price":1e400}',
        '{"at":5}',
        '{"at.city":"Oslo"}',
        '{"id":1,"id":2}',
        '{"name":"\\ud800"}',
        '{"name":true}',
        '{"id":NaN}',
        "[1]",
        "null",
        "{",
        '{"id":1}{"id":2}',
    ],
)
@pytest.mark.parametrize("at", [0, 1, 200, 400])
def test_an_odd_line_alone_goes_the_exact_way(exactly: list[str], odd: str, at: int) -> None:
    (batch,) = read("\n".join([*LINES[:at], odd, *LINES[at:]]))
    assert odd in exactly
    # Where Arrow does not say which line it is, the last few are not worth a search.
    assert len(exactly) <= 16
    assert [i for i in batch.column("id").to_pylist() if i is not None and i >= 300] == list(range(300, 400))


def test_undeclared_values_are_read_by_columns_whatever_they_are(exactly: list[str]) -> None:
    lines = [f'{{"t":"a\\"{i}","i":{i},"f":{i}.25,"b":true,"o":{{"k":{i}}}}}' for i in range(300)]
    (batch,) = read("\n".join(lines), {"id": types.INT}, ("t", "i", "f", "b", "o.k"))
    assert exactly == []
    assert list(batch.to_pylist()[3].values()) == [None, '"a\\"3"', "3", "3.25", "true", "3"]


@pytest.mark.parametrize("spelled", ["1.0", "1e2", '"7"'])
def test_ints_may_be_spelled_in_another_way_throughout(exactly: list[str], spelled: str) -> None:
    (batch,) = read("\n".join([f'{{"id":{spelled}}}'] * 300), {"id": types.INT})
    assert exactly == []
    assert batch.column("id").to_pylist() == [int(float(spelled.strip('"')))] * 300


def test_many_odd_records_do_not_make_many_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []
    real = quick.QuickRecords.read

    def count(self: object, text: bytes, count: int) -> object:
        attempts.append(count)
        return real(self, text, count)  # type: ignore[arg-type]

    monkeypatch.setattr(quick.QuickRecords, "read", count)
    broken = [line[:-1] if i % 2 else line for i, line in enumerate(LINES * 20)]
    assert sum(batch.num_rows for batch in read("\n".join(broken))) == 4000
    assert len(attempts) <= 40


@pytest.mark.parametrize("arrays", [(), (ArrayPath("extra"),)])
def test_blocks_of_lines_are_as_small_as_memory_asks(arrays: tuple[ArrayPath, ...]) -> None:
    text = "".join(f"{line}\n" for line in LINES).encode()
    columns = tuple(SourceColumn(name, static) for name, static in COLUMNS.items())

    def found(block_bytes: int) -> list[list[dict[str, object]]]:
        wanted = Reading(columns, block_bytes=block_bytes)
        reader = parser.JsonParser("in.ndjson", JsonLayout.NDJSON, JsonRead(), wanted, arrays)
        return [block.batch.to_pylist() for block in reader.blocks(lambda: io.BytesIO(text), RangeStats())]

    whole, cut = found(1 << 30), found(len(text) // 9)
    assert (len(whole), len(cut)) == (1, 19 if arrays else 10)
    assert [record for block in cut for record in block] == whole[0]


@pytest.mark.parametrize("between", [",", ', {"odd": [1]},'], ids=["alike", "not alike"])
@pytest.mark.parametrize("where", [None, "data.rows"])
def test_blocks_of_arrays_are_as_small_as_memory_asks(where: str | None, between: str) -> None:
    text = f"[{between.join(LINES)}]"
    data = (text if where is None else f'{{"data": {{"rows": {text}}}, "n": 1}}').encode()
    columns = tuple(SourceColumn(name, static) for name, static in COLUMNS.items())
    layout = JsonLayout.ARRAY if where is None else JsonLayout.OBJECT

    def found(block_bytes: int) -> list[list[dict[str, object]]]:
        wanted = Reading(columns, block_bytes=block_bytes)
        reader = parser.JsonParser("in.json", layout, JsonRead(record_path=where), wanted)
        return [block.batch.to_pylist() for block in reader.blocks(lambda: io.BytesIO(data), RangeStats())]

    whole, cut = found(1 << 30), found(len(data) // 9)
    # The first elements tell what stands between them. Bytes are read as many at a time as make a block.
    assert len(whole) == 2
    assert 5 < len(cut) < 14
    assert max(map(len, cut)) * 4 < sum(map(len, cut))
    assert [record for block in cut for record in block] == [record for block in whole for record in block]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{{"s":"{"x" * 3_000_000}"}}', JsonRead(JsonLayout.NDJSON)),
        (f'[{{"s":"{"x" * 3_000_000}"}}]', JsonRead()),
        (f'{{"d":[{{"s":"{"x" * 3_000_000}"}}]}}', JsonRead(record_path="d")),
        (f'{{"d":[1],"d":[{",".join(["{}"] * 1_000_000)}]}}', JsonRead(record_path="d")),
    ],
    ids=["line", "element", "element of a document", "document that is read whole"],
)
def test_a_record_that_is_too_long_ends_the_reading(text: str, options: JsonRead, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="longer than 1000000 bytes") as raised:
        read_json(
            tmp_path / "in", text, {"s": types.STRING}, options=options, on_unmapped=OnUnmapped.DROP,
            record_bytes=1_000_000,
        )  # fmt: skip
    assert raised.value.code == "E310"


def test_a_long_array_of_short_records_is_not_too_long(tmp_path: Path) -> None:
    text = f'{{"d":[{",".join(["{}"] * 1_000_000)}]}}'
    got = read_json(
        tmp_path / "in", text, {"s": types.STRING}, options=JsonRead(record_path="d"), record_bytes=1_000_000
    )
    assert got.count == 1_000_000
