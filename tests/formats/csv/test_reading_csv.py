from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats import reading, splits
from spark_jobs.formats.csv import whole_records
from spark_jobs.formats.csv.options import CsvRead
from spark_jobs.formats.csv.read import CsvReader
from spark_jobs.formats.format import Reading
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from tests.formats.csv.files import read_csv, source_columns

if TYPE_CHECKING:
    from pathlib import Path

PAIR = {"a": types.STRING, "b": types.STRING}


def python_records(text: str) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


#: Texts that are all structure: any string of them is a CSV file.
messy_text = st.lists(
    st.sampled_from(["a", "é", "\ufeff", ",", '"', '""', "\n", "\r\n", " ", '","', '"\n', ',"x'])
).map("".join)
cells = st.text(alphabet='ab é\ufeff,"\n\r', max_size=6)


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set(',"\r\n') else cell


def well_formed(rows: list[tuple[str, str]], end: str) -> str:
    return "".join(f"{quoted(a)},{quoted(b)}{end}" for a, b in rows)


@given(
    rows=st.lists(st.tuples(cells, cells), max_size=12),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    split_bytes=st.integers(4, 60),
    block_bytes=st.sampled_from([3, 16, 1 << 20]),
    keep_last_end=st.booleans(),
)
def test_any_split_of_a_well_formed_file_gives_its_records(
    tmp_path: Path, rows: list[tuple[str, str]], end: str, split_bytes: int, block_bytes: int, keep_last_end: bool
) -> None:
    text = well_formed([("a", "b"), *rows], end)
    if not keep_last_end:
        text = text.removesuffix(end)
    got = read_csv(tmp_path / "in.csv", text.encode(), PAIR, split_bytes=split_bytes, block_bytes=block_bytes)
    assert [(record["a"], record["b"]) for record in got.records] == rows
    assert got.failures == []


@given(body=messy_text, split_bytes=st.integers(3, 40), block_bytes=st.sampled_from([2, 9, 1 << 20]))
def test_any_split_of_any_text_gives_what_python_reads(
    tmp_path: Path, body: str, split_bytes: int, block_bytes: int
) -> None:
    got = read_csv(
        tmp_path / "in.csv", b"a,b\n" + body.encode(), PAIR, split_bytes=split_bytes, block_bytes=block_bytes
    )
    whole = read_csv(tmp_path / "in.csv", b"a,b\n" + body.encode(), PAIR)
    assert (got.records, got.rows, got.failures) == (whole.records, whole.rows, whole.failures)
    expected = python_records(body)
    is_open = any(failure[4].endswith("never closed") for failure in whole.failures)
    if is_open:
        expected = expected[:-1]
    good = [(row, cells) for row, cells in enumerate(expected) if len(cells) == 2]
    assert [(row, [record["a"], record["b"]]) for row, record in zip(got.rows, got.records, strict=True)] == good
    assert got.count == len(expected) + is_open


@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_record_borders_do_not_depend_on_the_number_of_splits(tmp_path: Path, number: int) -> None:
    lines = [f'{i},"text {i}\nline, ""two"" of {i}",{i / 7}\r\n' for i in range(400)]
    data = ("\ufeffid,text,x\r\n" + "".join(lines)).encode().removesuffix(b"\r\n")
    declared = {"id": types.INT, "text": types.STRING, "x": types.FLOAT}
    got = read_csv(tmp_path / "in.csv", data, declared, split_bytes=-(-len(data) // number), block_bytes=700)
    assert got.records == [{"id": i, "text": f'text {i}\nline, "two" of {i}', "x": i / 7} for i in range(400)]
    assert got.rows == list(range(400))


def test_a_border_guessed_inside_quotes_is_found_out_and_read_again(tmp_path: Path) -> None:
    data = b'a,b\n1,"' + b"x,y\n" * 50 + b'"\n2,z\n'
    got = read_csv(tmp_path / "in.csv", data, PAIR, split_bytes=64)
    assert got.records == [{"a": "1", "b": "x,y\n" * 50}, {"a": "2", "b": "z"}]
    assert not got.was_consistent


def test_quotes_inside_unquoted_cells_are_characters(tmp_path: Path) -> None:
    data = b"a,b\n" + b'5" pipe,"6"" pipe"\n' * 100
    for split_bytes in (30, 100, 10_000):
        got = read_csv(tmp_path / "in.csv", data, PAIR, split_bytes=split_bytes)
        assert got.records == [{"a": '5" pipe', "b": '6" pipe'}] * 100
        assert got.was_consistent


@pytest.mark.slow
def test_a_cell_of_ten_megabytes_is_a_cell(tmp_path: Path) -> None:
    big = ("text of a cell " * 7_000 + "\n") * 100
    got = read_csv(tmp_path / "in.csv", f'a,b\n1,"{big}"\n2,x\n'.encode(), PAIR, split_bytes=1 << 20)
    assert [len(record["b"]) for record in got.records] == [len(big), 1]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\xef\xbb\xbf", []),
        (b"a,b", []),
        (b"a,b\n", []),
        (b"a,b\r\n\r\n\r\n", []),
        (b"\n\na,b\n1,2", [("1", "2")]),
        (b"\xef\xbb\xbfa,b\r1,2\r\r3,4\r", [("1", "2"), ("3", "4")]),
        (b'"a","b"\n"1",""\n', [("1", "")]),
        (b'"ab"cd,x"y",a\n', []),
    ],
)
def test_small_files(tmp_path: Path, data: bytes, expected: list[tuple[str, str]]) -> None:
    got = read_csv(tmp_path / "in.csv", data, PAIR)
    assert [(record["a"], record["b"]) for record in got.records] == expected
    assert got.failures == []


