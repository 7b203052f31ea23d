"""Parquet files as outputs: what is written is read, by us and by others, and does not depend on batches."""

from __future__ import annotations

import io
import math
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import registry
from spark_jobs.formats.typed import write as typed_write
from tests.formats.parquet.test_reading import column, read
from tests.lazily import LazyModule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

duckdb = LazyModule("duckdb")

FORMAT = registry.named("parquet")
KINDS = {
    "b": types.BOOL,
    "i": types.INT,
    "f": types.FLOAT,
    "t": types.STRING,
    "d": types.DATE,
    "m": types.DATETIME,
    "l": types.Type(types.Kind.ARRAY, element=types.INT),
}
RECORDS = st.fixed_dictionaries(
    {
        "b": st.booleans() | st.none(),
        "i": st.integers(-(2**63), 2**63 - 1) | st.none(),
        "f": st.floats(allow_nan=False) | st.none(),
        "t": st.text(max_size=8) | st.none(),
        "d": st.dates() | st.none(),
        "m": st.datetimes() | st.none(),
        "l": st.lists(st.integers(-9, 9) | st.none(), max_size=3) | st.none(),
    }
)


def written(
    kinds: dict[str, types.Type], rows: Sequence[dict[str, Any]], size: int, **options: Any
) -> tuple[bytes, list[int]]:
    """A file of the records, which came in batches of some size, and the places of those that failed."""
    schema = Schema(tuple(Column(name, kind) for name, kind in kinds.items()))
    writer: Any = FORMAT.writer(schema, FORMAT.write_options(**options))
    pieces, failed = [], []
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        arrays = [values.to_arrow([row[name] for row in some], kind) for name, kind in kinds.items()]
        encoded = writer.encode(pa.RecordBatch.from_arrays(arrays, names=list(kinds)))
        pieces.append(encoded.data)
        failed += [start + failure.row for failure in encoded.failures]
    if not any(pieces):
        return writer.empty, failed
    sink = io.BytesIO()
    writer.convert(io.BytesIO(b"".join([writer.start, *pieces, writer.end])), sink)
    return sink.getvalue(), failed


@given(st.lists(RECORDS, max_size=30))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed_write, "GROUP_ROWS", 7)
        patch.setattr(typed_write, "GROUP_BYTES", 600)
        data, failed = written(KINDS, rows, 4)
        assert failed == []
        assert all(written(KINDS, rows, size)[0] == data for size in (1, 9, 100))
    path = tmp_path_factory.getbasetemp() / "written.parquet"
    path.write_bytes(data)
    declared = {name: types.ARRAY if name == "l" else kind for name, kind in KINDS.items()}
    assert read(path, *(column(name, kind) for name, kind in declared.items()), split_bytes=200) == (rows, [])
    assert pq.read_table(path).to_pylist() == rows


def test_other_tools_agree(tmp_path: Path) -> None:
    rows = [{"i": n, "t": f"é{n}", "d": date(2024, 1, 1 + n), "m": datetime(2024, 1, 1, n, 0, 0, n)} for n in range(20)]
    (tmp_path / "a.parquet").write_bytes(written({name: KINDS[name] for name in "itdm"}, rows, 6)[0])
    expected = [tuple(row.values()) for row in rows]
    assert duckdb.sql(f"select * from '{tmp_path}/a.parquet'").fetchall() == expected
    found = pd.read_parquet(tmp_path / "a.parquet")
    assert found["t"].tolist() == [row["t"] for row in rows]
    assert [each.to_pydatetime() for each in found["m"]] == [row["m"] for row in rows]


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "lz4", "none"])
def test_pages_are_compressed(tmp_path: Path, compression: str) -> None:
    data, _ = written({"i": types.INT}, [{"i": 1}], 1, compression=compression)
    found = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0).compression
    assert found == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())


def test_numbers_of_either_kind_are_floats() -> None:
    rows = [{"n": n} for n in (1, 1.5, None, -7, 1e300, 2**53, 2**53 + 1, 2**60, math.inf, -math.inf)]
    data, failed = written({"n": types.NUMERIC}, rows, 4)
    assert failed == [6]
    expected = [1.0, 1.5, None, -7.0, 1e300, 2.0**53, 2.0**60, math.inf, -math.inf]
    assert pq.read_table(io.BytesIO(data))["n"].to_pylist() == expected


def test_values_of_any_kind_are_texts() -> None:
    rows = [{"v": v} for v in ("a", 1, 1.0, True, None, date(2024, 1, 2), [1, "b"], {"k": 1})]
    data, failed = written({"v": types.ANY}, rows, 3)
    expected = ["a", "1", "1", "true", None, "2024-01-02", '[1,"b"]', '{"k":1}']
    assert (pq.read_table(io.BytesIO(data))["v"].to_pylist(), failed) == (expected, [])


def test_no_record_is_a_file_with_columns() -> None:
    data, _ = written(KINDS, [], 1)
    table = pq.read_table(io.BytesIO(data))
    assert (table.num_rows, table.column_names) == (0, list(KINDS))


def test_a_large_record_is_a_group_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_write, "GROUP_BYTES", 1000)
    rows = [{"t": "x" * size} for size in (10, 2000, 10, 10, 5000)]
    data, _ = written({"t": types.STRING}, rows, 5)
    metadata = pq.read_metadata(io.BytesIO(data))
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [2, 3]
