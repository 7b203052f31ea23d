"""`timezone:` of columns: what is no zone, and where one says nothing."""

from __future__ import annotations

import sys
import zoneinfo
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cxl.dates import zones
from tests.plan.pipelines import problems

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: TYPE, path: in.x, schema: [{name: at, COLUMN}]}}
  - {type: output, name: o, input: s, config: {type: csv, path: out.csv}}
"""


@pytest.mark.parametrize(
    ("kind", "column", "words"),
    [
        ("csv", "type: date_time, timezone: Europe/Berln", "`Europe/Berln` is not a time zone: write `UTC` or"),
        ("csv", "type: date_time, timezone: ../../../etc/passwd", "is not a time zone"),
        ("csv", "type: date_time, timezone: Europe", "is not a time zone"),
        ("csv", "type: date_time, timezone: +02:00", "is not a time zone"),
        ("csv", "type: int, timezone: UTC", "is for `date` and `date_time`"),
        ("parquet", "type: date_time, timezone: UTC", "timestamps in parquet files are not texts"),
        ("avro", "type: date, timezone: UTC", "timestamps in avro files are not texts"),
    ],
)
def test_a_zone_that_is_none_or_says_nothing_is_an_error(kind: str, column: str, words: str, tmp_path: Path) -> None:
    text = PIPELINE.replace("TYPE", kind).replace("COLUMN", column)
    (found,) = [one for one in problems(tmp_path, text) if one.is_error]
    assert found.code.id == "E007"
    assert words in found.message
    assert found.span is not None
    assert found.span.line == 3


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"])
def test_a_zone_is_accepted(name: str, tmp_path: Path) -> None:
    text = PIPELINE.replace("TYPE", "csv").replace("COLUMN", f"type: date_time, timezone: {name}")
    assert not [one for one in problems(tmp_path, text) if one.is_error]


def test_a_zone_is_found_without_data_of_the_system_and_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    here = zones.zone("Europe/Berlin")
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    monkeypatch.setitem(sys.modules, "tzdata.zoneinfo", None)
    assert zones.zone("UTC") == "UTC"
    with pytest.raises(ValueError, match="is not a time zone"):
        zones.zone("Europe/Berlin")
    # What the driver has found is all that executors need.
    assert zones.local(datetime(2026, 7, 1, 12), here) == datetime(2026, 7, 1, 14)
