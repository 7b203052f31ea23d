"""Regular expressions: RE2's dialect in both engines, compiled once."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

from spark_jobs.cxl import failure

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> Any:
    return re2.compile(pattern, options=_OPTIONS)


def complaint(pattern: str) -> str | None:
    """The mistake in a pattern; None if it is well formed."""
    try:
        _compile(pattern)
    except re2.error as problem:
        return _reason(problem)
    return None


def _reason(problem: Any) -> str:
    reason = problem.args[0] if problem.args else problem
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def compiled(pattern: str) -> Any:
    """A compiled pattern; raises `Failure` if it is malformed, which only a computed one can be at run time."""
    try:
        return _compile(pattern)
    except re2.error as problem:
        raise failure.invalid_pattern(pattern, _reason(problem)) from None


#: Escapes, character classes, openings of groups, and single characters.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]|\(\?.|\(|.", re.DOTALL)


def with_named_group(pattern: str, group: int) -> str | None:
    """The pattern with this group named `wanted` and no other groups, as Arrow's extraction wants it.

    Group 0 is the whole pattern. None where the pattern has forms that are not taken apart here, or no such group.
    """
    pieces: list[str] = []
    number = 0
    for token in _TOKEN.findall(pattern):
        if token in (r"\Q", "(?P", "(?<"):
            return None
        if token == "(":
            number += 1
            token = "(?P<wanted>" if number == group else "(?:"
        pieces.append(token)
    rewritten = "".join(pieces)
    if group == 0:
        return f"(?P<wanted>{rewritten})"
    return rewritten if group <= number else None
