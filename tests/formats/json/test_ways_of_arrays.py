"""Arrays of records are read like records alone, wherever they stand and however they are taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.formats.format import ArrayPath, SourceColumn
from spark_jobs.formats.json import heads
from spark_jobs.formats.json.exact.one_by_one import ExactRecords
from spark_jobs.formats.json.fast import bisection
from spark_jobs.formats.json.options import JsonRead
from spark_jobs.formats.json.texts import array as json_array
from spark_jobs.formats.json.texts import documents
from spark_jobs.scan.files import FormatError
from spark_jobs.tuning import Tuning
from tests.formats.json import generated
from tests.formats.json.ways import ARRAY, COLUMNS, NDJSON, Records, are_same, columns, one_by_one, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@given(generated.lines, st.booleans())
def test_arrays_do_not_change_records(tmp_path: Path, lines: list[str], exploded: bool) -> None:
    arrays = [ArrayPath("a", explode=exploded), ArrayPath("u")]
    together = read(tmp_path / "in.ndjson", "\n".join(lines), arrays=arrays)
    assert are_same(together, one_by_one(tmp_path / "in.ndjson", lines, together.undeclared, arrays=arrays))


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
    tuning = Tuning(json_quick_lines=fewest, json_names_bytes=0)
    together = read(
        tmp_path / "in.ndjson", "\n".join(lines), columns, split_bytes=split_bytes, arrays=arrays, tuning=tuning
    )
    alone = one_by_one(tmp_path / "in.ndjson", lines, together.undeclared, columns=columns, arrays=arrays)
    assert are_same(together, alone)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bisection.Bisection, "read", lambda *_: bisection.Taken())
        assert read(tmp_path / "in.ndjson", "\n".join(lines), columns, arrays=arrays).undeclared == together.undeclared


def read_array(
    path: Path,
    text: str,
    columns: Sequence[SourceColumn],
    options: JsonRead = ARRAY,
    *,
    undeclared: tuple[str, ...] | None = ("u", "v", "w.k"),
    arrays: Sequence[ArrayPath] = (),
    tuning: Tuning,
) -> Records | str:
    """The records of an array, or what is wrong with it."""
    try:
        return read(path, text, columns, options=options, undeclared=undeclared, arrays=arrays, tuning=tuning)
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
    tuning = Tuning(json_quick_lines=0, json_portion_bytes=chunk)
    in_pieces = read_array(tmp_path / "in.json", text, columns, tuning=tuning)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_array.ArrayText, "piece", lambda _: None)
        singly = read_array(tmp_path / "in.json", text, columns, tuning=tuning)
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
@example(['{"s":"\\\\ud83d\\ud83d\\ude00\\ude00"}'], (), ",", 7, '{"d":{"é":[%s]}}', "d.é")
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
    how: dict[str, Any] = {
        "undeclared": None,
        "arrays": arrays,
        "tuning": Tuning(json_quick_lines=0, json_portion_bytes=chunk),
    }
    in_pieces = read_array(tmp_path / "in.json", text, COLUMNS, options, **how)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_array.ArrayText, "piece", lambda _: None)
        patched.setattr(documents.DocumentText, "size_of_array", lambda _: None)
        singly = read_array(tmp_path / "in.json", text, COLUMNS, options, **how)
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
    real = ExactRecords.block

    def block(self: ExactRecords, first: int, items: Sequence[Any], *places: Any) -> Any:
        singly.append(len(items))
        return real(self, first, items, *places)

    monkeypatch.setattr(ExactRecords, "block", block)
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
    got = read(tmp_path / "in.json", f"[\n{', '.join(objects)}\n]\n", options=JsonRead(), undeclared=())
    assert [record["i"] for record in got.good] == list(range(500))
    assert len(singly) == 2


def _counting(found: list[bytes], real: Any) -> Any:
    def value(text: json_array.ArrayText) -> Any:
        found.append(b"")
        return real(text)

    return value
