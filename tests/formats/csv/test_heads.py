from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats.columns import ColumnTracker, OnUnmapped
from spark_jobs.formats.csv import head
from spark_jobs.formats.csv.options import CsvRead, Duplicates
from spark_jobs.formats.csv.read import CsvReader
from spark_jobs.formats.format import FileColumns
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError, InputFile
from tests.formats.csv.files import read_csv

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.formats import columns

PAIR = {"a": types.INT, "b": types.INT}
NUMBERED = CsvRead(duplicate_columns=Duplicates.NUMBER)


def plan(
    folder: Path, heads: dict[str, bytes], declared: tuple[str, ...], on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN
) -> columns.ScanPlan:
    inputs = []
    for name, data in heads.items():
        (folder / name).write_bytes(data)
        inputs.append(files.describe(str(folder / name), name))
    return CsvReader(CsvRead()).plan(declared, inputs, on_unmapped)


def test_each_file_is_matched_by_its_own_header(tmp_path: Path) -> None:
    heads = {"a.csv": b"id,x,name\n1,2,3\n", "b.csv": b'\xef\xbb\xbf"name",y,id\r\n', "c.csv": b"y,x,id\n"}
    got = plan(tmp_path, heads, ("name", "id"))
    assert got.undeclared == ("x", "y")
    assert [file.columns for file in got.files] == [
        FileColumns(3, (2, 0), (1, None)),
        FileColumns(3, (0, 2), (None, 1)),
        FileColumns(3, (None, 2), (1, 0)),
    ]
    assert [file.data_start for file in got.files] == [10, 15, 7]
    assert got.missing == (("name", 1),)
    assert got.warnings == ()


def test_letter_case_is_forgiven_with_a_warning_but_the_exact_name_wins(tmp_path: Path) -> None:
    got = plan(tmp_path, {"a.csv": b"ID,Name,id\n"}, ("id", "name"))
    assert got.files[0].columns == FileColumns(3, (2, 1), (0,))
    assert got.undeclared == ("ID",)
    assert got.warnings == ("a.csv: column 'Name' is read as 'name', which differs in letter case",)


def test_two_declared_columns_that_differ_in_case_share_nothing(tmp_path: Path) -> None:
    got = plan(tmp_path, {"a.csv": b"ID,x\n"}, ("id", "ID"))
    assert got.files[0].columns.declared == (None, 0)


@pytest.mark.parametrize(
    ("header", "proposal"),
    [
        (b"id;name", "it fits with `options.delimiter: ';'`"),
        (b"id\tname", "it fits with `options.delimiter: '\\t'`"),
        (b'ID |"Name"', "it fits with `options.delimiter: '|'`"),
        (b"'id';'name'", "it fits with `options.delimiter: ';'` and `options.quote_char: \"'\"`"),
        (b"'id','name'", 'it fits with `options.quote_char: "\'"`'),
        (b" id, name", "it fits with blanks around its names removed"),
        (b'[{"id":1,"name":"a"}]', "it looks like JSON: `type: json`"),
        (b'{"id":1,"name":"a"}', "it looks like JSON: `type: json`"),
        (b'<?xml version="1.0"?>', "it looks like XML: `type: xml`"),
        (b"1,Ada", "it looks like a record: `options.has_header: false`"),
        (b"i\0d\0,\0n\0", "it looks like UTF-16: `options.encoding: utf-16-le`"),
        (b"id_,Nam", "did you mean `id_` by `id`?"),
        (b"x,y", "check the path, the header and `schema`"),
        (b"'x", "check the path, the header and `schema`"),
    ],
)
def test_a_file_of_another_kind_is_an_error_that_proposes_what_fits(
    tmp_path: Path, header: bytes, proposal: str
) -> None:
    with pytest.raises(FormatError) as caught:
        plan(tmp_path, {"a.csv": b"id\n", "b.csv": header + b"\n1,2\n"}, ("id", "name"))
    assert caught.value.code == "E222"
    assert str(caught.value).startswith("b.csv: the header has none of the declared columns (id, name): it is `")
    assert caught.value.message.endswith(proposal)


