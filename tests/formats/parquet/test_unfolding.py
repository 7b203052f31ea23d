"""Small Parquet files that stand for far more than a task may hold, and bytes that are texts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs import limits
from spark_jobs.cxl import types
from spark_jobs.formats import registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.parquet import footer, pages
from spark_jobs.formats.parquet.extents import Extents
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import changes, files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.cxl.types import Type
    from spark_jobs.formats.format import Block

MOST = 8 << 20


def _read(folder: Path, table: pa.Table, declared: Type = types.STRING, **options: Any) -> list[Block]:
    path = folder / "in.parquet"
    pq.write_table(table, path, **options)
    assert path.stat().st_size < 200_000
    columns = (SourceColumn("a", declared),)
    known = registry.named("parquet")
    reader = known.reader(known.read_options()).knowing(columns)
    scan = reader.plan(("a",), [files.describe(str(path), path.name)], OnUnmapped.AUTO_WIDEN)
    wanted = replace(Reading(columns, scan.undeclared), block_bytes=64 << 10, record_bytes=MOST)
    (split,) = splits.plan(scan.files, 1 << 30)
    return [*reader.read(split, scan.files[0], wanted, SplitOutcome())]


def _referred(size: int, rows: int) -> pa.Table:
    entries = pa.array(["x" * size, "y"])
    return pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), entries)})


@pytest.mark.parametrize("store_schema", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_long_texts_that_are_referred_to_come_in_batches_that_fit(
    tmp_path: Path, store_schema: bool, version: str
) -> None:
    blocks = _read(
        tmp_path, _referred(100_000, 500), compression="zstd", store_schema=store_schema, data_page_version=version
    )
    assert sum(block.count for block in blocks) == 500
    assert max(block.batch.nbytes for block in blocks) <= MOST
    assert all(text.as_py() == "x" * 100_000 for block in blocks for text in block.batch.column(0))


def test_short_texts_that_are_referred_to_stay_in_large_batches(tmp_path: Path) -> None:
    assert len(_read(tmp_path, _referred(10, 5000))) == 1


def test_a_file_that_refers_to_long_texts_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="its records unfold to more than") as refused:
        _read(tmp_path, _referred(1_000_000, 3000), compression="zstd")
    assert refused.value.code == "E310"


def test_a_page_that_no_task_can_hold_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="column 'a' has a page of") as refused:
        _read(tmp_path, pa.table({"a": ["x" * (MOST + 1)]}), compression="zstd")
    assert refused.value.code == "E310"


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_row_with_more_values_than_a_task_can_hold_is_refused(tmp_path: Path, version: str) -> None:
    count = 1_000_000
    table = pa.table({"a": pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.nulls(count, pa.int32()))})
    with pytest.raises(FormatError, match="a row of column 'a' may take") as refused:
        _read(tmp_path, table, types.ARRAY, data_page_version=version)
    assert refused.value.code == "E310"


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("length", [1, 3, 100])
def test_as_many_values_in_many_rows_are_read(tmp_path: Path, version: str, length: int) -> None:
    rows = 300_000 // length
    offsets = pa.array(range(0, rows * length + 1, length), pa.int32())
    table = pa.table({"a": pa.ListArray.from_arrays(offsets, pa.nulls(rows * length, pa.int32()))})
    blocks = _read(tmp_path, table, types.ARRAY, data_page_version=version, compression="zstd")
    assert sum(block.count for block in blocks) == rows


def test_records_without_end_that_have_no_bytes_are_refused_while_planning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 6_000_000
    table = pa.table({"a": pa.nulls(rows, pa.string())})
    options = {"compression": "zstd", "max_rows_per_page": rows, "row_group_size": rows}
    monkeypatch.setattr(limits, "EMPTY_RECORDS", rows - 1)
    with pytest.raises(FormatError, match=f"it has {rows} records in") as refused:
        _read(tmp_path, table, **options)
    assert refused.value.code == "E310"
    monkeypatch.setattr(limits, "EMPTY_RECORDS", rows)
    assert sum(block.count for block in _read(tmp_path, table, **options)) == rows


def test_a_header_of_a_page_is_read_as_any_structure_is(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    table = pa.table({"a": ["x" * (at % 7) for at in range(5000)], "b": [*range(5000)], "c": [[1.5, None]] * 5000})
    for version in ("1.0", "2.0"):
        pq.write_table(table, path, data_page_version=version, data_page_size=500, write_page_checksum=True)
        data = path.read_bytes()
        with changes.opened(files.describe(str(path), path.name)) as stream:
            found = Extents(stream, 0, path.name)
            assert len(found) == 1
            starts = [page.data for extent in found.of(0) for page in pages._pages(stream, extent, path.name)]
        assert len(starts) > 10
        for extent in found.of(0):
            quick, end = pages._header(data, extent.start)
            whole, size = footer.structure(data[extent.start :])
            assert end == extent.start + size
            assert {key: quick[key] for key in (1, 2, 3)} == {key: whole[key] for key in (1, 2, 3)}


@pytest.mark.parametrize(
    "texts", [[b"abc", b"", b"d" * 255], [b"a", b"bb"], [b"\0\0\0\0", b"\1\0\0\0x"], [b"x" * 300, b"y"], [b""], []]
)
def test_the_longest_entry_of_a_dictionary_is_found(texts: list[bytes]) -> None:
    data = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    assert pages._longest_of(data) == max(map(len, texts), default=0)


def test_bytes_are_texts_where_the_column_is_declared_so(tmp_path: Path) -> None:
    (block,) = _read(tmp_path, pa.table({"a": pa.array(["é".encode(), b"\xff", None], pa.binary())}))
    assert block.batch.column(0).to_pylist() == ["é", None]
    assert block.rows is not None
    assert block.rows.to_pylist() == [0, 2]
    assert block.failures.rows.tolist() == [1]
    (more,) = _read(tmp_path, pa.table({"a": pa.array([b"x", None], pa.large_binary())}))
    assert more.batch.column(0).to_pylist() == ["x", None]


def test_bytes_that_are_declared_as_numbers_or_not_at_all_stay_refused(tmp_path: Path) -> None:
    for declared in (types.INT, types.ANY):
        with pytest.raises(FormatError, match="declare it as string") as refused:
            _read(tmp_path, pa.table({"a": pa.array([b"1"], pa.binary())}), declared)
        assert refused.value.code == "E217"
