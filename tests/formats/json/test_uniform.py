"""Lines that are written alike are read as Arrow's reader reads them, or left to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import json as arrow_json

from spark_jobs.formats.json.fast import uniform
from tests.formats.json import generated

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = {"s": pa.string(), "i": pa.int64(), "f": pa.float64(), "b": pa.bool_()}
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"\\', min_codepoint=32), max_size=6),
    st.sampled_from(["", "null", "true", "1", "}", "{", "},{", ":", ",", "\ufeff", "\u2028", "e.g.", "é" * 9]),
).map(lambda text: f'"{text}"')
NUMBERS = st.one_of(
    st.integers(-(1 << 64), 1 << 64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        [*generated.NUMBERS, "0.0", "-0.5", "10", "00", "-01", "1.e5", "1.E5", "0e1", "0E-1", "0x1F", "1_0"]
    ),
)
ODD = st.sampled_from(
    [
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "-.5",
        "tru",
        "nul",
        "nulll",
        "truefalse",
        "",
        " ",
        "1 2",
        "1:2",
        "--1",
        "1e",
        "[1]",
        "{}",
    ]
)
BY_KIND = {
    "s": TEXTS,
    "i": st.integers(-999, 999).map(str),
    "f": st.floats(-1e6, 1e6).map(repr),
    "b": st.sampled_from(["true", "false"]),
}


def by_arrow(text: bytes, schema: pa.Schema, unexpected: str) -> pa.Table | None:
    """What Arrow's reader gives; None where it refuses."""
    try:
        return arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except pa.ArrowInvalid:
        return None


@st.composite
def lines(draw: st.DrawFn, members: Sequence[str], values: st.SearchStrategy[str] | None = None) -> list[str]:
    """Objects of one shape; some values are of any kind where there are `values`."""
    keys = [draw(st.sampled_from(['"{}":', '"{}": ', ' "{}" : '])).format(name) for name in members]
    comma = draw(st.sampled_from([",", ", ", " , "]))
    around = draw(st.sampled_from(["{%s}", "{%s }"]))
    cells = [
        BY_KIND.get(name[:1], NUMBERS) if values is None else st.one_of(BY_KIND.get(name[:1], NUMBERS), values)
        for name in members
    ]
    rows = draw(st.lists(st.tuples(*cells), min_size=1, max_size=6))
    return [around % comma.join(key + cell for key, cell in zip(keys, row, strict=True)) for row in rows]


MEMBERS = st.lists(
    st.sampled_from(["s1", "s2", "é", "i1", "f1", "f2", "b1", "x", ""]), min_size=1, max_size=6, unique=True
)


def kinds(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, KINDS.get(name[:1], pa.float64())) for name in names])


def agree(text: bytes, count: int, schema: pa.Schema, known: Sequence[str] | None) -> bool:
    """Whether the objects were read; as Arrow reads them then."""
    found = uniform.read(text, count, schema, 0, known)
    if found is None:
        return False
    # Members that no column has are refused by the one and unknown to the other.
    expected = by_arrow(text, schema, "ignore")
    assert expected is not None
    assert expected.num_rows == count
    assert found.equals(expected), (found, expected)
    return True


@given(data=st.data(), members=MEMBERS, has_end=st.booleans())
def test_objects_of_one_shape_are_read(data: st.DataObject, members: list[str], has_end: bool) -> None:
    found = data.draw(lines([name for name in members if name[:1] in KINDS] or ["s1"]))
    wanted = data.draw(
        st.lists(st.sampled_from([*members, "s9", "i9"]).filter(bool), min_size=1, max_size=4, unique=True)
    )
    text = "\n".join(found) + "\n" * has_end
    assert agree(text.encode(), len(found), kinds(wanted), None)


@given(data=st.data(), members=MEMBERS, has_end=st.booleans())
def test_what_is_read_is_what_arrow_reads(data: st.DataObject, members: list[str], has_end: bool) -> None:
    values = data.draw(st.sampled_from([NUMBERS, ODD, TEXTS, st.sampled_from(["null", "true", "false"])]))
    found = data.draw(lines(members, values))
    agree(("\n".join(found) + "\n" * has_end).encode(), len(found), kinds(members), None)


@given(data=st.data(), members=MEMBERS)
def test_changed_bytes_are_noticed(data: st.DataObject, members: list[str]) -> None:
    found = data.draw(lines(members))
    text = bytearray("\n".join(found).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.sampled_from(b'"{},: \n\t0e.-nat\\x'))
    changed = bytes(text)
    if b"\n\n" in changed or changed.startswith(b"\n"):
        return  # an empty line is no object
    try:
        changed.decode()
    except UnicodeDecodeError:
        return
    agree(changed, changed.count(b"\n") + (not changed.endswith(b"\n")), kinds(members), None)


@pytest.mark.parametrize("last", ['{"s1":0 , "s2":""}', '{"s1":"""""}', '{""""', '""""""{}'])
def test_quotes_at_other_places_are_noticed(last: str) -> None:
    assert uniform.read(f'{{"s1":"" , "s2":0}}\n{last}'.encode(), 2, kinds(["s1", "s2"]), 0) is None


def test_a_member_that_is_not_known_is_left_to_arrow() -> None:
    text = b'{"i1":1,"x":2}\n{"i1":3,"x":4}'
    assert uniform.read(text, 2, kinds(["i1"]), 0, {"i1"}) is None
    assert agree(text, 2, kinds(["i1"]), {"i1", "x"})


@pytest.mark.parametrize("value", ["01", "1.", "tru", '"\t"', "-", "1 2", "nan", "Infinity", "0x1F"])
def test_a_value_that_nobody_reads_must_be_one(value: str) -> None:
    text = f'{{"i1":1,"x":{value}}}\n{{"i1":3,"x":{value}}}'.encode()
    assert uniform.read(text, 2, kinds(["i1"]), 0) is None


@pytest.mark.parametrize(
    "odd",
    ['{"a":1,"b":"x"} ', '{"b":"x","a":1}', '{"a":1}', '{"a":1,"b":null}', '{"a":1,"b":"x","c":2}', '{"a":"1","b":"x"}',
     '{"a":1,"b":"x\\n"}', '{"a":1,"b":["x"]}', '{"a":1,"a":1}', '{"A":1,"b":"x"}', "[]", "5"],
)  # fmt: skip
def test_one_object_of_another_shape_leaves_all_to_arrow(odd: str) -> None:
    usual = [json.dumps({"a": n, "b": f"x{n}"}, separators=(",", ":")) for n in range(5)]
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    for at in range(6):
        text = "\n".join([*usual[:at], odd, *usual[at:]]).encode()
        assert uniform.read(text, 6, schema, 0) is None
    assert uniform.read("\n".join(usual).encode(), 5, schema, 0) is not None


@pytest.mark.parametrize(("members", "is_read"), [(1, True), (2, True), (3, False)])
def test_few_objects_for_each_member_are_left_to_arrow(members: int, is_read: bool) -> None:
    line = json.dumps({f"i{number}": number for number in range(members)})
    found = uniform.read("\n".join([line] * 4).encode(), 4, kinds(["i0"]), 2)
    assert (found is not None) == is_read
