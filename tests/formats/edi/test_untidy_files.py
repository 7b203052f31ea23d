"""Interchanges as partners really send them: indented, wrapped, with acknowledgments, with counts that do not fit."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.formats.edi.settings import Trailers
from spark_jobs.formats.edi.wrapped import UnwrappedStream, Wrap
from tests.formats.edifact import test_reading_edifact as edifact
from tests.formats.interchange_files import Result, read
from tests.formats.x12 import test_reading_x12 as x12

if TYPE_CHECKING:
    from pathlib import Path

X12 = x12.ISA + x12.GS + b"ST*837*01~HL*1**20~NM1*85*2*A  B~REF*EI*12~SE*5*01~GE*1*7~IEA*1*000000001~"
EDIFACT = edifact.HEADER + b"UNH+1+ORDERS'BGM+220+A?'B'NAD+BY+ C'FTX+a?\nb'UNT+5+1'UNZ+1+R1'"
FILES = {"x12": (X12, b"~"), "edifact": (EDIFACT, b"'")}
BOTH = pytest.mark.parametrize("name", list(FILES))
BLOCKS = st.integers(1, 200) | st.just(1 << 20)


def plain(name: str, path: Path) -> Result:
    result = read(name, path, FILES[name][0], max_elements=4)
    assert result.problem is None
    assert result.records
    return result


@BOTH
@given(data=st.data(), blocks=BLOCKS)
def test_white_space_before_tags_is_passed_over(
    name: str, data: st.DataObject, blocks: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "in"
    whole, terminator = FILES[name]
    segments = whole.replace(b"?'", b"?\0").split(terminator)
    spaces = st.text(st.sampled_from(" \t\r\n"), max_size=6).map(str.encode)
    text = b"".join(part.replace(b"?\0", b"?'") + terminator + data.draw(spaces) for part in segments[:-1])
    assert read(name, path, text, block_bytes=blocks, max_elements=4) == plain(name, path)


@BOTH
@pytest.mark.parametrize("size", [15, 16, 17, 1000, 65_535, 65_536, 200_000])
def test_white_space_may_be_long(name: str, size: int, tmp_path: Path) -> None:
    whole, terminator = FILES[name]
    head, _, end = whole.rpartition(terminator)[0].rpartition(terminator)
    text = head + terminator + b" " * size + b"\n" * size + end + terminator
    for blocks in (4096, 1 << 20):
        assert read(name, tmp_path / "in", text, block_bytes=blocks, max_elements=4) == plain(name, tmp_path / "plain")
    short = head + terminator + end + b"\r\n" * min(size, 30_000) + terminator
    assert read(name, tmp_path / "in", short, max_elements=4) == plain(name, tmp_path / "plain")


@BOTH
@given(width=st.integers(1, 150), blocks=BLOCKS, end=st.sampled_from([b"\n", b"\r\n", b"\r"]), is_ended=st.booleans())
@example(width=104, blocks=1 << 20, end=b"\n", is_ended=True)
def test_line_ends_of_wrapped_files_are_taken_out(
    name: str, width: int, blocks: int, end: bytes, is_ended: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "in"
    whole = FILES[name][0].replace(b"a?\nb", b"ab")
    lines = [whole[at : at + width] for at in range(0, len(whole), width)]
    text = end.join(lines) + (end if is_ended else b"")
    expected = read(name, path, whole, max_elements=4)
    if width == 1 or (len(lines) == 2 and whole[:width].count(FILES[name][1])):
        return  # of two lines none tells that they are of one width
    assert read(name, path, text, block_bytes=blocks, max_elements=4) == expected
    assert read(name, path, b"\xef\xbb\xbf" + text, block_bytes=blocks, max_elements=4) == expected
    assert read(name, path, text, block_bytes=blocks, max_elements=4, encoding="latin-1") == expected


@given(data=st.binary(max_size=60), line=st.integers(1, 9), end=st.integers(1, 2), size=st.integers(1, 20))
def test_an_unwrapped_stream_is_the_text_of_its_lines_however_it_is_read(
    data: bytes, line: int, end: int, size: int
) -> None:
    whole = b"\r\n"[:end].join(data[at : at + line] for at in range(0, len(data), line))
    stream = UnwrappedStream(io.BytesIO(whole), Wrap(line, end))
    pieces = []
    while piece := stream.read(size):
        pieces.append(piece)
    assert b"".join(pieces) == data
    for place in range(len(data)):
        assert whole[Wrap(line, end).offset(place)] == data[place]


def test_a_broken_segment_of_a_wrapped_file_is_where_it_stands_in_the_file(tmp_path: Path) -> None:
    whole = X12.replace(b"SE*5", b"SE*6")
    text = b"\r\n".join(whole[at : at + 80] for at in range(0, len(whole), 80))
    problem = read("x12", tmp_path / "in", text, max_elements=4).problem or ""
    assert f"segment 7 (SE) at byte {text.index(b'SE*6')}: " in problem


def test_line_ends_that_stand_anywhere_are_data_or_break_a_tag(tmp_path: Path) -> None:
    """One line of another length shows that no width is meant."""
    text = X12.replace(b"A  B", b"A\nB")
    assert ["NM1", "01", "837", "85", "2", "A\nB", None] in read("x12", tmp_path / "in", text, max_elements=4).records
    lines = [X12[at : at + 80] for at in range(0, len(X12), 80)]
    result = read("x12", tmp_path / "in", b"\n".join([*lines[:-1], lines[-1][:9], lines[-1][9:]]), max_elements=4)
    assert result.problem is not None


@pytest.mark.parametrize("filler", [0, 1])
def test_two_line_ends_at_equal_distances_are_those_of_a_wrapped_file(filler: int, tmp_path: Path) -> None:
    """Nothing in such a file says whether its author meant them; a byte more between them does."""
    head = edifact.HEADER + b"UNH+1+ORDERS'FTX+AAI+one"
    between = b"two'FTX+AAI+"
    between += b"x" * (len(head) - len(between) + filler)
    text = head + b"\n" + between + b"\n" + b"end'UNT+4+1'UNZ+1+R1'"
    result = read("edifact", tmp_path / "in", text, max_elements=4)
    assert result.problem is None
    texts = [
        cell for record in result.records for cell in record if cell and ("two" in str(cell) or "end" in str(cell))
    ]
    rest = between.removeprefix(b"two'FTX+AAI+").decode()
    assert texts == (["one\ntwo", f"{rest}\nend"] if filler else ["onetwo", f"{rest}end"])


@pytest.mark.parametrize("beside", [b"TA1*000000001*240101*1200*A*000~", b"ISB*1*2~", b"ISB*1~ISE*2~TA1*1~\nTA1*2~"])
def test_acknowledgments_and_the_like_stand_between_header_and_groups(beside: bytes, tmp_path: Path) -> None:
    text = X12.replace(x12.ISA, x12.ISA + beside)
    assert read("x12", tmp_path / "in", text, max_elements=4) == plain("x12", tmp_path / "in")


@pytest.mark.parametrize("count", [b"0", b"1"])
def test_an_acknowledgment_may_stand_alone(count: bytes, tmp_path: Path) -> None:
    alone = x12.ISA + b"TA1*1*1*1*A*000~IEA*" + count + b"*000000001~"
    assert read("x12", tmp_path / "in", alone) == Result([])
    both = read("x12", tmp_path / "in", alone + b"\n" + X12, max_elements=4)
    assert both == plain("x12", tmp_path / "in")


@BOTH
def test_blanks_may_stand_before_the_line_end_behind_a_header(name: str, tmp_path: Path) -> None:
    whole, terminator = FILES[name]
    text = whole.replace(terminator, terminator + b"  \r\n", 1)
    assert read(name, tmp_path / "in", text, max_elements=4) == plain(name, tmp_path / "in")


@BOTH
@pytest.mark.parametrize(
    "behind", [b"junk", b"\x1a", b"\0\0", b"~", b"'", b"\n BGM+1'", b"IEA*1*000000001~", b"UNZ+1+R1'"]
)
def test_nothing_but_interchanges_and_white_space_may_follow_on_one(name: str, behind: bytes, tmp_path: Path) -> None:
    whole = FILES[name][0]
    for blocks in (1, 40, 1 << 20):
        for packed in (lambda data: data, gzip.compress):
            path = tmp_path / ("in" if packed(b"") == b"" else "in.gz")
            found = read(name, path, packed(whole + behind), block_bytes=blocks, max_elements=4)
            assert f"at byte {len(whole + behind) - len(behind.lstrip())}: expected " in (found.problem or "")
            good = read(name, path, packed(whole + b" \r\n\n\t"), block_bytes=blocks, max_elements=4)
            assert good == plain(name, tmp_path / "plain")


@pytest.mark.parametrize("data", ["", "x", "\n", "a~b*c\r\n", "~~SE*3*01~", "\u00e9\u00ff*~", "BIN*3*abc~", " "])
@pytest.mark.parametrize("charset", ["latin-1", "utf-8"])
def test_a_binary_element_has_the_length_that_it_says_whatever_is_in_it(
    data: str, charset: str, tmp_path: Path
) -> None:
    size = len(data.encode(charset))
    for begin, tag in ((f"BIN*{size}*", "BIN"), (f"\n BDS*ZZ*{size}*", "BDS")):
        text = X12.decode().replace("NM1*85*2*A  B", begin + data).encode(charset)
        for blocks in (1, 33, 1 << 20):
            result = read("x12", tmp_path / "in", text, block_bytes=blocks, max_elements=4, encoding=charset)
            assert result.problem is None
            found = result.records[2]
            assert (found[0], found[4 if tag == "BIN" else 5]) == (tag, data or None)


@pytest.mark.parametrize("said", ["3", "5", "", "x", "-1"])
def test_a_binary_element_of_another_length_than_it_says_breaks_the_file(said: str, tmp_path: Path) -> None:
    text = X12.replace(b"NM1*85*2*A  B", f"BIN*{said}*abcd".encode())
    place = f"segment 5 (BIN) at byte {text.index(b'BIN')}"
    says = f"{place}: element 1 says that {said or 'no'} bytes follow, but there are 4"
    for blocks in (1, 1 << 20):
        found = read("x12", tmp_path / "in", text, block_bytes=blocks, max_elements=4)
        assert (found.problem or "").endswith(says)


WRONG = [
    ("x12", b"SE*5*01", b"SE*6*01", 7, "SE", "the count of segments from ST to SE is 6, but there are 5"),
    ("x12", b"SE*5*01", b"SE*5*2", 7, "SE", "the control number of the transaction set is '2', but '01' was opened"),
    ("x12", b"GE*1*7", b"GE*2*7", 8, "GE", "the count of transaction sets is 2, but there are 1"),
    ("x12", b"*01~HL", b"*01 ~HL", 7, "SE", "the control number of the transaction set is '01', but '01 ' was opened"),
    ("x12", b"IEA*1", b"IEA*x", 9, "IEA", "the count of functional groups is 'x', which is not a number; there are 1"),
    ("edifact", b"UNT+5", b"UNT+", 6, "UNT", "the count of segments from UNH to UNT is '', which is not a number; "
     "there are 5"),
    ("edifact", b"1+R1'", b"1+R2'", 7, "UNZ", "the reference of the interchange is 'R2', but 'R1' was opened"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "right", "wrong", "number", "tag", "says"), WRONG)
def test_a_trailer_that_does_not_fit_ends_the_run_or_is_a_warning(
    name: str, right: bytes, wrong: bytes, number: int, tag: str, says: str, tmp_path: Path
) -> None:
    head, behind, end = FILES[name][0].rpartition(right)
    assert behind
    text = head + wrong + end
    place = f"segment {number} ({tag}) at byte {text.rindex(tag.encode() + text[3:4])}"
    assert f"{place}: {says}" in (read(name, tmp_path / "in", text, max_elements=4).problem or "")
    for blocks in (1, 1 << 20):
        result = read(name, tmp_path / "in", text, block_bytes=blocks, max_elements=4, trailers=Trailers.WARN)
        assert result.problem is None
        assert len(result.records) == len(plain(name, tmp_path / "plain").records)
        assert f"in: {place}: {says}; it is read on" in result.warnings


def test_warnings_of_one_file_are_bounded(tmp_path: Path) -> None:
    result = read("x12", tmp_path / "in", X12.replace(b"SE*5", b"SE*6") * 50, max_elements=4, trailers=Trailers.WARN)
    assert len(result.warnings) == 21
    assert result.warnings[-1] == "in: 30 more counts and references do not fit"


def test_an_envelope_out_of_order_ends_the_run_whatever_trailers_say(tmp_path: Path) -> None:
    text = X12.replace(b"SE*5*01~", b"")
    assert "has no SE" in (read("x12", tmp_path / "in", text, max_elements=4, trailers=Trailers.WARN).problem or "")


@pytest.mark.parametrize(
    ("named", "charset", "text"), [("UNOC", "latin-1", "é"), ("UNOE", "iso8859-5", "я"), ("UNOF", "iso8859-7", "λ")]
)
def test_the_character_set_of_a_header_is_used_where_the_file_is_no_utf_8(
    named: str, charset: str, text: str, tmp_path: Path
) -> None:
    whole = EDIFACT.decode().replace("UNOA", named).replace("+ C", f"+ {text}")
    for advice in ("", "UNA:+.? '"):
        for encoding in (charset, "utf-8", "utf-8-sig"):
            result = read("edifact", tmp_path / "in", (advice + whole).encode(encoding), max_elements=4)
            assert result.problem is None
            assert result.records[2][4] == f" {text}"
    wrong = read("edifact", tmp_path / "in", whole.encode(charset), max_elements=4, encoding="utf-8")
    assert "cannot be decoded in the" in (wrong.problem or "")
