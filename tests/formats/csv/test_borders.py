from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.formats import splits
from spark_jobs.formats.byte_stream import RangeStats
from spark_jobs.formats.columns import FilePlan
from spark_jobs.formats.csv import borders, parser, quotes, whole_records
from spark_jobs.formats.csv.options import CsvRead
from spark_jobs.formats.format import FileColumns
from spark_jobs.scan import files

if TYPE_CHECKING:
    from pathlib import Path


def file_plan(size: int, start: int = 0, *, path: str = "x", is_splittable: bool = True) -> FilePlan:
    return FilePlan(files.InputFile(path, path, size), FileColumns(2, (0, 1)), start, is_splittable)


@pytest.mark.parametrize(
    ("size", "start", "expected"),
    [
        (100, 10, [(10, 100)]),
        (1000, 10, [(10, 410), (410, 810), (810, 1000)]),
        (820, 10, [(10, 410), (410, 820)]),
        (10, 10, [(10, 10)]),
    ],
)
def test_sizes_alone_make_splits(size: int, start: int, expected: list[tuple[int, int]]) -> None:
    made = splits.plan([file_plan(size, start)], 400)
    assert [(split.start, split.end) for split in made] == expected
    assert [split.is_last for split in made] == [False] * (len(made) - 1) + [True]
    assert [split.index for split in made] == list(range(len(made)))


def test_files_are_split_on_their_own_in_their_order() -> None:
    made = splits.plan([file_plan(500), file_plan(9000, is_splittable=False), file_plan(830)], 400)
    assert [(split.file, split.index) for split in made] == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]
    assert made[2].is_exact


messy = st.lists(st.sampled_from(["a", ",", '"', '""', "\n", "\r\n", '","', ',"x"'])).map(
    lambda parts: "".join(parts).encode()
)


@given(data=messy, positions=st.sets(st.integers(1, 40)), scan_bytes=st.integers(1, 9))
def test_exact_borders_are_record_starts(tmp_path: Path, data: bytes, positions: set[int], scan_bytes: int) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    wanted = sorted(positions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(borders, "_SCAN_BYTES", scan_bytes)
        found = borders.exact_borders(file_plan(len(data), path=str(path)), wanted, CsvRead())
    toggles = parser.dialect_of(CsvRead()).toggles(data)
    expected = [quotes.next_record_start(data, position - 1, toggles) for position in wanted]
    assert found == [len(data) if border is None else border for border in expected]


def test_borders_are_guessed_right_among_cells_of_many_lines(tmp_path: Path) -> None:
    record = b'1,"' + b"a line, of a text\n" * 30 + b'with ""quotes"" in it",2\n'
    data = record * 200
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    plan = file_plan(len(data), path=str(path))
    dialect = parser.dialect_of(CsvRead())
    with files.open_input(files.describe(str(path), "x")) as stream:
        for split in splits.plan([plan], 3001):
            start, end = splits.actual_range(split, stream, dialect.likely_start, guesses=True)
            assert start % len(record) == 0
            assert end % len(record) == 0


@pytest.mark.parametrize("count", [2_000_000, 2_000_001])
def test_a_record_of_very_many_quotes_is_passed_over_in_few_reads(count: int) -> None:
    class Counted(io.BytesIO):
        reads = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.reads += 1
            return super().read(size)

    stream = Counted(b'"' * count + b'"\n1,2\n')
    found = [*whole_records.read(stream, quotes.Dialect(), 10_000, RangeStats(), is_last=True, most=50_000)]
    assert stream.reads < 500
    # An opening quote, pairs, and a closing one: the record ends, and is left out as too long; else it has no end.
    assert found == ([(b"1,2\n", None)] if count % 2 else [(b'"' * 4000, "quote is never closed")])
