from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.interchange_files import TAGS, Record, Segment, read, record

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 3
#: Element separator, component separator and terminator.
SIGNS = st.sampled_from(["*:~", "|^\n", "\x1d\x1f\x1e", "*>\r", "^:!"])
ELEMENTS = st.text(st.sampled_from("ab?+'*:~|^!é日 "), max_size=4)


def header(signs: str = "*:~", control: str = "000000001") -> str:
    return signs[0].join(
        ["ISA", "00", " " * 10, "00", " " * 10, "ZZ", "A".ljust(15), "ZZ", "B".ljust(15), "240501", "0900", "U",
         "00401", control, "0", "P", signs[1] + signs[2]]
    )  # fmt: skip


ISA = header().encode()
GS = b"GS*PO*A*B*1*1*7*X*1~"
HELP = "a header has 16 elements; the last has one character, and the character after it ends segments: correct it"
SMALL = ISA + GS + b"ST*850*01~REF*a~SE*3*01~GE*1*7~IEA*1*000000001~"
BARE = b"ISA*00**00**ZZ*A*ZZ*B*240501*0900*U*00401*000000001*0*P*:~"


@dataclass
class Interchange:
    """An interchange: its delimiters, and the groups of transaction sets with their types."""

    signs: str
    groups: list[list[tuple[str, list[Segment]]]]
    between: str

    @property
    def records(self) -> list[Record]:
        found: list[Record] = []
        for sets in self.groups:
            for number, (kind, body) in enumerate(sets):
                for tag, elements in (("ST", [kind, f"{number:04}"]), *body):
                    found.append(record(tag, f"{number:04}", kind, elements, WIDTH))
        return found

    @property
    def text(self) -> str:
        segments: list[Segment] = []
        for place, sets in enumerate(self.groups):
            segments.append(("GS", ["PO", "A", "B", "1", "1", str(place)]))
            for number, (kind, body) in enumerate(sets):
                segments += [("ST", [kind, f"{number:04}"]), *body, ("SE", [str(len(body) + 2), f"{number:04}"])]
            segments.append(("GE", [str(len(sets)), str(place)]))
        segments.append(("IEA", [str(len(self.groups)), "000000001"]))
        written = (self.signs[0].join([tag, *elements]) + self.signs[2] for tag, elements in segments)
        return self.between.join([header(self.signs), *written])


@st.composite
def interchanges(draw: st.DrawFn) -> Interchange:
    signs = draw(SIGNS)
    plain = ELEMENTS.map(lambda text: "".join(c for c in text if c not in signs[0] + signs[2]))
    bodies = st.lists(st.tuples(TAGS, st.lists(plain, max_size=WIDTH)), max_size=4)
    sets = st.lists(st.tuples(st.sampled_from(["850", "837"]), bodies), max_size=3)
    return Interchange(signs, draw(st.lists(sets, max_size=3)), draw(st.sampled_from(["", "\n", "\r\n"])))


