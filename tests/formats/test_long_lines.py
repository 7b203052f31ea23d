"""Lines that are longer than splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import types
from spark_jobs.formats import registry, splits
from spark_jobs.formats.format import Reading
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.scan import files
from tests.formats.csv.files import Result, source_columns

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT = (("fields_", ((("name", "a"), ("start", 0), ("width", 3)),)),)
LENGTHS = (1, 9_000_000, 3, 6_000_000, 2)
FILES: list[tuple[str, str, Any]] = [
    ("json", "".join(f'{{"a":"{number:03}{"x" * count}"}}\n' for number, count in enumerate(LENGTHS)), None),
    ("json", "".join(f'{{"a":"{number:03}{"x" * count}"}}\r\n' for number, count in enumerate(LENGTHS)), None),
    ("fixed_width", "".join(f"{number:03}{'x' * count}\n" for number, count in enumerate(LENGTHS)), LAYOUT),
    ("fixed_width", f"000\n001{'x' * 9_000_000}", LAYOUT),
]


@pytest.mark.parametrize(("name", "text", "layout"), FILES, ids=["json", "json CR LF", "fixed width", "without an end"])
@pytest.mark.parametrize("size", [100_000, 4_500_000, 1 << 30])
def test_a_line_is_one_record_however_many_splits_it_goes_through(
    tmp_path: Path, name: str, text: str, layout: Any, size: int
) -> None:
    (tmp_path / "in").write_text(text, newline="")
    known = registry.named(name)
    reader = known.reader(known.read_options(), (), layout)
    declared = source_columns({"a": types.STRING})
    scan = reader.plan(["a"], [files.describe(str(tmp_path / "in"), "in")])
    result, counted = Result(), 0
    for split in splits.plan(scan.files, size):
        outcome, count = SplitOutcome(), SplitOutcome()
        offset = result.count
        for block in reader.read(split, scan.files[0], Reading(declared), outcome):
            result.add(block, offset)
        reader.count(split, scan.files[0], count)
        counted += count.records
        assert outcome.is_consistent
    assert [record["a"][:3] for record in result.records] == [f"{row:03}" for row in range(counted)]
    assert (counted, result.failures) == (len(LENGTHS) if text.count("x") > 10_000_000 else 2, [])
