"""Parquet files as sources: types, declared columns, row groups, and what is refused."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.formats import registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.formats.typed import natural
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT = registry.named("parquet")


def read(
    path: Path, *columns: SourceColumn, split_bytes: int = 64 << 20, block_bytes: int = 4 << 20, drops: bool = False
) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    """The good records with their undeclared values, and the bad ones by place in the file."""
    reader = FORMAT.reader(FORMAT.read_options())
    unmapped = OnUnmapped.DROP if drops else OnUnmapped.AUTO_WIDEN
    scan = reader.plan([column.key for column in columns], [files.describe(str(path), path.name)], unmapped)
    wanted = Reading(columns, scan.undeclared, failure_texts=True, block_bytes=block_bytes)
    good, bad, before = [], [], 0
    for split in splits.plan(scan.files, split_bytes):
        outcome, counted = SplitOutcome(), SplitOutcome()
        for block in reader.read(split, scan.files[split.file], wanted, outcome):
            names = block.batch.schema.names
            kinds = [*(column.type for column in columns), *[types.ANY] * len(scan.undeclared)]
            found = [values.from_arrow(block.batch.column(name), kind) for name, kind in zip(names, kinds, strict=True)]
            short = [name.removeprefix("$widened.") for name in names]
            good += [dict(zip(short, row, strict=True)) for row in zip(*found, strict=True)]
            bad += [(before + failed.row, str(failed.failure)) for failed in block.failures]
        reader.count(split, scan.files[split.file], counted)
        assert counted.records == outcome.records
        before += outcome.records
    assert before == pq.read_metadata(path).num_rows
    return good, bad


def column(name: str, static: types.Type, **more: Any) -> SourceColumn:
    return SourceColumn(name, static, **more)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None], pa.int8()), [1, None]),
        (pa.array([1, None], pa.uint32()), [1, None]),
        (pa.array([1.5, None], pa.float32()), [1.5, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array(["é", "", None]), ["é", "", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)), ["1.50", None]),
        (pa.array([Decimal(10**17)], pa.decimal128(30, 0)), [10**17]),
        (pa.array([Decimal(10**25)], pa.decimal128(30, 0)), [str(10**25)]),
        (pa.array([date(2024, 2, 29), None]), [date(2024, 2, 29), None]),
        (pa.array([datetime(2024, 2, 29, 1, 2, 3, 4)], pa.timestamp("us")), [datetime(2024, 2, 29, 1, 2, 3, 4)]),
        (pa.array([-1], pa.timestamp("ns")), [datetime(1969, 12, 31, 23, 59, 59, 999999)]),
        (
            # An hour that the place has twice.
            pa.array([1_792_890_000_000_000_001], pa.timestamp("ns", "Europe/Berlin")),
            [datetime(2026, 10, 25, 1)],
        ),
        (
            pa.array([-(1 << 63), -1, None, 1999], pa.timestamp("ns")),
            [
                datetime(1677, 9, 21, 0, 12, 43, 145224),
                datetime(1969, 12, 31, 23, 59, 59, 999999),
                None,
                datetime(1970, 1, 1, 0, 0, 0, 1),
            ],
        ),
        (pa.array([0], pa.timestamp("ms", "Europe/Berlin")), [datetime(1970, 1, 1)]),
        (pa.array([["a", None], [], None]), [["a", None], [], None]),
        (pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())), [{"k": 1}, {}, None]),
        (pa.array([[{"x": date(2024, 1, 1)}]]), [[{"x": date(2024, 1, 1)}]]),
        (pa.nulls(2), [None, None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_undeclared_columns_keep_their_values(tmp_path: Path, array: pa.Array, expected: list[Any]) -> None:
    pq.write_table(pa.table({"v": array}), tmp_path / "a.parquet")
    good, bad = read(tmp_path / "a.parquet")
    assert ([record["v"] for record in good], bad) == (expected, [])


def numbers(kind: pa.DataType, *found: int | None) -> pa.Array:
    return pa.array(found, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)


#: A day and a moment that there is, and some that there are not.
ODD_TIMES = [
    (numbers(pa.date32(), 0, 6585000, None, -800000), date(1970, 1, 1), "19999-02-13"),
    (numbers(pa.timestamp("ms"), 1000, 1 << 62, None, -(1 << 60)), datetime(1970, 1, 1, 0, 0, 1), "146140482-04-24T"),
    (numbers(pa.timestamp("us", "UTC"), 0, 1 << 61, None, -(1 << 61)), datetime(1970, 1, 1), "75039-04-04T"),
]


@pytest.mark.parametrize(("array", "known", "text"), ODD_TIMES, ids=str)
def test_times_outside_all_years_are_texts_and_no_times(
    tmp_path: Path, array: pa.Array, known: date, text: str
) -> None:
    """Those beside them stay what they are."""
    pq.write_table(pa.table({"v": array}), tmp_path / "a.parquet")
    for group in (1, 4):
        pq.write_table(pa.table({"v": array}), tmp_path / "a.parquet", row_group_size=group)
        good, bad = read(tmp_path / "a.parquet")
        found = [record["v"] for record in good]
        assert (found[0], found[1][: len(text)], found[2], bad) == (known, text, None, [])
        good, bad = read(tmp_path / "a.parquet", column("v", types.DATETIME))
        moment = known if isinstance(known, datetime) else datetime.combine(known, datetime.min.time())
        assert ([record["v"] for record in good], [row for row, _ in bad]) == ([moment, None], [1, 3])
    nested = pa.table({"v": pa.ListArray.from_arrays([0, 4], array)})
    pq.write_table(nested, tmp_path / "a.parquet")
    ((record,), bad) = read(tmp_path / "a.parquet")
    assert (record["v"][0], record["v"][1][: len(text)], record["v"][2], bad) == (known, text, None, [])


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (pa.array([7, 2**63, None, 0], pa.uint64()), [7, str(2**63), None, 0]),
        (pa.array([Decimal(7), Decimal(10**25), None, Decimal(0)], pa.decimal128(30, 0)), [7, str(10**25), None, 0]),
    ],
    ids=str,
)
def test_numbers_do_not_depend_on_those_beside_them(tmp_path: Path, array: pa.Array, found: list[Any]) -> None:
    for group in (1, 4):
        pq.write_table(pa.table({"v": array}), tmp_path / "a.parquet", row_group_size=group)
        assert [record["v"] for record in read(tmp_path / "a.parquet")[0]] == found
        good, bad = read(tmp_path / "a.parquet", column("v", types.BOOL))
        assert ([record["v"] for record in good], [row for row, _ in bad]) == ([True, None, False], [1])


def test_members_of_structures_are_columns(tmp_path: Path) -> None:
    rows = [{"s": {"x": 1, "y": {"z": "a"}}}, {"s": None}, {"s": {"x": None, "y": None}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    good, _ = read(tmp_path / "a.parquet", column("s.y.z", types.STRING))
    assert good == [{"s.y.z": "a", "s.x": 1}, {"s.y.z": None, "s.x": None}, {"s.y.z": None, "s.x": None}]


@pytest.mark.parametrize(
    ("array", "static", "expected", "failed"),
    [
        (pa.array([3, 4]), types.FLOAT, [3.0, 4.0], []),
        (pa.array([3.0, 3.5, math.nan, 1e19]), types.INT, [3], [1, 2, 3]),
        (pa.array([7, 0]), types.BOOL, [True, False], []),
        (pa.array([True]), types.INT, [1], []),
        (pa.array([2**63], pa.uint64()), types.INT, [], [0]),
        (pa.array(["12", "x", ""]), types.INT, [12], [1, 2]),
        (pa.array([1, 2]), types.STRING, ["1", "2"], []),
        (pa.array([1.0, 2.5]), types.STRING, ["1", "2.5"], []),
        (pa.array([date(2024, 1, 2)]), types.STRING, ["2024-01-02"], []),
        (pa.array([date(2024, 1, 2)]), types.DATETIME, [datetime(2024, 1, 2)], []),
        (pa.array([Decimal("0.1")], pa.decimal128(3, 1)), types.FLOAT, [0.1], []),
        (pa.array([1, 2]), types.NUMERIC, [1, 2], []),
        (pa.array([["a"]]), types.ARRAY, [["a"]], []),
        (pa.array(["[1]"]), types.ARRAY, [], [0]),
    ],
)
def test_values_under_declared_types(
    tmp_path: Path, array: pa.Array, static: types.Type, expected: list[Any], failed: list[int]
) -> None:
    pq.write_table(pa.table({"v": array}), tmp_path / "a.parquet")
    good, bad = read(tmp_path / "a.parquet", column("v", static))
    assert [record["v"] for record in good] == expected
    assert [row for row, _ in bad] == failed
    assert all("conversion failed: cannot convert" in text for _, text in bad)


def test_required_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, None, 3]}), tmp_path / "a.parquet")
    good, bad = read(tmp_path / "a.parquet", column("a", types.INT, required=True))
    assert ([record["a"] for record in good], bad) == ([1, 3], [(1, "missing required field 'a'")])
    _, bad = read(tmp_path / "a.parquet", column("b", types.INT, required=True))
    assert [row for row, _ in bad] == [0, 1, 2]


@given(
    st.lists(st.tuples(st.integers(-5, 5) | st.none(), st.text(max_size=3) | st.none()), max_size=40),
    st.integers(1, 10),
    st.sampled_from([64, 300, 1000]),
)
def test_records_do_not_depend_on_row_groups_splits_and_blocks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]], group: int, split_bytes: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "same.parquet"
    table = pa.table(
        {"n": pa.array([n for n, _ in rows], pa.int64()), "t": pa.array([t for _, t in rows], pa.string())}
    )
    columns = (column("n", types.INT, required=True), column("t", types.INT))
    pq.write_table(table, path)
    whole = read(path, *columns)
    pq.write_table(table, path, row_group_size=group)
    assert read(path, *columns, split_bytes=split_bytes, block_bytes=100) == whole


def test_types_without_a_counterpart_are_refused_by_name(tmp_path: Path) -> None:
    table = pa.table({"ok": [1], "raw": pa.array([b"x"]), "deep": pa.array([[b"x"]])})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(FormatError, match="column 'raw' is of the Parquet type binary"):
        read(tmp_path / "a.parquet", column("ok", types.INT))
    assert read(tmp_path / "a.parquet", column("ok", types.INT), drops=True)[0] == [{"ok": 1}]
    with pytest.raises(FormatError, match="column 'deep' is of the Parquet type list"):
        read(tmp_path / "a.parquet", column("deep", types.ARRAY), drops=True)


@pytest.mark.parametrize("data", [b"PAR1", b"no Parquet at all", b"PAR1" + b"\0" * 50 + b"PAR1"])
def test_broken_files_end_with_their_name(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(FormatError, match="is not a readable Parquet file") as caught:
        read(tmp_path / "a.parquet")
    assert "a.parquet" in str(caught.value)


def test_pages_that_are_broken_end_with_the_name_of_their_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "a.parquet", compression="zstd")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[40:400] = bytes(360)
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(FormatError, match="is not a readable Parquet file"):
        read(tmp_path / "a.parquet", column("a", types.INT))


def test_texts_that_are_no_text_end_with_the_name_of_their_file(tmp_path: Path) -> None:
    """Arrow hands them on as they are."""
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    for array in (bad, bad.dictionary_encode()):
        pq.write_table(pa.table({"a": array}), tmp_path / "in")
        with pytest.raises(FormatError, match=r"^in: is not a readable Parquet file: .*UTF8"):
            read(tmp_path / "in", column("a", types.STRING))


@pytest.mark.parametrize("table", [pa.table({"a": pa.array([], pa.int64())}), pa.table({})], ids=["rows", "columns"])
def test_files_without_rows_or_columns_have_no_records(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", column("a", types.INT)) == ([], [])
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema):
        pass
    assert read(tmp_path / "a.parquet", column("a", types.INT), split_bytes=50) == ([], [])


def test_records_without_any_column_are_counted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", drops=True) == ([], [])  # `read` compares the counts


def test_every_record_of_a_bad_column_fails(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"] * 100_000}), tmp_path / "a.parquet")
    good, bad = read(tmp_path / "a.parquet", column("a", types.INT))
    assert (good, len(bad), bad[-1][0]) == ([], 100_000, 99_999)


def test_a_row_group_for_each_record(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(300))}), tmp_path / "a.parquet", row_group_size=1)
    good, _ = read(tmp_path / "a.parquet", column("a", types.INT), split_bytes=5000)
    assert [record["a"] for record in good] == list(range(300))


def test_what_goes_wrong_behind_the_file_is_not_told_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    for problem in (pa.ArrowInvalid("a bug"), OSError(28, "No space left on device")):

        def fails(array: pa.Array, problem: Exception = problem) -> Any:
            raise problem

        monkeypatch.setattr(natural, "natural", fails)
        with pytest.raises(type(problem)) as caught:
            read(tmp_path / "a.parquet", column("a", types.INT))
        assert caught.value is problem


@pytest.mark.parametrize(
    ("names", "name"),
    [(["a", "a", "s"], "a"), (["s.m", "a", "s"], "s.m"), (["a", "s", "s.m"], "s.m")],
)
def test_two_columns_of_one_name_are_refused(tmp_path: Path, names: list[str], name: str) -> None:
    arrays = {"s": pa.array([{"m": 1}, {"n": 2}])}
    table = pa.Table.from_arrays([arrays.get(each, pa.array([1, 2])) for each in names], names)
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=f"the footer names column '{name}' twice") as caught:
        read(tmp_path / "a.parquet")
    assert caught.value.code == "E217"


def test_a_column_may_be_called_like_a_structure(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([{"m": 2}])], ["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")[0] == [{"a": 1, "a.m": 2}]


@given(st.randoms(use_true_random=False))
def test_changed_bytes_never_lose_a_record(tmp_path_factory: pytest.TempPathFactory, chance: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "changed.parquet"
    table = pa.Table.from_pylist([{"a": n, "t": f"x{n}", "l": [n], "s": {"m": n}} for n in range(20)])
    pq.write_table(table, path, row_group_size=7)
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 2])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data)
    with suppress(FormatError):  # it is refused as a whole, or has all records
        assert sum(_counts(path)) == 20


def _counts(path: Path) -> Iterator[int]:
    reader = FORMAT.reader(FORMAT.read_options())
    scan = reader.plan(["a"], [files.describe(str(path), path.name)])
    wanted = Reading((column("a", types.STRING),), scan.undeclared)
    for split in splits.plan(scan.files, 1000):
        for block in reader.read(split, scan.files[split.file], wanted, SplitOutcome()):
            yield block.count


TEXTS_WITHIN = [
    (lambda text: pa.list_(text), [["x", "y"], [], None, ["x"]], None),
    (lambda text: pa.large_list(pa.list_(text)), [[["x"], []], [], None, [["y", None]]], None),
    (
        lambda text: pa.map_(pa.string(), text),
        [[("k", "x")], [], None, [("k", "y"), ("l", None)]],
        [{"k": "x"}, {}, None, {"k": "y", "l": None}],
    ),
    (lambda text: pa.list_(pa.struct([("p", text), ("q", pa.int8())])), [[{"p": "x", "q": 1}], [None], None, []], None),
]


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize(("kind", "given", "found"), TEXTS_WITHIN)
@pytest.mark.parametrize("text", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_texts_and_dictionaries_within_values_are_read_over_row_groups(
    text: Any, kind: Any, given: Any, found: Any, rows: int, tmp_path: Path
) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"v": pa.array(given, kind(text)), "n": range(len(given))}), path, row_group_size=rows)
    good, bad = read(path, column("n", types.INT), column("v", types.ANY))
    assert ([row["v"] for row in good], bad) == (found or given, [])


@pytest.mark.parametrize("block_bytes", [1, 4 << 20])
@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        (pa.list_(pa.null()), [[None], [None, None], None, []] * 300, None),
        (pa.map_(pa.string(), pa.null()), [[], [("k", None), ("l", None)]] * 600, [{}, {"k": None, "l": None}] * 600),
        (
            pa.list_(pa.struct([("p", pa.null()), ("q", pa.timestamp("s"))])),
            [[{"p": None, "q": datetime(2024, 1, 2)}], [None, None], []] * 400,
            None,
        ),
    ],
)
def test_nulls_without_a_type_within_values_are_nulls(
    kind: Any, given: Any, found: Any, block_bytes: int, tmp_path: Path
) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"v": pa.array(given, kind)}), path)
    good, bad = read(path, column("v", types.ANY), block_bytes=block_bytes)
    assert ([row["v"] for row in good], bad) == (found or given, [])
