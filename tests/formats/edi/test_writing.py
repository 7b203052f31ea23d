"""Interchanges that are written: the same in any parts, as the rules say, and read again by us and by others."""

from __future__ import annotations

import io
import itertools
import warnings
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.formats import format
from tests.formats import interchange_files
from tests.formats.edi.written import EDIFACT, X12, Record, Spelling, in_parts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BOTH = pytest.mark.parametrize("spelling", [EDIFACT, X12], ids=["edifact", "x12"])
#: X12 escapes nothing, and line ends around segments are none of theirs.
CELLS = (
    st.none()
    | st.text(st.sampled_from("ab:^é日 "), max_size=3)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="*~\r\n"), max_size=5)
)
RELEASED = CELLS | st.text(max_size=5) | st.text(st.sampled_from("a?+'*~\n:"), max_size=4).map(lambda text: text + "z")


@st.composite
def records(draw: st.DrawFn, spelling: Spelling, *, whole: bool = False) -> list[Record]:
    """Records in any order, or those of whole messages as a reader gives them."""
    cells = RELEASED if spelling is EDIFACT else CELLS
    tags = ["BGM", "LIN", "FTX"]
    found: list[Record] = []
    for _ in range(draw(st.integers(0, 5))):
        reference = draw(st.sampled_from(["1", "2", "A1"] if whole else [None, "1", "0001", "2"]))
        kind = draw(st.sampled_from(["ORDERS:D", "INVOIC"] if whole else [None, "ORDERS:D"]))
        start = [spelling.opening] if whole else []
        for tag in [
            *start,
            *draw(st.lists(st.sampled_from(tags if whole else [*tags, *spelling.services]), max_size=4)),
        ]:
            elements = [None if tag == spelling.opening and at < 2 else draw(cells) for at in range(3)]
            found.append({
                "seg_id": tag, spelling.reference: reference, spelling.kind: kind,
                **dict(zip(("e01", "e02", "e04"), elements, strict=True)),
            })  # fmt: skip
    return found


def cut(draw: st.DrawFn, found: Sequence[Record]) -> list[list[list[Record]]]:
    """Parts with batches, none of them empty."""
    borders = sorted(draw(st.sets(st.integers(0, len(found)))) | {0, len(found)})
    batches = [list(found[start:end]) for start, end in itertools.pairwise(borders)]
    parts: list[list[list[Record]]] = [[]]
    for batch in batches:
        if draw(st.booleans()):
            parts.append([])
        parts[-1].append(batch)
    return parts


@BOTH
@given(data=st.data())
def test_parts_are_joined_to_what_the_records_would_give_one_by_one(spelling: Spelling, data: st.DataObject) -> None:
    found = data.draw(records(spelling))
    parts = cut(data.draw, found)  # type: ignore[arg-type]
    assert in_parts(spelling, parts).decode() == spelling.text(found)


