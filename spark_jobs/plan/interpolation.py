"""`${NAME}`, `${NAME:-default}` and `$$` in scalar values, after parsing: values never inject keys (decision 7)."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

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
class Result:
    """The text with its variables filled in; where a variable has no value its token stays."""

    text: str
    problems: tuple[Problem, ...]


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

    return Result(_TOKEN.sub(value, text), tuple(problems))


def shift(written: str, segments: tuple[tuple[int, int], ...], text: str) -> tuple[tuple[int, int], ...]:
    """The places of an interpolated text's characters; those of a filled-in value stand at its `${`.

    The lengths of the values are found by matching the written text's constant parts against the result.
    """
    starts = [segment[0] for segment in segments]

    def place(offset: int) -> int:
        value_offset, file_offset = segments[max(bisect_right(starts, offset) - 1, 0)]
        return file_offset + offset - value_offset

    shifted: list[tuple[int, int]] = []
    at, result_at = 0, 0
    matches = list(_TOKEN.finditer(written))
    for number, match in enumerate([*matches, None]):
        end = match.start() if match else len(written)
        shifted.append((result_at, place(at)))
        shifted.extend((result_at + start - at, file) for start, file in segments if at < start < end)
        result_at += end - at
        if match is None:
            break
        shifted.append((result_at, place(match.start())))
        following_end = matches[number + 1].start() if number + 1 < len(matches) else len(written)
        constant = written[match.end() : following_end]
        if match.group() == "$$":
            result_at += 1
        elif number + 1 == len(matches):
            result_at = len(text) - len(constant)
        else:
            found = text.find(constant, result_at) if constant else -1
            result_at = found if found >= 0 else result_at
        at = match.end()
    return tuple(dict(shifted).items())
