"""ORC files: what other writers wrote, whole and in splits; broken and hostile ones; what outputs write."""

from __future__ import annotations

import io
import os
import random
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc

from spark_jobs.cxl import types, values
from spark_jobs.formats import registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import UNDECLARED_PREFIX, Reading, SourceColumn
from spark_jobs.formats.isolated import process
from spark_jobs.formats.orc import tail
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

COMPRESSIONS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")
ROWS = 300


def table() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int32()),
            "text": [None if row % 7 == 0 else f"tëxt {row}" for row in range(ROWS)],
            "share": [row / 8 for row in range(ROWS)],
            "day": pa.array([date(2024, 2, 29)] * ROWS),
            "at": pa.array([datetime(1960, 5, 5, 1, 2, 3, 4)] * ROWS, pa.timestamp("us")),
            "price": pa.array([Decimal("1.25")] * ROWS, pa.decimal128(12, 2)),
            "sizes": pa.array([[("k", row)] for row in range(ROWS)], pa.map_(pa.string(), pa.int64())),
            "sub": [{"u": row, "v": ["z"]} for row in range(ROWS)],
            "is": [True, False, None] * (ROWS // 3),
        }
    )


def written(data: pa.Table, compression: str = "zlib", stripe_rows: int = 0) -> bytes:
    """A file; with stripes of so many rows, when they are given."""
    sink = io.BytesIO()
    rows = stripe_rows or data.num_rows or 1
    with orc.ORCWriter(sink, compression=compression, stripe_size=1 if stripe_rows else 64 << 20, batch_size=rows) as f:
        for start in range(0, max(data.num_rows, 1), rows):
            f.write(data.slice(start, rows))
    return sink.getvalue()


def read(
    folder: Path,
    data: bytes,
    columns: Sequence[SourceColumn] = (),
    split_bytes: int = 1 << 30,
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
    **wanted: Any,
) -> tuple[list[dict[str, Any]], list[Any], int]:
    """The records and failures of a file, and in how many splits."""
    path = folder / "in.orc"
    path.write_bytes(data)
    known = registry.named("orc")
    reader = known.reader(known.read_options()).knowing(columns)
    scan = reader.plan([one.key for one in columns], [files.describe(str(path), path.name)], on_unmapped)
    want = replace(Reading(tuple(columns), scan.undeclared, failure_texts=True), **wanted)
    cut = splits.plan(scan.files, split_bytes)
    records: list[dict[str, Any]] = []
    failures: list[Any] = []
    kinds = {one.name: one.type for one in columns}
    for split in cut:
        outcome, counted, found = SplitOutcome(), SplitOutcome(), 0
        for block in reader.read(split, scan.files[0], want, outcome):
            arrays = {
                name.removeprefix(UNDECLARED_PREFIX): values.from_arrow(array, kinds.get(name, types.ANY))
                for name, array in zip(block.batch.schema.names, block.batch.columns, strict=True)
            }
            records += [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]
            failures += block.failures
            found += block.count
        reader.count(split, scan.files[0], counted)
        assert outcome.records == found == counted.records
    return records, failures, len(cut)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_all_values_are_read_whole_and_by_stripes(compression: str, tmp_path: Path) -> None:
    columns = [SourceColumn("id", types.INT), SourceColumn("price", types.STRING), SourceColumn("sub.u", types.INT)]
    data = written(table(), compression, stripe_rows=50 if compression == "uncompressed" else 0)
    whole, failures, _ = read(tmp_path, data, columns)
    assert failures == []
    assert [record["id"] for record in whole] == [*range(ROWS)]
    assert whole[8] == {
        "id": 8, "price": "1.25", "sub.u": 8, "text": "tëxt 8", "share": 1.0, "day": date(2024, 2, 29),
        "at": datetime(1960, 5, 5, 1, 2, 3, 4), "sizes": {"k": 8}, "sub.v": ["z"], "is": None,
    }  # fmt: skip
    assert whole[7]["text"] is None
    in_splits, _, count = read(tmp_path, data, columns, split_bytes=300)
    assert count > 3 or compression != "uncompressed"
    assert in_splits == whole


