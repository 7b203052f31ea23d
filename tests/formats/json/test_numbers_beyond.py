"""Numbers that neither 64 bits nor a double keep are Decimals or texts where nothing is declared, in all ways."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.written_numbers import number_of
from spark_jobs.formats import format
from spark_jobs.formats.format import ArrayPath
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.tuning import Tuning
from tests.formats.json import generated
from tests.formats.json.test_reading_json import read_json

if TYPE_CHECKING:
    from pathlib import Path

BEYOND = [
    "9223372036854775808", "-9223372036854775809", "12345678901234567890", "18446744073709551615", "1" + "0" * 400,
    "1e999", "-1e999", "1E400", "1.8e308", "1e-400", "0." + "0" * 330 + "1", "1.23456789012345e-320",
    "9999999999999999.9999", "-12345678901234567890.5",
    "0.10000000000000001", "3.0000000000000001", "9007199254740993.0",
    "12345678901234567890e-3", "1.2345678901234567891e5", "123456789012345678901234567890e8", "0.1" + "3" * 40,
    "9007199254740993." + "0" * 40, "1e23456",
]  # fmt: skip
HELD = {
    "9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63), "1e308": 1e308, "0.0e-400": 0.0, "5": 5,
    "0.1": 0.1, "12.50": 12.5, "1e300": 1e300, "0.30000000000000004": 0.30000000000000004, "1.0E+2": 100.0,
    "-122.41941550000001": -122.41941550000001, "12.500000000000000000000": 12.5, "5e-324": 5e-324, "1e22": 1e22,
    "6.02214076e23": 6.02214076e23, "1.7976931348623157e308": 1.7976931348623157e308,
    "1700000000000.125": 1700000000000.125,
    "3.3333333333333335e-05": 3.3333333333333335e-05, "0.0": 0.0, "100000000000000000000.0": 1e20,
}  # fmt: skip
#: Records around the number, and how often: few are read one by one, many at once.
AMONG = {
    "alone": ([], 0),
    "among ints": (["7"], 700),
    "among floats": (["0.5", "2.0", "0.0"], 700),
    "among texts": (['"x"'], 700),
    "among mixed": (['"x"', "1", "[2]", "true", "null"], 700),
    "among numbers like it": (["12345678901234567891"], 700),
    "among long numbers": (["0.10000000000000001", "0.30000000000000004"], 700),
}


@pytest.mark.parametrize("layout", ["ndjson", "array", "object"])
@pytest.mark.parametrize("among", AMONG)
@pytest.mark.parametrize("declared", ["undeclared", "any"])
def test_a_number_keeps_its_value(tmp_path: Path, declared: str, among: str, layout: str) -> None:
    others, times = AMONG[among]
    cells = [*BEYOND, *HELD]
    for cell in others * times:
        cells += [cell]
    cells += BEYOND
    column = "x" if declared == "any" else format.UNDECLARED_PREFIX + "x"
    lines = [f'{{"k":{at},"x":{cell}}}' for at, cell in enumerate(cells)]
    found = _read(tmp_path, lines, layout, {"k": types.INT} | ({"x": types.ANY} if declared == "any" else {}))
    got, expected = ([*map(repr, some)] for some in ([r[column] for r in found.records], map(_value, cells)))
    assert got == expected


@pytest.mark.parametrize("times", [1, 500])
@pytest.mark.parametrize("cell", BEYOND)
def test_a_number_in_a_container_keeps_its_value(tmp_path: Path, cell: str, times: int) -> None:
    line = f'{{"u":[{cell},1],"a":[{{"k":{cell}}}],"m":{{"k":[{cell}]}},"s":[{cell}]}}'
    declared = {"a": types.ARRAY, "m": types.MAP, "s": types.STRING}
    found = _read(tmp_path, [line] * times, "ndjson", declared)
    for record in found.records:
        value = _value(cell)
        assert repr(record["m"]) == repr({"k": [value]})
        assert repr(record["a"]) == repr([{"k": value}])
        assert repr(record[format.UNDECLARED_PREFIX + "u"]) == repr([value, 1])
        # The JSON itself; a Decimal has all of its digits.
        assert record["s"] == (f"[{cell}]" if isinstance(value, str) else values.json_text([value]))


@pytest.mark.parametrize("times", [1, 500])
@pytest.mark.parametrize("cell", BEYOND)
def test_a_number_in_an_array_that_is_exploded_or_joined_keeps_its_value(tmp_path: Path, cell: str, times: int) -> None:
    line = f'{{"e":[{cell},0.5],"j":[{cell},2]}}'
    paths = [ArrayPath("e"), ArrayPath("j", explode=False, separator="|")]
    found = read_json(tmp_path / "in", "\n".join([line] * times), {}, arrays=paths)
    value = _value(cell)
    exploded = [record[format.UNDECLARED_PREFIX + "e"] for record in found.records]
    assert list(map(repr, exploded)) == list(map(repr, [value, 0.5] * times))
    assert {record[format.UNDECLARED_PREFIX + "j"] for record in found.records} == {f"{cell}|2"}


@pytest.mark.parametrize("times", [1, 500])
def test_many_ints_and_one_beyond_them_written_alike(tmp_path: Path, times: int) -> None:
    lines = [f'{{"k": {at}, "id": {10**18 + at}}}' for at in range(times)]
    for beyond in ("10000000000000000001", "1e999", "1e-999", "9999999999999999.9999"):
        written = [*lines, f'{{"k": 1, "id": {beyond}}}', *lines]
        tuning = Tuning(json_uniform_objects=0)
        found = _read(tmp_path, written, "ndjson", {"k": types.INT}, tuning=tuning)
        ids = [record[format.UNDECLARED_PREFIX + "id"] for record in found.records]
        expected: list[Any] = [*range(10**18, 10**18 + times)]
        assert ids == [*expected, _value(beyond), *expected]


@pytest.mark.parametrize(
    "cell", ["9007199254740993.0", "3.0000000000000001", "4503599627370497.25", "12345678901234567890e-3"]
)
@pytest.mark.parametrize("times", [1, 500])
def test_an_int_is_no_rounded_number(tmp_path: Path, cell: str, times: int) -> None:
    lines = ['{"i":1.0}', f'{{"i":{cell}}}', '{"i":7}'] * times
    found = _read(tmp_path, lines, "ndjson", {"i": types.INT})
    if cell.endswith(".0"):
        assert [record["i"] for record in found.records] == [1, int(cell[:-2]), 7] * times
    else:
        assert [record["i"] for record in found.records] == [1, 7] * times
        assert {value for _, _, value, _, _ in found.failures} == {cell}


@pytest.mark.parametrize("times", [1, 500])
def test_what_looks_like_a_long_number_within_a_text_changes_nothing(tmp_path: Path, times: int) -> None:
    odd = "1.23456789012345678 12345678901234567890e5 " + "12345678.12345678." * 50 + "1" * 100 + "." + "2" * 100
    lines = [f'{{"t":"{odd}","x":0.5,"u":{at}.25}}' for at in range(times)]
    found = _read(tmp_path, lines, "ndjson", {"t": types.STRING})
    assert [record[format.UNDECLARED_PREFIX + "u"] for record in found.records] == [at + 0.25 for at in range(times)]
    assert {record["t"] for record in found.records} == {odd}


@given(st.lists(st.one_of(st.floats(allow_nan=False, allow_infinity=False).map(repr), generated.numbers), min_size=1))
@example(["1e-7", "0.1"])
@example(["12345678.1", "1234567890123456.75e-3"])
def test_numbers_by_columns_are_those_that_they_are_alone(tmp_path: Path, cells: list[str]) -> None:
    lines = ['{"x":0.5}'] * 16 + [f'{{"x":{cell}}}' for cell in cells]
    for tuning in (Tuning(json_quick_lines=0), Tuning(json_quick_lines=0, json_uniform_objects=0)):
        found = read_json(tmp_path / "in", "\n".join(lines), {"x": types.ANY}, tuning=tuning)
        assert [repr(record["x"]) for record in found.records[16:]] == [repr(number_of(cell)) for cell in cells]


def _value(cell: str) -> Any:
    """What a number is: a Float for ordinary ones, else a Decimal with all digits where 38 are enough."""
    if cell in HELD:
        return HELD[cell]
    if cell in (*BEYOND, "12345678901234567891", "10000000000000000001", "1e-999"):
        digits, exponent = Decimal(cell).as_tuple()[1:]
        if cell.endswith("." + "0" * 40):
            return Decimal(cell.partition(".")[0])
        is_held = exponent >= -38 and len(digits) + max(exponent, 0) <= 38
        return Decimal(f"{Decimal(cell):f}") if is_held else cell
    return json.loads(cell)


def _read(path: Path, lines: list[str], layout: str, declared: dict[str, types.Type], **how: Any) -> Any:
    match layout:
        case "ndjson":
            return read_json(path / "in", "\n".join(lines), declared, split_bytes=4096, **how)
        case "array":
            return read_json(path / "in", f"[{', '.join(lines)}]", declared)
    text = f'{{"rows": [{",".join(lines)}]}}'
    return read_json(path / "in", text, declared, options=JsonRead(JsonLayout.OBJECT, record_path="rows"))
