"""Which values of a file no excerpt shows: the credentials of a network source, and those in its address.

Places are hidden while the file is read, so that messages about what cannot be read are covered as well. A variable's
name stays visible, its default does not.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_jobs.scan import addresses

if TYPE_CHECKING:
    from spark_jobs.diagnostics.source import SourceFile, Span

_TRANSPORT = "transport"
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-|\})")
#: In an address, or what was meant to be one: what stands before the host, and what follows the path.
_OF_ADDRESS = (re.compile(r"(?:(?<=//)|^(?!.*//)).*@", re.DOTALL), re.compile(r"[?#].*", re.DOTALL))


class Role(Enum):
    """What a value is for."""

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
            case Role.TRANSPORT if addresses.is_secret(key):
                return Role.SECRET
            case Role.SECRET:
                return Role.OPEN if key == "scheme" else Role.SECRET
            case _:
                return Role.TRANSPORT if key == _TRANSPORT else Role.OPEN


def hide(span: Span, role: Role) -> None:
    """Hide what a scalar of this role has that nobody may see."""
    if role is Role.SECRET:
        _hide(span.file, span.start, span.end)
    elif role in (Role.TRANSPORT, Role.ADDRESS):
        written = span.file.text[span.start : span.end]
        for found in filter(None, (pattern.search(written) for pattern in _OF_ADDRESS)):
            _hide(span.file, span.start + found.start(), span.start + found.end())


def hide_unread(file: SourceFile, start: int, end: int) -> None:
    """Hide what was not understood, up to the end of the line of `end`, in a file that may have credentials."""
    if _TRANSPORT in file.text:
        line_end = file.text.find("\n", end)
        file.hide(start, line_end if line_end >= 0 else len(file.text))


def _hide(file: SourceFile, start: int, end: int) -> None:
    for variable in _VARIABLE.finditer(file.text, start, end):
        file.hide(start, variable.start())
        start = variable.end()
    file.hide(start, end)
