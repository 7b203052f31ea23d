"""`${NAME}`, `${NAME:-default}` and `$$` in scalar values, replaced after parsing, so values never inject keys."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import credentials
from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_jobs.diagnostics.diagnostic import Code

#: Only for texts up to their last brace: after it a default would be sought to the end, from each `${` anew.
_TOKEN = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_DOLLARS = re.compile(r"\$\$")
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
#: Variables of one text that get a proposal when they are not defined; each costs a search.
_MOST_PROPOSALS = 25


@dataclass(frozen=True)
class Problem:
    """A variable that cannot be filled in; `start` and `end` are its token's offsets in the text."""

    code: Code
    start: int
    end: int
    message: str
    help: str


@dataclass(frozen=True)
class Edit:
    """A range of a text that was replaced: its offsets in the text before, and the length of what stands there."""

    start: int
    end: int
    length: int


@dataclass(frozen=True)
class Result:
    """The text with its variables filled in; where a variable has no value its token stays."""

    text: str
    problems: tuple[Problem, ...]
    edits: tuple[Edit, ...]
    has_secrets: bool = False


class Full(Exception):
    """More was to be filled in than there is room for."""


@dataclass
class CharacterBudget:
    """The number of characters that may still be filled in."""

    left: int

    def take(self, characters: int) -> None:
        """Use some of it; raises `Full` when there is not enough."""
        self.left -= characters
        if self.left < 0:
            raise Full


def names(text: str) -> list[str]:
    """The variables that a text refers to."""
    return [found.group(1) for found in _TOKEN.finditer(text, 0, text.rfind("}") + 1) if found.group(1)]


def replaced(
    pattern: re.Pattern[str], text: str, value: Callable[[re.Match[str]], str], room: CharacterBudget
) -> tuple[str, tuple[Edit, ...]]:
    """A text with a value for each match of a pattern, and the edits made; raises `Full` without room for it."""
    edits: list[Edit] = []

    def noted(match: re.Match[str]) -> str:
        found = value(match)
        room.take(len(found))
        edits.append(Edit(match.start(), match.end(), len(found)))
        return found

    return pattern.sub(noted, text), tuple(edits)


def interpolate(text: str, variables: Mapping[str, str], room: CharacterBudget, *, takes_secrets: bool) -> Result:
    """Fill in the variables of a text. A variable that is set to nothing counts as set.

    Args:
        text: the text as it is written.
        variables: their values by name.
        room: how much may be filled in; without enough of it `Full` is raised.
        takes_secrets: whether the text is a credential: no other text may contain a secret variable's value.
    """
    problems: list[Problem] = []
    secrets: list[str] = []

    def value(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        if name is None:
            return "$"
        if not _NAME.fullmatch(name):
            help_text = f"write `${{{name.upper()}}}`, or `$${{{name}}}` for the text itself"
            problems.append(
                Problem(
                    codes.E009,
                    *match.span(),
                    f"`{name}` is not a name for an environment variable: those are upper-case",
                    help_text,
                )
            )
            return match.group()
        if credentials.is_secret(name):
            secrets.append(name)
            if not takes_secrets:
                problems.append(Problem(codes.E016, *match.span(), refusal(name), REMEDY))
                return match.group()
        if name in variables:
            return variables[name]
        if default is not None:
            return default
        few = len(variables) < 1000 and len(problems) < _MOST_PROPOSALS
        proposal = (
            nearest.hint(name, [known for known in variables if not credentials.is_secret(known)]) if few else None
        )
        problems.append(
            Problem(
                codes.E009,
                *match.span(),
                f"the environment variable `{name}` is not defined",
                proposal or f"set it, or give a default: `${{{name}:-value}}`",
            )
        )
        return match.group()

    end = text.rfind("}") + 1
    filled, edits = replaced(_TOKEN, text[:end], value, room)
    rest, later = replaced(_DOLLARS, text[end:], lambda _: "$", room)
    edits += tuple(Edit(edit.start + end, edit.end + end, edit.length) for edit in later)
    return Result(filled + rest, tuple(problems), edits, bool(secrets))


def refusal(name: str) -> str:
    """The reason why a secret variable is not allowed at its place."""
    return f"the environment variable `{name}` has a secret name, and this is not a credential"


#: The remedy for that.
REMEDY = "secrets are filled in below `auth:` of a source's `transport:` alone; give other settings another name"


def shift(segments: tuple[tuple[int, int], ...], edits: tuple[Edit, ...]) -> tuple[tuple[int, int], ...]:
    """Map places of a text to places after some edits, which are in order.

    Places of inserted text map to the place of its token.
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
