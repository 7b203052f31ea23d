from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.formats import format, reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import ArrayPath, Reading, SourceColumn
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.formats.json.read import JsonReader
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from spark_jobs.tuning import DEFAULT, Tuning
from tests.formats.csv.files import Columns, Result, source_columns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@given(
    texts=st.lists(st.text("aé日😀\x80", max_size=9), min_size=1, max_size=4),
    size=st.integers(1, 40),
    pretty=st.booleans(),
)
def test_what_is_read_at_once_may_end_within_characters(
    texts: list[str], size: int, pretty: bool, tmp_path: Path
) -> None:
    data = json.dumps([{"v": text} for text in texts], ensure_ascii=False, indent=1 if pretty else None)
    tuning = Tuning(json_portion_bytes=size)
    found = read_json(tmp_path / "in", data, {"v": types.STRING}, block_bytes=size, tuning=tuning)
    assert [record["v"] for record in found.records] == texts


def read_json(
    path: Path,
    data: bytes | str,
    declared: Columns,
    *,
    options: JsonRead | None = None,
    split_bytes: int = splits.SPLIT_BYTES,
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
    required: tuple[str, ...] = (),
    arrays: Sequence[ArrayPath] = (),
    columns: tuple[SourceColumn, ...] | None = None,
    tuning: Tuning = DEFAULT,
    **wanted: Any,
) -> Result:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    options = options or JsonRead()
    file = files.describe(str(path), path.name)
    reader = JsonReader(options, tuple(arrays), tuning=tuning)
    columns = source_columns(declared, required) if columns is None else columns
    scan = reader.plan(tuple(column.key for column in columns), [file], on_unmapped)
    want = Reading(columns, scan.undeclared, **wanted)
    result = Result()
    for split in splits.plan(scan.files, split_bytes):
        outcome = reading.SplitOutcome()
        offset = result.count
        for block in reader.read(split, scan.files[0], want, outcome):
            result.add(block, offset)
        assert (outcome.records, outcome.is_consistent) == (result.count - offset, True)
    for record in result.records:
        for name, static in declared.items():
            if static.is_dynamic and name in record:
                record[name] = values.decode(record[name])
        for name in scan.undeclared:
            record[format.UNDECLARED_PREFIX + name] = values.decode(record[format.UNDECLARED_PREFIX + name])
    return result


def test_values_convert_from_their_json_kinds(tmp_path: Path) -> None:
    declared = {"s": types.STRING, "i": types.INT, "f": types.FLOAT, "b": types.BOOL, "n": types.NUMERIC}
    lines = [
        '{"s":1.50,"i":3.0,"f":5,"b":1,"n":3.7}',
        '{"s":1e3,"i":"+12","f":"1e2","b":"oN","n":"7"}',
        '{"s":12345678901234567890123,"i":-9223372036854775808,"f":true,"b":false,"n":true}',
        '{"s":true,"i":false,"f":null,"n":9223372036854775808}',
        '{"s":{"a":[1.0,null]},"i":1e2}',
    ]
    got = read_json(tmp_path / "in.ndjson", "\n".join(lines), declared)
    assert [list(record.values()) for record in got.records] == [
        ["1.50", 3, 5.0, True, 3.7],
        ["1e3", 12, 100.0, True, 7],
        ["12345678901234567890123", -(2**63), 1.0, False, 1],
        ["true", 0, None, None, 9223372036854775808.0],
        ['{"a":[1.0,null]}', 100, None, None, None],
    ]
    assert got.failures == []


@pytest.mark.parametrize(
    ("static", "literal", "shown"),
    [
        (types.INT, "3.9", "3.9"),
        (types.INT, "9223372036854775808", "9223372036854775808"),
        (types.INT, "-9223372036854775809", "-9223372036854775809"),
        (types.INT, '"3.0"', "3.0"),
        (types.INT, "[1]", "[1]"),
        (types.INT, "1e400", "1e400"),
        (types.FLOAT, "1e400", "1e400"),
        (types.FLOAT, '{"a": 1.0}', '{"a":1.0}'),
        (types.BOOL, "1.0", "1.0"),
        (types.DATE, "20240101", "20240101"),
        (types.DATE, '"never"', "never"),
        (types.ARRAY, '{"a":1}', '{"a":1}'),
        (types.MAP, "[]", "[]"),
        (types.NUMERIC, '"x"', "x"),
    ],
)
def test_values_that_do_not_convert(tmp_path: Path, static: types.Type, literal: str, shown: str) -> None:
    declared = {"k": types.INT, "v": static}
    got = read_json(tmp_path / "in.ndjson", f'{{"k":1,"v":{literal}}}\n', declared, failure_texts=True)
    assert got.records == []
    assert got.failures[0][:4] == (0, "v", shown, "type_coercion_failure")
    assert got.failed_rows == [{"k": "1", "v": shown}]


