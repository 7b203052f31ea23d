from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.cxl.failure import Category
from spark_jobs.formats import reading, registry, splits
from spark_jobs.formats.edifact.options import EdifactRead
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.scan import files
from tests.formats.interchange_files import LETTERS, Record, Segment, read, record

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 4
HEADER = b"UNB+UNOA:1+A+B+240101:1+R1'"
SMALL = HEADER + b"UNH+1+ORDERS'BGM+a'UNT+3+1'UNZ+1+R1'"
#: Element separator, release character and terminator.
SIGNS = st.sampled_from(["+?'", "#!~", "+ '", "|\\\n", "*^\x1d", "+?\r", ":?'"])
ELEMENTS = st.text(st.sampled_from("ab+?'#!~|\\*^:. \x1d\x00é日"), max_size=4)


@dataclass
class Interchange:
    """An interchange: its delimiters, and the messages with their types."""

    signs: str
    messages: list[tuple[str, list[Segment]]]
    between: str

    @property
    def records(self) -> list[Record]:
        found: list[Record] = []
        for number, (kind, body) in enumerate(self.messages):
            reference = f"m{number}"
            opening = ("UNH", [reference, kind] if kind else [reference])
            for tag, elements in (opening, *body):
                found.append(record(tag, reference, kind or None, elements, WIDTH))
        return found

    @property
    def text(self) -> str:
        separator, release, terminator = self.signs
        segments: list[Segment] = [("UNB", ["UNOA:1", "A", "B", "1:2", "", "ref+1"])]
        for number, (kind, body) in enumerate(self.messages):
            segments += [("UNH", [f"m{number}", kind]), *body, ("UNT", [str(len(body) + 2), f"m{number}"])]
        segments.append(("UNZ", [f" {len(self.messages):03} ", "ref+1"]))
        start = "" if self.signs == "+?'" else f"UNA:{separator}.{release} {terminator}"
        return start + "".join(self._written(tag, elements) for tag, elements in segments)

    def _written(self, tag: str, elements: list[str]) -> str:
        return self.signs[0].join([tag, *map(self._escaped, elements)]) + self.signs[2] + self.between

    def _escaped(self, element: str) -> str:
        release = self.signs[1]
        if release == " ":
            return "".join(character for character in element if character not in self.signs)
        return "".join(release + character if character in self.signs else character for character in element)


@st.composite
def interchanges(draw: st.DrawFn) -> Interchange:
    signs = draw(SIGNS)
    bodies = st.lists(st.tuples(LETTERS, st.lists(ELEMENTS, max_size=WIDTH)), max_size=4)
    kinds = st.sampled_from(["ORDERS:D:96A", "X", ""])
    messages = draw(st.lists(st.tuples(kinds, bodies), max_size=3))
    if signs[1] == " ":
        for _, body in messages:
            for _, elements in body:
                elements[:] = ["".join(c for c in element if c not in signs) for element in elements]
        messages = [(kind.replace(signs[0], ""), body) for kind, body in messages]
    return Interchange(signs, messages, draw(st.sampled_from(["", "\n", "\r\n", "\n\n\r"])))


