"""Records with too few or too many cells, and quotes where none belongs, beside a reader that goes byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats import reading, splits
from spark_jobs.formats.csv import parser
from spark_jobs.formats.csv.options import CsvRead, Quoting, Ragged
from spark_jobs.formats.csv.read import CsvReader
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.scan import files
from tests.formats.csv.files import read_csv

if TYPE_CHECKING:
    from pathlib import Path

PIECES = ["a", "é", " ", ",", ",", '"', '""', '"x"', ',"y,z",', ',""', "\n", "\n", "\r\n", '"\n']


def parsed(text: str) -> list[tuple[list[str], str | None]]:
    """The records of a text whose quotes are all closed, and what `quotes: strict` has against each."""
    found: list[tuple[list[str], str | None]] = []
    cells, cell, problem = [""], "start", None
    at = 0
    while at < len(text):
        character = text[at]
        if cell == "inside":
            if character != '"':
                cells[-1] += character
            elif text[at + 1 : at + 2] == '"':
                cells[-1] += '"'
                at += 1
            else:
                cell = "behind"
        elif character in "\r\n":
            if cells != [""] or cell != "start":
                found.append((cells, problem))
            cells, cell, problem = [""], "start", None
        elif character == ",":
            cells, cell = [*cells, ""], "start"
        elif character == '"' and cell == "start":
            cell = "inside"
        else:
            if cell == "behind":
                problem = problem or "text follows a closing quote"
            elif character == '"':
                problem = problem or "a cell that is not quoted contains a quote"
            cells[-1] += character
            # Text behind a closing quote is text like any other.
            cell = "outside" if cell != "behind" else "behind"
        at += 1
    assert cell != "inside"
    if cells != [""] or cell != "start":
        found.append((cells, problem))
    return found


def is_closed(text: str) -> bool:
    try:
        parsed(text)
    except AssertionError:
        return False
    return True


@given(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join).filter(is_closed),
    st.integers(1, 3),
    st.sampled_from(Ragged),
    st.sampled_from([Quoting.LENIENT, Quoting.STRICT]),
    st.sampled_from([1, 4, 1 << 20]),
    st.sampled_from([1, 3, 1 << 20]),
)
@example(',""""', 1, Ragged.CUT, Quoting.LENIENT, 1, 1)
@example(',x\n"",\n', 1, Ragged.CUT, Quoting.LENIENT, 1 << 20, 1 << 20)
@example('a,"",",",""\n"a"b,c,"""",', 2, Ragged.BOTH, Quoting.STRICT, 1 << 20, 1 << 20)
def test_records_are_filled_and_cut_as_the_options_say(
    tmp_path: Path, text: str, width: int, ragged: Ragged, quoting: Quoting, split_bytes: int, block_bytes: int
) -> None:
    names = [f"c{at}" for at in range(width)]
    options = CsvRead(ragged=ragged, quotes=quoting)
    data = (",".join(names) + "\n" + text).encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parser, "_CAREFUL_BYTES", block_bytes)
        got = read_csv(
            tmp_path / "in.csv", data, dict.fromkeys(names, types.STRING), options=options, split_bytes=split_bytes,
            block_bytes=block_bytes,
        )  # fmt: skip
    good, bad, lost = expected(text, width, ragged, quoting)
    assert [list(record.values()) for record in got.records] == list(good.values())
    assert got.rows == list(good)
    assert {row: detail for row, _, _, _, detail in got.failures} == bad
    assert cut_rows(tmp_path / "in.csv", names, options) == lost


def expected(
    text: str, width: int, ragged: Ragged, quoting: Quoting
) -> tuple[dict[int, list[str]], dict[int, str], list[int]]:
    good: dict[int, list[str]] = {}
    bad: dict[int, str] = {}
    lost: list[int] = []
    for row, (cells, problem) in enumerate(parsed(text)):
        if quoting is Quoting.STRICT and problem:
            bad[row] = f"malformed record: {problem} (`quotes: strict`)"
        elif len(cells) == width or (ragged.pads if len(cells) < width else ragged.cuts):
            good[row] = [*cells, *[""] * width][:width]
            if any(cells[width:]):
                lost.append(row)
        else:
            bad[row] = f"malformed record: record has {len(cells)} fields, expected {width}"
    return good, bad, lost


def cut_rows(path: Path, names: list[str], options: CsvRead) -> list[int]:
    """The records of a file that lost something, as the blocks tell."""
    reader = CsvReader(options)
    scan = reader.plan(names, [files.describe(str(path), path.name)])
    wanted = Reading(tuple(SourceColumn(name, types.STRING) for name in names))
    found: list[int] = []
    for split in splits.plan(scan.files):
        for block in reader.read(split, scan.files[0], wanted, reading.SplitOutcome()):
            found += [] if block.surplus is None else block.surplus.rows.tolist()
    return found


def test_many_short_lines_of_a_wide_file_take_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    parse = parser.CsvParser._parse
    monkeypatch.setattr(
        parser.CsvParser, "_parse", lambda self, data, mark: sizes.append(len(data)) or parse(self, data, mark)
    )
    names = [f"c{at}" for at in range(500)]
    data = (",".join(names) + "\n" + "x\n" * 5_000).encode()
    declared: dict[str, Any] = {"c0": types.STRING, "c499": types.INT}
    got = read_csv(tmp_path / "in.csv", data, declared, options=CsvRead(ragged=Ragged.PAD), block_bytes=1 << 16)
    assert [record["c499"] for record in got.records] == [None] * 5_000
    assert max(sizes) < 1 << 18


def test_a_header_with_a_stray_quote_is_refused_where_quotes_are_strict(tmp_path: Path) -> None:
    with pytest.raises(files.FormatError, match=r"the header has a quote where none belongs.*`a\"x,b`"):
        read_csv(tmp_path / "in.csv", b'a"x,b\n1,2\n', {"b": types.INT}, options=CsvRead(quotes=Quoting.STRICT))