def test_a_long_header_is_shown_in_part(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught:
        plan(tmp_path, {"a.csv": b"x" * 10_000 + b",\x1b[31m\n"}, ("id",))
    assert len(caught.value.message) < 400


def test_a_column_that_no_file_has_is_a_warning_and_one_that_some_have_is_none(tmp_path: Path) -> None:
    heads = {"a.csv": b"Order ID,customer\n", "b.csv": b"customer,note\r\n", "c.csv": b""}
    got = plan(tmp_path, heads, ("order_id", "customer", "note", "zone"))
    assert got.missing == (("order_id", 2), ("note", 1), ("zone", 2))
    assert got.nowhere == ("order_id", "zone")
    null = "which is null in every record; the header of a.csv is `Order ID,customer`"
    assert got.warnings == (
        f"W210: no file has the declared column 'order_id', {null}; did you mean `Order ID`?",
        f"W210: no file has the declared column 'zone', {null}",
    )
    assert plan(tmp_path, {"a.csv": b""}, ("id",)).warnings == ()


def test_undeclared_columns_can_be_dropped(tmp_path: Path) -> None:
    got = plan(tmp_path, {"a.csv": b"id,x\n", "b.csv": b"y,id\n"}, ("id",), OnUnmapped.DROP)
    assert (got.undeclared, got.dropped) == ((), ("x", "y"))
    assert got.files[1].columns == FileColumns(2, (1,), ())


def test_undeclared_columns_can_be_rejected_by_the_header_alone(tmp_path: Path) -> None:
    message = r"b\.csv: the file has an undeclared column 'tip' \(expected id\)"
    with pytest.raises(FormatError, match=message) as caught:
        plan(tmp_path, {"a.csv": b"id\n", "b.csv": b"id,tip"}, ("id",), OnUnmapped.REJECT)
    assert caught.value.code == "E217"


def test_a_header_must_not_name_a_column_twice(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"a\.csv: the header names column 'v' twice, at positions 2 and 4"):
        plan(tmp_path, {"a.csv": b"id,v,w,v\n"}, ("id",))


def test_files_without_a_record_are_skipped_and_fix_nothing(tmp_path: Path) -> None:
    got = plan(tmp_path, {"a.csv": b"", "b.csv": b"\xef\xbb\xbf\r\n", "c.csv": b"id\n"}, ("id", "v"))
    assert got.skipped == ("a.csv", "b.csv")
    assert [file.file.name for file in got.files] == ["c.csv"]
    assert got.missing == (("v", 1),)


def test_an_undecodable_header_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"a\.csv: the header is no utf-8 text"):
        plan(tmp_path, {"a.csv": b"id,br\xff\n1,2\n"}, ("id",))


def test_an_open_quote_in_the_header_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="never closed"):
        plan(tmp_path, {"a.csv": b'id,"v\n1,2\n'}, ("id",))


def test_a_header_may_be_long_and_have_line_breaks(tmp_path: Path) -> None:
    long = "x" * 200_000
    got = plan(tmp_path, {"a.csv": f'id,"a\nb",{long},007\n1,2,3,4\n'.encode()}, ("id",))
    assert got.undeclared == ("a\nb", long, "007")
    assert got.files[0].data_start == len(long) + 14


@pytest.mark.parametrize("missing", ["no.csv", "."])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, missing: str) -> None:
    with pytest.raises(FormatError):
        files.describe(str(tmp_path / missing), missing)
    with pytest.raises(FormatError), files.open_input(InputFile(str(tmp_path / missing), missing, 1)):
        pass


names = st.lists(st.sampled_from(["a", "A", "b", "c", "d", "E"]), unique=True, max_size=6)


@given(declared=names, heads=st.lists(names, min_size=1, max_size=4))
def test_every_plan_covers_every_column_once(declared: list[str], heads: list[list[str]]) -> None:
    tracker = ColumnTracker(declared)
    for number, names in enumerate(heads):
        before = tracker.undeclared
        tracker.see(f"f{number}", names)
        assert tracker.undeclared[: len(before)] == before
    other = ColumnTracker(declared)
    for number, names in enumerate(reversed(heads)):
        other.see(f"f{number}", names)
    assert set(other.undeclared) == set(tracker.undeclared)
    for names in heads:
        plan = tracker.columns(names)
        used = [field for field in (*plan.declared, *plan.undeclared) if field is not None]
        assert sorted(used) == list(range(len(names)))
        assert [names[field].casefold() for field in plan.declared if field is not None] == [
            column.casefold() for column, field in zip(declared, plan.declared, strict=True) if field is not None
        ]


def test_a_path_that_is_no_unicode_is_named(tmp_path: Path) -> None:
    path = f"{tmp_path}/dir\udcff/a.csv"
    for ask in (
        lambda: files.describe(path, "a.csv"),
        lambda: files.open_input(InputFile(path, "a.csv", 1)).__enter__(),
    ):
        with pytest.raises(FormatError, match=r"a\.csv: cannot be read: the path .*dir\\udcff/a\.csv is not UTF-8"):
            ask()


def test_a_compressed_file_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"a\.csv: the file is compressed, .*: `options.compression: gzip`"):
        plan(tmp_path, {"a.csv": gzip.compress(b"id\n1\n")}, ("id",))
    with pytest.raises(FormatError, match=r"a\.csv: the file is compressed in a way that is not read"):
        plan(tmp_path, {"a.csv": b"PK\x03\x04zip"}, ("id",))