@given(
    found=st.lists(interchanges(), min_size=1, max_size=3),
    block_bytes=st.integers(1, 300),
    mark=st.sampled_from(["", "\ufeff", "\r\n"]),
)
def test_every_segment_of_every_message_is_a_record(
    found: list[Interchange], block_bytes: int, mark: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = mark + "".join(each.text for each in found)
    result = read(
        "edifact", tmp_path_factory.getbasetemp() / "in", text.encode(), block_bytes=block_bytes, max_elements=WIDTH
    )
    assert result.problem is None
    assert result.records == [each for one in found for each in one.records]


@pytest.mark.thorough
def test_any_broken_byte_ends_the_run_or_leaves_other_records_and_does_so_whatever_the_blocks(tmp_path: Path) -> None:
    data = b"UNA:#.! ~UNB#UNOA:1#A#B#1#R1~UNH#1#T~FTX#a!#b!!#!~~UNT#3#1~\r\nUNZ#1#R1~" + SMALL
    whole = read("edifact", tmp_path / "in", data, max_elements=3)
    assert whole.problem is None
    told = set()
    for place in range(len(data)):
        for other in (b"", bytes([data[place] ^ 1]), (b"'", b"~", b"#", b"\xff", b"\n")[place % 5]):
            changed = data[:place] + other + data[place + 1 :]
            result = read("edifact", tmp_path / "in", changed, max_elements=3)
            assert result.problem is None or result.problem.startswith("in: broken EDIFACT: segment ")
            assert result.problem or len(result.records) == len(whole.records)
            in_pieces = read("edifact", tmp_path / "in", changed, max_elements=3, block_bytes=5)
            assert in_pieces == result
            told.add((result.problem or "").rpartition(": ")[2])
    assert len(told) > 15
    for end in range(1, len(data)):
        result = read("edifact", tmp_path / "in", data[:end])
        is_whole = data[:end].endswith(b"UNZ#1#R1~")
        assert (result.problem is None) == is_whole, end


BROKEN = [
    (b"\r\n", "segment 1 at byte 2: the file has no interchange: no UNB segment was found"),
    (b"ISA*00*", "segment 1 at byte 0: expected UNB or UNA, found 'ISA'"),
    (b" " + SMALL, "segment 1 at byte 0: expected UNB or UNA, found ' UN'"),
    (b"UNA:+.", "segment 1 at byte 0: the file ends within UNA: it is truncated"),
    (b"UNA:a.? '" + SMALL, "segment 1 at byte 0: 'a' cannot be a delimiter"),
    (b"UNA:+.+ '" + SMALL, "segment 1 at byte 0: '+' cannot be a delimiter"),
    (HEADER, "segment 2 at byte 27: the file ends without UNZ: it is truncated"),
    (HEADER + b"\n", "segment 2 at byte 27: the file ends without UNZ: it is truncated"),
    (HEADER + b"UNH+1+T?'", "segment 2 at byte 27: the file ends within the segment: it is truncated"),
    (HEADER * 2, "segment 2 (UNB) at byte 27: the interchange before it has no UNZ"),
    (HEADER + b"BGM+1'", "segment 2 (BGM) at byte 27: the segment is outside of a message, which UNH opens"),
    (HEADER + b"UNG+1'", "segment 2 (UNG) at byte 27: functional groups (UNG and UNE) are not supported"),
    (HEADER + b"UNT+1+1'", "segment 2 (UNT) at byte 27: no message is open"),
    (HEADER + b"UNH+1'UNH+2'", "segment 3 (UNH) at byte 33: the message before it has no UNT"),
    (HEADER + b"UNH+1'UNZ+1+R1'", "segment 3 (UNZ) at byte 33: the message before it has no UNT"),
    (HEADER + b"UNH+1'UNT++1'", "segment 3 (UNT) at byte 33: the count of segments from UNH to UNT is '', which is not "
     "a number; there are 2"),
    (HEADER + b"UNH+1'\nUNT+3+1'", "segment 3 (UNT) at byte 34: the count of segments from UNH to UNT is 3, but there "
     "are 2"),
    (HEADER + b"UNH+1'UNT+2+2'", "segment 3 (UNT) at byte 33: the reference of the message is '2', but '1' was opened"),
    (HEADER + b"UNZ+1+R1'", "segment 2 (UNZ) at byte 27: the count of messages is 1, but there are 0"),
    (HEADER + b"UNZ+0+R'", "segment 2 (UNZ) at byte 27: the reference of the interchange is 'R', but 'R1' was opened"),
    (SMALL + b"BGM+1'", "segment 6 at byte 63: expected UNB or UNA, found 'BGM'"),
    (SMALL + b"\n\x1a", "segment 6 at byte 64: expected UNB or UNA, found '\\x1a'"),
    (HEADER + b"UNH+1''", "segment 3 at byte 33: the segment has no tag"),
    (HEADER + b"UNH+1'+a'", "segment 3 at byte 33: the segment has no tag"),
    (HEADER + b"UNH+1' B1M+1'", "segment 3 at byte 34: the segment has to begin with a tag of three letters, and no "
     "'B1M'"),
    (HEADER + b"UNH+1'B\nGM+1'", "segment 3 at byte 33: the segment has to begin with a tag of three letters, and no "
     "'B\\nGM'"),
    (HEADER + b"UNH+1'BGM+\xff'", "segment 3 at byte 33: the segment cannot be decoded in the file's encoding"),
    (HEADER + b"UNH+1'BGM+1+2+3+4+5'", "segment 3 (BGM) at byte 33: the segment has 5 elements, and max_elements is 4"),
    (HEADER + b"UNH+1'BGM+" + b"x" * 70_000, "segment 3 at byte 33: the segment has no end within 65536 bytes"),
    (HEADER + b"UNH+1'BGM+" + b"x" * 65_533 + b"'", "segment 3 (BGM) at byte 33: the segment is longer than 65536 "
     "bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "problem"), BROKEN)
def test_a_broken_file_names_the_segment_and_where_it_is(data: bytes, problem: str, tmp_path: Path) -> None:
    for block_bytes in (64, 1 << 20):
        result = read("edifact", tmp_path / "in", data, block_bytes=block_bytes, max_elements=WIDTH)
        assert result.problem == f"in: broken EDIFACT: {problem}"
        assert len(result.records) == (2 if data.startswith(SMALL) else b"UNH+1'" in data)


def test_records_before_a_broken_place_are_there_and_those_behind_the_first_ones_do_not_count(tmp_path: Path) -> None:
    assert len(read("edifact", tmp_path / "in", SMALL + b"?").records) == 2


def test_an_interchange_without_reference_has_none_to_repeat(tmp_path: Path) -> None:
    result = read("edifact", tmp_path / "in", b"UNB+UNOA:1+A+B+1'UNZ+0+whatever'")
    assert result.problem is None


def test_a_file_of_zero_bytes_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"")
    reader = registry.named("edifact").reader(EdifactRead())
    scan = reader.plan(("seg_id",), [files.describe(str(tmp_path / "in"), "in")])
    assert (scan.files, scan.skipped) == ((), ("in",))


def test_other_encodings_are_read_by_their_text(tmp_path: Path) -> None:
    text = SMALL.decode().replace("BGM+a", "BGM+é")
    for charset in ("latin-1", "utf-16", "utf-16-le"):
        result = read("edifact", tmp_path / "in", text.encode(charset), encoding=charset, max_elements=2)
        assert result.records[-1] == ["BGM", "1", "ORDERS", "é", None]


def test_a_message_may_be_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    body = b"".join(b"LIN+%d+??%d'\n" % (number, number) for number in range(60_000))
    data = HEADER + b"UNH+1+T'" + body + b"UNT+60002+1'UNZ+1+R1'"
    result = read("edifact", tmp_path / "in", data, max_elements=2)
    assert result.problem is None
    assert result.records[1:] == [["LIN", "1", "T", str(n), f"?{n}"] for n in range(60_000)]


def test_fields_are_converted_and_checked_like_those_of_other_formats(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(HEADER + b"UNH+1+T'QTY+5+x'QTY+?'+y'QTY++y'QTY+7'UNT+6+1'UNZ+1+R1'")
    reader = registry.named("edifact").reader(EdifactRead(max_elements=2))
    file = files.describe(str(tmp_path / "in"), "in")
    columns = (SourceColumn("E01", types.INT), SourceColumn("e02", types.STRING, required=True))
    scan = reader.plan([column.name for column in columns], [file])
    assert scan.undeclared == ("seg_id", "msg_ref", "msg_type")
    (split,) = splits.plan(scan.files)
    wanted = Reading(columns, scan.undeclared, failure_texts=True)
    (block,) = reader.read(split, scan.files[0], wanted, reading.SplitOutcome())
    assert block.failed_rows is not None
    assert block.batch.to_pylist() == [
        {"E01": 1, "e02": "T", "$widened.seg_id": "UNH", "$widened.msg_ref": "1", "$widened.msg_type": "T"},
        {"E01": 5, "e02": "x", "$widened.seg_id": "QTY", "$widened.msg_ref": "1", "$widened.msg_type": "T"},
        {"E01": None, "e02": "y", "$widened.seg_id": "QTY", "$widened.msg_ref": "1", "$widened.msg_type": "T"},
    ]
    told = [(failed.row, failed.failure.category, failed.failure.field) for failed in block.failures]
    assert told == [(2, Category.TYPE_COERCION, "E01"), (4, Category.MISSING_REQUIRED, "e02")]
    assert block.failed_rows.to_pylist() == [{"E01": "'", "e02": "y"}, {"E01": "7", "e02": None}]
