"""`${NAME}`, `${NAME:-default}` and `$$` in scalar values, after parsing: values never inject keys (decision 7)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TOKEN = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class Problem:
    """A variable that has no value; `start` and `end` are its token's offsets in the text."""

    start: int
    end: int
    message: str
    help: str


@dataclass(frozen=True)
class Edit:
    """A stretch of a text that was replaced: its offsets in the text before, and the length of what stands there."""

    start: int
    end: int
    length: int


@dataclass(frozen=True)
class Result:
    """The text with its variables filled in; where a variable has no value its token stays."""

    text: str
    problems: tuple[Problem, ...]
    edits: tuple[Edit, ...]


def replaced(
    pattern: re.Pattern[str], text: str, value: Callable[[re.Match[str]], str]
) -> tuple[str, tuple[Edit, ...]]:
    """A text with a value for each match of a pattern, and what has changed."""
    edits: list[Edit] = []

    def noted(match: re.Match[str]) -> str:
        found = value(match)
        edits.append(Edit(match.start(), match.end(), len(found)))
        return found

    return pattern.sub(noted, text), tuple(edits)


def interpolate(text: str, variables: Mapping[str, str]) -> Result:
    """Fill in the variables of a text. A variable that is set to nothing counts as set."""
    problems: list[Problem] = []

    def value(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        if name is None:
            return "$"
        if not _NAME.fullmatch(name):
            help_text = f"write `${{{name.upper()}}}`, or `$${{{name}}}` for the text itself"
            problems.append(
                Problem(
                    *match.span(),
                    f"`{name}` is not a name for an environment variable: those are upper-case",
                    help_text,
                )
            )
            return match.group()
        if name in variables:
            return variables[name]
        if default is not None:
            return default
        proposal = nearest.hint(name, variables) if len(variables) < 1000 else None
        problems.append(
            Problem(
                *match.span(),
                f"the environment variable `{name}` is not defined",
                proposal or f"set it, or give a default: `${{{name}:-value}}`",
            )
        )
        return match.group()

    filled, edits = replaced(_TOKEN, text, value)
    return Result(filled, tuple(problems), edits)


def shift(segments: tuple[tuple[int, int], ...], edits: tuple[Edit, ...]) -> tuple[tuple[int, int], ...]:
    """The places of an edited text's characters, from those of the text before; `edits` are in order.

    Those of what was put in stand where its token stood.
    """
    starts = [segment[0] for segment in segments]

    def place(offset: int) -> int:
        value_offset, file_offset = segments[max(bisect_right(starts, offset) - 1, 0)]
        return file_offset + offset - value_offset

    shifted: dict[int, int] = {}
    at, grown = 0, 0
    for edit in (*edits, None):
        shifted[at + grown] = place(at)
        kept = slice(bisect_right(starts, at), bisect_left(starts, edit.start) if edit else len(starts))
        shifted.update((start + grown, file) for start, file in segments[kept])
        if edit is not None:
            shifted[edit.start + grown] = place(edit.start)
            at, grown = edit.end, grown + edit.length - (edit.end - edit.start)
    return tuple(shifted.items())
