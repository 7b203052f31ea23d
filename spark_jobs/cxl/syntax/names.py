"""Names as programs write them: plain where they can be, else in backticks."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: Words that are no names where a value or a target is due; `grammar.lark` has the same.
RESERVED = frozenset(
    "let emit if then else and or not match use as fn trace null true false now filter distinct by _".split()  # noqa: SIM905
)


def quote_if_needed(name: str) -> str:
    """A name as a program writes it."""
    return name if _PLAIN.fullmatch(name) and name not in RESERVED else in_backticks(name)


def member(name: str) -> str:
    """A name after a dot, where no word is reserved."""
    return name if _PLAIN.fullmatch(name) else in_backticks(name)


def column(name: str) -> str:
    """A column's name as a program reads it: dotted names are paths."""
    return name if all(_PLAIN.fullmatch(step) for step in name.split(".")) else in_backticks(name)


def in_backticks(name: str) -> str:
    """A name in backticks; one in the name is doubled."""
    return "`" + name.replace("`", "``") + "`"


def read(token: str) -> str:
    """The name of a token, without its backticks."""
    return token[1:-1].replace("``", "`") if token[:1] == "`" else str(token)
