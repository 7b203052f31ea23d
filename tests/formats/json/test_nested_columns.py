"""Values that are cut out of the text of objects are those of the exact way, to the last character."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.formats.json.exact import one_by_one
from spark_jobs.formats.json.texts import decoding
from tests.formats.json.test_quick import exactly as _exactly
from tests.formats.json.test_quick import read

if TYPE_CHECKING:
    from collections.abc import Sequence

exactly = _exactly
ROWS = 40
#: As dynamic columns hold them, and in other spellings.
SPELLED = {
    "[1,2,3]": ["[1,2,3]", "[1, 2,\t3]", " [ 1 , 2 , 3 ] "],
    '["a, b","c: d",""]': ['["a, b","c: d",""]', '[ "a, b", "c: d", ""]'],
    '[{"k":[{"k":{}}]},[[]],null,true]': ['[{"k":[{"k":{}}]},[[]],null,true]'],
    "[2.5,0.0001,1e-05,10000000000.5]": [
        "[2.50,1e-4,0.00001,10000000000.5]",
        "[2.5, 0.0001, 0.00001, 1.00000000005e10]",
    ],
    "[0,1.0,-0.0,1e+16]": ["[-0,1.0,-0.0,1e16]", "[0, 1.00, -0.0, 10000000000000000.0]"],
    '[1234567890123456789,{"$decimal":"9223372036854775808"}]': ["[1234567890123456789,9223372036854775808]"],
    '[0.30000000000000004,{"$decimal":"9999999999999999.9999"}]': ["[0.30000000000000004,9999999999999999.9999]"],
    '["é\\n\\"/\\\\"]': ['["\\u00e9\\n\\"\\/\\\\"]', '["é\\n\\u0022/\\\\"]'],
    '["}],[{",":"]': ['["}],[{",":"]', '["}],[{" , ":"]'],
}


@pytest.mark.parametrize(("wanted", "spelled"), [(wanted, one) for wanted, some in SPELLED.items() for one in some])
@pytest.mark.parametrize("name", ["a", "o.a"])
def test_arrays_are_read_by_columns_however_they_are_spelled(
    exactly: list[str], wanted: str, spelled: str, name: str
) -> None:
    value = f'{{"b":{spelled},"a":{spelled}}}'
    line = f'{{"b":[{spelled}],"o":{value},"a":{spelled},"id":1}}'
    batches = read("\n".join([line] * ROWS), {name: types.ARRAY, "id": types.INT})
    assert exactly == []
    assert [text for batch in batches for text in batch.column(name).to_pylist()] == [wanted] * ROWS


@pytest.mark.parametrize(
    ("wanted", "spelled"),
    [
        ('{"k":1,"o":{"k":2}}', '{"k":1,"o":{"k":2}}'),
        ('{"k":2}', '{"k":1,"k":2}'),
        ('{"i":{"k":3,"z":1},"k":1}', '{"i":{"k":1,"z":1,"k":3},"k":1}'),
        ('{"":1,"é":2}', '{"" : 1, "é":2}'),
        ('{"$$date":"2024-01-31"}', '{"$date":"2024-01-31"}'),
        ('{"a\\nb":1}', '{"a\\nb":1,"a\\u000ab":1}'),
    ],
)
def test_maps_have_each_key_once(wanted: str, spelled: str) -> None:
    lines = [f'{{"m":{spelled}}}', '{"m":{"k":{"k":[{"k":1},{"k":2}]}}}'] * ROWS
    (batch,) = read("\n".join(lines), {"m": types.MAP})
    assert batch.column("m").to_pylist()[::2] == [wanted] * ROWS
    assert batch.column("m").to_pylist()[1::2] == ['{"k":{"k":[{"k":1},{"k":2}]}}'] * ROWS


ODD = [
    '{"a":5}',
    '{"a":{"k":1}}',
    '{"a":"[1]"}',
    '{"a":[1],"a":[2]}',
    '{"\\u0061":[1]}',
    '{"a":["\\ud83d"]}',
    '{"a":[1}',
]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("at", [0, 20, 39])
def test_an_odd_line_alone_goes_the_exact_way(exactly: list[str], odd: str, at: int) -> None:
    lines = ['{"a":[1,2],"id":3}'] * ROWS
    lines[at] = odd
    (batch,) = read("\n".join(lines), {"a": types.ARRAY, "id": types.INT})
    assert odd in exactly
    assert len(exactly) <= 16
    assert batch.column("a").to_pylist().count("[1,2]") == ROWS - 1


@pytest.mark.parametrize("column", [{"v": types.ANY}, {"id": types.INT}])
def test_values_of_many_kinds_are_read_by_columns(exactly: list[str], column: dict[str, types.Type]) -> None:
    spelled = ["1", "1.50", '"t"', "true", "null", "[1, 2]", "-0.0"]
    undeclared = () if "v" in column else ("v",)
    batches = read("\n".join([f'{{"v":{one}}}' for one in spelled] * ROWS), column, undeclared)
    assert exactly == []
    found = [value for batch in batches for value in batch.column("v" if "v" in column else "$widened.v").to_pylist()]
    assert found == ["1", "1.5", '"t"', "true", None, "[1,2]", "-0.0"] * ROWS


def test_an_object_is_no_value_of_an_undeclared_column(exactly: list[str]) -> None:
    lines = ['{"v":[1]}', '{"v":7}'] * ROWS + ['{"v":{"k":1}}']
    (batch,) = read("\n".join(lines), {"id": types.INT}, ("v", "v.k"))
    assert batch.column("$widened.v").to_pylist() == [*(["[1]", "7"] * ROWS), None]
    assert batch.column("$widened.v.k").to_pylist() == [*[None] * 2 * ROWS, "1"]


def test_what_must_be_there_is_missed(exactly: list[str]) -> None:
    lines = ['{"o":{"a":[1]}}'] * ROWS + ['{"o":{"a":null}}', '{"o":null}', "{}", '{"o":5}']
    (batch,) = read("\n".join(lines), {"o.a": types.ARRAY}, ("o",))
    assert batch.column("o.a").to_pylist() == [*["[1]"] * ROWS, None, None, None, None]
    assert batch.column("$widened.o").to_pylist() == [*[None] * ROWS, None, None, None, "5"]


_keys = st.sampled_from(["k", "a", "", "é", "$k", "$date", "x y", 'q"'])
_numbers = st.one_of(
    st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.1, 1e-5, 1e22])
)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, st.text(max_size=4), st.sampled_from(["a, b", "},{", '":', "$date"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=8,
)
_separators = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")])


@given(st.lists(_values, min_size=1, max_size=8), _separators, st.booleans(), st.sampled_from(["v", "o.v"]))
@example([[{"k": 1}, {"k": 2.5}]], (",", ":"), True, "v")
def test_cut_values_are_those_of_the_exact_way(
    found: list[object], separators: tuple[str, str], is_ascii: bool, name: str
) -> None:
    def line(value: object) -> str:
        return json.dumps({"v": value, "o": {"v": value}}, separators=separators, ensure_ascii=is_ascii)

    # Kinds are learnt from the first lines: with these, values are cut out.
    first = ['{"v":[1],"o":{"v":[1]}}', '{"v":1,"o":{"v":1}}'] * 8
    try:
        lines = [line(value).encode() for value in found]
    except UnicodeEncodeError:
        return
    batches = read("\n".join([*first, *[one.decode() for one in lines]]), {name: types.ANY})
    got = [value for batch in batches for value in batch.column(name).to_pylist()][len(first) :]
    assert got == _exact(lines)


def _exact(lines: Sequence[bytes]) -> list[str | None]:
    records = [item for item in one_by_one.of_lines(lines, "utf-8") if isinstance(item, dict)]
    return [values.encode(decoding.plain(record["v"])) for record in records]
