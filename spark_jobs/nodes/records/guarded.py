"""Keeps values of fields that are called like credentials out of logs, messages and summaries.

The dead-letter file has them, as it has the whole record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_jobs import credentials

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How the failure that a group was rejected for begins.
_CAUSE = re.compile(r"(?:row \d+: )?field '(.*?)': ", re.DOTALL)


def is_secret(field: str | None) -> bool:
    """Whether what is said of a field has to be hidden."""
    return bool(field) and credentials.is_secret(str(field))


def has_secret(columns: Iterable[str]) -> bool:
    """Whether the text of a whole record has to be hidden."""
    return any(map(credentials.is_secret, columns))


def detail(field: str | None, text: str, value: str | None) -> str:
    """What is said of a field, without its value.

    >>> detail("password", "cannot convert 'hunter2' to Int", "hunter2")
    "cannot convert '***' to Int"
    >>> detail("password", "it is hunter2", "hunter2")
    '***'
    """
    if not is_secret(field):
        return text
    quoted = f"'{value}'"
    return text.replace(quoted, f"'{credentials.HIDDEN}'") if value and quoted in text else credentials.HIDDEN


def cause(text: str) -> str:
    """The failure for which a group was rejected, as its other records tell it, without such a value.

    >>> cause("row 1: field 'password': cannot convert 'hunter2' to Int")
    "row 1: field 'password': ***"
    """
    found = _CAUSE.match(text)
    return found[0] + credentials.HIDDEN if found and credentials.is_secret(found[1]) else text
