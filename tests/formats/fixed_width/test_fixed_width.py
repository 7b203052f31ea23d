"""Fixed-width files: what is read of them in any splits, what is written, and that the one is the other."""

from __future__ import annotations

import gzip
import math
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.fixed_width import layout as layouts
from spark_jobs.formats.fixed_width.options import FixedWidthRead, FixedWidthWrite, LineSeparator
from spark_jobs.formats.format import Reading, UnwritableFile
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import files
from spark_jobs.scan.compression import Compression
from spark_jobs.scan.files import FormatError
from tests.formats.csv.files import source_columns

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = registry.named("fixed_width")


def layout(*fields: dict[str, Any]) -> Any:
    return (("fields_", tuple(tuple(one.items()) for one in fields)),)


NAMES = layout({"name": "id", "start": 0, "width": 3}, {"name": "text", "start": 3, "width": 4})
DECLARED = {"id": types.INT, "text": types.STRING}


def read(
    path: Path,
    data: bytes,
    declared: dict[str, types.Type] | None = None,
    fields: Any = NAMES,
    *,
    split_bytes: int = 1 << 20,
    block_bytes: int = 1 << 20,
    packing: Compression = Compression.NONE,
    **options: Any,
) -> tuple[list[Any], list[Any]]:
    """The good records as tuples with their places, and the bad ones as (place, detail, value)."""
    path.write_bytes(data if packing is Compression.NONE else gzip.compress(data))
    kinds = DECLARED if declared is None else declared
    reader = FORMAT.reader(FixedWidthRead(**options), layout=fields)
    file = replace(files.describe(str(path), path.name), compression=packing)
    scan = reader.plan(tuple(kinds), [file], OnUnmapped.AUTO_WIDEN)
    wanted = Reading(source_columns(kinds), scan.undeclared, failure_texts=True, block_bytes=block_bytes)
    good, bad, count = [], [], 0
    for split in splits.plan(scan.files, split_bytes):
        outcome, counted = SplitOutcome(), SplitOutcome()
        for block in reader.read(split, scan.files[0], wanted, outcome):
            first = block.first_row
            rows = range(first, first + block.count) if block.rows is None else block.rows.to_pylist()
            records = zip(*(block.batch.column(name).to_pylist() for name in block.batch.schema.names), strict=True)
            good += [(count + row, *record) for row, record in zip(rows, records, strict=True)]
            bad += [(count + one.row, one.failure.detail, one.failure.value) for one in block.failures]
        reader.count(split, scan.files[0], counted)
        assert counted == outcome
        count += outcome.records
    assert len(good) + len(bad) == count
    return good, bad


def write(columns: dict[str, tuple[types.Type, list[Any]]], fields: Any, **options: Any) -> tuple[bytes, list[Any]]:
    schema = Schema(tuple(Column(name, kind) for name, (kind, _) in columns.items()))
    arrays = [values.to_arrow(found, kind) for kind, found in columns.values()]
    writer = FORMAT.writer(schema, FixedWidthWrite(**options), layout=fields)
    encoded = writer.encode(pa.RecordBatch.from_arrays(arrays, names=list(columns)), ends=True)
    if encoded.unfit:
        raise UnwritableFile(encoded.unfit[0].failure.detail)
    data = bytes(encoded.data)
    if encoded.rows:
        assert encoded.ends is not None
        assert encoded.ends[-1] == len(data)
        assert len(encoded.ends) == encoded.rows
    return writer.start + data, [(one.row, one.failure.detail) for one in encoded.failures]


@given(
    lines=st.lists(st.binary(max_size=12).filter(lambda line: not {10, 13}.intersection(line)), max_size=12),
    end=st.sampled_from([b"\n", b"\r\n"]),
    is_ended=st.booleans(),
    split_bytes=st.integers(1, 40),
    block_bytes=st.integers(1, 40),
)
def test_records_do_not_depend_on_splits_and_blocks(
    lines: list[bytes], end: bytes, is_ended: bool, split_bytes: int, block_bytes: int, tmp_path: Path
) -> None:
    data = end.join(lines) + (end if is_ended and lines else b"")
    separator = LineSeparator.CR_LF if end == b"\r\n" else LineSeparator.LF
    whole = read(tmp_path / "in", data, line_separator=separator)
    cut = read(tmp_path / "in", data, line_separator=separator, split_bytes=split_bytes, block_bytes=block_bytes)
    assert cut == whole
    ends = data.count(b"\n")
    records = data.removeprefix(b"\xef\xbb\xbf")
    has_rest = bool(records) and not records.endswith(b"\n")
    assert len(whole[0]) + len(whole[1]) == ends + has_rest


