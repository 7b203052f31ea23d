from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import spark_jobs.formats
from spark_jobs.cxl import types
from spark_jobs.formats import registry, splits
from spark_jobs.formats.csv.options import CsvRead
from spark_jobs.formats.format import ArrayPath, Reading
from spark_jobs.formats.json.options import JsonRead
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from tests.formats.csv.files import source_columns

DECLARED = {"id": types.INT, "name": types.STRING}
FILES: list[tuple[str, bytes, Any]] = [
    ("csv", b'id,name,x\n1,a,7\n2,"b\nc",8\n', CsvRead()),
    ("json", b'{"id":1,"name":"a","x":"7"}\n{"id":2,"name":"b\\nc","x":"8"}\n', JsonRead()),
]


@pytest.mark.parametrize(("name", "data", "options"), FILES)
def test_a_format_is_planned_read_and_counted_by_its_name(
    tmp_path: Path, name: str, data: bytes, options: CsvRead | JsonRead
) -> None:
    (tmp_path / "in").write_bytes(data)
    file = files.describe(str(tmp_path / "in"), "in")
    reader = registry.named(name).reader(options)
    scan = reader.plan(tuple(DECLARED), [file])
    assert scan.undeclared == ("x",)
    wanted = Reading(source_columns(DECLARED))
    records = []
    counted = 0
    for split in splits.plan(scan.files, 12):
        outcome, count = SplitOutcome(), SplitOutcome()
        for block in reader.read(split, scan.files[0], wanted, outcome):
            records += block.batch.to_pylist()
        reader.count(split, scan.files[0], count)
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
    options = JsonRead() if name == "json" else CsvRead()
    reader = registry.named(name).reader(options)
    scan = reader.plan(("id",), [file])
    if name == "json":
        assert scan.undeclared == (("late",) if most >= 4 else ())
    wanted = Reading(source_columns({"id": types.INT}), failure_texts=True)
    good, bad = [], []
    (split,) = splits.plan(scan.files, split_bytes)
    outcome, count = SplitOutcome(), SplitOutcome()
    for block in reader.read(split, scan.files[0], wanted, outcome):
        good += block.batch.column("id").to_pylist()
        bad += [failed.row for failed in block.failures]
        assert block.failed_rows is None or block.failed_rows.num_rows == len(block.failures)
    reader.count(split, scan.files[0], count)
    assert (good, bad) == ([row for row in (1, 4) if row <= most], [row for row in (1, 2) if row < most])
    assert outcome.records == count.records == min(most, 4)


def test_widened_values_are_texts_or_of_any_kind(tmp_path: Path) -> None:
    kinds = []
    for name, data, options in FILES:
        (tmp_path / "in").write_bytes(data)
        scan = registry.named(name).reader(options).plan(tuple(DECLARED), [files.describe(str(tmp_path / "in"), "in")])
        kinds.append(scan.undeclared_type)
    assert kinds == [types.STRING.or_null(), types.ANY]


def test_records_that_array_paths_make_are_counted(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b'{"id":[1,2,3]}')
    reader = registry.named("json").reader(JsonRead(), (ArrayPath("id"),))
    scan = reader.plan(("id",), [files.describe(str(tmp_path / "in"), "in")])
    [split] = splits.plan(scan.files)
    outcome = SplitOutcome()
    reader.count(split, scan.files[0], outcome)
    assert outcome.records == 3


def test_every_format_is_found_by_its_place() -> None:
    folder = Path(spark_jobs.formats.__file__).parent
    found = registry.formats()
    assert sorted(found) == sorted(path.parent.name for path in folder.glob("*/options.py"))
    # What two formats share is no format.
    assert {path.parent.name for path in folder.glob("*/__init__.py")} - set(found) == {
        "edi",
        "isolated",
        "rules",
        "tables",
        "typed",
    }
    for name, one in found.items():
        assert one.name == name
        assert one.can_read == (folder / name / "read.py").exists()
        assert one.can_write == (folder / name / "write.py").exists()
    with pytest.raises(KeyError):
        registry.named("tsv")


@pytest.mark.slow
def test_many_files_are_matched_in_their_order(tmp_path: Path) -> None:
    inputs = []
    for number in range(100):
        path = tmp_path / f"{number:03}.csv"
        path.write_text(f"id,x{number % 50}\n{number},1\n")
        inputs.append(files.describe(str(path), path.name))
    reader = registry.named("csv").reader(CsvRead())
    scan = reader.plan(("id",), inputs)
    assert scan.undeclared == tuple(f"x{number}" for number in range(50))
    assert [plan.file.name for plan in scan.files] == [file.name for file in inputs]
    (tmp_path / "007.csv").unlink()
    (tmp_path / "070.csv").unlink()
    with pytest.raises(FormatError, match=r"^007\.csv: file not found"):
        reader.plan(("id",), inputs)
