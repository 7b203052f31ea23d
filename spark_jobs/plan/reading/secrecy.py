"""Values that no excerpt of a file shows: the credentials of a network source, and those in its address.

Places are hidden while the file is read, so that messages about syntax errors are covered as well. A variable's
name stays visible, its default does not.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_jobs import credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.diagnostics.source import SourceFile, Span

_TRANSPORT = "transport"
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-|\})")


class Role(Enum):
    """The role of a value."""

    OPEN = auto()
    TRANSPORT = auto()
    ADDRESS = auto()
    SECRET = auto()

    def below(self, key: str) -> Role:
        """The role of the value under a key."""
        match self:
            case Role.TRANSPORT if key == "url":
                return Role.ADDRESS
            case Role.TRANSPORT if key == "pagination":
                return Role.OPEN
            case Role.TRANSPORT if key == "headers" or credentials.is_secret_parameter(key):
                return Role.SECRET
            case Role.SECRET:
                return Role.OPEN if key == "scheme" else Role.SECRET
            case _:
                return Role.TRANSPORT if key == _TRANSPORT else Role.OPEN


class Place(Enum):
    """The place of a value, as far as it decides whether the value may hold a secret.

    Environment variables whose names suggest a secret are filled in below `auth` and `headers` of a `transport:` only.
    """

    FILE = auto()
    NODE = auto()
    CONFIG = auto()
    TRANSPORT = auto()
    CREDENTIAL = auto()
    ELSEWHERE = auto()

    def below(self, key: str) -> Place:
        """The place of the value under a key; a merge key's stands where the mapping does."""
        if key == "<<":
            return self
        if self is Place.CREDENTIAL and key != "scheme":
            return self
        return _BELOW.get((self, key), Place.ELSEWHERE)


_BELOW = {
    (Place.FILE, "nodes"): Place.NODE,
    (Place.NODE, "config"): Place.CONFIG,
    (Place.NODE, _TRANSPORT): Place.TRANSPORT,
    (Place.CONFIG, _TRANSPORT): Place.TRANSPORT,
    (Place.TRANSPORT, "auth"): Place.CREDENTIAL,
    (Place.TRANSPORT, "headers"): Place.CREDENTIAL,
}


def hide(span: Span, role: Role) -> None:
    """Hide the secret parts of a scalar with this role."""
    if role is Role.SECRET:
        _hide(span.file, span.start, span.end)
    elif role in (Role.TRANSPORT, Role.ADDRESS):
        for start, end in _credentials(span.file.text[span.start : span.end]):
            _hide(span.file, span.start + start, span.start + end)


def _credentials(address: str) -> Iterator[tuple[int, int]]:
    """The ranges of an address that may contain credentials: before the host, and after the path."""
    scheme_end, host = address.find("//"), address.rfind("@") + 1
    start = scheme_end + 2 if scheme_end >= 0 else 0
    if start < host:
        yield start, host
    starts = [at for at in (address.find("?"), address.find("#")) if at >= 0]
    if starts:
        yield min(starts), len(address)


def hide_unread(file: SourceFile, start: int, end: int) -> None:
    """Hide unparsed text, up to the end of the line of `end`, in a file that may have credentials."""
    if _TRANSPORT in file.text:
        line_end = file.text.find("\n", end)
        file.hide(start, line_end if line_end >= 0 else len(file.text))


def _hide(file: SourceFile, start: int, end: int) -> None:
    for variable in _VARIABLE.finditer(file.text, start, end):
        file.hide(start, variable.start())
        start = variable.end()
    file.hide(start, end)
