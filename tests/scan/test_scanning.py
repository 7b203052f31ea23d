from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import types
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import writing
from spark_jobs.formats.format import FormatError, Reading
from spark_jobs.formats.options import CsvOptions, JsonOptions
from spark_jobs.scan import files, scanning, splits
from spark_jobs.scan.reading import SplitOutcome
from tests.scan.csv_files import source_columns

if TYPE_CHECKING:
    from pathlib import Path

DECLARED = {"id": types.INT, "name": types.STRING}
FILES: list[tuple[str, bytes, Any]] = [
    ("csv", b'id,name,x\n1,a,7\n2,"b\nc",8\n', CsvOptions()),
    ("json", b'{"id":1,"name":"a","x":"7"}\n{"id":2,"name":"b\\nc","x":"8"}\n', JsonOptions()),
]


@pytest.mark.parametrize(("name", "data", "options"), FILES)
def test_a_format_is_planned_read_and_counted_by_its_name(
    tmp_path: Path, name: str, data: bytes, options: CsvOptions | JsonOptions
) -> None:
    (tmp_path / "in").write_bytes(data)
    file = files.describe(str(tmp_path / "in"), "in")
    scan = scanning.plan(name, tuple(DECLARED), [file], options)
    assert scan.widened == ("x",)
    wanted = Reading(source_columns(DECLARED))
    records = []
    counted = 0
    for split in splits.plan(scan.files, 12):
        outcome, count = SplitOutcome(), SplitOutcome()
        for block in scanning.read(name, split, scan.files[0], options, wanted, outcome):
            records += block.batch.to_pylist()
        scanning.count(name, split, scan.files[0], options, count)
        assert count == outcome
        counted += count.records
    assert records == [{"id": 1, "name": "a"}, {"id": 2, "name": "b\nc"}]
    assert counted == 2


@pytest.mark.parametrize("most", range(6))
@pytest.mark.parametrize("split_bytes", [8, 1000])
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("json", b'{"id":1}\nbroken\n{"id":"x"}\n{"id":4,"late":1}\n'),
        ("json", b'[{"id":1},"broken",{"id":"x"},{"id":4,"late":1}]'),
        ("csv", b'id,late\n1,\n2\nx,\n4,1\n'),
    ],
    ids=["lines", "array", "csv"],
)  # fmt: skip
def test_what_follows_the_records_that_count_is_not_there(
    name: str, data: bytes, split_bytes: int, most: int, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(data)
    file = replace(files.describe(str(tmp_path / "in"), "in"), most_records=most)
    options = JsonOptions() if name == "json" else CsvOptions()
    scan = scanning.plan(name, ("id",), [file], options)
    if name == "json":
        assert scan.widened == (("late",) if most >= 4 else ())
    wanted = Reading(source_columns({"id": types.INT}), failure_texts=True)
    good, bad = [], []
    (split,) = splits.plan(scan.files, split_bytes)
    outcome, count = SplitOutcome(), SplitOutcome()
    for block in scanning.read(name, split, scan.files[0], options, wanted, outcome):
        good += block.batch.column("id").to_pylist()
        bad += [failed.row for failed in block.failures]
        assert block.failed_rows is None or block.failed_rows.num_rows == len(block.failures)
    scanning.count(name, split, scan.files[0], options, count)
    assert (good, bad) == ([row for row in (1, 4) if row <= most], [row for row in (1, 2) if row < most])
    assert outcome.records == count.records == min(most, 4)


def test_widened_values_are_texts_or_of_any_kind(tmp_path: Path) -> None:
    kinds = []
    for name, data, options in FILES:
        (tmp_path / "in").write_bytes(data)
        scan = scanning.plan(name, tuple(DECLARED), [files.describe(str(tmp_path / "in"), "in")], options)
        kinds.append(scan.widened_type)
    assert kinds == [types.STRING.or_null(), types.ANY]


def test_array_paths_come_in_plain_form(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b'{"id":[1,2,3]}')
    options = JsonOptions()
    scan = scanning.plan("json", ("id",), [files.describe(str(tmp_path / "in"), "in")], options)
    [split] = splits.plan(scan.files)
    outcome = SplitOutcome()
    scanning.count("json", split, scan.files[0], options, outcome, (("id", True, ","),))
    assert outcome.records == 3


def test_formats_without_reader_or_writer_are_unknown() -> None:
    with pytest.raises(KeyError):
        scanning.plan("x12", (), [], None)
    with pytest.raises(KeyError):
        writing.open_writer("x12", Schema((Column("a", types.INT),)), None)


@pytest.mark.slow
def test_many_files_are_matched_in_their_order(tmp_path: Path) -> None:
    inputs = []
    for number in range(100):
        path = tmp_path / f"{number:03}.csv"
        path.write_text(f"id,x{number % 50}\n{number},1\n")
        inputs.append(files.describe(str(path), path.name))
    scan = scanning.plan("csv", ("id",), inputs, CsvOptions())
    assert scan.widened == tuple(f"x{number}" for number in range(50))
    assert [plan.file.name for plan in scan.files] == [file.name for file in inputs]
    (tmp_path / "007.csv").unlink()
    (tmp_path / "070.csv").unlink()
    with pytest.raises(FormatError, match=r"^007\.csv: file not found"):
        scanning.plan("csv", ("id",), inputs, CsvOptions())