@given(
    records=st.lists(st.tuples(st.integers(0, 999), st.text("abZ é€", max_size=4)), max_size=12),
    separator=st.sampled_from(LineSeparator),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "windows-1252"]),
    split_bytes=st.integers(1, 40),
)
def test_what_was_written_is_read(
    records: list[tuple[int, str]], separator: LineSeparator, encoding: str, split_bytes: int, tmp_path: Path
) -> None:
    texts = [(number, text.strip()) for number, text in records]
    if encoding == "latin-1":
        texts = [(number, text.replace("€", "ä")) for number, text in texts]
    fields = layout({"name": "id", "start": 0, "width": 3}, {"name": "text", "start": 3, "end": 15})
    columns = {"id": (types.INT, [n for n, _ in texts]), "text": (types.STRING, [t for _, t in texts])}
    data, failed = write(columns, fields, line_separator=separator, encoding=encoding)
    assert failed == []
    good, bad = read(
        tmp_path / "in", data, fields=fields, line_separator=separator, encoding=encoding, split_bytes=split_bytes
    )
    assert (good, bad) == ([(row, *record) for row, record in enumerate(texts)], [])


@given(
    before=st.lists(st.binary(max_size=12).filter(lambda line: 10 not in line), max_size=3),
    lines=st.lists(st.binary(max_size=12).filter(lambda line: not {10, 13}.intersection(line)), max_size=6),
    after=st.lists(st.binary(max_size=12).filter(lambda line: 10 not in line), max_size=3),
    is_ended=st.booleans(),
    is_marked=st.booleans(),
    split_bytes=st.integers(1, 40),
)
def test_lines_before_and_after_the_records_are_skipped(
    before: list[bytes],
    lines: list[bytes],
    after: list[bytes],
    is_ended: bool,
    is_marked: bool,
    split_bytes: int,
    tmp_path: Path,
) -> None:
    """However a file is split, and packed."""
    body = b"\n".join([*before, *lines, *after])
    if (before or lines or after) and (is_ended or not body or body.endswith(b"\n")):
        body += b"\n"  # an empty last line is one by its end alone
    data = (b"\xef\xbb\xbf" if is_marked else b"") + body
    records = b"".join(line + b"\n" for line in lines)
    if records.startswith(b"\xef\xbb\xbf"):
        records = b"\xef\xbb\xbf" + records  # a mark there is one only at the beginning of a file
    skipped = {"skip_rows": len(before), "skip_footer": len(after)}
    expected = read(tmp_path / "in", records)
    found = read(tmp_path / "in", data, split_bytes=split_bytes, **skipped)
    packed = read(tmp_path / "in", data, packing=Compression.GZIP, **skipped)
    assert [_places(found), _places(packed)] == [_places(expected)] * 2