def test_few_rows_at_a_time_give_the_same(tmp_path: Path) -> None:
    data = written(table(), stripe_rows=100)
    assert read(tmp_path, data, block_bytes=1) == read(tmp_path, data)


def test_what_does_not_convert_is_a_failure_with_its_place(tmp_path: Path) -> None:
    data = written(pa.table({"a": ["1", "x", None, "4"]}))
    records, failures, _ = read(tmp_path, data, [SourceColumn("a", types.INT, required=True)])
    assert records == [{"a": 1}, {"a": 4}]
    assert [(found.row, found.failure.category) for found in failures] == [
        (1, "required_field_conversion_failure"),
        (2, "missing_required_field"),
    ]


def test_a_file_without_records_has_its_columns(tmp_path: Path) -> None:
    records, failures, _ = read(tmp_path, written(table().slice(0, 0)), [SourceColumn("nowhere", types.INT)])
    assert (records, failures) == ([], [])


def test_bytes_are_texts_where_they_are_declared_so(tmp_path: Path) -> None:
    data = written(pa.table({"a": [b"x", b"\xff"], "b": [b"", b""]}))
    with pytest.raises(FormatError, match=r"column 'a' is of the ORC type binary.*declare it as string"):
        read(tmp_path, data)
    columns = [SourceColumn("a", types.STRING)]
    records, failures, _ = read(tmp_path, data, columns, on_unmapped=OnUnmapped.DROP)
    assert (records, len(failures)) == ([{"a": "x"}], 1)


def test_moments_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    data = written(pa.table({"id": [1], "at": pa.array([datetime(1500, 1, 1)], pa.timestamp("us"))}))
    with pytest.raises(FormatError, match="before the year 1678 and after 2262"):
        read(tmp_path, data)
    assert read(tmp_path, data, [SourceColumn("id", types.INT)], on_unmapped=OnUnmapped.DROP)[0] == [{"id": 1}]


@pytest.mark.parametrize("seed", range(4))
def test_changed_bytes_end_no_process(seed: int, tmp_path: Path) -> None:
    """Each file is read as it is, or refused; the process that reads it may end, this one does not."""
    chance = random.Random(seed)
    whole = written(table(), COMPRESSIONS[seed], stripe_rows=100)
    refused = 0
    for _ in range(15):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 2, 4])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read(tmp_path, bytes(data))
        except FormatError:
            refused += 1
    assert refused


def test_a_process_that_ends_is_told_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = written(pa.table({"a": [1]}))
    monkeypatch.setattr("spark_jobs.formats.orc.read._DECODER", "tests.formats.orc.ending")
    with pytest.raises(FormatError, match=r"is broken, .*: the process that read it ended by signal 11 \(SIGSEGV\)"):
        read(tmp_path, broken)
    monkeypatch.undo()
    assert read(tmp_path, broken)[0] == [{"a": 1}]


def too_large(session: process.Session, **wanted: Any) -> Iterator[pa.RecordBatch]:
    raise process.TooLarge


def test_one_long_text_that_is_written_once_takes_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "x" * (1 << 20)
    data = written(pa.table({"a": [text] * 500}), "zstd")
    assert len(data) < 1 << 20
    columns = [SourceColumn("a", types.STRING)]
    asked: list[int] = []
    batches = process.Session.batches
    monkeypatch.setattr(
        process.Session, "batches", lambda self, **wanted: asked.append(wanted["rows"]) or batches(self, **wanted)
    )
    records, _, _ = read(tmp_path, data, columns, record_bytes=24 << 20)
    assert {record["a"] for record in records} == {text}
    assert len(records) == 500
    assert asked == sorted(asked, reverse=True)
    assert asked[-1] < 100 < asked[0]
    monkeypatch.setattr("spark_jobs.formats.orc.read._LEAST_MEMORY", 0)
    monkeypatch.setattr(process.Session, "batches", too_large)
    with pytest.raises(FormatError, match=r"raise memory\.limit") as refused:
        read(tmp_path, data, columns, record_bytes=24 << 20)
    assert refused.value.code == "E310"