@BOTH
@given(data=st.data())
def test_what_is_read_is_what_was_written(
    spelling: Spelling, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = data.draw(records(spelling, whole=True))
    newline = data.draw(st.booleans())
    encoding = data.draw(st.sampled_from(["utf-8", "utf-16"]))
    text = in_parts(spelling, cut(data.draw, found), segment_newline=newline, encoding=encoding)  # type: ignore[arg-type]
    path = tmp_path_factory.mktemp("written") / "in"
    read = interchange_files.read(spelling.name, path, text, max_elements=4, encoding=encoding)
    assert read.problem is None
    assert read.records == [as_read(spelling, record) for record in found]


def as_read(spelling: Spelling, record: Record) -> list[str | None]:
    reference, kind = record[spelling.reference], record[spelling.kind]
    cells = [record["e01"], record["e02"], None, record["e04"]]
    if record["seg_id"] == spelling.opening:
        cells[:2] = [reference, kind] if spelling is EDIFACT else [kind, reference]
    return [record["seg_id"], reference, kind, *(cell or None for cell in cells)]


@BOTH
def test_what_opens_a_message_keeps_its_further_elements(spelling: Spelling, tmp_path: Path) -> None:
    """As `ST03`, without which a 005010 set is none."""
    opening = ["0001", "837"] if spelling is EDIFACT else ["837", "0001"]
    first: Record = {"seg_id": spelling.opening, spelling.reference: "0001", spelling.kind: "837", "e04": "D"}
    records: list[Record] = [{**first, "e01": None, "e02": None}, {**first, spelling.reference: "0002"}]
    text = in_parts(spelling, [[records]]).decode()
    between = spelling.separator
    assert between.join([spelling.opening, *opening, "", "D"]) + spelling.terminator in text
    read = interchange_files.read(spelling.name, tmp_path / "in", text.encode(), max_elements=4)
    assert [record[3:] for record in read.records] == [[*opening, None, "D"], [*_second(opening), None, "D"]]


def _second(opening: list[str]) -> list[str]:
    return [one.replace("0001", "0002") for one in opening]


@BOTH
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_end_at_the_end_of_a_segment_is_kept_or_refused(spelling: Spelling, end: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    record: Record = {
        "seg_id": "FTX", spelling.reference: "1", spelling.kind: "T", "e01": "a" + end, "e02": None, "e04": None
    }  # fmt: skip
    if spelling is X12:
        with pytest.raises(format.UnwritableFile, match="segment FTX: the last element ends with a line end"):
            in_parts(spelling, [[[record]]])
        return
    read = interchange_files.read("edifact", tmp_path / "in", in_parts(spelling, [[[record]]]), max_elements=4)
    assert read.records[1][3] == "a" + end


@pytest.mark.filterwarnings("ignore:segments.xml not found")  # of service segments, which have no table there
def test_pydifact_reads_what_we_write() -> None:
    interchanges = pytest.importorskip("pydifact.segmentcollection")
    found = sample(EDIFACT, "D?'+x")
    read = interchanges.Interchange.from_str(in_parts(EDIFACT, [[found[:2]], [found[2:]]]).decode())
    messages = list(read.get_messages())
    assert [(each.reference_number, [segment.tag for segment in each.segments]) for each in messages] == [
        ("1", ["BGM", "LIN"]), ("2", ["BGM"])
    ]  # fmt: skip
    assert messages[0].segments[0].elements == ["D?'+x", "b"]
    assert read.control_reference == "R1"


def test_pyx12_reads_what_we_write() -> None:
    x12file = pytest.importorskip("pyx12.x12file")
    found = sample(X12, "D?'+x")
    reader = x12file.X12Reader(io.StringIO(in_parts(X12, [[found[:2]], [found[2:]]]).decode()))
    tags = [segment.get_seg_id() for segment in reader]
    assert tags == ["ISA", "GS", "ST", "BGM", "LIN", "SE", "ST", "BGM", "SE", "GE", "IEA"]
    reader.cleanup()
    assert reader.pop_errors() == []


#: Neither parser takes line ends in elements, and both cut off components without text at their ends.
PLAIN = st.none() | st.text(st.sampled_from("aé日^ \"&,;/?+'|"), min_size=1, max_size=5) | st.just("D:96A:UN")


@given(data=st.data())
def test_pydifact_reads_whatever_we_write(data: st.DataObject) -> None:
    parsers = pytest.importorskip("pydifact.parser")
    found = data.draw(messages(EDIFACT))
    newline, advice = data.draw(st.booleans()), data.draw(st.booleans())
    text = in_parts(EDIFACT, cut(data.draw, found), segment_newline=newline, write_una=advice)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of empty segments, and of directories that it does not have
        segments = [
            [each.tag, *(":".join(one) if isinstance(one, list) else one for one in each.elements)]
            for each in parsers.Parser().parse(text.decode())
            if each.tag != "UNA"
        ]
    assert [each for each in segments if each[0] not in EDIFACT.services] == as_segments(found)
    closing = [each for each in segments if each[0] in ("UNT", "UNZ")]
    assert [each[0] for each in closing] == ["UNT"] * (len(closing) - 1) + ["UNZ"]
    assert closing[-1][1] == str(len(closing) - 1)
    assert sum(int(each[1]) - 2 for each in closing[:-1]) == len(as_segments(found))


@given(data=st.data())
def test_pyx12_reads_whatever_we_write(data: st.DataObject) -> None:
    x12file = pytest.importorskip("pyx12.x12file")
    found = data.draw(messages(X12))
    text = in_parts(X12, cut(data.draw, found), segment_newline=data.draw(st.booleans()))  # type: ignore[arg-type]
    reader = x12file.X12Reader(io.StringIO(text.decode()))
    segments = [
        [each.get_seg_id(), *(each.get_value(f"{place + 1:02}") or "" for place in range(len(each)))] for each in reader
    ]
    reader.cleanup()
    # It asks for numbers that no two sets share, and says of segments without elements that they are empty.
    told = [each for each in reader.pop_errors() if "unique" not in each[2] and "empty" not in each[2].lower()]
    assert told == []
    assert [each for each in segments if each[0] not in X12.services] == as_segments(found)


@st.composite
def messages(draw: st.DrawFn, spelling: Spelling) -> list[Record]:
    """Records of whole messages, at least one."""
    found: list[Record] = []
    for number in range(1, draw(st.integers(2, 5))):
        shared: Record = {spelling.reference: f"{number:04}", spelling.kind: "ORDERS:D:96A:UN"}
        found.append({"seg_id": spelling.opening, **shared, "e01": None, "e02": None, "e04": None})
        found += [
            {"seg_id": tag, **shared, "e01": draw(PLAIN), "e02": draw(PLAIN), "e04": draw(PLAIN)}
            for tag in draw(st.lists(st.sampled_from(["BGM", "LIN", "FTX"]), max_size=4))
        ]
    return found


def as_segments(found: Sequence[Record]) -> list[list[str]]:
    """The segments of records, as long as they have elements."""
    made = []
    for record in found:
        if record["seg_id"] not in (EDIFACT.opening, X12.opening):
            cells = [record["seg_id"], record["e01"], record["e02"], None, record["e04"]]
            while not cells[-1]:
                cells.pop()
            made.append([cell or "" for cell in cells])
    return made


def sample(spelling: Spelling, text: str) -> list[Record]:
    nothing: Record = {spelling.kind: "ORDERS:D", "e01": None, "e02": None, "e04": None}
    return [
        {**nothing, "seg_id": "BGM", spelling.reference: "1", "e01": text, "e02": "b"},
        {**nothing, "seg_id": "LIN", spelling.reference: "1", "e04": "c"},
        {**nothing, "seg_id": spelling.opening, spelling.reference: "2"},
        {**nothing, "seg_id": "BGM", spelling.reference: "2", "e01": "z"},
    ]
