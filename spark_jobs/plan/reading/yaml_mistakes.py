"""Explains YAML syntax errors to the author: the parser's messages name the expected token, not the mistake.

Each rule looks at the place where the parser gave up, and at the lines around it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

_INDENT = re.compile(r"[ \t]*")
_KEY = re.compile(r"\s*(?:- +)*[\w.$-]+: ")


@dataclass(frozen=True)
class Mistake:
    """A mistake, its place, and a remedy."""

    message: str
    start: int
    end: int
    help: str | None = None


@dataclass(frozen=True)
class _Place:
    """The line in which the parser gave up, and the line in which the value that it was reading begins."""

    text: str
    offset: int
    begun: int

    def line(self, offset: int) -> tuple[int, str]:
        """The start of the line at an offset, and its text."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        return start, self.text[start : len(self.text) if end < 0 else end].rstrip("\r")

    def previous(self, start: int) -> tuple[int, str]:
        """The last non-empty line before a line; empty if there is none."""
        while start > 0:
            begin, line = self.line(start - 1)
            if line.strip() and not line.lstrip().startswith("#"):
                return begin, line
            start = begin
        return 0, ""

    @property
    def character(self) -> str:
        """The character at which the parser gave up; empty at the end."""
        return self.text[self.offset : self.offset + 1]


def explain(text: str, error: yaml.MarkedYAMLError) -> Mistake:
    """The mistake that caused an error of the parser."""
    mark = error.problem_mark or error.context_mark
    offset = min(mark.index, len(text)) if mark else 0
    begun = min(error.context_mark.index, len(text)) if error.context_mark else offset
    place = _Place(text, offset, begun)
    problem, context = str(error.problem or ""), str(error.context or "")
    return (
        _unusual_blanks(place)
        or _quoted(place, problem, context)
        or _first_character(place, problem, context)
        or _colons(place, problem, context)
        or _brackets(place, problem, context)
        or _indents(place, problem, context)
        or Mistake(f"this is no YAML: {problem}", offset, offset + 1)
    )


def _unusual_blanks(place: _Place) -> Mistake | None:
    """Tabs that indent, and no-break spaces, in the lines that the parser was in."""
    first = place.line(place.begun)[0]
    start, line = place.line(place.offset)
    for begin, one in dict.fromkeys(((first, place.line(first)[1]), (start, line))):
        indent = _INDENT.match(one)
        if indent is not None and "\t" in indent[0]:
            at = begin + one.index("\t")
            return Mistake("a tab indents this line", at, at + 1, "YAML is indented by spaces only")
        if "\N{NO-BREAK SPACE}" in one:
            at = begin + one.index("\N{NO-BREAK SPACE}")
            what = "this is a no-break space, which YAML does not read as a space"
            return Mistake(what, at, at + 1, "write an ordinary space")
    return None


def _quoted(place: _Place, problem: str, context: str) -> Mistake | None:
    if "escape character" in problem or "escape sequence" in problem:
        start = place.text.rfind("\\", 0, place.offset + 1)
        shown = place.text[start : start + 2]
        help_text = "put the text in single quotes, or write the backslash twice"
        return Mistake(f"`{shown}` means nothing in double quotes", start, start + 2, help_text)
    if "quoted scalar" in context and ("end of stream" in problem or "document" in problem):
        quote = place.text[place.begun : place.begun + 1]
        return Mistake(
            f"the quote {quote} is never closed", place.begun, place.begun + 1, f"write {quote} after the text as well"
        )
    return None


def _first_character(place: _Place, problem: str, context: str) -> Mistake | None:
    if "cannot start any token" in problem:
        return Mistake(
            f"a value cannot begin with `{place.character}`", place.offset, place.offset + 1, "put it in quotes"
        )
    if "scanning an alias" in context or "scanning an anchor" in context:
        sign = "*" if "alias" in context else "&"
        at = place.text.rfind(sign, 0, place.offset + 1)
        return Mistake(f"a value cannot begin with `{sign}`", at, at + 1, "put it in quotes")
    if "block scalar" in context:
        sign = place.text[place.begun : place.begun + 1]
        help_text = f"begin the text on the next line, indented, or leave the `{sign}` out"
        return Mistake(f"nothing may follow `{sign}` on its line", place.offset, place.offset + 1, help_text)
    return None


def _colons(place: _Place, problem: str, context: str) -> Mistake | None:
    if "could not find expected ':'" in problem:
        start, line = place.line(place.begun)
        word = line.strip().removeprefix("- ")
        first = start + line.index(word) if word else start
        key = re.match(r"[\w.-]+:(?=\S)", word)
        help_text = f"write a space after the colon: `{key[0]} …`" if key else "write `key: value`"
        return Mistake("this line has no key: a colon followed by a space", first, first + len(word), help_text)
    if "mapping values are not allowed" not in problem:
        return None
    start, line = place.line(place.offset)
    before = line[: place.offset - start]
    if _KEY.match(before + " ") and ": " in before:
        name = before.split(":")[0].strip().removeprefix("- ").strip()
        help_text = f"put the value in quotes: `{name}: '…'`"
        return Mistake(
            f"the value of `{name}` has a colon followed by a space", place.offset, place.offset + 1, help_text
        )
    return _uneven(place, start, line)


def _brackets(place: _Place, problem: str, context: str) -> Mistake | None:
    if "flow" in context and ("expected ','" in problem or "did not find expected" in problem):
        opening = place.text[place.begun : place.begun + 1]
        closing = "}" if opening == "{" else "]"
        same_line = "\n" not in place.text[place.begun : place.offset]
        if same_line and place.character not in ("", "\n", "\r"):
            help_text = "separate entries by commas; a text with `{`, `}`, `[`, `]` or `,` in it stands in quotes"
            return Mistake(f"a comma or `{closing}` is missing before this", place.offset, place.offset + 1, help_text)
        return Mistake(
            f"`{opening}` is never closed", place.begun, place.begun + 1, f"write `{closing}` after the last entry"
        )
    if place.character and place.character in "}]" and "did not find expected" in problem:
        return Mistake(f"`{place.character}` closes nothing", place.offset, place.offset + 1, "leave it out")
    return None


def _indents(place: _Place, problem: str, context: str) -> Mistake | None:
    if "block" not in context and "expected <block end>" not in problem and "document start" not in problem:
        return None
    start, line = place.line(place.offset)
    if line[: place.offset - start].strip():
        what = "something follows a value that is complete"
        return Mistake(what, place.offset, place.offset + 1, "put the whole value in quotes")
    if line.lstrip().startswith("- "):
        previous = "the entry above it has no `- ` of its own, or stands further left"
        return Mistake("an entry of a list stands where a key is expected", place.offset, place.offset + 1, previous)
    return _uneven(place, start, line)


def _uneven(place: _Place, start: int, line: str) -> Mistake:
    """A line that does not line up with those above it; without their text, for a file may be no pipeline's."""
    indent = len(line) - len(line.lstrip())
    _, previous = place.previous(start)
    others = len(previous) - len(previous.lstrip())
    if previous.lstrip().startswith("- "):
        others += 2
    where = start + indent
    end = where + max(len(line.strip().split(":")[0]), 1)
    message = f"this line is indented by {indent} space{'s' * (indent != 1)}, and lines up with nothing above it"
    return Mistake(message, where, end, f"the line above has its keys at {others}; indent both alike")
