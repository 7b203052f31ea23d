"""Where columns are in row groups: as Arrow has it, in long footers too, or the file is refused."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.cxl import types
from spark_jobs.formats import registry, splits
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.parquet import extents
from spark_jobs.formats.parquet.extents import Extents
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from pathlib import Path

MOST = 2 << 20
LONG = {"note": "x" * (600 << 10)}
TABLE = pa.table({
    "a": ["x", None, "y"] * 20,
    "b": [[1, 2], None, []] * 20,
    "c": [{"d": 1.5, "e": [{"f": b"z"}]}, None, {"d": None, "e": []}] * 20,
    "g": pa.array([b"1234", b"5678", None] * 20, pa.binary(4)),
})  # fmt: skip


class _Bytes(io.BytesIO):
    def size(self) -> int:
        return len(self.getbuffer())


def _written(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _footer_size(data: bytes) -> int:
    return int.from_bytes(data[-8:-4], "little")


@pytest.mark.parametrize(
    "options",
    [
        {"row_group_size": 7},
        {"row_group_size": 50, "compression": "zstd", "data_page_version": "2.0", "use_dictionary": False},
        {"write_page_index": True, "write_statistics": False, "sorting_columns": [pq.SortingColumn(0)]},
        {"version": "1.0", "store_schema": False, "write_page_checksum": True},
    ],
)
@pytest.mark.parametrize("metadata", [{}, LONG], ids=["short", "long"])
def test_columns_are_where_arrow_finds_them(options: dict[str, Any], metadata: dict[str, str]) -> None:
    data = _written(TABLE.replace_schema_metadata(metadata), **options)
    known = pq.read_metadata(io.BytesIO(data))
    found = Extents(_Bytes(data), MOST, "in.parquet")  # type: ignore[arg-type]
    assert len(found) == known.num_row_groups
    for group in range(len(found)):
        columns = [known.row_group(group).column(at) for at in range(known.num_columns)]
        assert [
            (each.column.path, each.column.top, each.column.repetition, each.values, each.start, each.end - each.start)
            for each in found.of(group)
        ] == [
            (
                column.path_in_schema,
                column.path_in_schema.split(".")[0],
                known.schema.column(at).max_repetition_level,
                column.num_values,
                column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset,
                column.total_compressed_size,
            )
            for at, column in enumerate(columns)
        ]


def _read(path: Path, data: bytes, record_bytes: int) -> int:
    path.write_bytes(data)
    columns = (SourceColumn("a", types.STRING),)
    known = registry.named("parquet")
    reader = known.reader(known.read_options()).knowing(columns)
    scan = reader.plan(("a",), [files.describe(str(path), path.name)])
    wanted = replace(Reading(columns), block_bytes=64 << 10, record_bytes=record_bytes)
    (split,) = splits.plan(scan.files, 1 << 30)
    return sum(block.count for block in reader.read(split, scan.files[0], wanted, SplitOutcome()))


@pytest.mark.parametrize("metadata", [{}, LONG], ids=["short", "long"])
def test_pages_are_looked_at_however_long_the_footer_is(tmp_path: Path, metadata: dict[str, str]) -> None:
    table = pa.table({"a": ["x" * (MOST + 1)]}).replace_schema_metadata(metadata)
    data = _written(table, compression="zstd", write_statistics=False)
    assert (_footer_size(data) > 512 << 10) is bool(metadata)
    with pytest.raises(FormatError, match="column 'a' has a page of") as refused:
        _read(tmp_path / "in.parquet", data, MOST)
    assert refused.value.code == "E310"
    assert _read(tmp_path / "in.parquet", data, 8 * MOST) == 1


def test_a_footer_that_no_task_can_hold_is_refused(tmp_path: Path) -> None:
    data = _written(pa.table({"a": ["x"]}).replace_schema_metadata(LONG))
    size = _footer_size(data)
    with pytest.raises(FormatError, match=f"its footer has {size} bytes, more than {size - 1}") as refused:
        _read(tmp_path / "in.parquet", data, size - 1)
    assert refused.value.code == "E310"
    assert _read(tmp_path / "in.parquet", data, size) == 1


#: A schema of a root and a column `a`, and a row group.
SCHEMA = b"\x29\x2c" + b"\x48\x01r\x15\x02\x00" + b"\x15\x02\x25\x00\x18\x01a\x00"
ABOUT = b"\x15\x02\x35\x00\x16\x02\x26\x14\x26\x08"
GROUPS = b"\x29\x1c" + b"\x19\x1c" + b"\x3c" + ABOUT + b"\x00" + b"\x00" + b"\x00"


def _of(footer: bytes) -> list[tuple[str, int, int, int]]:
    data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    found = Extents(_Bytes(data), MOST, "in.parquet").of(0)  # type: ignore[arg-type]
    return [(each.column.path, each.values, each.start, each.end) for each in found]


@pytest.mark.parametrize(
    "more",
    [
        b"",
        b"\x3b\x00",  # an empty map
        b"\x3b\x01\x85\x01b\x02",  # a map of a text to a number
        b"\x99\x21\x01\x02",  # a list of booleans
        b"\x9a\x25\x02\x80\x01",  # a set of numbers
        b"\x37" + bytes(8),
        b"\x33\xff",
        b"\x31\x12",
        b"\x39\x0c",  # no columns' orders
        b"\x39\x05",  # none, with another type
        b"\x05\xfe\xff\x03\x02",  # the last number that a field can have
    ],
)
def test_fields_that_say_nothing_of_places_are_passed_over(more: bytes) -> None:
    assert _of(SCHEMA + GROUPS + more + b"\x00") == [("a", 1, 4, 14)]


@pytest.mark.parametrize(
    "footer",
    [
        SCHEMA + b"\x00",
        GROUPS + b"\x00",
        SCHEMA + GROUPS,
        SCHEMA + GROUPS + b"\x09\x08" + GROUPS[1:] + b"\x00",  # row groups twice
        SCHEMA + GROUPS + b"\x05\x80\x80\x04\x02\x00",  # a field whose number Arrow cuts
        SCHEMA + GROUPS + b"\x39\x15\x00\x00",  # columns' orders that are numbers
        SCHEMA + GROUPS + b"\x39\xfc\xff\xff\xff\xff\x0f\x00",  # more values than bytes
        SCHEMA + GROUPS + b"\x3c" * 200 + b"\x00" * 202,
        SCHEMA + GROUPS + b"\x39\x1c" + b"\x19\x19" * 200 + b"\x00" * 202,
        SCHEMA + GROUPS.replace(b"\x29\x1c", b"\x29\x18", 1) + b"\x00",
        SCHEMA + GROUPS.replace(ABOUT, ABOUT + b"\x09\x12\x02") + b"\x00",
        SCHEMA + GROUPS.replace(b"\x26\x08", b"\x25\x08") + b"\x00",  # a place of another type
        SCHEMA + GROUPS.replace(ABOUT, ABOUT + b"\x25\x04") + b"\x00",  # a dictionary's place of another type
        SCHEMA + GROUPS.replace(ABOUT, ABOUT + b"\x06\x12\x08") + b"\x00",  # a place twice
        SCHEMA + GROUPS.replace(b"\x26\x14", b"\x26\x13") + b"\x00",  # fewer bytes than none
        SCHEMA + GROUPS.replace(b"\x15\x02\x35", b"\x15\x04\x35") + b"\x00",  # another type than in the schema
        SCHEMA.replace(b"\x15\x02\x25", b"\x15\x82\x80\x80\x80\x20\x25") + GROUPS + b"\x00",  # a type that Arrow cuts
        SCHEMA.replace(b"\x48\x01r\x15\x02", b"\x48\x01r\x15\x00") + GROUPS + b"\x00",  # a column of nothing
    ],
)
def test_footers_that_arrow_may_understand_otherwise_are_refused(footer: bytes) -> None:
    with pytest.raises(FormatError, match="its footer is broken"):
        _of(footer)


def test_a_process_remembers_few_footers() -> None:
    for number in range(5):
        footer = SCHEMA + GROUPS + b"\x35" + bytes([number]) + b"\x00"
        assert _of(footer) == [("a", 1, 4, 14)]
        assert _of(footer) == [("a", 1, 4, 14)]
    assert len(extents._KNOWN) == 2