def test_ragged_records_are_malformed_and_keep_their_place(tmp_path: Path) -> None:
    data = b'a,b\n1,x\n\n2\n3,y,z\n4,"p\nq"\n5\n'
    got = read_csv(tmp_path / "in.csv", data, PAIR, block_bytes=12)
    assert got.records == [{"a": "1", "b": "x"}, {"a": "4", "b": "p\nq"}]
    assert got.rows == [0, 3]
    assert got.failures == [
        (1, None, "2", "malformed_record", "malformed record: record has 1 fields, expected 2"),
        (2, None, "3,y,z", "malformed_record", "malformed record: record has 3 fields, expected 2"),
        (4, None, "5", "malformed_record", "malformed record: record has 1 fields, expected 2"),
    ]


def test_undecodable_records_are_malformed_whatever_is_read(tmp_path: Path) -> None:
    data = b"a,b\n1,fine\n2,bro\xffken\nx\n4,\xe9t\xe9\n5,last\n"
    for live in (None, frozenset({"a"})):
        got = read_csv(tmp_path / "in.csv", data, PAIR, live=live)
        assert [record["a"] for record in got.records] == ["1", "5"]
        assert got.rows == [0, 4]
        assert [(row, value) for row, _, value, _, _ in got.failures] == [(1, "2,bro�ken"), (2, "x"), (3, "4,�t�")]


def test_a_quote_that_is_never_closed_takes_the_rest_of_the_file(tmp_path: Path) -> None:
    data = b'a,b\n1,x\n2,"open\n3,y\n4,z\n'
    for split_bytes in (5, 8, 1000):
        got = read_csv(tmp_path / "in.csv", data, PAIR, split_bytes=split_bytes)
        assert got.records == [{"a": "1", "b": "x"}]
        assert got.failures == [
            (1, None, '2,"open\n3,y\n4,z', "malformed_record", "malformed record: quote is never closed")
        ]


def test_the_raw_text_of_a_malformed_record_is_bounded(tmp_path: Path) -> None:
    got = read_csv(tmp_path / "in.csv", b"a,b\n" + b"x" * 100_000 + b"\n", PAIR)
    assert got.failures[0][2] == "x" * 1000


def test_an_encoding_is_read_as_its_text(tmp_path: Path) -> None:
    text = 'id,é\r\n1,"Zoë\r\nß"\r\n2,𝄞 clef\r\n'
    declared = {"id": types.INT, "é": types.STRING}
    records = [{"id": 1, "é": "Zoë\r\nß"}, {"id": 2, "é": "𝄞 clef"}]
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"):
        options = CsvRead(encoding=encoding)
        got = read_csv(tmp_path / "in.csv", text.encode(encoding), declared, options=options, split_bytes=5)
        assert got.records == records
    latin = text.replace("𝄞", "G")
    for encoding in ("latin-1", "windows-1252", "iso-8859-15"):
        options = CsvRead(encoding=encoding)
        got = read_csv(tmp_path / "in.csv", latin.encode(encoding), declared, options=options)
        assert got.records == [records[0], {"id": 2, "é": "G clef"}]


def test_undecodable_text_of_another_encoding_is_a_malformed_record(tmp_path: Path) -> None:
    options = CsvRead(encoding="windows-1252")
    got = read_csv(tmp_path / "in.csv", b"a,b\n1,\xe9\n2,\x81\n3,z\n", PAIR, options=options)
    assert [record["b"] for record in got.records] == ["é", "z"]
    assert [failure[0] for failure in got.failures] == [1]


