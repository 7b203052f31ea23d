"""Row groups that are not read: only those of which no record would pass the first filter, and nothing else changes."""

from __future__ import annotations

import io
import json
import math
import random
import struct
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from spark_jobs import plan as planning
from spark_jobs.formats.parquet import footer
from spark_jobs.plan.explain import explain
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dead.csv }} }}
nodes:
  - type: source
    name: rows
    config: {{ name: rows, type: parquet, path: in.parquet, schema: {{ {schema} }}, {more} }}
  - type: transform
    name: t
    input: rows
    config:
      cxl: |
{program}
  - {{ type: output, name: o, input: t, config: {{ name: o, type: csv, path: out/o.csv }} }}
{nodes}
"""
SCHEMA = "a: int, f: float, s: string, d: date, b: bool"
ROWS = pa.table(
    {
        "a": pa.array([*range(30)], pa.int64()),
        "f": pa.array([n / 4 for n in range(30)]),
        "s": pa.array([f"k{n:02}" for n in range(30)]),
        "d": pa.array([date(2024, 1, 1 + n) for n in range(30)]),
        "b": pa.array([n % 2 == 0 for n in range(30)]),
    }
)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def text(program: str, schema: str = SCHEMA, more: str = "on_unmapped: drop", nodes: str = "") -> str:
    indented = "\n".join(f"        {line}" for line in program.split("; "))
    return PIPELINE.format(program=indented, schema=schema, more=more, nodes=nodes)


def ran(folder: Path, table: pa.Table | bytes, written: str, group: int = 5, **options: Any) -> tuple[Any, int]:
    """All that a run tells and writes, and how many row groups it did not read."""
    data = table
    if isinstance(table, pa.Table):
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=group)
        data = sink.getvalue()
    pipelines.write(folder, {"in.parquet": data, "pipeline.yaml": written})  # type: ignore[dict-item]
    for path in (folder / "out").rglob("*") if (folder / "out").exists() else ():
        path.unlink()
    found = pipelines.run(folder, force=True, **options)
    assert found.result.exit_code in (0, 2), found.result.error
    nodes: dict[str, dict[str, Any]] = json.loads(json.dumps(found.nodes, default=dict))
    passed = nodes.get("rows", {}).pop("row_groups_passed_over", 0)
    result = replace(
        found.result, execution_id="", metrics={}, metrics_path=None, nodes={}, started_at="", phases_ms={}
    )
    outputs = {name: _without_ids(data) for name, data in pipelines.outputs(folder).items()}
    return (result, nodes, outputs), passed


def _without_ids(data: bytes) -> list[bytes]:
    """Lines, without the id and the time that begin those of dead letters."""
    lines = data.splitlines()
    return [line.split(b",", 2)[2] for line in lines] if lines and lines[0].startswith(b"_cxl_dlq_id") else lines


def same(folder: Path, table: pa.Table, written: str, group: int = 5, **options: Any) -> int:
    """Run with statistics and without: everything is the same. Gives how many row groups were not read."""
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group, write_statistics=False)
    whole, none = ran(folder, sink.getvalue(), written, group, **options)
    found, passed = ran(folder, table, written, group, **options)
    assert none == 0
    assert found == whole
    return passed


@pytest.mark.parametrize(
    ("program", "passed"),
    [
        ("filter a >= 15", 3),
        ("filter a > 14", 3),
        ("filter a < 15", 3),
        ("filter a <= 15", 2),
        ("filter 15 <= a", 3),
        ("filter a == 7", 5),
        ("filter a == 70", 6),
        ("filter a > 4 and a < 10", 5),
        ("filter f < 1", 5),
        ("filter f >= 7.25", 5),
        ('filter s == "k07"', 5),
        ('filter s > "k2"', 4),
        ("filter d >= #2024-01-16#", 3),
        ("filter a.is_null()", 6),
        ("filter not a.is_null()", 0),
        ("filter a > 20; filter a < 3", 6),
        ("filter a > 20; emit x = a / 0; filter a < 3", 4),
        # What may fail, and what is not known, is read.
        ("filter a > 20 and 1 / (a - 22) > 0", 4),
        ("filter 1 / (a - 22) > 0 and a > 20", 0),
        ("filter a != 3", 0),
        ("filter a > 20 or b", 0),
        ("filter b", 0),
        ("let x = a; filter x > 20", 0),
        ("emit x = a; filter a > 20", 0),
        ("filter $source.row > 20", 0),
        ("filter a > 20; emit row = $source.row; emit count = $source.count; emit n = $pipeline.total_count", 4),
        ("filter a > 20; distinct by b", 4),
    ],
)
def test_filters_spare_row_groups_and_change_nothing(tmp_path: Path, program: str, passed: int) -> None:
    assert same(tmp_path, ROWS, text(program)) == passed


@pytest.mark.parametrize(
    ("column", "schema", "passed"),
    [
        (pa.array(["x", *"12345678", None] * 3), "x: int", 0),
        (pa.array([*range(30)], pa.uint64()), "x: int", 0),
        (pa.array([*range(30)], pa.uint32()), "x: int", 4),
        (pa.array([n / 2 for n in range(30)]), "x: int", 0),
        (pa.array([n / 2 for n in range(30)]), "x: float", 4),
        (pa.array([*range(30)]), "x: string", 4),
        (pa.array([*range(30)]), "x: { type: int, required: true }", 4),
        (pa.array([None, *range(29)]), "x: { type: int, required: true }", 3),
        (pa.array([None] * 30, pa.int64()), "x: { type: int, required: true }", 0),
        (pa.array([None] * 30, pa.int64()), "x: int", 4),
        (pa.array([*range(30)]), "y: { type: int, required: true }", 0),
        (pa.array([*range(30)]), "y: int", 4),
        (pa.array([[1]] * 30), "x: array", 0),
        (pa.array([{"z": n} for n in range(30)]), "x.z: int", 0),
    ],
    ids=str,
)
def test_records_that_fail_before_the_filter_still_fail(
    tmp_path: Path, column: pa.Array, schema: str, passed: int
) -> None:
    table = ROWS.append_column("x", column)
    assert same(tmp_path, table, text("filter a > 20", f"{SCHEMA}, {schema}")) == passed


@pytest.mark.parametrize(
    ("kind", "odd", "passed"),
    [
        (pa.date32(), 0, 4),
        (pa.date32(), 1 << 30, 3),
        (pa.timestamp("us"), 0, 4),
        (pa.timestamp("us"), 1 << 62, 3),
        (pa.timestamp("ms", "UTC"), 1 << 62, 3),
        (pa.timestamp("ns"), 1 << 62, 4),
        (pa.timestamp("s"), 0, 4),
    ],
    ids=str,
)
def test_times_outside_all_years_still_fail(tmp_path: Path, kind: pa.DataType, odd: int, passed: int) -> None:
    days = [n if n != 7 else odd for n in range(30)]
    found = pa.array(days, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    static = "date" if kind == pa.date32() else "date_time"
    table = ROWS.append_column("x", found)
    assert same(tmp_path, table, text("filter a > 20", f"{SCHEMA}, x: {static}")) == passed


def test_a_row_group_is_read_where_a_null_leads_to_what_fails(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1, None, 3, 4, 5, 6], pa.int64()), "z": pa.array([0] * 6, pa.int64())})
    assert same(tmp_path, table, text("filter a > 20 and 1 / z > 0", "a: int, z: int"), 2) == 2
    assert same(tmp_path, table, text("filter a > 20 and z > 0", "a: int, z: int"), 2) == 3


def test_what_is_no_number_is_in_no_bounds(tmp_path: Path) -> None:
    table = pa.table({"f": pa.array([1.0, math.nan, -0.0, math.nan, math.nan, None, math.inf, 2.0])})
    for comparison in ("<", "<=", ">", ">=", "=="):
        for value in ("1.0", "0.0", "-1.5", "100.0"):
            same(tmp_path, table, text(f"filter f {comparison} {value}", "f: float"), 2)


@pytest.mark.parametrize("more", ["correlation_key: a", "watermark: { column: d }"])
def test_sources_of_which_every_record_counts_read_all(tmp_path: Path, more: str) -> None:
    assert same(tmp_path, ROWS, text("filter a > 20", more=f"on_unmapped: drop, {more}")) == 0


def test_all_who_take_records_have_to_filter_them(tmp_path: Path) -> None:
    other = "  - { type: output, name: all, input: rows, config: { name: all, type: csv, path: out/all.csv } }"
    assert same(tmp_path, ROWS, text("filter a > 20", nodes=other)) == 0


def test_splits_place_and_number_records_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = text("filter a > 11 and a < 19; emit row = $source.row")
    for split in ("64", "500", "100000"):
        monkeypatch.setenv("CLINKER_SPLIT_BYTES", split)
        assert same(tmp_path, ROWS, program) == 4


def test_long_texts_are_cut_in_statistics(tmp_path: Path) -> None:
    """Bounds of texts may be cut, upwards at the top: they hold nevertheless."""
    sink = io.BytesIO()
    texts = ["é" * 3000 + letter for letter in "abcdef"] + ["\U0010ffff" * 20] * 2
    pq.write_table(pa.table({"s": texts}), sink, row_group_size=2)
    for value in (texts[2], "é" * 3000, "é", "\U0010ffff" * 21):
        for comparison in ("<", "==", ">"):
            same(tmp_path, pa.table({"s": texts}), text(f'filter s {comparison} "{value}"', "s: string"), 2)


MONEY = pa.table({"m": pa.array([Decimal(n - 15) / 4 for n in range(30)], pa.decimal128(12, 2))})


@pytest.mark.parametrize("stored", [(9, 2), (12, 2), (18, 2), (38, 2)], ids=str)
@pytest.mark.parametrize(
    ("program", "passed"),
    [
        ("filter m >= 0d", 3),
        ("filter m > 0.0000001d", 3),
        ("filter m < -1.25d", 4),
        ("filter 2.505d <= m", 5),
        ("filter m == 0.25d", 5),
        ("filter m == 0.250d", 5),
        ("filter m == 100", 6),
        ("filter m > 0", 3),
        # Compared with a Float, a Decimal is one.
        ("filter m > 0.1", 3),
        ("filter 2.5 < m", 5),
        ("filter m == 0.25", 5),
        ("filter m.is_null()", 6),
        ("filter m * 2 > 100d", 0),
    ],
)
def test_filters_of_decimals_spare_row_groups(
    tmp_path: Path, program: str, passed: int, stored: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MONEY.cast(pa.schema([("m", pa.decimal128(*stored))]))
    for split in ("64", "100000"):
        monkeypatch.setenv("CLINKER_SPLIT_BYTES", split)
        assert same(tmp_path, table, text(program, "m: 'decimal(12,2)'")) == passed


@pytest.mark.parametrize(
    ("declared", "odd", "passed"),
    [
        ("decimal(12,2)", "7.00", 4),
        ("decimal(5,2)", "7.00", 4),
        # One value of the second group has too many digits: its record fails, and the group is read.
        ("decimal(5,2)", "-1000.00", 3),
        ("decimal(9,4)", "-1000.00", 4),
        # All would have to be rounded.
        ("decimal(12,1)", "7.00", 0),
        ("string", "7.00", 4),
        ("float", "7.00", 4),
        ("any", "7.00", 4),
        ("int", "7.00", 0),
    ],
)
def test_decimals_that_do_not_fit_still_fail(tmp_path: Path, declared: str, odd: str, passed: int) -> None:
    numbers = [Decimal(odd) if n == 7 else Decimal(n).scaleb(-2) for n in range(30)]
    table = ROWS.append_column("x", pa.array(numbers, pa.decimal128(20, 2)))
    assert same(tmp_path, table, text("filter a > 20", f"{SCHEMA}, x: '{declared}'")) == passed


def test_bounds_of_decimals_have_all_their_bytes() -> None:
    for precision, numbers in ((9, [-5, 3]), (18, [-(10**17), 10**17]), (38, [-(10**37), -1, 10**37]), (20, [0, 1])):
        sink = io.BytesIO()
        column = pa.array([Decimal(number).scaleb(-2) for number in numbers], pa.decimal128(precision, 2))
        for as_integer in (False, True):
            sink = io.BytesIO()
            pq.write_table(pa.table({"m": column}), sink, store_decimal_as_integer=as_integer)
            ((name, chunk),) = [item for chunks in parts(sink.getvalue()) for item in chunks.items()]
            assert (name, chunk.lowest, chunk.highest) == ("m", min(numbers), max(numbers))


def test_explain_says_what_is_passed_over(tmp_path: Path) -> None:
    pipelines.write(tmp_path, {"pipeline.yaml": text('filter a >= 15 and s == "x"; emit n = 1')})
    plan = planning.load(tmp_path / "pipeline.yaml")
    shown = explain.text(plan)
    assert "  passed over: row groups without any record of `a >= 15 and s == 'x'`" in shown
    pipelines.write(tmp_path, {"pipeline.yaml": text("filter m >= 1.50d", "m: 'decimal(12,2)'")})
    shown = explain.text(planning.load(tmp_path / "pipeline.yaml"))
    assert "  passed over: row groups without any record of `m >= 1.50d`" in shown


VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], list[str]]] = {
    "int": (pa.int64(), st.integers(-3, 3), ["-2", "0", "3", "9"]),
    "float": (pa.float64(), st.sampled_from([-0.0, 0.0, 1.5, math.nan, math.inf, -math.inf]), ["0.0", "1.5", "-9.0"]),
    "string": (pa.string(), st.sampled_from(["", "a", "é", "\U0010ffff", "\uffff", "ab"]), ['"a"', '""', '"é"']),
    "'decimal(9,3)'": (
        pa.decimal128(30, 2),
        st.sampled_from([Decimal(each) for each in ("-2.50", "0.00", "0.10", "1.25", "999999.99", "1000000.00")]),
        ["0.1d", "1.250d", "-3d", "0.1", "1", "999999.999d"],
    ),
    "date": (pa.date32(), st.dates(date(2024, 1, 1), date(2024, 1, 5)), ["#2024-01-03#", "#1970-01-01#"]),
}


@st.composite
def filtered(draw: st.DrawFn) -> tuple[pa.Table, str, str]:
    """A table, its schema, and a program that filters it."""
    kinds = draw(st.lists(st.sampled_from([*VALUES]), min_size=1, max_size=3))
    count = draw(st.integers(0, 14))
    columns, tests = {}, []
    for place, kind in enumerate(kinds):
        arrow, found, literals = VALUES[kind]
        cells = draw(st.lists(st.none() | found, min_size=count, max_size=count))
        columns[f"c{place}"] = pa.array(sorted(cells, key=repr) if draw(st.booleans()) else cells, arrow)
        comparison = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
        tests += [f"c{place} {comparison} {draw(st.sampled_from(literals))}", f"c{place}.is_null()"]
    chosen = draw(st.lists(st.sampled_from([*tests, "not c0.is_null()", "1 / 0 > 1"]), min_size=1, max_size=3))
    joiner = draw(st.sampled_from([" and ", "; filter "]))
    schema = ", ".join(f"c{place}: {kind}" for place, kind in enumerate(kinds))
    return pa.table(columns), schema, "filter " + joiner.join(chosen)


@given(filtered(), st.integers(1, 5))
def test_generated_filters_change_nothing(tmp_path: Path, found: tuple[pa.Table, str, str], group: int) -> None:
    table, schema, program = found
    event(f"passed over: {same(tmp_path, table, text(program, schema), group)}")


class _Bytes(io.BytesIO):
    def size(self) -> int:
        return len(self.getbuffer())


def parts(data: bytes) -> Iterator[Mapping[str, footer.Chunk]]:
    for group in footer.groups(_Bytes(data)):  # type: ignore[arg-type]
        yield group.chunks


def test_the_footer_is_read_as_arrow_reads_it() -> None:
    sink = io.BytesIO()
    nested = ROWS.append_column("n", pa.array([{"x": 1}] * 30)).append_column("nulls", pa.array([None, 1] * 15))
    pq.write_table(nested, sink, row_group_size=7)
    metadata = pq.read_metadata(sink)
    found = footer.groups(_Bytes(sink.getvalue()))  # type: ignore[arg-type]
    assert [group.rows for group in found] == [7, 7, 7, 7, 2]
    for number, group in enumerate(found):
        assert set(group.chunks) == {"a", "f", "s", "d", "b", "nulls"}
        for place in (0, 1, 2, 6):
            known = metadata.row_group(number).column(place)
            chunk = group.chunks[known.path_in_schema] if place != 6 else group.chunks["nulls"]
            if place == 6:
                known = metadata.row_group(number).column(metadata.num_columns - 1)
            assert chunk.nulls == known.statistics.null_count
            wanted = (known.statistics.min, known.statistics.max)
            assert (chunk.lowest, chunk.highest) == tuple(
                each.encode() if isinstance(each, str) else each for each in wanted
            )


def test_a_column_of_another_type_than_the_schema_says_is_read_to_be_refused() -> None:
    """Its lowest and highest values would be taken for others."""
    sink = io.BytesIO()
    pq.write_table(ROWS.select(["a"]), sink, row_group_size=5, compression="none", store_schema=False)
    data = sink.getvalue()
    assert [group["a"].lowest for group in parts(data)] == [0, 5, 10, 15, 20, 25]
    begins = b"\x15\x04\x195\x00\x06\x10\x19\x18\x01a"  # Int64, its encodings, its path
    assert data.count(begins) == 6
    place = data.rindex(begins) + 1
    assert [*parts(data[:place] + b"\x0a" + data[place + 1 :])] == []


def test_a_broken_footer_says_nothing_or_something_and_is_read_soon() -> None:
    sink = io.BytesIO()
    pq.write_table(ROWS, sink, row_group_size=5)
    data = sink.getvalue()
    (size,) = struct.unpack("<I", data[-8:-4])
    numbers = random.Random(3)
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(numbers.randrange(1, 4)):
            changed[len(data) - 8 - numbers.randrange(size) - 1] = numbers.randrange(256)
        assert len([*parts(bytes(changed))]) < 1000
    for length in range(40):
        assert [*parts(data[:length])] == []
