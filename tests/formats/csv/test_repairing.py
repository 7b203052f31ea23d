"""`quotes: repair`: quotes that nobody escaped are text, well-formed files are read as ever, however they are cut."""

from __future__ import annotations

import csv
import io
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.csv import quotes, repairing
from spark_jobs.formats.csv.options import CsvRead, Quoting, Ragged
from tests.formats.csv.files import Result, read_csv

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPAIR = CsvRead(quotes=Quoting.REPAIR)
THREE = {"a": types.STRING, "b": types.STRING, "c": types.STRING}
#: What makes texts with all sorts of quotes.
PIECES = ["a", "é", " ", ",", ",", '"', '"', '""', '"x"', ',"y,z",', ',""', "\n", "\r\n", '"\n', '\n"']


class Dripping:
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._stream = io.BytesIO(data)
        self._size = size

    def read(self, size: int, /) -> bytes:
        return self._stream.read(min(size, self._size))


def repaired(text: str, size: int = 1 << 20, dialect: quotes.Dialect | None = None, width: int = 0) -> str:
    stream = repairing.Repaired(Dripping(text.encode(), size), dialect or quotes.Dialect(), b"~", width)
    parts = []
    while part := stream.read(1 << 20):
        parts.append(part)
    return b"".join(parts).decode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('1,"He said "hi, you" to me"\n', '1,"He said ~hi, you~ to me"\n'),
        ('"12" pipe",5\n', '"12~ pipe",5\n'),
        ('1,"a,2,"Boots, x",5\n', '1,~a,2,"Boots, x",5\n'),
        ('1,""text more","x"\n', '1,"~text more","x"\n'),
        ('x,"\n13,a,"B, c",1\n', 'x,~\n13,a,"B, c",1\n'),
        ('1,"abc\n2,de\n', "1,~abc\n2,de\n"),
        # Text follows a closing quote: nothing says where such a cell would end.
        ('1,"John" Smith\n2,"Mary" J\n', '1,~John" Smith\n2,~Mary" J\n'),
        ('""a,"",c\n', '~"a,"",c\n'),
        ('5" pipe,"x"\n', '5" pipe,"x"\n'),
    ],
)
def test_quotes_that_nobody_escaped_are_found(text: str, found: str) -> None:
    assert repaired(text) == found


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_cell_of_several_lines_goes_on_over_lines_that_are_no_records(size: int) -> None:
    text = '1,"He called.\nPlease "urgently, now" call back!\nBye",x\n2,"a "b\n3,c,d\n'
    assert repaired(text, size, width=3) == '1,"He called.\nPlease ~urgently, now~ call back!\nBye",x\n2,~a "b\n3,c,d\n'


def test_blanks_and_comments_are_respected() -> None:
    trimming = quotes.Dialect(has_blanks=True)
    assert repaired('1, "a "b" c" , 2\n', dialect=trimming) == '1, "a ~b~ c" , 2\n'
    commented = quotes.Dialect(comment=b"#")
    assert repaired('# "never closed\n1,"a "b" c"\n', dialect=commented) == '# "never closed\n1,"a ~b~ c"\n'
    assert repaired('# x,"y\n1,"a "b" c"\n', dialect=commented) == '# x,"y\n1,"a ~b~ c"\n'


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.integers(1, 9), st.integers(0, 3))
@example('x,"\n13,a,"B, c",1\n', 3, 3)
@example('""a\nb,""c"",d\n', 4, 2)
@example(',"y,z",","y,z",\n', 1, 0)
def test_it_does_not_depend_on_how_a_file_is_cut(text: str, size: int, width: int) -> None:
    assert repaired(text, size, width=width) == repaired(text, width=width)


@given(st.lists(st.lists(st.text('a", \n', max_size=5), min_size=3, max_size=3), min_size=1, max_size=6))
@example([['"', '""', "a"], ["", '",', '\n"']])
def test_what_is_well_formed_stays(rows: list[list[str]]) -> None:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    assert repaired(written.getvalue()) == written.getvalue()


def test_records_are_read_counted_and_told(tmp_path: Path) -> None:
    data = b'a,b,c\n1,"He said "hi, you" to me",x\n2,"fine",y\n3,"open,"z"\n4,"one",more,"than "three""\n'
    got = read_csv(tmp_path / "r.csv", data, THREE, options=REPAIR, split_bytes=9, on_unmapped=OnUnmapped.DROP)
    assert [record["b"] for record in got.records] == ['He said "hi, you" to me', "fine", '"open']
    (failure,) = got.failures
    assert failure[0] == 3
    # The record as the file has it.
    assert failure[2] == '4,"one",more,"than "three""'


def told(path: Path, data: bytes, options: CsvRead) -> Iterator[tuple[list[int], str]]:
    seen: list[tuple[list[int], str]] = []
    add = Result.add

    def added(result: Result, block: object, offset: int) -> None:
        affected = getattr(block, "repaired", None)
        if affected is not None:
            seen.append((affected.rows.tolist(), affected.first))
        add(result, block, offset)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Result, "add", added)
        read_csv(path, data, THREE, options=options, on_unmapped=OnUnmapped.DROP)
    return iter(seen)


@pytest.mark.parametrize("ragged", list(Ragged))
def test_what_is_told_are_the_records_that_are_read(tmp_path: Path, ragged: Ragged) -> None:
    data = b'a,b,c\n1,"x "y" z",\xff\n2,"q "r" s",t\n3,"u "v" w"\n4,b,c\n5,"k "l" m",n\n'
    options = CsvRead(quotes=Quoting.REPAIR, ragged=ragged)
    places = [1, 2, 4] if ragged.pads else [1, 4]
    assert list(told(tmp_path / "t.csv", data, options)) == [(places, '2,"q "r" s",t')]


@pytest.mark.parametrize("signs", [{"delimiter": "||"}, {"record_separator": "~"}, {"escape_char": "\\"}])
def test_other_signs_are_no_hindrance(tmp_path: Path, signs: dict[str, str]) -> None:
    delimiter, end = signs.get("delimiter", ","), signs.get("record_separator", "\n")
    data = "".join(line.replace(",", delimiter) + end for line in ("a,b,c", '1,"x "y" z",2'))
    got = read_csv(
        tmp_path / "s.csv", data.encode(), THREE, options=CsvRead(quotes=Quoting.REPAIR, **signs),  # type: ignore[arg-type]
        on_unmapped=OnUnmapped.DROP,
    )  # fmt: skip
    assert got.records == [{"a": "1", "b": 'x "y" z', "c": "2"}]


@pytest.mark.parametrize("line", ['""a,', '"a\nb,""x"",\n', 'a,""b', '"a"",', '"a\n'])
def test_hostile_quotes_take_linear_time(line: str) -> None:
    def seconds(count: int) -> float:
        began = time.process_time()
        repaired(line * count, width=3)
        return time.process_time() - began

    assert seconds(40_000) < 40 * max(seconds(4_000), 0.005)