def _places(found: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
    good, bad = found
    return good, [(row, value) for row, _, value in bad]


@pytest.mark.parametrize("packing", [Compression.NONE, Compression.GZIP])
def test_a_file_may_have_fewer_lines_than_are_skipped(tmp_path: Path, packing: Compression) -> None:
    data = b"001abcd\n002efgh"
    assert read(tmp_path / "in", data, packing=packing, skip_rows=2) == ([], [])
    assert read(tmp_path / "in", data, packing=packing, skip_footer=3) == ([], [])
    assert read(tmp_path / "in", data, packing=packing, skip_footer=1) == ([(0, 1, "abcd")], [])
    assert read(tmp_path / "in", data, packing=packing, skip_rows=1, skip_footer=1) == ([], [])


def test_records_without_line_ends_have_no_lines_to_skip() -> None:
    options = FixedWidthRead(line_separator=LineSeparator.NONE, skip_rows=1, skip_footer=2)
    assert [key for key, _ in options.problems()] == ["skip_rows", "skip_footer"]


def test_bytes_that_are_no_text_make_a_malformed_record(tmp_path: Path) -> None:
    good, bad = read(tmp_path / "in", b"001ab\xe9\n002abcd\n0\xff3x\n")
    assert good == [(1, 2, "abcd")]
    assert [(row, detail.partition(";")[0]) for row, detail, _ in bad] == [
        (0, "malformed record: bytes are no utf-8 text"),
        (2, "malformed record: bytes are no utf-8 text"),
    ]
    assert bad[0][2] == "001ab\ufffd"


def test_a_line_without_end_is_read_to_its_last_field(tmp_path: Path) -> None:
    data = b"001abcd" + b"x" * 5000 + b"\r\n002efgh\n"
    for separator in ("lf", "cr_lf"):
        got = read(tmp_path / "in", data, line_separator=LineSeparator(separator), block_bytes=16)
        assert got == ([(0, 1, "abcd"), (1, 2, "efgh")], [])


def test_a_file_that_ends_within_a_record_is_broken(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"^in: incomplete record: expected 7 bytes, got 3"):
        read(tmp_path / "in", b"001abcd002", line_separator=LineSeparator.NONE)


def test_files_of_nothing_but_a_mark_have_no_record(tmp_path: Path) -> None:
    assert read(tmp_path / "in", b"\xef\xbb\xbf") == ([], [])
    assert read(tmp_path / "in", b"\xef\xbb\xbf1\n") == ([(0, 1, "")], [])


@pytest.mark.parametrize(("text", "value"), [("y", True), ("N", False), ("Yes", True), ("0", False), (" ", None)])
def test_flags_have_their_letters_too(text: str, value: bool | None, tmp_path: Path) -> None:
    fields = layout({"name": "flag", "start": 0, "width": 3})
    assert read(tmp_path / "in", text.encode() + b"\n", {"flag": types.BOOL}, fields) == ([(0, value)], [])


def test_a_text_that_is_too_long_is_cut_at_a_whole_character_or_ends_the_run() -> None:
    field = {"name": "a", "start": 0, "width": 4}
    columns = {"a": (types.STRING, ["abcé", "xy"])}
    assert write(columns, layout(field)) == (b"abc \nxy  \n", [])
    assert write(columns, layout(field), encoding="latin-1") == ("abcé\nxy  \n".encode("latin-1"), [])
    with pytest.raises(UnwritableFile, match=r"field 'a': value 'abcé' \(5 bytes\) exceeds width 4"):
        write(columns, layout(field | {"truncation": "error"}))
    numbers = {"a": (types.INT, [12345])}
    with pytest.raises(UnwritableFile, match="value '12345'"):
        write(numbers, layout(field))
    assert write(numbers, layout(field | {"truncation": "silent"})) == (b"1234\n", [])


def test_what_has_no_place_in_a_field_fails_alone() -> None:
    columns = {"a": (types.STRING, ["x\ny", "ok"]), "b": (types.ANY, [1, {"k": 1}])}
    fields = layout({"name": "a", "start": 0, "width": 3}, {"name": "b", "start": 3, "width": 2})
    data, failed = write(columns, fields)
    assert data == b""
    assert [row for row, _ in failed] == [0, 1]
    assert write({"a": columns["a"]}, layout({"name": "a", "start": 0, "width": 3}), line_separator=LineSeparator.NONE)


@pytest.mark.parametrize("kind", [types.ANY, types.ARRAY])
def test_an_array_is_not_left_out_of_a_field_without_a_word(kind: types.Type) -> None:
    fields = layout({"name": "a", "start": 0, "width": 3})
    data, failed = write({"a": (kind, [[1, 2], [], None])}, fields)
    assert data == b"   \n"
    assert [row for row, _ in failed] == [0, 1]
    assert "column 'a': an array cannot be written as fixed width; make a record of each element" in failed[0][1]


def test_fields_without_a_column_are_filled_and_columns_without_a_field_left_out() -> None:
    fields = layout({"name": "x", "start": 0, "width": 2, "pad": "-"}, {"name": "a", "start": 2, "width": 1})
    assert write({"a": (types.STRING, ["1"]), "b": (types.INT, [2])}, fields) == (b"--1\n", [])


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"name": "a", "width": 1}, "`start` is missing"),
        ({"name": "a", "start": 1}, "`width` is missing"),
        ({"name": "a", "start": 2, "end": 2}, "`end` must be greater than `start`"),
        ({"name": "a", "start": 0, "width": 1, "pad": "ab"}, "`pad` must be one ASCII character"),
        ({"name": "a", "start": 0, "width": 1, "pad": "é"}, "`pad` must be one ASCII character"),
    ],
)
def test_a_layout_says_where_its_fields_are(field: dict[str, Any], says: str) -> None:
    (problem,) = layouts.problems(layout(field))
    assert problem.startswith("field `a`")
    assert says in problem


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp037"])
def test_places_are_bytes_so_that_encodings_have_ascii(encoding: str) -> None:
    assert [key for key, _ in FixedWidthRead(encoding=encoding).problems()] == ["encoding"]
    assert FixedWidthRead(encoding="gb18030").problems() == []


