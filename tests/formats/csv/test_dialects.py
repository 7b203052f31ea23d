"""Files with unusual signs, beside a reader that goes sign by sign; whole and in splits of a few bytes."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats import reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.csv import head, rewriting
from spark_jobs.formats.csv.options import CsvRead, Quoting, Ragged
from spark_jobs.formats.csv.read import CsvReader
from spark_jobs.formats.format import Reading
from spark_jobs.formats.splits import SPLIT_BYTES
from spark_jobs.scan import files
from spark_jobs.scan.compression import Compression
from tests.formats.csv.files import Result, read_csv, source_columns

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 3
COLUMNS = dict.fromkeys("abc", types.STRING)
Token = tuple[str, str]


def tokens_of(text: str, options: CsvRead) -> list[Token]:
    """The signs and characters of a text: `end`, `delimiter`, `quote`, `text` that means itself, `escape`."""
    separator, escape = options.record_separator, options.escape_char
    ends = [separator] if separator else ["\r\n", "\n", "\r"]
    signs = [(end, "end") for end in ends]
    signs += [(options.delimiter, "delimiter")] + ([(options.quote_char, "quote")] if options.quote_char else [])
    signs.sort(key=lambda sign: -len(sign[0]))
    found: list[Token] = []
    at = 0
    while at < len(text):
        if escape and text.startswith(escape, at):
            rest = [sign for sign, _ in [(escape, ""), *signs] if text.startswith(sign, at + 1)]
            if rest:
                found.append(("text", rest[0]))
                at += 1 + len(rest[0])
            else:
                found.append(("escape", ""))
                at += 1
            continue
        sign, kind = next(((sign, kind) for sign, kind in signs if text.startswith(sign, at)), (text[at], "character"))
        found.append((kind, sign))
        at += len(sign)
    if separator:
        kept = found[:]
        while kept and kept[-1] in (("character", "\n"), ("character", "\r")):
            kept.pop()
        if not kept or kept[-1][0] == "end":
            found = kept
    return found


def parsed(text: str, options: CsvRead) -> list[list[str]] | None:
    """The records of a text; None where a quote is never closed."""
    tokens = tokens_of(text, options)
    records: list[list[str]] = []
    # A cell is characters, each with whether it stays when blanks around the cell go; quotes stay as empty texts.
    record: list[list[tuple[str, bool]]] = [[]]
    state, is_empty = "start", True
    at = 0

    def ends_here() -> None:
        cells = ["".join(character for character, _ in cell) for cell in map(trimmed, record)]
        nonlocal is_empty
        is_blank = is_empty or (options.trim and len(record) == 1 and not trimmed(record[0]) and not had_quotes)
        if not is_blank:
            records.append((cells + [""] * WIDTH)[:WIDTH])

    def trimmed(cell: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
        if not options.trim:
            return cell
        blanks = {(blank, False) for blank in " \t" if blank != options.delimiter}
        begin, end = 0, len(cell)
        while begin < end and cell[begin] in blanks:
            begin += 1
        while end > begin and cell[end - 1] in blanks:
            end -= 1
        return cell[begin:end]

    had_quotes = False
    while at < len(tokens):
        kind, sign = tokens[at]
        head = tokens[at : at + len(options.comment)]
        if options.comment and is_empty and head == [("character", sign) for sign in options.comment]:
            while at < len(tokens) and tokens[at][0] != "end":
                at += 1
            continue
        at += 1
        if state == "inside":
            if kind != "quote":
                record[-1].append((sign, True))
            elif at < len(tokens) and tokens[at][0] == "quote":
                record[-1].append((sign, True))
                at += 1
            else:
                state = "behind"
        elif kind == "end":
            ends_here()
            record, state, is_empty, had_quotes = [[]], "start", True, False
            continue
        elif kind == "delimiter":
            record.append([])
            state = "start"
        elif kind == "quote" and state == "start":
            state, had_quotes = "inside", True
            record[-1].append(("", True))
        else:
            record[-1].append((sign, kind not in ("character",)))
            if not (options.trim and (kind, sign) in (("character", " "), ("character", "\t")) and state == "start"):
                state = "behind" if state == "behind" else "outside"
        is_empty = False
    if state == "inside":
        return None
    ends_here()
    return records


OPTIONS = st.builds(
    CsvRead,
    delimiter=st.sampled_from([",", "||", "; ", "\t", "¤", "\x1f", "\0"]),
    quote_char=st.sampled_from(['"', "'", "", "þ"]),
    escape_char=st.sampled_from(["", "", "\\", "\0", "^"]),
    record_separator=st.sampled_from(["", "", "\n", "\r", "\r\n", "~", "~\n", "\x1e"]),
    comment=st.sampled_from(["", "", "#", "//"]),
    trim=st.booleans(),
    has_header=st.just(False),
    ragged=st.just(Ragged.BOTH),
).filter(lambda options: not options.problems())


@st.composite
def texts(draw: st.DrawFn) -> tuple[CsvRead, str]:
    options = draw(OPTIONS)
    end = options.record_separator or "\n"
    quote = options.quote_char or '"'
    delimiter, escape, comment = options.delimiter, options.escape_char, options.comment
    pieces = ["a", "é", " ", delimiter, delimiter, quote, quote * 2, f"{quote}x{delimiter}y{quote}"]
    pieces += [end, end, "\n", "\r", end + quote, delimiter + quote, quote + delimiter, f"{quote}u{end}v{quote}"]
    pieces += [escape + sign for sign in (quote, end, delimiter, "z")] if escape else []
    pieces += [end + comment, comment, f"{end}{comment} it{quote}s {delimiter}{quote}{end}"]
    pieces += ["\x1f", "\x1e", "\U0010fffd", "\U0010fffdl", "|", "~"]
    return options, "".join(draw(st.lists(st.sampled_from(pieces), max_size=25)))


@given(texts(), st.sampled_from([1, 4, SPLIT_BYTES]), st.sampled_from([1, 7, 1 << 20]))
def test_records_are_those_of_a_reader_that_goes_sign_by_sign(
    tmp_path_factory: pytest.TempPathFactory, of: tuple[CsvRead, str], split_bytes: int, block_bytes: int
) -> None:
    options, text = of
    expected = parsed(text, options)
    assume(expected is not None)
    made = rewriting.of(options)
    if made is not None:
        assert made.original(made.rewritten(text.encode())) == text.encode()
    path = tmp_path_factory.mktemp("dialects") / "in.csv"
    if not expected:
        return
    found = read_csv(
        path,
        text.encode(),
        COLUMNS,
        options=options,
        split_bytes=split_bytes,
        block_bytes=block_bytes,
        on_unmapped=OnUnmapped.DROP,
    )
    assert not found.failures
    assert [[record[name] for name in "abc"] for record in found.records] == expected


LINES = [b"a,b,c", b'1,"x\ny",2', b"", b"3,4,5", b"a,b,c", b"6,7,8", b"total", b'"of it,', b""]


def cells(result: Result) -> list[list[str]]:
    assert not result.failures
    return [[record[name] for name in "abc"] for record in result.records]


@pytest.mark.parametrize("split_bytes", [1, 5, SPLIT_BYTES])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("way", ["plain", "latin-1", "gzip", "separated"])
def test_last_lines_are_left_out(tmp_path: Path, split_bytes: int, end: bytes, way: str) -> None:
    data = end.join(LINES) + end
    options = CsvRead(skip_footer=3, encoding="latin-1" if way == "latin-1" else "utf-8")
    if way == "separated":
        data, options = data.replace(end, b"~"), CsvRead(skip_footer=3, record_separator="~")
    path = tmp_path / "in.csv"
    if way == "gzip":
        found = read_csv(path, data, COLUMNS, options=options, split_bytes=split_bytes)
        packed = read_packed(tmp_path / "in.csv.gz", data, options)
        assert cells(packed) == cells(found)
    else:
        found = read_csv(path, data, COLUMNS, options=options, split_bytes=split_bytes)
    quoted = "x~y" if way == "separated" and end == b"\n" else "x\ny"
    assert cells(found) == [["1", quoted, "2"], ["3", "4", "5"], ["a", "b", "c"], ["6", "7", "8"]]


def read_packed(path: Path, data: bytes, options: CsvRead) -> Result:
    """The records of a compressed file."""
    path.write_bytes(gzip.compress(data))
    file = replace(files.describe(str(path), path.name), compression=Compression.GZIP)
    reader = CsvReader(options)
    scan = reader.plan(tuple(COLUMNS), [file])
    result = Result()
    for split in splits.plan(scan.files):
        outcome = reading.SplitOutcome()
        for block in reader.read(split, scan.files[0], Reading(source_columns(COLUMNS)), outcome):
            result.add(block, 0)
    return result


@pytest.mark.parametrize("lines", [8, 9, 10_000])
def test_a_footer_may_be_all_that_follows_the_header(tmp_path: Path, lines: int) -> None:
    found = read_csv(tmp_path / "in.csv", b"\n".join(LINES), COLUMNS, options=CsvRead(skip_footer=lines), split_bytes=3)
    assert cells(found) == []


@pytest.mark.parametrize("split_bytes", [1, 5, SPLIT_BYTES])
def test_headers_that_repeat_are_no_records(tmp_path: Path, split_bytes: int) -> None:
    data = b'a,b,c\nx,y,z\n1,2,3\na,b,c\nx,y,z\n"\na,b,c\n",2,3\na,b,c,\nx,y,z'
    options = CsvRead(header_rows=2, skip_repeated_header=True, columns=tuple("abc"), ragged=Ragged.CUT)
    found = read_csv(tmp_path / "in.csv", data, COLUMNS, options=options, split_bytes=split_bytes)
    assert cells(found) == [["1", "2", "3"], ["\na,b,c\n", "2", "3"], ["a", "b", "c"]]
    assert found.rows == [0, 1, 2]


@pytest.mark.parametrize(
    ("header", "options", "names"),
    [
        (b"id, May,May \n,net,gross\n", CsvRead(header_rows=2), ("id", "May_net", "May_gross")),
        (b"x,x,x\n", CsvRead(columns=("a", "b")), ("a", "b", "x")),
        (b"x\n", CsvRead(columns=("a", "b")), ("a", "b")),
        (b"\n", CsvRead(columns=("a", "b"), has_header=False), ("a", "b")),
        (b"# x\n a ; 'b;' \n", CsvRead("; ", "'", comment="#", trim=True), ("a", "b;")),
        (b"# x\n a ; 'b; ' \n", CsvRead(";", "'", comment="#", trim=True), ("a", "b; ")),
    ],
)
def test_names_of_columns(tmp_path: Path, header: bytes, options: CsvRead, names: tuple[str, ...]) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(header + b"1;2\n")
    found = head.read(files.describe(str(path), path.name), options, ())
    assert found is not None
    assert found.names[: len(names)] == names


def test_dead_letters_show_what_the_file_has(tmp_path: Path) -> None:
    options = CsvRead("||", "'", "\\", "~", quotes=Quoting.STRICT)
    data = b"a||b~1||2\\||3||4~'x'y||'\\''~\xff\xfe||\\~~5||6"
    columns = {"a": types.STRING, "b": types.STRING}
    found = read_csv(tmp_path / "in.csv", data, columns, options=options, split_bytes=4)
    assert found.records == [{"a": "5", "b": "6"}]
    assert [(row, value) for row, _, value, *_ in found.failures] == [
        (0, "1||2\\||3||4"),
        (1, "'x'y||'\\''"),
        (2, "\ufffd||\\~"),
    ]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (CsvRead(delimiter=""), "delimiter"),
        (CsvRead(delimiter=r"\t"), "delimiter"),
        (CsvRead(delimiter="a\n"), "delimiter"),
        (CsvRead(record_separator=r"\r\n"), "record_separator"),
        (CsvRead(record_separator=","), "record_separator"),
        (CsvRead(quote_char="''"), "quote_char"),
        (CsvRead(quote_char=","), "quote_char"),
        (CsvRead(escape_char="n"), "escape_char"),
        (CsvRead(delimiter='"|"'), "delimiter"),
        (CsvRead(comment="#,"), "comment"),
        (CsvRead(has_header=False, header_rows=2), "header_rows"),
        (CsvRead(has_header=False, skip_repeated_header=True), "skip_repeated_header"),
        (CsvRead(columns=("a", "a")), "columns"),
    ],
)
def test_signs_that_cannot_be_told_apart_are_refused(options: CsvRead, key: str) -> None:
    assert [found for found, _ in options.problems()] == [key]
