"""What a JSON record becomes depends on its own text alone: not on its neighbours, the split, or the way it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats import names as searching
from spark_jobs.formats import splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import SourceColumn
from spark_jobs.formats.json.exact import objects
from spark_jobs.formats.json.exact.one_by_one import of_lines
from spark_jobs.formats.json.options import JsonRead
from spark_jobs.formats.json.read import JsonReader
from spark_jobs.scan import files
from spark_jobs.tuning import Tuning
from tests.formats.json import generated
from tests.formats.json.ways import COLUMNS, NDJSON, are_same, columns, one_by_one, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BESIDE = ['{"x": "\\u00e9"}', '{"i": -0}', '{"x":"é"}', '{"i": "n"}', "broken"]


@given(generated.lines, columns, generated.line_ends, st.sampled_from([1, 40, 300, 10_000]), st.sampled_from([0, 2, 8]))
@example(['{"b":' + "1" + "0" * 30 + "}", '{"x":"\\u00e9"}'], generated.COLUMNS, "\n", 10_000, 0)
@example(["{" + f'"f":1{"0" * 400}' + "}", '{"x":1' + "0" * 400 + "}"], generated.COLUMNS, "\n", 10_000, 0)
def test_records_do_not_depend_on_their_neighbours(
    tmp_path: Path, lines: list[str], columns: Sequence[SourceColumn], end: str, split_bytes: int, fewest: int
) -> None:
    tuning = Tuning(json_quick_lines=fewest)
    together = read(tmp_path / "in.ndjson", end.join(lines), columns, split_bytes=split_bytes, tuning=tuning)
    assert are_same(together, one_by_one(tmp_path / "in.ndjson", lines, together.undeclared, columns=columns))


@given(generated.lines_of_one_shape, columns, st.sampled_from([40, 10_000]), st.sampled_from([60, 1 << 20]))
@example(['{"u":1,"i":2}'] * 3 + ['{"u":1,"k":2}'], generated.COLUMNS, 10_000, 1 << 20)
@example(['{"i":0}', '{"i":0}', '{"i":1e-400}'], generated.COLUMNS[1:2], 10_000, 1 << 20)
def test_records_that_are_written_alike_are_those_that_they_are_alone(
    tmp_path: Path, lines: list[str], columns: Sequence[SourceColumn], split_bytes: int, portion: int
) -> None:
    tuning = Tuning(json_quick_lines=0, json_portion_bytes=portion, json_uniform_objects=0)
    how = {"split_bytes": split_bytes, "tuning": tuning}
    together = read(tmp_path / "in.ndjson", "\n".join(lines), columns, **how)
    dropped = read(tmp_path / "in.ndjson", "\n".join(lines), columns, undeclared=(), **how)
    for found in (together, dropped):
        assert are_same(found, one_by_one(tmp_path / "in.ndjson", lines, found.undeclared, columns=columns))


@given(
    generated.lines,
    columns,
    st.sampled_from([1, 40, 10_000]),
    st.sampled_from([1, 100, 10_000]),
    st.integers(0, 8),
    st.sampled_from([0, 0, 200]),
)
@example(['{"u":{"k":1}}', '{"u":{"k":2}}', '{"u":null}'], generated.COLUMNS, 10_000, 10_000, 0, 0)
@example(['{"u":{"k":1}}'] * 20 + ['{"u":{},"v":null}', '{"o":null}'], generated.COLUMNS, 10_000, 10_000, 0, 0)
@example(['{"u":1}'] * 20 + ['{"u":"x"}', '{"u":[{"z":1}]}', '{"u":{"z":1}}'], generated.COLUMNS, 10_000, 10_000, 0, 0)
def test_names_do_not_depend_on_where_they_are_found(
    tmp_path: Path,
    lines: list[str],
    columns: Sequence[SourceColumn],
    split_bytes: int,
    portion: int,
    fewest: int,
    few_bytes: int,
) -> None:
    declared = tuple(column.name for column in columns)
    path = tmp_path / "in.ndjson"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    tuning = Tuning(json_quick_lines=fewest, json_names_bytes=few_bytes, json_portion_bytes=portion)
    reader = JsonReader(NDJSON, tuning=tuning)
    scan = reader.plan(declared, [files.describe(str(path), path.name)], OnUnmapped.DROP)
    parts = [searching.Part(split, scan.files[split.file], declared) for split in splits.plan(scan.files, split_bytes)]
    found = [name for names in searching.search_here(reader, parts) for name in names]
    texts = [line.encode("utf-8", "surrogatepass") for line in lines if line.strip()]
    records = [item for item in of_lines(texts, "utf-8") if isinstance(item, dict)]
    leaves = [name for record in records for name, _ in objects.Undeclared(declared).leaves(record)]
    assert list(dict.fromkeys(found)) == list(dict.fromkeys(leaves))


@given(
    st.lists(generated.lines, min_size=1, max_size=8),
    columns,
    generated.line_ends,
    st.sampled_from([1, 100, 1 << 20]),
    st.sampled_from([0, 0, 100]),
    st.sampled_from([0, 8]),
)
@example([['{"i":1}'] * 20, ['{"u":1}'], ['{"v":1,"u":2}'], ["{"], ['{"w":{"k":1}}']], COLUMNS, "\n", 1 << 20, 0, 0)
@example([['{"u":1}', '{"n":[null,null]}', '{"o":{"n":[null]}}', '{"o":null}']], COLUMNS, "\n", 1 << 20, 0, 0)
def test_names_and_the_files_that_brought_them_do_not_depend_on_which_are_looked_at_together(
    tmp_path: Path,
    lines: list[list[str]],
    columns: Sequence[SourceColumn],
    end: str,
    portion: int,
    few_bytes: int,
    fewest: int,
) -> None:
    inputs = []
    for number, some in enumerate(lines):
        (tmp_path / f"{number}.ndjson").write_bytes(end.join(some).encode("utf-8", "surrogatepass"))
        inputs.append(files.describe(str(tmp_path / f"{number}.ndjson"), f"{number}.ndjson"))
    declared = [column.name for column in columns]
    tuning = Tuning(json_quick_lines=fewest, json_names_bytes=few_bytes, json_portion_bytes=portion)
    together = JsonReader(NDJSON, tuning=tuning).plan(declared, inputs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(JsonReader, "_is_of_few_lines", lambda *_: False)
        singly = JsonReader(NDJSON).plan(declared, inputs)
    assert together == singly


@pytest.mark.parametrize("name", [column.name for column in generated.COLUMNS if "." not in column.name])
def test_numbers_do_not_depend_on_their_neighbours(tmp_path: Path, name: str) -> None:
    columns = [column for column in generated.COLUMNS if column.name == name]
    numbers = [f'{{"{name}":{number}}}' for number in generated.NUMBERS]
    alone = one_by_one(tmp_path / "in.ndjson", numbers, (), columns=columns)
    for beside in BESIDE:
        together = read(tmp_path / "in.ndjson", "\n".join([*numbers, beside]), columns, undeclared=())
        assert [record for record in together.good if record["row"] < len(numbers)] == alone.good
        assert [failed for failed in together.bad if failed[0] < len(numbers)] == alone.bad


@pytest.mark.parametrize(("text", "value"), [("-0", False), ("7", True), ("9223372036854775807", True)])
def test_ints_are_bools(tmp_path: Path, text: str, value: bool) -> None:
    got = read(tmp_path / "in.ndjson", f'{{"b":{text}}}', [SourceColumn("b", types.BOOL)])
    assert [record["b"] for record in got.good] == [value]


@pytest.mark.parametrize("static", [types.BOOL, types.INT], ids=str)
@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "1" + "0" * 30, "1" * 5000])
def test_ints_beyond_64_bits_are_neither_ints_nor_bools(tmp_path: Path, text: str, static: types.Type) -> None:
    got = read(tmp_path / "in.ndjson", f'{{"c":{text}}}', [SourceColumn("c", static)])
    assert [(field, value, category) for _, field, value, category, *_ in got.bad] == [
        ("c", text, "type_coercion_failure")
    ]


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1" + "0" * 400])
@pytest.mark.parametrize("static", [types.FLOAT, types.NUMERIC], ids=str)
def test_numbers_beyond_all_floats_do_not_convert(tmp_path: Path, text: str, static: types.Type) -> None:
    got = read(tmp_path / "in.ndjson", f'{{"c":{text}}}', [SourceColumn("c", static)])
    assert [value for _, _, value, *_ in got.bad] == [text]


def test_records_nested_too_deeply_are_malformed(tmp_path: Path) -> None:
    lines = [f'{{"x":{"[" * depth}{"]" * depth}}}' for depth in (127, 128, 127, 900)]
    got = read(tmp_path / "in.ndjson", "\n".join(lines), [SourceColumn("x", types.ANY)])
    assert [(row, category) for row, _, _, category, *_ in got.bad] == [
        (1, "malformed_record"),
        (3, "malformed_record"),
    ]
    assert len(got.good) == 2


WIDE = [SourceColumn("id", types.INT), SourceColumn("addr.city", types.STRING), SourceColumn("a.b.c", types.INT)]


def test_null_above_a_declared_leaf_widens_nothing(tmp_path: Path) -> None:
    lines = '{"id":1,"addr":null,"a":null}\n{"id":2,"a":{"b":null}}\n{"id":3,"a.b":null,"a":{"x":null}}'
    got = read(tmp_path / "in.ndjson", lines, WIDE)
    assert got.undeclared == ("a.x",)
    array = f"[{','.join(lines.splitlines())}]"
    assert read(tmp_path / "in.json", array, WIDE, options=JsonRead()).undeclared == ("a.x",)


def test_values_above_a_declared_leaf_widen(tmp_path: Path) -> None:
    lines = '{"id":1,"addr":null}\n{"id":2,"addr":"Oslo","a":{"b":false}}'
    got = read(tmp_path / "in.ndjson", lines, WIDE)
    assert got.undeclared == ("addr", "a.b")
    assert [(record["$widened.addr"], record["$widened.a.b"]) for record in got.good] == [
        (None, None),
        ('"Oslo"', "false"),
    ]