@pytest.mark.parametrize("encoding", ["hz", "iso2022_jp", "iso2022_kr", "utf-7"])
def test_an_encoding_whose_characters_depend_on_others_has_no_places(encoding: str) -> None:
    ((key, text),) = FixedWidthWrite(encoding=encoding).problems()
    assert (key, "bytes depend on those before them" in text) == ("encoding", True)


@pytest.mark.parametrize(
    ("static", "value", "text", "short"),
    [
        (types.DATE, date(2024, 2, 29), "2024-02-29", "%y%m%d"),
        (types.DATETIME, datetime(2024, 2, 29, 1, 2), "2024-02-29T01:02:00", "%H%M"),
    ],
    ids=str,
)
def test_a_date_that_is_too_long_ends_the_run(static: types.Type, value: date, text: str, short: str) -> None:
    """Cut, it would be another one."""
    columns = {"d": (static, [None, value])}
    field = {"name": "d", "start": 0, "width": len(text)}
    assert write(columns, layout(field)) == (f"{'':{len(text)}}\n{text}\n".encode(), [])
    for width in (len(text) - 1, 8):
        field = {"name": "d", "start": 0, "width": width}
        for more in ({}, {"type": "date"}, {"type": "datetime"}, {"truncation": "error"}):
            with pytest.raises(
                UnwritableFile, match=rf"field 'd': value '{text}' \(\d+ bytes\) exceeds width {width} .*`format`"
            ):
                write(columns, layout(field | more))
        for more in ({"type": "string"}, {"truncation": "warn"}, {"truncation": "silent"}):
            assert write(columns, layout(field | more)) == (f"{'':{width}}\n{text[:width]}\n".encode(), [])
        shown = f"{value:{short}}"
        assert write(columns, layout(field | {"format": short})) == (
            f"{'':{width}}\n{shown:{width}}\n".encode(),
            [],
        )


def test_a_text_in_a_field_of_dates_is_not_cut() -> None:
    field = {"name": "d", "start": 0, "width": 4, "type": "date"}
    with pytest.raises(UnwritableFile, match=r"value '2024-02-29' \(10 bytes\) exceeds width 4"):
        write({"d": (types.ANY, [date(2024, 2, 29)])}, layout(field))


def test_a_value_of_any_kind_is_cut_where_it_is_a_text() -> None:
    field = {"name": "d", "start": 0, "width": 4}
    for value in (date(2024, 2, 29), datetime(2024, 2, 29, 1), 12345, 1.2345):
        with pytest.raises(UnwritableFile, match="exceeds width 4"):
            write({"d": (types.ANY, [value])}, layout(field))
        assert len(write({"d": (types.ANY, [value])}, layout(field | {"truncation": "warn"}))[0]) == 5
    assert write({"d": (types.ANY, ["12345", False, 1])}, layout(field)) == (b"1234\nfals\n1   \n", [])


def test_what_is_cut_is_told_but_where_nobody_wants_to_know() -> None:
    schema = Schema((Column("a", types.STRING), Column("b", types.STRING)))
    fields = [{"name": "a", "width": 3}, {"name": "b", "width": 2, "truncation": "silent"}]
    writer = FORMAT.writer(schema, FixedWidthWrite(), layout=layout(*fields))
    rows = [("abc", "xyz"), ("abcd", "xy\n"), ("abcde", "x"), ("éé", None)]
    batch = pa.RecordBatch.from_pylist([{"a": a, "b": b} for a, b in rows])
    encoded = writer.encode(batch)
    (cut,) = encoded.cuts
    assert cut.text == "field 'a': values cut to its 3 bytes"
    assert cut.values == {2: "abcde", 3: "éé"}
    assert [one.row for one in encoded.failures] == [1]


def test_widths_are_bytes_of_the_encoding(tmp_path: Path) -> None:
    fields = layout({"name": "t", "start": 0, "width": 5}, {"name": "r", "start": 5, "width": 4, "justify": "right"})
    columns = {"t": (types.STRING, ["日本", "日本語", "ab日", None]), "r": (types.STRING, ["本", "x", "日本", "a本"])}
    data, failed = write(columns, fields, encoding="shift_jis")
    assert (data, failed) == ("日本   本\n日本    x\nab日 日本\n      a本\n".encode("shift_jis"), [])
    declared = {"t": types.STRING, "r": types.STRING}
    good, bad = read(tmp_path / "in", data, declared, fields, encoding="shift_jis")
    assert (good, bad) == ([(0, "日本", "本"), (1, "日本", "x"), (2, "ab日", "日本"), (3, "", "a本")], [])
    with pytest.raises(UnwritableFile, match=r"value '日本語' \(6 bytes\) exceeds width 5"):
        write(
            {"t": (types.STRING, ["日本語"])},
            layout({"name": "t", "width": 5, "truncation": "error"}),
            encoding="cp949",
        )


