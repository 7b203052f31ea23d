"""Files that have none, or not all, of the columns that their source declares (decision 86): what to say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import nearest, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The diagnostic of a file without any declared column, and the warning of a column that no file has. JSON files, whose
#: records may differ, warn in both cases.
FOREIGN = "E222"
MISSING = "W210"
_SHOWN = 200


def missing(column: str, file: str, header: str, names: Iterable[str]) -> str:
    """What to say of a declared column that no file has."""
    hint = nearest.hint(column, names)
    text = f"{MISSING}: no file has the declared column '{column}', which is null in every record; "
    return f"{text}the header of {file} is {shown(header)}{f'; {hint}' if hint else ''}"


def missing_member(column: str, names: Iterable[str]) -> str:
    """What to say of a declared column that no record of any file has."""
    hint = nearest.hint(column, names)
    text = f"{MISSING}: no file has the declared column '{column}', which is null in every record"
    return f"{text}{f'; {hint}' if hint else ''}"


def shown(header: str) -> str:
    """A header on one line."""
    text = visible.visible(header.strip("\r\n"))
    return f"`{text}`" if len(text) <= _SHOWN else f"`{text[:_SHOWN]}…`"