def test_other_delimiters_and_quotes(tmp_path: Path) -> None:
    data = b"a|b\n'x|y'|don't\n'it''s'|\"q\"\n"
    got = read_csv(tmp_path / "in.csv", data, PAIR, options=CsvRead("|", "'"), split_bytes=4)
    assert got.records == [{"a": "x|y", "b": "don't"}, {"a": "it's", "b": '"q"'}]


def test_a_file_without_header_follows_the_declared_order(tmp_path: Path) -> None:
    declared = {"a": types.STRING, "b": types.INT, "c": types.FLOAT}
    options = CsvRead(has_header=False)
    got = read_csv(tmp_path / "in.csv", b"\xef\xbb\xbfx,1,\ny,2,0\n", declared, options=options, split_bytes=5)
    assert got.records == [{"a": "x", "b": 1, "c": None}, {"a": "y", "b": 2, "c": 0.0}]
    wide = read_csv(tmp_path / "in.csv", b"x,1,2.5,more\n", declared, options=options)
    assert wide.records == [{"a": "x", "b": 1, "c": 2.5, "$widened.col_3": "more"}]


TYPED = {"id": types.INT, "name": types.STRING, "x": types.FLOAT, "d": types.DATE}


def test_values_that_do_not_convert_fail_their_record(tmp_path: Path) -> None:
    data = b"d,x,id,name\n2024-01-02,1.5,+1,a\n,y,2,b\n2024-99-99,z,3,c\n2024-01-03,,x,\n,,,\n"
    got = read_csv(tmp_path / "in.csv", data, TYPED, failure_texts=True)
    assert [(record["id"], record["name"], record["x"]) for record in got.records] == [(1, "a", 1.5), (None, "", None)]
    assert got.rows == [0, 4]
    kind = "type_coercion_failure"
    assert got.failures == [
        (1, "x", "y", kind, "conversion failed: cannot convert 'y' to Float"),
        (2, "x", "z", kind, "conversion failed: cannot convert 'z' to Float"),
        (3, "id", "x", kind, "conversion failed: cannot convert 'x' to Int"),
    ]
    assert got.failed_rows == [
        {"id": "2", "name": "b", "x": "y", "d": None},
        {"id": "3", "name": "c", "x": "z", "d": "2024-99-99"},
        {"id": "x", "name": "", "x": None, "d": "2024-01-03"},
    ]


def test_what_is_carried_does_not_change_what_fails(tmp_path: Path) -> None:
    data = b"id,name,x,d,more\n1,a,1,2024-01-01,m\nx,b,1,2024-01-01,n\n3,c,1,never,o\n4,d\n"
    everything = read_csv(tmp_path / "in.csv", data, TYPED)
    for live in (frozenset({"name"}), frozenset({"id", "x"}), frozenset[str]()):
        for texts in (False, True):
            got = read_csv(tmp_path / "in.csv", data, TYPED, live=live, failure_texts=texts)
            wanted = [name for name in TYPED if name in live]
            assert got.schema is not None
            assert got.schema.names == [*wanted, "$widened.more"]
            assert got.records == [
                {name: record[name] for name in (*wanted, "$widened.more")} for record in everything.records
            ]
            assert (got.rows, got.failures) == (everything.rows, everything.failures)
    assert everything.rows == [0]


def test_nothing_may_be_carried_at_all(tmp_path: Path) -> None:
    got = read_csv(
        tmp_path / "in.csv", b"id,name\n1,a\n2,b\n", {"name": types.STRING, "id": types.INT}, live=frozenset()
    )
    assert got.records == [{}, {}]
    assert got.schema is not None
    assert got.schema.names == []


def test_required_columns_must_be_there_and_convert(tmp_path: Path) -> None:
    data = b"id,name\n1,a\n,b\nx,c\n"
    got = read_csv(tmp_path / "in.csv", data, TYPED, required=("id",), failure_texts=True)
    assert [(row, name, category) for row, name, _, category, _ in got.failures] == [
        (1, "id", "missing_required_field"),
        (2, "id", "required_field_conversion_failure"),
    ]
    assert [record["id"] for record in got.failed_rows] == [None, "x"]
    lacking = read_csv(tmp_path / "in.csv", data, TYPED, required=("x",))
    assert [failure[1] for failure in lacking.failures] == ["x", "x", "id"]
    assert lacking.records == []


def test_the_first_declared_column_names_the_failure(tmp_path: Path) -> None:
    data = b"d,x,id\nnever,no,none\n"
    got = read_csv(tmp_path / "in.csv", data, TYPED, required=("x",))
    assert got.failures[0][:3] == (0, "id", "none")


