"""Keeps credentials out of logs, messages and summaries: fields with names of credentials, and values made from them.

The dead-letter file contains them, since it contains the whole record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import credentials

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The beginning of a message about the failure that rejected a group.
_CAUSE = re.compile(r"(?:row \d+: )?(?:field '(.*?)': )?", re.DOTALL)


@dataclass(frozen=True)
class Guard:
    """The values that a node must not show, besides values of fields whose names suggest credentials.

    Args:
        fields: columns and computed fields that are derived from credentials.
        is_read: a program of the node reads credentials. Failures outside of a field, as in a condition, may then
            show them.
    """

    fields: frozenset[str] = frozenset()
    is_read: bool = False

    def hides(self, field: str | None) -> bool:
        """True if messages about a field must be hidden. None stands for messages that are about no field.

        >>> guard = Guard(frozenset({"pin"}))
        >>> guard.hides("pin"), guard.hides("q.pin"), guard.hides("password"), guard.hides("city"), guard.hides(None)
        (True, True, True, False, False)
        """
        if not field:
            return self.is_read
        return credentials.is_secret(field) or field in self.fields or field.partition(".")[2] in self.fields


#: The guard of nodes that no credentials reach.
OPEN = Guard()


def has_secret(columns: Iterable[str]) -> bool:
    """True if the text of a whole record must be hidden."""
    return any(map(credentials.is_secret, columns))


def detail(text: str, value: str | None) -> str:
    """A message with a secret value replaced.

    >>> detail("cannot convert 'hunter2' to Int", "hunter2"), detail("it is hunter2", "hunter2")
    ("cannot convert '***' to Int", '***')
    """
    quoted = f"'{value}'"
    if not value or quoted not in text or value in text.replace(quoted, ""):
        return credentials.HIDDEN
    return text.replace(quoted, f"'{credentials.HIDDEN}'")


def cause(text: str, *, is_open: bool) -> str:
    """The failure for which a group was rejected, as the group's other records show it, without a secret value.

    Args:
        text: the failure.
        is_open: no credentials reach any node of the run, so that the names of fields decide alone.

    >>> cause("row 1: field 'password': cannot convert 'hunter2' to Int", is_open=True)
    "row 1: field 'password': ***"
    >>> cause("row 1: cannot convert '12' to Date", is_open=True), cause("row 1: it is hunter2", is_open=False)
    ("row 1: cannot convert '12' to Date", 'row 1: ***')
    """
    found = _CAUSE.match(text)
    assert found is not None
    return text if is_open and not credentials.is_secret(found[1] or "") else found[0] + credentials.HIDDEN