def test_the_scan_tells_where_columns_are_from(tmp_path: Path) -> None:
    heads = {"a.csv": b"id,x\n", "b.csv": b"x,y,id\n", "c.csv": b"", "d.csv": b"id,name,z,y\n"}
    assert plan(tmp_path, heads, ("id", "name")).facts() == {
        "files_total": 4,
        "files_skipped_empty": 1,
        "columns_discovered": {"x": "a.csv", "y": "b.csv", "z": "d.csv"},
        "columns_dropped": [],
        "columns_missing": {"name": 2},
        "columns_nowhere": [],
        "schema_version": 4,
    }
    assert plan(tmp_path, heads, ("id", "name"), OnUnmapped.DROP).facts()["columns_dropped"] == ["x", "y", "z"]
    assert plan(tmp_path, {"a.csv": b"id\n"}, ("id",)).facts()["schema_version"] == 1
    assert plan(tmp_path, heads, ("id", "nobody", "name")).facts()["columns_nowhere"] == ["nobody"]


def test_names_that_stand_twice_may_be_numbered(tmp_path: Path) -> None:
    header = b"Menge,Preis,Menge,Menge_2,Menge,,\n"
    with pytest.raises(FormatError, match=r"positions 1 and 3; `options.duplicate_columns: number` .* 'Menge_3'"):
        plan(tmp_path, {"a.csv": header}, ("Preis",))
    (tmp_path / "a.csv").write_bytes(header + b"1,2,3,4,5,6,7\n")
    declared = dict.fromkeys(["Menge", "Menge_2", "Menge_4"], types.INT)
    got = read_csv(tmp_path / "a.csv", header + b"1,2,3,4,5,6,7\n", declared, options=NUMBERED)
    assert got.records == [
        {"Menge": 1, "Menge_2": 4, "Menge_4": 5, "$widened.Preis": "2", "$widened.Menge_3": "3", "$widened.": "6",
         "$widened._2": "7"}
    ]  # fmt: skip


@given(
    st.lists(st.sampled_from(["sep=;", 'a "quote', "", "x,y", "é", "\ufeff", "z" * 40]), max_size=8),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["utf-8", "utf-16", "latin-1"]),
    st.sampled_from([1, 2, 3, 7, 1 << 16]),
)
def test_lines_before_the_header_are_skipped_whatever_is_in_them(
    tmp_path: Path, lines: list[str], end: str, charset: str, size: int
) -> None:
    lines = [line.encode("latin-1", "ignore").decode("latin-1") for line in lines]
    text = end.join([*lines, "a,b", "1,2", "3,4"])
    options = CsvRead(skip_rows=len(lines), encoding=charset)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(head, "_READ_BYTES", size)
        got = read_csv(tmp_path / "in.csv", text.encode(charset), PAIR, options=options, split_bytes=5)
    assert got.records == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_a_file_with_fewer_lines_than_are_skipped_has_nothing(tmp_path: Path) -> None:
    for data in (b"x", b"x\ny", b"x\n\n", b""):
        (tmp_path / "in.csv").write_bytes(data)
        scan = CsvReader(CsvRead(skip_rows=3)).plan(("a",), [files.describe(str(tmp_path / "in.csv"), "in.csv")])
        assert scan.skipped == ("in.csv",)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"PK\x03\x04....[Content_Types].xml", "is an Excel workbook: read it with `type: excel`"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "which is not read: save it as `.xlsx` without a password"),
        (b"%PDF-1.7\n", "is a PDF document"),
        (
            "id,name\n1,x\n".encode("utf-16"),
            "the header is no utf-8 text; it looks like UTF-16: `options.encoding: utf-16`",
        ),
        (b"id,Caf\xe9\n", "no utf-8 text; `options.encoding` names another one, such as `latin-1` or `cp1252`"),
        (b"sep=;\nid;name\n", "`options.skip_rows: 1` and `options.delimiter: ';'`"),
        (b'"sep=;"\nid;name\n', "`options.skip_rows: 1` and `options.delimiter: ';'`"),
        (b'Report of "May\n\nid,name\n1,x\n', "; a header that has them follows: `options.skip_rows: 1`"),
        (b'"Report of May\nid,name\n1,x\n', "to skip lines before it, use `options.skip_rows`"),
    ],
)
def test_what_a_file_is_instead_and_how_to_read_it_is_told(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        plan(tmp_path, {"a.csv": data}, ("id", "name"))
    assert says in str(caught.value)


def test_bytes_that_are_no_text_have_a_hint_in_the_dead_letter(tmp_path: Path) -> None:
    got = read_csv(tmp_path / "in.csv", b"a,b\n1,\xe9\n", PAIR)
    assert got.failures[0][4].endswith("; `options.encoding` names another one, such as `latin-1` or `cp1252`")
