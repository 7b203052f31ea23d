"""What depends on where it stands in a CSV file: byte order marks, the first record, records of the longest length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats.csv import whole_records
from spark_jobs.formats.csv.options import CsvRead
from spark_jobs.scan.files import FormatError
from tests.few import FEW
from tests.formats.csv.files import Result, read_csv

if TYPE_CHECKING:
    from pathlib import Path

PAIR = {"k": types.STRING, "n": types.INT}
MARK = "\ufeff"
UNICODE = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-7", "gb18030"]
BARE = CsvRead(has_header=False)


# ---- U+FEFF --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", UNICODE)
@pytest.mark.parametrize("has_header", [True, False])
@pytest.mark.parametrize(("split_bytes", "block_bytes"), [(1 << 20, 1 << 20), (4, 1 << 20), (4, 1), (1 << 20, 3)])
def test_only_the_mark_at_the_start_of_a_file_goes(
    tmp_path: Path, encoding: str, has_header: bool, split_bytes: int, block_bytes: int
) -> None:
    keys = [MARK + "a", MARK, MARK + MARK + "b", f'"{MARK}c"', MARK + '"d"', "e"]
    text = ("k,n\n" if has_header else "") + "".join(f"{key},{row}\n" for row, key in enumerate(keys))
    has_mark = encoding not in ("utf-7", "gb18030")
    written = (
        text.encode(encoding)
        if encoding in ("utf-16", "utf-32", "utf-8-sig")
        else (MARK * has_mark + text).encode(encoding)
    )
    expected = [MARK + "a", MARK, MARK + MARK + "b", MARK + "c", MARK + '"d"', "e"]
    if not has_mark and not has_header:
        expected[0] = "a"  # such files have no mark of their own: what they begin with counts as one
    options = CsvRead(has_header=has_header, encoding=encoding)
    got = read_csv(
        tmp_path / "in.csv", written, PAIR, options=options, split_bytes=split_bytes, block_bytes=block_bytes
    )
    assert [record["k"] for record in got.records] == expected
    assert got.failures == []


def test_a_number_behind_the_character_is_no_number(tmp_path: Path) -> None:
    for split_bytes in (3, 1 << 20):
        got = read_csv(tmp_path / "in.csv", f"n,k\n{MARK}5,a\n6,b\n".encode(), PAIR, split_bytes=split_bytes)
        assert [record["n"] for record in got.records] == [6]
        assert [failure[:3] for failure in got.failures] == [(0, "n", MARK + "5")]


def test_a_header_keeps_its_second_mark(tmp_path: Path) -> None:
    got = read_csv(tmp_path / "in.csv", f"{MARK}{MARK}k,n\na,1\n".encode(), PAIR)
    assert got.records == [{"k": None, "n": 1, f"$widened.{MARK}k": "a"}]


# ---- files without header ------------------------------------------------------------------------------------------


def headerless(tmp_path: Path, data: bytes, declared: dict[str, types.Type] = PAIR) -> Result:
    whole = read_csv(tmp_path / "in.csv", data, declared, options=BARE)
    cut = read_csv(tmp_path / "in.csv", data, declared, options=BARE, split_bytes=3, block_bytes=2)
    assert (cut.records, cut.rows, cut.failures) == (whole.records, whole.rows, whole.failures)
    return whole


@pytest.mark.parametrize(
    ("first", "detail"),
    [
        (b"a\xff,1", "bytes are no utf-8 text"),
        (b"a", "record has 1 fields, expected 2"),
        (b"\xff", "record has 1 fields, expected 2"),
    ],
)
def test_a_broken_first_record_is_a_record_like_the_others(tmp_path: Path, first: bytes, detail: str) -> None:
    got = headerless(tmp_path, first + b"\nb,2\nc,3\n")
    assert [record["k"] for record in got.records] == ["b", "c"]
    assert [(row, why.partition(";")[0]) for row, _, _, _, why in got.failures] == [(0, f"malformed record: {detail}")]


def test_an_open_quote_in_the_first_record_makes_one_malformed_record(tmp_path: Path) -> None:
    got = headerless(tmp_path, b'a,"1\nb,2\nc,3\n')
    assert (got.records, len(got.failures), got.count) == ([], 1, 1)


def test_the_first_whole_record_may_be_wider_than_what_is_declared(tmp_path: Path) -> None:
    got = headerless(tmp_path, b"a\n\xff,1,x,y\nb,2,more\nc\nd,4,end\ne,5\n")
    assert got.records == [{"k": "b", "n": 2, "$widened.col_2": "more"}, {"k": "d", "n": 4, "$widened.col_2": "end"}]
    assert [failure[0] for failure in got.failures] == [0, 1, 3, 5]


@pytest.mark.parametrize("second", ["b,2", "b,2,x,y"])
def test_a_first_record_that_is_wider_than_the_second_does_not_decide(tmp_path: Path, second: str) -> None:
    got = headerless(tmp_path, f"a,1,\n{second}\nc,3\nd,4\n".encode())
    assert [record["k"] for record in got.records] == ["b"] * (second == "b,2") + ["c", "d"]
    assert all(set(record) == {"k", "n"} for record in got.records)


def test_the_only_record_decides_how_wide_a_file_is(tmp_path: Path) -> None:
    assert headerless(tmp_path, b"a,1,more\n").records == [{"k": "a", "n": 1, "$widened.col_2": "more"}]


def test_where_nothing_is_declared_the_first_whole_record_gives_the_width(tmp_path: Path) -> None:
    got = headerless(tmp_path, b"\xff\n1,2\n3\n4,5\n", {})
    assert [list(record.values()) for record in got.records] == [["1", "2"], ["4", "5"]]
    assert [failure[0] for failure in got.failures] == [0, 2]


@pytest.mark.thorough
def test_a_file_of_broken_records_alone_can_be_read(tmp_path: Path) -> None:
    assert len(headerless(tmp_path, b"\xff\n\xfe\n", {}).failures) == 2
    assert len(headerless(tmp_path, b"x\n" * 1100).failures) == 1100


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\r\n\n"])
def test_without_records_there_is_nothing_to_read(tmp_path: Path, data: bytes) -> None:
    assert headerless(tmp_path, data).count == 0


# ---- the longest record --------------------------------------------------------------------------------------------


@pytest.mark.thorough
@FEW
@example(
    lengths=[3, 3, 3, 10, 61, 10, 10],
    end="\r\n",
    is_quoted=False,
    is_ended=False,
    split_bytes=100,
    block_bytes=30,
)
@example(lengths=[62, 3, 59], end="\n", is_quoted=True, is_ended=False, split_bytes=100, block_bytes=1)
@given(
    lengths=st.lists(st.sampled_from([3, 10, 59, 60, 61, 62, 63, 119, 120, 121, 130, 300]), min_size=1, max_size=8),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    is_quoted=st.booleans(),
    is_ended=st.booleans(),
    split_bytes=st.sampled_from([7, 50, 100, 1 << 20]),
    block_bytes=st.sampled_from([1, 7, 30, 64, 1 << 20]),
)
def test_a_record_is_too_long_by_its_own_length_wherever_it_stands(
    tmp_path: Path, lengths: list[int], end: str, is_quoted: bool, is_ended: bool, split_bytes: int, block_bytes: int
) -> None:
    def record(row: int, length: int) -> str:
        fill = length - len(f"{row % 10},")
        text = '"' + "\n" * (fill - 2) + '"' if is_quoted and fill > 1 else "x" * fill
        return f"{row % 10},{text}"

    text = "n,k" + end + end.join(record(row, length) for row, length in enumerate(lengths)) + end * is_ended
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_records, "MOST_RECORD_BYTES", 60)
        got = read_csv(tmp_path / "in.csv", text.encode(), PAIR, split_bytes=split_bytes, block_bytes=block_bytes)
    assert got.rows == [row for row, length in enumerate(lengths) if length <= 60]
    assert [failure[0] for failure in got.failures] == [row for row, length in enumerate(lengths) if length > 60]


def test_a_header_has_the_same_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_records, "MOST_RECORD_BYTES", 60)
    most = "n," + "x" * 58
    assert read_csv(tmp_path / "in.csv", f"{most}\r\n1,2\n".encode(), PAIR).records[0]["n"] == 1
    for header in (most + "x\r\n1,2\n", "n," + "x" * 300_000, 'n,"' + "x\n" * 300_000):
        with pytest.raises(FormatError, match=r"in\.csv: the header .* longer than"):
            read_csv(tmp_path / "in.csv", header.encode(), PAIR)
