"""Numbers that neither 64 bits nor a double hold keep their text where nothing is declared, however they are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import types
from spark_jobs.formats import format
from spark_jobs.formats.format import ArrayPath
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.tuning import Tuning
from tests.formats.json.test_reading_json import read_json

if TYPE_CHECKING:
    from pathlib import Path

BEYOND = [
    "9223372036854775808", "-9223372036854775809", "12345678901234567890", "18446744073709551615", "1" + "0" * 400,
    "1e999", "-1e999", "1E400", "1.8e308", "1e-400", "0." + "0" * 330 + "1",
]  # fmt: skip
HELD = {"9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63), "1e308": 1e308, "0.0e-400": 0.0, "5": 5}
#: Records around the number, and how often: few are read one by one, many at once.
AMONG = {
    "alone": ([], 0),
    "among ints": (["7"], 700),
    "among floats": (["0.5", "2.0", "0.0"], 700),
    "among texts": (['"x"'], 700),
    "among mixed": (['"x"', "1", "[2]", "true", "null"], 700),
    "among numbers like it": (["12345678901234567891"], 700),
}


@pytest.mark.parametrize("layout", ["ndjson", "array", "object"])
@pytest.mark.parametrize("among", AMONG)
@pytest.mark.parametrize("declared", ["undeclared", "any"])
def test_a_number_is_its_text(tmp_path: Path, declared: str, among: str, layout: str) -> None:
    others, times = AMONG[among]
    cells = [*BEYOND, *HELD]
    for cell in others * times:
        cells += [cell]
    cells += BEYOND
    column = "x" if declared == "any" else format.UNDECLARED_PREFIX + "x"
    lines = [f'{{"k":{at},"x":{cell}}}' for at, cell in enumerate(cells)]
    found = _read(tmp_path, lines, layout, {"k": types.INT} | ({"x": types.ANY} if declared == "any" else {}))
    assert [record[column] for record in found.records] == [_value(cell) for cell in cells]


@pytest.mark.parametrize("times", [1, 500])
@pytest.mark.parametrize("cell", BEYOND)
def test_a_number_in_a_container_is_its_text(tmp_path: Path, cell: str, times: int) -> None:
    line = f'{{"u":[{cell},1],"a":[{{"k":{cell}}}],"m":{{"k":[{cell}]}},"s":[{cell}]}}'
    declared = {"a": types.ARRAY, "m": types.MAP, "s": types.STRING}
    found = _read(tmp_path, [line] * times, "ndjson", declared)
    for record in found.records:
        assert record["m"] == {"k": [cell]}
        assert record["a"] == [{"k": cell}]
        assert record[format.UNDECLARED_PREFIX + "u"] == [cell, 1]
        assert record["s"] == f"[{cell}]"  # the JSON itself


@pytest.mark.parametrize("times", [1, 500])
@pytest.mark.parametrize("cell", BEYOND)
def test_a_number_in_an_array_that_is_exploded_or_joined_is_its_text(tmp_path: Path, cell: str, times: int) -> None:
    line = f'{{"e":[{cell},0.5],"j":[{cell},2]}}'
    paths = [ArrayPath("e"), ArrayPath("j", explode=False, separator="|")]
    found = read_json(tmp_path / "in", "\n".join([line] * times), {}, arrays=paths)
    assert [record[format.UNDECLARED_PREFIX + "e"] for record in found.records] == [cell, 0.5] * times
    assert {record[format.UNDECLARED_PREFIX + "j"] for record in found.records} == {f"{cell}|2"}


@pytest.mark.parametrize("times", [1, 500])
def test_many_ints_and_one_beyond_them_written_alike(tmp_path: Path, times: int) -> None:
    lines = [f'{{"k": {at}, "id": {10**18 + at}}}' for at in range(times)]
    for beyond in ("10000000000000000001", "1e999", "1e-999"):
        written = [*lines, f'{{"k": 1, "id": {beyond}}}', *lines]
        tuning = Tuning(json_uniform_objects=0)
        found = _read(tmp_path, written, "ndjson", {"k": types.INT}, tuning=tuning)
        ids = [record[format.UNDECLARED_PREFIX + "id"] for record in found.records]
        expected: list[Any] = [*range(10**18, 10**18 + times)]
        assert ids == [*expected, beyond, *expected]


def _value(cell: str) -> Any:
    return cell if cell in BEYOND or cell == "12345678901234567891" else HELD.get(cell, json.loads(cell))


def _read(path: Path, lines: list[str], layout: str, declared: dict[str, types.Type], **how: Any) -> Any:
    match layout:
        case "ndjson":
            return read_json(path / "in", "\n".join(lines), declared, split_bytes=4096, **how)
        case "array":
            return read_json(path / "in", f"[{', '.join(lines)}]", declared)
    text = f'{{"rows": [{",".join(lines)}]}}'
    return read_json(path / "in", text, declared, options=JsonRead(JsonLayout.OBJECT, record_path="rows"))