def test_dates_and_containers(tmp_path: Path) -> None:
    declared = {"d": types.DATE, "t": types.DATETIME, "a": types.ARRAY, "m": types.MAP, "x": types.ANY}
    line = '{"d":"02/29/2024","t":"2024-01-02 03:04:05","a":[1,2.50,{"k":null}],"m":{"k":1e2},"x":[0.1]}'
    got = read_json(tmp_path / "in.ndjson", line, declared)
    assert got.records == [
        {
            "d": dt.date(2024, 2, 29),
            "t": dt.datetime(2024, 1, 2, 3, 4, 5),
            "a": [1, 2.5, {"k": None}],
            "m": {"k": 100.0},
            "x": [0.1],
        }
    ]


@pytest.mark.parametrize("split_bytes", [1, 7, 30, 10_000])
def test_lines_that_are_no_objects_are_malformed_and_keep_their_place(tmp_path: Path, split_bytes: int) -> None:
    lines = ['{"id":1}', "", '{"id":2', "  ", "[3]", "4", '"five"', "null", '{"id":NaN}', '{"id":8}', "{id:9}"]
    declared = {"id": types.INT}
    for end in ("\n", "\r\n"):
        got = read_json(
            tmp_path / "in.ndjson",
            "\ufeff" + end.join(lines),
            declared,
            options=JsonRead(JsonLayout.NDJSON),
            split_bytes=split_bytes,
            on_unmapped=OnUnmapped.DROP,
        )
        assert got.records == [{"id": 1}, {"id": 8}]
        assert got.rows == [0, 7]
        assert [(row, value) for row, _, value, _, _ in got.failures] == [
            (1, '{"id":2'),
            (2, "[3]"),
            (3, "4"),
            (4, '"five"'),
            (5, "null"),
            (6, '{"id":NaN}'),
            (8, "{id:9}"),
        ]


def test_undecodable_and_unspeakable_lines_are_malformed(tmp_path: Path) -> None:
    deep = b"[" * 100_000
    data = b'{"s":"\xff"}\n{"s":"\\ud800"}\n{"s":"\\ud83c\\udf4b"}\n{"s":' + deep + b"\n"
    got = read_json(tmp_path / "in.ndjson", data, {"s": types.STRING})
    assert got.records == [{"s": "🍋"}]
    assert [failure[0] for failure in got.failures] == [0, 1, 3]
    assert all(len(failure[2]) <= format.RAW_TEXT_LIMIT for failure in got.failures)


objects = st.lists(
    st.dictionaries(
        st.sampled_from(["id", "s", "x", "o"]),
        st.none() | st.text(max_size=3) | st.integers(-99, 99) | st.lists(st.booleans(), max_size=2),
        max_size=4,
    ),
    max_size=6,
)


@given(objects, st.integers(1, 50), st.booleans())
def test_lines_arrays_and_documents_hold_the_same_records(
    tmp_path: Path, records: list[dict[str, Any]], split_bytes: int, ascii_only: bool
) -> None:
    texts = [json.dumps(record, ensure_ascii=ascii_only) for record in records]
    lines = "\n".join(texts)
    array = " [ " + " , ".join(texts) + " ] "
    declared = {"id": types.ANY, "s": types.STRING}
    expected = [{"id": r.get("id"), "s": r.get("s")} for r in records]
    for record in expected:
        if record["s"] is not None and not isinstance(record["s"], str):
            record["s"] = values.text_of(record["s"])
    path = tmp_path / "in.json"
    ndjson = read_json(
        path, lines, declared, split_bytes=split_bytes, live=frozenset(declared), options=JsonRead(JsonLayout.NDJSON)
    )
    names = [
        format.UNDECLARED_PREFIX + name
        for name in dict.fromkeys(key for r in records for key in r)
        if name not in declared
    ]
    for record, source in zip(expected, records, strict=True):
        record.update({name: source.get(name.removeprefix(format.UNDECLARED_PREFIX)) for name in names})
    assert ndjson.records == expected
    assert read_json(path, array, declared).records == expected
    options = JsonRead(JsonLayout.OBJECT, "$.a.b")
    assert read_json(path, f'{{"a":{{"b":{array}}}}}', declared, options=options).records == expected
    wide = JsonRead(JsonLayout.ARRAY, encoding="utf-16")
    assert read_json(path, array.encode("utf-16"), declared, options=wide).records == expected


