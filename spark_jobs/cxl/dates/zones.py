"""Time zones of texts: converts a text with an offset to the local time of a zone.

A DateTime has no zone. A zone travels in front of a date format with all it needs, so that every place that takes a
format takes it too, and executors need no time zone data: `zoned(zone("Europe/Berlin"), "%Y-%m-%dT%H:%M:%S%z")`.
"""

from __future__ import annotations

import base64
import contextlib
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

#: Stands before and after the zone; no format has it.
_MARK = "\x1d"
#: Stands between the name of a zone and its data.
_BETWEEN = "="
_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
_OFFSET = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2}))?", re.ASCII)
#: The zone of texts with an offset where none is named.
UTC_ZONE = "UTC"


def zone(name: str) -> str:
    """A zone with its data, from this computer or the package `tzdata`.

    Raises:
        ValueError: there is no such zone.
    """
    if name == UTC_ZONE:
        return UTC_ZONE
    data = _data(name) if _NAME.fullmatch(name) else None
    if data is None:
        raise ValueError(f"`{name}` is not a time zone: write `UTC` or an IANA name such as `Europe/Berlin`")
    return f"{name}{_BETWEEN}{base64.b64encode(data).decode()}"


def _data(name: str) -> bytes | None:
    """The data of a zone (TZif), None where there is no such zone."""
    import zoneinfo
    from importlib import resources

    files = [Path(folder, name) for folder in zoneinfo.TZPATH]
    # Most systems have the data themselves, and need no package.
    with contextlib.suppress(ModuleNotFoundError):
        files.append(Path(str(resources.files("tzdata.zoneinfo").joinpath(name))))
    for file in files:
        if file.is_file() and (data := file.read_bytes()).startswith(b"TZif"):
            return data
    return None


def name_of(zone: str) -> str:
    """The name of a zone."""
    return zone.partition(_BETWEEN)[0]


def zoned(zone: str, form: str) -> str:
    """A format that gives the local time of a zone."""
    return f"{_MARK}{zone}{_MARK}{form}"


def split(form: str) -> tuple[str | None, str]:
    """The zone of a format, None where it has none, and the format itself."""
    if not form.startswith(_MARK):
        return None, form
    _, found, plain = form.split(_MARK, 2)
    return found, plain


def local(moment: datetime, zone: str | None) -> datetime | None:
    """A moment in UTC as the local time of a zone, of UTC where there is none; None outside the years 1 to 9999."""
    if zone is None or zone == UTC_ZONE:
        return moment
    try:
        return moment + offset(moment, zone)
    except OverflowError:
        return None


def offset(moment: datetime, zone: str) -> timedelta:
    """The offset of a zone's local time from UTC at a moment, which is in UTC."""
    if zone == UTC_ZONE:
        return timedelta()
    # On the first and last days some zones have no local time. The offset of the neighboring days is the same.
    inner = min(max(moment, datetime(1, 1, 3)), datetime(9999, 12, 29))
    there = inner.replace(tzinfo=UTC).astimezone(_loaded(zone))
    return there.replace(tzinfo=None) - inner


@lru_cache(maxsize=64)
def _loaded(zone: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    name, _, data = zone.partition(_BETWEEN)
    return ZoneInfo.from_file(BytesIO(base64.b64decode(data)), key=name)


def utc(moment: datetime, text: str) -> datetime | None:
    """A local time with the text of its offset, `Z`, `+02`, `+0200` or `+02:00`, in UTC; None outside all years."""
    found = _OFFSET.fullmatch(text)
    if found is None:
        return moment
    sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    try:
        return moment + offset if sign == "-" else moment - offset
    except OverflowError:
        return None
