"""Footers with changed bytes: a file has the same records, or is refused in the same words, whole and in splits."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.cxl import types
from spark_jobs.formats import registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from tests.formats.csv.files import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.format import Block

ROOT = Path(__file__).parents[3]
FORMAT = registry.named("parquet")
COLUMNS = (SourceColumn("n", types.INT), SourceColumn("t", types.STRING))
LISTS = [[1], [], None, [2, None], [], [3]]
ROWS = pa.table({"n": [1, None, 3, 4, 5, 6], "t": ["a", "b", None, "", "c", "dd"], "l": LISTS})


def written(table: pa.Table = ROWS, group: int = 2, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group, **options)
    return sink.getvalue()


def read(path: Path, data: bytes, split_bytes: int, block_bytes: int = 4 << 20) -> str:
    """All that the file has, or the words that refuse it."""
    path.write_bytes(data)
    reader = FORMAT.reader(FORMAT.read_options())
    result = Result()
    try:
        scan = reader.plan([column.key for column in COLUMNS], [files.describe(str(path), "in.parquet")])
        wanted = Reading(COLUMNS, scan.undeclared, failure_texts=True, block_bytes=block_bytes)
        for split in splits.plan(scan.files, split_bytes):
            outcome, offset = SplitOutcome(), result.count
            for block in reader.read(split, scan.files[split.file], wanted, outcome):
                result.add(block, offset)
            assert outcome.records == result.count - offset
    except FormatError as refused:
        return str(refused)
    return repr((result.records, result.rows, result.failures, result.count))


def play(folder: str, *flips: str) -> None:
    """Change every byte of a footer in some ways, and read each file whole and by row groups; says where it is."""
    path, data = Path(folder) / "in.parquet", written(compression="none", store_schema=False)
    footer = int.from_bytes(data[-8:-4], "little")
    split_bytes = len(data) // 6
    assert read(path, data, split_bytes) == read(path, data, 1 << 30)
    for at in range(len(data) - 8 - footer, len(data)):
        for flip in map(int, flips):
            print(at, flip, flush=True)
            changed = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
            whole, cut = read(path, changed, 1 << 30), read(path, changed, split_bytes)
            assert cut == whole, f"byte {at} changed by {flip}: {cut} instead of {whole}"
    print("done")


@pytest.mark.thorough
@pytest.mark.parametrize("flip", [1, 2, 4, 8, 127, 255])
def test_a_changed_byte_of_the_footer_tells_the_same_whole_and_in_splits(tmp_path: Path, flip: int) -> None:
    """In a process of its own: Arrow could end it."""
    program = f"from {__name__} import play; import sys; play(*sys.argv[1:])"
    command = [sys.executable, "-c", program, str(tmp_path), str(flip)]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (child.returncode, child.stdout.split("\n")[-2:]) == (0, ["done", ""]), child.stderr


@pytest.mark.parametrize("kind", [2, 3])
def test_a_row_group_with_another_type_than_the_schema_is_refused_wherever_it_stands(tmp_path: Path, kind: int) -> None:
    """Int64 (2 doubled as Thrift has it) became another type in the last row group, in the middle one, in the first."""
    data = written(pa.table({"n": [1, 2, 3], "t": ["a", "b", "c"]}), 1, compression="none", store_schema=False)
    # A column chunk says its type, its two or three encodings, its path.
    place, found = -1, []
    while (place := data.find(b"\x15\x04\x195\x00\x06\x10\x19\x18\x01n", place + 1)) >= 0:
        found.append(place + 1)
    assert len(found) == 3
    for at in found:
        changed = data[:at] + bytes([kind * 2 + 2]) + data[at + 1 :]
        told = {read(tmp_path / "in.parquet", changed, size) for size in (1, len(data) // 2, 1 << 30)}
        assert len(told) == 1
        assert "in.parquet: is not a readable Parquet file" in told.pop()


@pytest.mark.parametrize("rows", [7, 500, 1500, 3000])
@pytest.mark.parametrize("block_bytes", [1, 4 << 20])
def test_small_row_groups_come_in_batches_of_a_block(tmp_path: Path, rows: int, block_bytes: int) -> None:
    """A block has no less than 1,024 rows, where there are so many."""
    count = 3000
    dictionaries = pa.array(["x", "y"] * (count // 2)).dictionary_encode()
    lists = pa.ListArray.from_arrays(range(count + 1), dictionaries)
    table = pa.table({"n": range(count), "t": dictionaries, "l": lists})
    path = tmp_path / "in.parquet"
    assert read(path, written(table, count), 1 << 30) == read(path, written(table, rows), 1 << 30, block_bytes)
    blocks = [block.count for block in _blocks(path, COLUMNS, block_bytes)]
    assert sum(blocks) == count
    assert len(blocks) == {(4 << 20, rows): 1, (1, 1500): 4}.get((block_bytes, rows), 3)
    assert sum(block.count for block in _blocks(path, (), block_bytes)) == count


def _blocks(path: Path, columns: tuple[SourceColumn, ...], block_bytes: int) -> Iterator[Block]:
    """Of the file as one split, without undeclared columns."""
    reader = FORMAT.reader(FORMAT.read_options())
    scan = reader.plan([column.key for column in columns], [files.describe(str(path), path.name)], OnUnmapped.DROP)
    (split,) = splits.plan(scan.files, 1 << 30)
    return reader.read(split, scan.files[0], Reading(columns, block_bytes=block_bytes), SplitOutcome())
