"""What a JSON record becomes depends on its own text alone: not on its neighbours, the split, or the way it is read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats import names as searching
from spark_jobs.formats import reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import ArrayPath, Reading, SourceColumn
from spark_jobs.formats.json import attempts, exact, heads, members, undeclared
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.formats.json.read import JsonReader
from spark_jobs.formats.json.texts import array as json_array
from spark_jobs.formats.json.texts import documents, portions
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from tests.formats.json import generated

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMNS = generated.COLUMNS
NDJSON = JsonRead(JsonLayout.NDJSON)
ARRAY = JsonRead(JsonLayout.ARRAY)


@dataclass
class Records:
    """The good records, the failures with their texts, and how many there were."""

    good: list[dict[str, Any]] = field(default_factory=list)
    bad: list[tuple[Any, ...]] = field(default_factory=list)
    widened: tuple[str, ...] = ()
    count: int = 0


def read(
    path: Path,
    text: str,
    columns: Sequence[SourceColumn] = generated.COLUMNS,
    *,
    options: JsonRead = NDJSON,
    split_bytes: int = splits.SPLIT_BYTES,
    widened: tuple[str, ...] | None = None,
    arrays: Sequence[ArrayPath] = (),
) -> Records:
    """The records of a file, with all its undeclared columns or with these."""
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    unmapped = OnUnmapped.AUTO_WIDEN if widened is None else OnUnmapped.DROP
    declared = [column.name for column in columns]
    reader = JsonReader(options, tuple(arrays))
    scan = reader.plan(declared, [files.describe(str(path), path.name)], unmapped)
    wanted = Reading(tuple(columns), scan.widened if widened is None else widened, failure_texts=True)
    found = Records(widened=wanted.widened)
    for split in splits.plan(scan.files, split_bytes):
        outcome = reading.SplitOutcome()
        for block in reader.read(split, scan.files[split.file], wanted, outcome):
            rows = (
                range(block.first_row, block.first_row + block.count) if block.rows is None else block.rows.to_pylist()
            )
            found.good += [
                {"row": found.count + row} | record
                for row, record in zip(rows, block.batch.to_pylist(), strict=True)
            ]  # fmt: skip
            shown = block.failed_rows.to_pylist() if block.failed_rows is not None else []
            for failed, texts in zip(block.failures, shown, strict=True):
                why = failed.failure
                place = found.count + failed.row
                found.bad.append((place, why.field, why.value, str(why.category), why.detail, texts))
        found.count += outcome.records
        if scan.files[split.file].layout is JsonLayout.NDJSON and not arrays:
            counted = reading.SplitOutcome()
            reader.count(split, scan.files[split.file], counted)
            assert counted == outcome
    return found


def are_same(left: Records, right: Records) -> bool:
    """Whether all values are the same: NaN is, -0.0 is not 0.0."""
    return repr(left) == repr(right)


def one_by_one(path: Path, lines: Sequence[str], widened: tuple[str, ...], **how: Any) -> Records:
    """The same as each line in a file of its own, read in the exact way."""
    found = Records(widened=widened)
    for line in lines:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(attempts.Attempts, "read", lambda *_: attempts.Taken())
            alone = read(path, line, widened=widened, **how)
        found.good += [record | {"row": found.count + record["row"]} for record in alone.good]
        found.bad += [(found.count + row, *rest) for row, *rest in alone.bad]
        found.count += alone.count
    return found


BESIDE = ['{"x": "\\u00e9"}', '{"i": -0}', '{"x":"é"}', '{"i": "n"}', "broken"]


columns = st.lists(st.sampled_from(generated.COLUMNS), min_size=1, unique=True).map(
    lambda chosen: [replace(column, required=len(chosen) % 3 == 0) for column in chosen]
)


@given(generated.lines, columns, generated.line_ends, st.sampled_from([1, 40, 300, 10_000]), st.sampled_from([0, 2, 8]))
@example(['{"b":' + "1" + "0" * 30 + "}", '{"x":"\\u00e9"}'], generated.COLUMNS, "\n", 10_000, 0)
@example(["{" + f'"f":1{"0" * 400}' + "}", '{"x":1' + "0" * 400 + "}"], generated.COLUMNS, "\n", 10_000, 0)
def test_records_do_not_depend_on_their_neighbours(
    tmp_path: Path, lines: list[str], columns: Sequence[SourceColumn], end: str, split_bytes: int, fewest: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(attempts, "_FEW", fewest)
        together = read(tmp_path / "in.ndjson", end.join(lines), columns, split_bytes=split_bytes)
    assert are_same(together, one_by_one(tmp_path / "in.ndjson", lines, together.widened, columns=columns))


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
    reader = JsonReader(NDJSON)
    scan = reader.plan(declared, [files.describe(str(path), path.name)], OnUnmapped.DROP)
    parts = [searching.Part(split, scan.files[split.file], declared) for split in splits.plan(scan.files, split_bytes)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(attempts, "_FEW", fewest)
        patched.setattr(undeclared, "_FEW_BYTES", few_bytes)
        patched.setattr(portions, "PORTION_BYTES", portion)
        found = [name for names in searching.search_here(reader, parts) for name in names]
    texts = [line.encode("utf-8", "surrogatepass") for line in lines if line.strip()]
    records = [item for item in exact.of_lines(texts, "utf-8") if isinstance(item, dict)]
    leaves = [name for record in records for name, _ in members.Undeclared(declared).leaves(record)]
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
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(attempts, "_FEW", fewest)
        patched.setattr(undeclared, "_FEW_BYTES", few_bytes)
        patched.setattr(portions, "PORTION_BYTES", portion)
        together = JsonReader(NDJSON).plan(declared, inputs)
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
        together = read(tmp_path / "in.ndjson", "\n".join([*numbers, beside]), columns, widened=())
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


@given(generated.lines, st.booleans())
def test_arrays_do_not_change_records(tmp_path: Path, lines: list[str], exploded: bool) -> None:
    arrays = [ArrayPath("a", explode=exploded), ArrayPath("u")]
    together = read(tmp_path / "in.ndjson", "\n".join(lines), arrays=arrays)
    assert are_same(together, one_by_one(tmp_path / "in.ndjson", lines, together.widened, arrays=arrays))


_paths = st.sampled_from(["r", "r", "q", "w.k", "a", "o"])
array_paths = st.lists(
    st.builds(ArrayPath, _paths, st.booleans(), st.sampled_from([",", "é; "])), min_size=1, max_size=3
)
#: Documents around an array, most of them such that it is read like one that is the whole file.
_AROUND = [
    '{"d":{"é":[%s]}}', ' {"x":[1,{"d":3}],"d":{"y":"]}","é": [%s] , "z":{}}, "u":null} ', '{"é":[%s]}',
    '{"d":{"é":[1]},"d":{"é":[%s]}}', '{"d":{"é":[%s]}', '{"d":{"é":[%s]}}]', '{"d":{"é":[%s],"é":1}}',
    '{"d":[%s]}', '{"d":{"é":[%s],"y":"\\ud800"}}', '{"d":{"é":[%s],"y":tru}}', "[%s]",
]  # fmt: skip


@given(
    generated.lines_with_arrays,
    columns,
    array_paths,
    st.sampled_from([40, 10_000]),
    st.sampled_from([0, 0, 8]),
)
@example(['{"i":5,"r":[{"i":null},{"s":"a"}]}', '{"i":5,"r":[{"i":1}]}'] * 3, COLUMNS[:2], [ArrayPath("r")], 10_000, 0)
@example(['{"r":[1,2],"i":1}', '{"r":null,"i":2}', '{"i":3}', '{"r":[]}'] * 3, COLUMNS[:2], [ArrayPath("r")], 10_000, 0)
@example(['{"o":{"i":1,"r":2},"r":[{"o":{"i":2}},{}]}'] * 3, COLUMNS, [ArrayPath("r")], 10_000, 0)
@example(['{"r":[{"q":[1,2],"i":1},{"i":2}],"q":["a"]}'] * 3, COLUMNS, [ArrayPath("r"), ArrayPath("q")], 10_000, 0)
@example(['{"x":[1,2.5]}', '{"x":[1.0]}'] * 3, COLUMNS, [ArrayPath("x")], 10_000, 0)
@example(['{"r":["a",null]}', '{"r":["b"]}'] * 3, COLUMNS, [ArrayPath("r", explode=False)], 10_000, 0)
def test_records_of_arrays_do_not_depend_on_their_neighbours(
    tmp_path: Path,
    lines: list[str],
    columns: Sequence[SourceColumn],
    arrays: list[ArrayPath],
    split_bytes: int,
    fewest: int,
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(attempts, "_FEW", fewest)
        patched.setattr(undeclared, "_FEW_BYTES", 0)
        together = read(tmp_path / "in.ndjson", "\n".join(lines), columns, split_bytes=split_bytes, arrays=arrays)
    alone = one_by_one(tmp_path / "in.ndjson", lines, together.widened, columns=columns, arrays=arrays)
    assert are_same(together, alone)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(attempts.Attempts, "read", lambda *_: attempts.Taken())
        assert read(tmp_path / "in.ndjson", "\n".join(lines), columns, arrays=arrays).widened == together.widened


def read_array(
    path: Path,
    text: str,
    columns: Sequence[SourceColumn],
    options: JsonRead = ARRAY,
    *,
    widened: tuple[str, ...] | None = ("u", "v", "w.k"),
    arrays: Sequence[ArrayPath] = (),
) -> Records | str:
    """The records of an array, or what is wrong with it."""
    try:
        return read(path, text, columns, options=options, widened=widened, arrays=arrays)
    except FormatError as problem:
        # Places count from what was read last.
        return str(problem).partition(": line ")[0]


@given(
    st.lists(st.one_of(generated.fitting, generated.fitting, generated.any_line), max_size=30),
    columns,
    st.sampled_from([",", ", ", ",\n", "\n ,\r\n "]),
    st.sampled_from([7, 200, 1 << 20]),
    st.sampled_from(["]", "]\n", "", '] {"i":1}]']),
)
@example(['{"u":[{"i":1},{"i":2},{"i":3}]}'] * 30, generated.COLUMNS[:2], ",", 40, "]")
@example(['{"s":"},{"}'] * 30, generated.COLUMNS[:2], ",", 40, "]")
@example(['{"u":[{"i":1}'] * 5, generated.COLUMNS[:2], ",", 40, "]")
def test_arrays_are_the_same_however_they_are_taken_apart(
    tmp_path: Path, elements: list[str], columns: Sequence[SourceColumn], between: str, chunk: int, end: str
) -> None:
    text = f"[{between.join(elements)}{end}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_array, "CHUNK_BYTES", chunk)
        patched.setattr(attempts, "_FEW", 0)
        in_pieces = read_array(tmp_path / "in.json", text, columns)
        patched.setattr(json_array.ArrayText, "piece", lambda _: None)
        singly = read_array(tmp_path / "in.json", text, columns)
    assert repr(in_pieces) == repr(singly)


@given(
    st.lists(generated.lines_with_arrays, max_size=2).map(lambda found: [line for some in found for line in some]),
    st.sampled_from([(), (ArrayPath("r"),), (ArrayPath("r", explode=False), ArrayPath("q"))]),
    st.sampled_from([",", ", ", "\n,\t"]),
    st.sampled_from([7, 200, 1 << 20]),
    st.sampled_from(_AROUND),
    st.sampled_from(["$.d.é", "d.é", "/d/é", "$.é", "$"]),
)
@example(['{"i":1}', "[" * 126 + "]" * 126], (), ",", 7, '{"d":{"é":[%s]}}', "d.é")
@example(['{"i":1}', "[" * 125 + "]" * 125], (), ",", 7, '{"d":{"é":[%s]}}', "d.é")
@example(['{"s":"\\\\"}', '{"s":"\\"]}"}', '{"s":"é]"}'] * 20, (), ",", 7, '{"d":{"é":[%s]}}', "d.é")
def test_documents_are_the_same_however_they_are_taken_apart(
    tmp_path: Path,
    elements: list[str],
    arrays: tuple[ArrayPath, ...],
    between: str,
    chunk: int,
    around: str,
    where: str,
) -> None:
    text = around % between.join(elements)
    options = JsonRead(record_path=where)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_array, "CHUNK_BYTES", chunk)
        patched.setattr(attempts, "_FEW", 0)
        in_pieces = read_array(tmp_path / "in.json", text, COLUMNS, options, widened=None, arrays=arrays)
        patched.setattr(json_array.ArrayText, "piece", lambda _: None)
        patched.setattr(documents.DocumentText, "size_of_array", lambda _: None)
        singly = read_array(tmp_path / "in.json", text, COLUMNS, options, widened=None, arrays=arrays)
    assert repr(in_pieces) == repr(singly)


@pytest.mark.parametrize(
    ("text", "options", "arrays"),
    [
        ('{{"i":{i},"r":[{{"s":"x"}}, {{"s":"y"}}],"f":1.5}}', ARRAY, [ArrayPath("r")]),
        ('{{"i":{i},"r":["x","y"],"f":1.5}}', ARRAY, [ArrayPath("r", explode=False)]),
        ('{{"i":{i},"r":[{{"s":"x"}}, {{"s":"y"}}],"f":1.5}}', NDJSON, [ArrayPath("r")]),
        ('{{"i":{i},"s":"x"}}', JsonRead(record_path="d.e"), []),
        ('{{"i":{i},"r":[{{"s":"x"}}]}}', JsonRead(record_path="d.e"), [ArrayPath("r")]),
    ],
    ids=["array exploded", "array joined", "lines exploded", "document", "document exploded"],
)
def test_arrays_inside_of_others_are_read_by_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, options: JsonRead, arrays: list[ArrayPath]
) -> None:
    singly: list[int] = []
    real = exact.ExactRecords.block

    def block(self: exact.ExactRecords, first: int, items: Sequence[Any], *places: Any) -> Any:
        singly.append(len(items))
        return real(self, first, items, *places)

    monkeypatch.setattr(exact.ExactRecords, "block", block)
    elements = [text.format(i=i) for i in range(2000)]
    whole = {NDJSON: "\n".join(elements), ARRAY: f"[{', '.join(elements)}]"}.get(
        options, f'{{"d":{{"a":[{{}}, {{}}],"e":[{", ".join(elements)}]}},"n":[1]}}'
    )
    columns = [column for column in COLUMNS if column.name in ("i", "s", "f", "o.i")]
    got = read(tmp_path / "in.json", whole, columns, options=options, arrays=arrays)
    assert sum(singly) <= 4
    assert sorted({record["i"] for record in got.good}) == list(range(2000))


def test_elements_of_arrays_are_read_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    singly: list[bytes] = []
    monkeypatch.setattr(json_array.ArrayText, "_value", _counting(singly, json_array.ArrayText._value))
    # Here it counts how records are read; before that, the look for declared columns takes the head's one by one.
    monkeypatch.setattr(heads.Heads, "_look_at_head", lambda *_: None)
    objects = [f'{{"i":{i},\n  "s":"x{i}"}}' for i in range(500)]
    got = read(tmp_path / "in.json", f"[\n{', '.join(objects)}\n]\n", options=JsonRead(), widened=())
    assert [record["i"] for record in got.good] == list(range(500))
    assert len(singly) == 2


def _counting(found: list[bytes], real: Any) -> Any:
    def value(text: json_array.ArrayText) -> Any:
        found.append(b"")
        return real(text)

    return value


WIDE = [SourceColumn("id", types.INT), SourceColumn("addr.city", types.STRING), SourceColumn("a.b.c", types.INT)]


def test_null_above_a_declared_leaf_widens_nothing(tmp_path: Path) -> None:
    lines = '{"id":1,"addr":null,"a":null}\n{"id":2,"a":{"b":null}}\n{"id":3,"a.b":null,"a":{"x":null}}'
    got = read(tmp_path / "in.ndjson", lines, WIDE)
    assert got.widened == ("a.x",)
    array = f"[{','.join(lines.splitlines())}]"
    assert read(tmp_path / "in.json", array, WIDE, options=JsonRead()).widened == ("a.x",)


def test_values_above_a_declared_leaf_widen(tmp_path: Path) -> None:
    lines = '{"id":1,"addr":null}\n{"id":2,"addr":"Oslo","a":{"b":false}}'
    got = read(tmp_path / "in.ndjson", lines, WIDE)
    assert got.widened == ("addr", "a.b")
    assert [(record["$widened.addr"], record["$widened.a.b"]) for record in got.good] == [
        (None, None),
        ('"Oslo"', "false"),
    ]