def test_an_array_may_be_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    data = json.dumps([{"id": i, "s": "é\\" * (i % 5) + '"]'} for i in range(200)], ensure_ascii=False)
    for size in (1, 2, 7, 1000):
        tuning = Tuning(json_portion_bytes=size)
        got = read_json(tmp_path / "in.json", data, {"id": types.INT, "s": types.STRING}, tuning=tuning)
        assert [record["id"] for record in got.records] == list(range(200))
        assert got.records[4]["s"] == "é\\" * 4 + '"]'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('[{"id":1},{"id":', "broken JSON"),
        ('[{"id":1}', "expected , or ]"),
        ('[{"id":1} {"id":2}]', "expected , or ]"),
        ("[" * 100_000, "nested too deeply"),
        ("x", "begins with"),
        (b"[\xff]", "broken JSON: the bytes are not UTF-8 text, at byte 1"),
    ],
)
def test_a_broken_container_is_an_error_of_the_file(tmp_path: Path, data: str | bytes, message: str) -> None:
    with pytest.raises(FormatError, match=rf"in\.json: .*{message}"):
        read_json(tmp_path / "in.json", data, {"id": types.INT})


BEHIND = ["[{}]", "]", "{", '{"id":2}', ",", "junk", "\0", "\ufeff", "é", "1", "}]"]


@pytest.mark.parametrize("options", [{}, {"format": JsonLayout.ARRAY}, {"record_path": "rows"}], ids=str)
@pytest.mark.parametrize("space", ["", "\n", " \t\r\n" * 3000], ids=len)
@pytest.mark.parametrize("count", [0, 1, 2, 900])
def test_what_follows_an_array_is_an_error_of_the_file(
    tmp_path: Path, count: int, space: str, options: dict[str, Any]
) -> None:
    text = json.dumps([{"id": i} for i in range(count)])
    text = f'{{"é":1,"rows":{text}}}' if "record_path" in options else text
    for number, behind in enumerate(BEHIND):
        tuning = Tuning(json_portion_bytes=[40, 5000, 1 << 20][number % 3])
        for encoding, start, unit in [("utf-8", "", ""), ("utf-8", "\ufeff\n", ""), ("utf-16", "", " of its text")]:
            place = len((start + text + space).encode())
            data = (start + text + space + behind + space).encode(encoding)
            read = JsonRead(**options, encoding=encoding)
            with pytest.raises(FormatError, match=rf"broken JSON: only white .*, found .*, at byte {place}\b{unit}"):
                read_json(tmp_path / "in", data, {"id": types.INT}, options=read, tuning=tuning)
    assert read_json(tmp_path / "in", text + space, {}, options=JsonRead(**options)).count == count


@pytest.mark.parametrize(
    ("element", "message", "at"),
    [
        ("{'k':1}", "Expecting property name enclosed in double quotes", 1),
        ('{"k":x}', "Expecting value", 5),
        ('{"k":1 2}', "expected , or ] or } after a value, found 2", 7),
        ('"a\\x"', "Invalid \\escape", 2),
        ("NaN", "NaN is not a JSON value", None),
    ],
)
@pytest.mark.parametrize("many", [0, 3, 500])
def test_a_broken_array_tells_where(tmp_path: Path, many: int, element: str, message: str, at: int | None) -> None:
    before = "[" + '{"é":1},' * many
    for size in (50, 1 << 20):
        for text, options in [(before, JsonRead()), ('{"rows":' + before, JsonRead(record_path="rows"))]:
            data = text + element + ',{"é":1}]' + "}" * (options.record_path is not None)
            with pytest.raises(FormatError) as caught:
                read_json(tmp_path / "in", data, {}, options=options, tuning=Tuning(json_portion_bytes=size))
            place = "" if at is None else f", at byte {len(text.encode()) + at}"
            assert f"broken JSON: {message}{place}" in str(caught.value)


@pytest.mark.parametrize("path", ["$.a.b", "a.b", "/a/b", "$a.b"])
def test_spellings_of_record_path(tmp_path: Path, path: str) -> None:
    got = read_json(
        tmp_path / "in.json", '{"b":[],"a":{"b":[{"id":1}]}}', {"id": types.INT}, options=JsonRead(None, path)
    )
    assert got.records == [{"id": 1}]