def scaled(pad: str) -> Any:
    return layout(
        {"name": "id", "start": 0, "width": 3, "type": "integer", "default": 7},
        {"name": "v", "start": 3, "width": 8, "type": "decimal", "scale": 2, "justify": "right", "pad": pad},
        {"name": "t", "start": 11, "width": 4, "default": "none"},
    )


@pytest.mark.parametrize(
    ("text", "pad", "expected"),
    [
        ("  100012345abcd", "0", (1, 123.45, "abcd")),
        ("   00000005", "0", (7, 0.05, "none")),
        ("  100000000    ", "0", (1, 0.0, "none")),
        ("  1   -1234ab  ", " ", (1, -12.34, "ab")),
        ("  1   12.5 ab  ", " ", (1, 12.5, "ab")),
        ("  1        ab  ", " ", (1, None, "ab")),
    ],
)
def test_points_that_are_not_written_and_defaults(
    tmp_path: Path, text: str, pad: str, expected: tuple[Any, ...]
) -> None:
    kinds = {"id": types.INT, "v": types.FLOAT, "t": types.STRING}
    assert read(tmp_path / "in", text.encode() + b"\n", kinds, scaled(pad)) == ([(0, *expected)], [])


def test_numbers_are_written_without_their_points() -> None:
    numbers = [123.45, -0.05, 0.0, 1e-9, 0.125, 99999.994999, math.nan, None, 3.0]
    columns = {"id": (types.INT, [1] * 8 + [None]), "v": (types.FLOAT, numbers)}
    data, failed = write(columns, scaled("0"))
    cells = [line[3:11] for line in data.decode().splitlines()]
    assert cells == ["00012345", "000000-5", "00000000", "00000000", "00000013", "09999999", "00000000", "00000300"]
    assert failed == [(6, "field 'v': 'NaN' is not a number with 2 decimal places")]
    assert data.decode().splitlines()[-1] == "  700000300none"


@pytest.mark.parametrize("pad", ["0", "_", " "])
@pytest.mark.parametrize("kind", [{}, {"type": "integer"}])
def test_numbers_without_a_side_are_read_as_they_are_written(tmp_path: Path, pad: str, kind: dict[str, str]) -> None:
    """They stand to the right: fillers are before them, and zeros behind them are theirs."""
    numbers = [120, 0, -50, None, 12345, 7]
    fields = layout({"name": "v", "start": 0, "width": 5, "pad": pad, **kind})
    data, failed = write({"v": (types.INT, numbers)}, fields)
    assert failed == []
    expected = [0 if number is None and pad == "0" else number for number in numbers]
    assert read(tmp_path / "in", data, {"v": types.INT}, fields) == ([*enumerate(expected)], [])
    if pad == "_":
        assert read(tmp_path / "in", b"12___\n", {"v": types.INT}, fields) == ([(0, 12)], [])


@given(
    numbers=st.lists(st.integers(-(10**12), 10**12), max_size=20),
    scale=st.integers(1, 6),
    split_bytes=st.integers(1, 60),
)
def test_scaled_numbers_that_were_written_are_read(
    numbers: list[int], scale: int, split_bytes: int, tmp_path: Path
) -> None:
    fields = layout({"name": "v", "start": 0, "width": 20, "type": "decimal", "scale": scale})
    exact = [number / 10**scale for number in numbers]
    data, failed = write({"v": (types.FLOAT, exact)}, fields)
    assert failed == []
    good, bad = read(tmp_path / "in", data, {"v": types.FLOAT}, fields, split_bytes=split_bytes)
    assert ([value for _, value in good], bad) == (exact, [])


def test_a_field_that_is_written_follows_the_one_before_it() -> None:
    fields = layout({"name": "a", "width": 3}, {"name": "b", "width": 2})
    assert [*layouts.problems(fields, is_written=True)] == []
    assert ["`start` is missing" in problem for problem in layouts.problems(fields)] == [True, True]
    data, _ = write({"a": (types.INT, [1]), "b": (types.STRING, ["x"])}, fields)
    assert data == b"  1x \n"
    (problem,) = layouts.problems(layout({"name": "a", "end": 3}), is_written=True)
    assert "`width` is missing" in problem