def test_undeclared_columns_stay_text(tmp_path: Path) -> None:
    data = b"zone,id,pop\n07,1,1e3\nN,2,\n"
    got = read_csv(tmp_path / "in.csv", data, {"id": types.INT})
    assert got.records == [
        {"id": 1, "$widened.zone": "07", "$widened.pop": "1e3"},
        {"id": 2, "$widened.zone": "N", "$widened.pop": ""},
    ]


def test_failures_keep_their_rows_over_blocks_and_splits(tmp_path: Path) -> None:
    lines = [("x" if i % 7 == 0 else str(i)) + (",more" if i % 11 == 0 else "") for i in range(300)]
    data = ("id\n" + "\n".join(lines)).encode()
    for split_bytes, block_bytes in ((10_000, 1 << 20), (100, 64), (37, 16)):
        got = read_csv(tmp_path / "in.csv", data, {"id": types.INT}, split_bytes=split_bytes, block_bytes=block_bytes)
        assert got.rows == [i for i in range(300) if i % 7 and i % 11]
        assert [failure[0] for failure in got.failures] == [i for i in range(300) if i % 7 == 0 or i % 11 == 0]
        assert [record["id"] for record in got.records] == got.rows


def test_an_open_quote_spares_the_records_before_it_whatever_ends_them(tmp_path: Path) -> None:
    got = read_csv(tmp_path / "in.csv", b'a,b\n1,x\n2,y\r3,"open\r4,z', PAIR)
    assert [record["a"] for record in got.records] == ["1", "2"]
    assert [failure[:3] for failure in got.failures] == [(2, None, '3,"open\r4,z')]


@pytest.mark.parametrize("split_bytes", [40, 100, 10_000])
@pytest.mark.parametrize("block_bytes", [1, 7, 50])
def test_a_record_without_measure_is_malformed_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_bytes: int, block_bytes: int
) -> None:
    monkeypatch.setattr(whole_records, "MOST_RECORD_BYTES", 60)
    monkeypatch.setattr(whole_records, "_HEAD_BYTES", 9)
    long = '"' + 'a ""word"",\n' * 30 + '"'
    data = f"a,b\n1,x\n2,{long}\n3,y\r4,{'z' * 200}\n5,{long}"
    got = read_csv(tmp_path / "in.csv", data.encode(), PAIR, split_bytes=split_bytes, block_bytes=block_bytes)
    assert got.records == [{"a": "1", "b": "x"}, {"a": "3", "b": "y"}]
    assert [(row, value) for row, _, value, _, _ in got.failures] == [
        (1, '2,"a ""wo'),
        (3, "4,zzzzzzz"),
        (4, '5,"a ""wo'),
    ]
    data = data.removesuffix('"')
    unclosed = read_csv(tmp_path / "in.csv", data.encode(), PAIR, split_bytes=split_bytes, block_bytes=block_bytes)
    assert unclosed.failures[-1][4] == "malformed record: quote is never closed"


def test_undecodable_bytes_in_other_broken_places(tmp_path: Path) -> None:
    data = b'a,b\n1,\xff,3\n4,\xef\xb7\x90\n"\xfe\n",2\n\xc3,\xe9\xe9\n7,"\xff'
    got = read_csv(tmp_path / "in.csv", data, PAIR)
    assert got.records == [{"a": "4", "b": "\ufdd0"}]
    assert [failure[:3] for failure in got.failures] == [
        (0, None, "1,\ufffd,3"),
        (2, None, "\ufffd\n,2"),
        (3, None, "\ufffd,\ufffd"),
        (4, None, '7,"\ufffd'),
    ]


def test_failures_are_found_when_nothing_is_carried(tmp_path: Path) -> None:
    got = read_csv(tmp_path / "in.csv", b"a,b\n1,2\nx,3\n4,5\n", {"a": types.INT, "b": types.INT}, live=frozenset())
    assert (got.records, got.rows, len(got.failures)) == ([{}, {}], [0, 2], 1)


def test_a_file_that_becomes_shorter_is_an_error_and_a_longer_one_is_read_as_planned(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"a,b\n1,2\n")
    reader = CsvReader(CsvRead())
    plan = reader.plan(("a",), [files.describe(str(path), "in.csv")])
    [split] = splits.plan(plan.files)
    wanted = Reading(source_columns({"a": types.INT}))

    def records() -> list[dict[str, object]]:
        blocks = reader.read(split, plan.files[0], wanted, reading.SplitOutcome())
        return [record for block in blocks for record in block.batch.to_pylist()]

    path.write_bytes(b"a,b\n1,2\n3,4\n")
    assert records() == [{"a": 1}]
    path.write_bytes(b"a,b\n1")
    with pytest.raises(FormatError, match=r"in\.csv: the file became shorter"):
        records()