@pytest.mark.parametrize(
    ("path", "message"), [("a.c", "key 'c' not found"), ("a.b.c", "key 'c' not found"), ("a", "no array")]
)
def test_a_record_path_that_leads_nowhere(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_json(tmp_path / "in.json", '{"a":{"b":[1]}}', {"id": types.INT}, options=JsonRead(None, path))


@pytest.mark.parametrize("data", ["", " \n ", "\ufeff"])
@pytest.mark.parametrize("options", [JsonRead(), JsonRead(JsonLayout.ARRAY), JsonRead(None, "a.b")], ids=str)
def test_a_file_without_anything_has_no_records(tmp_path: Path, data: str, options: JsonRead) -> None:
    assert read_json(tmp_path / "in.json", data, {"id": types.INT}, options=options).count == 0


def test_elements_that_are_no_objects_are_malformed(tmp_path: Path) -> None:
    got = read_json(tmp_path / "in.json", '[1,{"id":2},"x"]', {"id": types.INT})
    assert (got.rows, [failure[0] for failure in got.failures]) == ([1], [0, 2])


def test_undeclared_members_widen_as_leaves_in_first_seen_order(tmp_path: Path) -> None:
    lines = [
        '{"id":1,"geo":{"lat":1.5,"at":{"x":"p"}},"addr":{"city":"Oslo","zip":"0150"},"tags":["a"],"e":{}}',
        '{"addr":{"zip":"5","city":"Bergen"},"geo":{"at":{"y":2}},"id":2}',
        '{"id":3,"addr.city":"flat"}',
    ]
    got = read_json(tmp_path / "in.ndjson", "\n".join(lines), {"id": types.INT, "addr.city": types.STRING})
    wide = {key.removeprefix(format.UNDECLARED_PREFIX): value for key, value in got.records[0].items()}
    assert wide == {
        "id": 1,
        "addr.city": "Oslo",
        "geo.lat": 1.5,
        "geo.at.x": "p",
        "addr.zip": "0150",
        "tags": ["a"],
        "geo.at.y": None,
    }
    assert list(got.records[0])[2:] == [
        format.UNDECLARED_PREFIX + n for n in ("geo.lat", "geo.at.x", "addr.zip", "tags", "geo.at.y")
    ]
    assert [record["addr.city"] for record in got.records] == ["Oslo", "Bergen", "flat"]


def test_an_object_under_its_own_name_is_taken_whole(tmp_path: Path) -> None:
    got = read_json(tmp_path / "in.ndjson", '{"doc":{"a":{"b":1}},"x":2}', {"doc": types.ANY})
    assert got.records == [{"doc": {"a": {"b": 1}}, "$widened.x": 2}]


def test_undeclared_members_can_be_dropped_or_rejected(tmp_path: Path) -> None:
    line = '{"id":1}\n{"id":2,"o":{"k":1}}'
    got = read_json(tmp_path / "in.ndjson", line, {"id": types.INT}, on_unmapped=OnUnmapped.DROP)
    assert got.records == [{"id": 1}, {"id": 2}]
    with pytest.raises(FormatError, match=r"undeclared column 'o\.k'"):
        read_json(tmp_path / "in.ndjson", line, {"id": types.INT}, on_unmapped=OnUnmapped.REJECT)


def test_required_members(tmp_path: Path) -> None:
    lines = '{"id":1}\n{"id":null}\n{}\n{"id":"x"}'
    got = read_json(tmp_path / "in.ndjson", lines, {"id": types.INT}, required=("id",), live=frozenset())
    assert got.records == [{}]
    assert [(row, category) for row, _, _, category, _ in got.failures] == [
        (1, "missing_required_field"),
        (2, "missing_required_field"),
        (3, "required_field_conversion_failure"),
    ]


ORDERS = (
    '[{"order":1,"buyer":"ann","lines":[{"sku":"a","qty":2},{"sku":"b","order":9}]},'
    '{"order":2,"lines":[]},{"order":3},{"order":4,"lines":"none"}]'
)


def test_exploded_arrays_make_records(tmp_path: Path) -> None:
    declared = {"order": types.INT, "buyer": types.STRING, "sku": types.STRING}
    got = read_json(tmp_path / "in.json", ORDERS, declared, arrays=[ArrayPath("lines")], live=frozenset(declared))
    assert [tuple(record.values()) for record in got.records] == [
        (1, "ann", "a", 2, None),
        (9, "ann", "b", None, None),
        (3, None, None, None, None),
        (4, None, None, None, "none"),
    ]
    nested = '{"o":{"items":[1,[2]],"k":"x"}}'
    got = read_json(tmp_path / "in.json", nested, {"o.items": types.ANY}, arrays=[ArrayPath("o.items")])
    assert got.records == [{"o.items": 1, "$widened.o.k": "x"}, {"o.items": [2], "$widened.o.k": "x"}]


def test_joined_arrays_make_texts(tmp_path: Path) -> None:
    data = '[{"t":["red","big"],"n":[1,2.5,true,null,{"a":1.0}]},{"t":[],"n":7}]'
    arrays = [ArrayPath("t", explode=False, separator=" / "), ArrayPath("n", explode=False)]
    got = read_json(tmp_path / "in.json", data, {"t": types.STRING, "n": types.STRING}, arrays=arrays)
    assert got.records == [{"t": "red / big", "n": '1,2.5,true,null,{"a":1.0}'}, {"t": "", "n": "7"}]


@pytest.mark.parametrize("members", ['"a.b":2,"a":{"b":3}', '"a":{"b":3},"a.b":2', '"a":{"b":3,"c":1},"a.b":2,"a.c":1'])
@pytest.mark.parametrize("rest", ["", '{"id":1,"a":{"b":2,"c":1}}\n' * 50])
def test_a_key_with_dots_goes_before_a_path_of_that_name(tmp_path: Path, members: str, rest: str) -> None:
    text = f'{{"id":1,{members}}}\n' + rest
    undeclared = read_json(tmp_path / "in.ndjson", text, {"id": types.INT})
    assert {record["$widened.a.b"] for record in undeclared.records} == {2}
    declared = read_json(tmp_path / "in.ndjson", text, {"id": types.INT, "a.b": types.ANY})
    assert {record["a.b"] for record in declared.records} == {2}


@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize("record", ['{"a":{"b":1},"a.b":2}', '{"a.b":2,"a":{"b":1}}'])
def test_a_key_with_dots_goes_before_the_member_of_its_name(tmp_path: Path, record: str, times: int) -> None:
    lines = "\n".join([record] * times)
    for declared in ({"k": types.INT}, {"a.b": types.INT}):
        name = "a.b" if "a.b" in declared else format.UNDECLARED_PREFIX + "a.b"
        assert [found[name] for found in read_json(tmp_path / "in", lines, declared).records] == [2] * times
    both = read_json(tmp_path / "in", lines, {"a": types.MAP}).records
    assert [(found["a"], found[format.UNDECLARED_PREFIX + "a.b"]) for found in both] == [({"b": 1}, 2)] * times


@pytest.mark.parametrize("is_array", [False, True])
@pytest.mark.parametrize("is_declared", [False, True])
@pytest.mark.parametrize("quick_lines", [1, 10**9])
def test_records_with_two_values_for_one_column_are_told(
    tmp_path: Path, is_array: bool, is_declared: bool, quick_lines: int
) -> None:
    """In every way of reading, and whichever member comes first. Equal values lose nothing."""
    plain = '{"id":0,"a":{"b":1},"x":{"y":{"z":1}}}'
    doubled = [
        '{"id":1,"a":{"b":1},"a.b":2}',
        '{"id":2,"a.b":2,"a":{"b":null}}',
        '{"id":3,"x":{"y":{"z":1},"y.z":2}}',
        '{"id":4,"x.y":{"z":1},"x":{"y.z":2}}',
    ]
    harmless = ['{"a.b":1,"a":{"b":1}}', '{"a.b":1,"a":{"c":1}}', '{"a.b":1,"a":null}', '{"a.c":1,"a":{"c":2}}']
    lines = [plain] * 20
    for at, line in zip((1, 5, 6, 19), doubled, strict=True):
        lines[at] = line
    lines[8:12] = harmless
    path = tmp_path / "in.json"
    path.write_text(f"[{','.join(lines)}]" if is_array else "\n".join(lines))
    names = ("a.b", "x.y.z")
    columns = tuple(SourceColumn(name, types.ANY) for name in names) if is_declared else ()
    reader = JsonReader(
        JsonRead(JsonLayout.ARRAY if is_array else JsonLayout.NDJSON), tuning=Tuning(json_quick_lines=quick_lines)
    )
    scan = reader.plan([column.name for column in columns], [files.describe(str(path), path.name)], OnUnmapped.DROP)
    wanted = Reading(columns, () if is_declared else names)
    rows: list[int] = []
    names_shown: list[str] = []
    for split in splits.plan(scan.files, 10**6):
        for block in reader.read(split, scan.files[split.file], wanted, reading.SplitOutcome()):
            if block.doubled is not None:
                rows += block.doubled.rows.tolist()
                names_shown.append(block.doubled.first)
                before = block.until(rows[-1]).doubled
                assert before is None or before.rows.tolist() == block.doubled.rows.tolist()[:-1]
    assert rows == [1, 5, 6, 19]
    assert names_shown[0] == "a.b"