@given(
    found=st.lists(interchanges(), min_size=1, max_size=3),
    block_bytes=st.integers(1, 400),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_every_segment_of_every_transaction_set_is_a_record(
    found: list[Interchange], block_bytes: int, mark: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = mark + "".join(each.text for each in found)
    path = tmp_path_factory.getbasetemp() / "in"
    result = read("x12", path, text.encode(), block_bytes=block_bytes, max_elements=WIDTH)
    assert result.problem is None
    assert result.records == [each for one in found for each in one.records]


BROKEN = [
    (b"UNB+1'", "segment 1 at byte 0: expected ISA, found 'UNB'"),
    (b"ISA", "segment 1 at byte 0: the file ends within the ISA header, after 0 of its 16 elements: it is truncated"),
    (ISA[:105], "segment 1 at byte 0: the file ends within the ISA header, after 16 of its 16 elements: it is "
     "truncated"),
    (ISA.replace(b"*U*", b"-U*") + GS[:20].replace(b"*", b"-"), "segment 1 at byte 0: the file ends within the ISA "
     "header, after 15 of its 16 elements: it is truncated"),
    (b"ISA*" + b"x" * 2000, "segment 1 at byte 0: the ISA header has 1 of its 16 elements within 1024 bytes"),
    (ISA[:-1] + b"*", f"segment 1 at byte 0: '*' cannot be a delimiter; {HELP}"),
    (ISA.replace(b"*P*:", b"*P") + GS, f"segment 1 at byte 0: 'O' cannot be a delimiter; {HELP}"),
    (ISA.replace(b"*P*:", b"*P*") + GS, f"segment 1 at byte 0: 'G' cannot be a delimiter; {HELP}"),
    (ISA.replace(b":", b"::") + b"\n" + GS, "segment 1 at byte 0: no segment follows on the ISA header, but "
     f"'~\\nG'; {HELP}"),
    (ISA.replace(b":", b": ") + GS, f"segment 1 at byte 0: no segment follows on the ISA header, but '~GS'; {HELP}"),
    (ISA, "segment 2 at byte 106: the file ends without IEA: it is truncated"),
    (ISA + ISA, "segment 2 (ISA) at byte 106: the interchange before it has no IEA"),
    (ISA + b"TA1*1~", "segment 3 at byte 112: the file ends without IEA: it is truncated"),
    (ISA + b"REF*1~", "segment 2 (REF) at byte 106: the segment is outside of a transaction set, which ST opens"),
    (ISA + GS + b"TA1*1~", "segment 3 (TA1) at byte 126: TA1 stands after ISA, ISB, ISE or TA1, and before the "
     "functional groups"),
    (ISA + GS + b"ST*8*1~ISB*1~", "segment 4 (ISB) at byte 133: the transaction set before it has no SE"),
    (ISA + b"TA1*1~ISB*1~", "segment 3 (ISB) at byte 112: ISB stands after ISA, and before the functional groups"),
    (ISA + b"TA1*1~IEA*2*000000001~", "segment 3 (IEA) at byte 112: the count of functional groups is 2, but there "
     "are 0"),
    (ISA + GS + b"ST*8*1~R*1~", "segment 4 at byte 133: the segment has to begin with a tag of two or three letters or "
     "digits, and no 'R'"),
    (ISA + GS + b"ST*8*1~\n  R\nEF*1~", "segment 4 at byte 136: the segment has to begin with a tag of two or three "
     "letters or digits, and no 'R\\nEF'"),
    (ISA + GS + b"ST*8*1~\0REF*1~", "segment 4 at byte 133: the segment has to begin with a tag of two or three "
     "letters or digits, and no '\\x00REF'"),
    (ISA + GS + b"ST*8*1~\0SE*2*1~", "segment 4 at byte 133: the segment has to begin with a tag of two or three "
     "letters or digits, and no '\\x00SE'"),
    (ISA + GS + "ST*8*1~É1*1~".encode(), "segment 4 at byte 133: the segment has to begin with a tag of two or three "
     "letters or digits, and no 'É1'"),
    (ISA + b"ST*850*1~", "segment 2 (ST) at byte 106: the segment is outside of a functional group, which GS opens"),
    (ISA + b"GE*1*1~", "segment 2 (GE) at byte 106: no functional group is open"),
    (ISA + GS + GS, "segment 3 (GS) at byte 126: the functional group before it has no GE"),
    (ISA + GS + b"SE*1*1~", "segment 3 (SE) at byte 126: no transaction set is open"),
    (ISA + GS + b"IEA*1*000000001~", "segment 3 (IEA) at byte 126: the functional group before it has no GE"),
    (ISA + GS + b"ST*8*1~ST*8*2~", "segment 4 (ST) at byte 133: the transaction set before it has no SE"),
    (ISA + GS + b"ST*8*1~GE*1*7~", "segment 4 (GE) at byte 133: the transaction set before it has no SE"),
    (ISA + GS + b"ST*8*1~SE*3*1~", "segment 4 (SE) at byte 133: the count of segments from ST to SE is 3, but there "
     "are 2"),
    (ISA + GS + b"ST*8*1~SE*2*01~", "segment 4 (SE) at byte 133: the control number of the transaction set is '01', "
     "but '1' was opened"),
    (ISA + GS + b"GE*1*7~", "segment 3 (GE) at byte 126: the count of transaction sets is 1, but there are 0"),
    (ISA + GS + b"GE*0*8~", "segment 3 (GE) at byte 126: the control number of the functional group is '8', but '7' "
     "was opened"),
    (ISA + b"IEA*1*000000001~", "segment 2 (IEA) at byte 106: the count of functional groups is 1, but there are 0"),
    (ISA + b"IEA*x*000000001~", "segment 2 (IEA) at byte 106: the count of functional groups is 'x', which is not "
     "a number; there are 0"),
    (ISA + b"IEA*0*1~", "segment 2 (IEA) at byte 106: the control number of the interchange is '1', but '000000001' "
     "was opened"),
    (SMALL + b"\nREF*late~", "segment 8 at byte 174: expected ISA, found 'REF'"),
    (ISA + GS + b"ST*8*1~~", "segment 4 at byte 133: the segment has no tag"),
    (ISA + GS + b"ST*8*1~REF*\xff~", "segment 4 at byte 133: the segment cannot be decoded in the file's encoding"),
    (ISA + GS + b"ST*8*1~REF*1*2*3*4~", "segment 4 (REF) at byte 133: the segment has 4 elements, and max_elements is "
     "3"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "problem"), BROKEN)
def test_a_broken_file_names_the_segment_and_where_it_is(data: bytes, problem: str, tmp_path: Path) -> None:
    for block_bytes in (7, 1 << 20):
        result = read("x12", tmp_path / "in", data, block_bytes=block_bytes, max_elements=WIDTH)
        assert result.problem == f"in: broken X12: {problem}"


def test_a_file_that_ends_anywhere_is_truncated(tmp_path: Path) -> None:
    for end in range(3, len(SMALL)):
        assert "truncated" in (read("x12", tmp_path / "in", SMALL[:end]).problem or ""), end
    assert read("x12", tmp_path / "in", SMALL + b"\r\n\r\n").problem is None


def test_blank_lines_are_nothing_where_segments_are_lines(tmp_path: Path) -> None:
    data = SMALL.replace(b"~", b"\n").replace(b"REF", b"\r\n\nREF")
    result = read("x12", tmp_path / "in", data, max_elements=2)
    assert result == read("x12", tmp_path / "in", SMALL, max_elements=2)


def test_the_delimiters_are_found_by_the_elements_of_a_header_that_is_not_padded_as_it_should(tmp_path: Path) -> None:
    assert len(BARE) < 100
    for data in (SMALL.replace(b"A              ", b"A"), BARE + SMALL[106:], BARE + b"\r\n" + SMALL[106:]):
        assert read("x12", tmp_path / "in", data) == read("x12", tmp_path / "in", SMALL)
    wide = SMALL.replace(b"A              ", b"A" * 300)
    assert read("x12", tmp_path / "in", wide) == read("x12", tmp_path / "in", SMALL)


def test_a_file_may_be_shorter_than_a_header_of_full_width(tmp_path: Path) -> None:
    result = read("x12", tmp_path / "in", BARE + b"IEA*0*000000001~")
    assert (result.problem, result.records) == (None, [])


def test_a_header_without_its_last_element_is_found_at_the_next_trailer(tmp_path: Path) -> None:
    """The sign of segments is then what separates components, and line ends are what ends segments."""
    data = SMALL.replace(b":~", b"~").replace(b"~", b"~\n")
    problem = read("x12", tmp_path / "in", data).problem or ""
    assert "the control number of the functional group is '7~', but '7' was opened" in problem


def test_many_interchanges_with_changing_delimiters_are_read(tmp_path: Path) -> None:
    other = SMALL.replace(b"*", b"|").replace(b"~", b"!")
    result = read("x12", tmp_path / "in", (SMALL + other) * 100, max_elements=2)
    assert result.problem is None
    assert result.records == [["ST", "01", "850", "850", "01"], ["REF", "01", "850", "a", None]] * 200
