"""Texts with offsets: whole columns and single texts give the same, which is what the standard library gives."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from spark_jobs.cxl import types
from spark_jobs.cxl.dates import strftime, zones
from spark_jobs.formats import coerce, date_forms

NAMES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Monrovia"]


def _texts(chance: random.Random) -> list[str]:
    found = []
    for _ in range(400):
        moment = datetime(1883, 1, 1) + timedelta(seconds=chance.randrange(200 * 365 * 86_400))
        if chance.random() < 0.3:  # around the changes of the clocks
            moment = datetime(2026, chance.choice([3, 10]), 25 + chance.randrange(6), chance.randrange(4), 59, 59)
        offset = chance.choice(["Z", "+00:00", "-00:00", "+02", "-0330", "+05:45", "+14:00", "-23:59"])
        fraction = chance.choice(["", "", ".5", ".123456", ".1234567"])
        found.append(f"{moment.isoformat(chance.choice('T '))}{fraction}{offset}")
    return [
        *found,
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:30:00-01:00",
        "2026-02-30T00:00:00Z",
        "x",
        "2026-03-02T10:00:00+24:00",
    ]


def _meant(text: str, name: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text[:26].rstrip("0") + text[27:] if ".1234567" in text else text)
        return moment.astimezone(UTC).astimezone(ZoneInfo(name)).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


@pytest.mark.parametrize("name", NAMES)
def test_columns_texts_and_the_standard_library_agree(name: str) -> None:
    texts = _texts(random.Random(name))
    forms = date_forms.zoned(zones.zone(name), ())
    done = coerce.convert(pa.array(texts), types.DATETIME, forms)
    single = [
        strftime.parse_datetime(text, next((f for f in forms if strftime.parse_datetime(text, f)), forms[0]))
        for text in texts
    ]
    assert done.array.to_pylist() == single
    meant = [_meant(text, name) for text in texts]
    assert [one for one in zip(texts, single, meant, strict=True) if one[1] != one[2]] == []
    days = coerce.convert(pa.array(texts), types.DATE, forms)
    assert days.array.to_pylist() == [None if one is None else one.date() for one in single]
    assert [texts[row] for row in done.failed] == [text for text, one in zip(texts, single, strict=True) if one is None]


@pytest.mark.parametrize(
    "form", ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S%:z", "%Y-%m-%d %H:%M:%S%.f%z", "%Y-%m-%dT%H:%M:%SZ", "%FT%T%z"]
)
@pytest.mark.parametrize("name", [None, "Europe/Berlin"])
def test_a_format_reads_columns_as_it_reads_texts(form: str, name: str | None) -> None:
    texts = _texts(random.Random(form))
    forms = (form,) if name is None else (zones.zoned(zones.zone(name), form),)
    done = coerce.convert(pa.array(texts), types.DATETIME, forms)
    assert done.array.to_pylist() == [strftime.parse_datetime(text, forms[0]) for text in texts]
    assert done.array.null_count < len(texts)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%Y-%m-%dT%H:%M:%S%z", "2026-03-02T10:15:00"),
        ("%Y-%m-%dT%H:%M:%S%z", "2026-03-02T10:15:00+2"),
        ("%Y-%m-%dT%H:%M:%S%z", "2026-03-02T10:15:00+02:60"),
        ("%Y-%m-%dT%H:%M:%S%z", "2026-03-02T10:15:00 CET"),
        ("%Y-%m-%dT%H:%M:%SZ", "2026-03-02T10:15:00+00:00"),
        ("%Y-%m-%d", "26-03-02"),
        ("%d.%m.%Y", "05.03.26"),
        ("%d.%m.%y", "05.03.2026"),
        ("%d.%m.%y", "05.03.6"),
        ("%G-W%V-%u", "26-W10-1"),
    ],
)
def test_text_of_another_form_is_no_date(form: str, text: str) -> None:
    assert strftime.parse_datetime(text, form) is None
    assert strftime.parse_date(text, form) is None


def test_offsets_are_read_and_not_written() -> None:
    assert strftime.reading_complaint("%H:%M%z") is None
    assert "only read" in (strftime.complaint("%H:%M%z") or "")
    assert strftime.write(datetime(2026, 3, 2, 10, 15), "%H:%MZ") == "10:15Z"
    assert strftime.parse_datetime("2026-03-02 10:15 Zone 3", "%Y-%m-%d %H:%M Zone 3") == datetime(2026, 3, 2, 10, 15)


def test_an_epoch_is_local_time_where_a_zone_is_named() -> None:
    assert strftime.parse_datetime("0", "%s") == datetime(1970, 1, 1)
    assert strftime.parse_datetime("0", zones.zoned(zones.zone("Asia/Tokyo"), "%s")) == datetime(1970, 1, 1, 9)