def test_a_tail_of_some_stripes_is_the_tail_of_a_file() -> None:
    chance = random.Random(1)
    texts = [chance.randbytes(3000).hex() for _ in range(ROWS)]
    data = written(pa.table({"id": range(ROWS), "text": texts}), "zlib", stripe_rows=100)
    known = tail.Tail(orc.ORCFile(io.BytesIO(data)).reader.serialized_file_tail())
    assert [stripe.rows for stripe in known.stripes] == [100, 100, 100]
    part = orc.ORCFile(io.BytesIO(data + known.of([2, 0])))
    assert part.read().column("id").to_pylist() == [*range(200, 300), *range(100)]


PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: rows
    config:
      {{ name: rows, path: {source}, type: {read}, schema: {{ id: int, v: string, d: date, at: date_time, b: bool }} }}
  - {{ type: output, name: o, input: rows, config: {{ name: o, path: out/rows, type: {write}{more} }} }}
"""
CSV = "id,v,d,at,b\n" + "".join(
    f"{row},tëxt {row % 9},2024-02-{row % 28 + 1:02},2200-12-31T00:00:{row % 60:02},{str(bool(row % 2)).lower()}\n"
    for row in range(200)
)


@pytest.mark.parametrize("compression", ["zstd", "zlib", "snappy", "lz4", "none"])
def test_outputs_are_the_same_whatever_the_tasks_were(
    compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    more = f", options: {{ compression: {compression} }}"
    text = PIPELINE.format(source="in.csv", read="csv", write="orc", more=more)
    found = []
    for split_bytes in ("500", "100000"):
        monkeypatch.setenv("CLINKER_SPLIT_BYTES", split_bytes)
        pipelines.write(tmp_path, {"in.csv": CSV.encode(), "pipeline.yaml": text})
        assert pipelines.run(tmp_path, force=True).result.exit_code == 0
        found.append((tmp_path / "out/rows").read_bytes())
    assert found[0] == found[1]
    file = orc.ORCFile(io.BytesIO(found[0]))
    assert (file.nrows, file.compression) == (200, compression.upper().replace("NONE", "UNCOMPRESSED"))
    assert file.read().select(["id", "v"]).slice(11, 1).to_pylist() == [{"id": 11, "v": "tëxt 2"}]


def test_sorted_and_split_outputs_and_those_without_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    more = ", sort_order: [{ field: id, order: desc }], split: { max_records: 60 }"
    text = PIPELINE.format(source="in.csv", read="csv", write="orc", more=more)
    pipelines.write(tmp_path, {"in.csv": CSV.encode(), "pipeline.yaml": text})
    pipelines.run(tmp_path)
    chunks = [orc.ORCFile(path).read().column("id").to_pylist() for path in sorted((tmp_path / "out").iterdir())]
    assert [len(chunk) for chunk in chunks] == [60, 60, 60, 20]
    assert [one for chunk in chunks for one in chunk] == [*range(199, -1, -1)]
    text = PIPELINE.format(source="in.csv", read="csv", write="orc", more="")
    pipelines.write(tmp_path, {"in.csv": CSV.splitlines()[0].encode() + b"\n", "pipeline.yaml": text})
    pipelines.run(tmp_path, force=True)
    assert orc.ORCFile(tmp_path / "out/rows").schema.names == ["id", "v", "d", "at", "b"]


def test_a_task_has_one_process_for_all_its_files(tmp_path: Path) -> None:
    data = written(table())
    read(tmp_path, data)
    free = list(process._free)
    read(tmp_path, data)
    assert list(process._free) == free
    assert os.getpid() == process._owner[0]
