"""YAML scalars: the meaning of plain ones in the core schema of YAML 1.2, and the positions of characters in any."""

from __future__ import annotations

import re
from typing import Any

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
}
#: Longer digit strings are texts: no setting needs them, and converting them takes quadratic time.
_LONGEST_NUMBER = 400
_ESCAPE_LENGTHS = {"x": 4, "u": 6, "U": 10}
_PROPERTY = re.compile(r"[&!][^\s,\[\]{}]*")
_FOLD = re.compile(r"[ \t]*\r?\n(?:[ \t]*\r?\n)*[ \t]*")
_BLANKS = re.compile(r"[ \t]+")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")


class WrittenInt(int):
    """An Int that remembers its spelling, for the places where a text is wanted."""

    text: str


class WrittenFloat(float):
    """A Float that remembers its spelling."""

    text: str


def resolve(text: str) -> Any:
    """The value of a plain scalar: null, a bool, an int, a float, or its text."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _LONGEST_NUMBER or not (text[0].isascii() and (text[0].isdigit() or text[0] in "+-.")):
        return text
    if _INT.fullmatch(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        number = WrittenInt(text if base == 10 else text[2:], base)
        number.text = text
        return number
    if _FLOAT.fullmatch(text):
        fraction = WrittenFloat(text)
        fraction.text = text
        return fraction
    return text


def content_start(text: str, start: int, has_properties: bool) -> int:
    """The offset of a scalar's text, after its anchor and tag."""
    while has_properties and start < len(text):
        found = _PROPERTY.match(text, start)
        if not found:
            break
        blank = _BLANK.match(text, found.end())
        start = blank.end() if blank else found.end()
    return start


def trimmed_end(text: str, start: int, end: int) -> int:
    """The end of a collection without the blank space that follows its last value."""
    return max(start, len(text[start:end].rstrip()) + start)


def segments(text: str, start: int, style: str | None, value: str) -> tuple[tuple[int, int], ...]:
    """The ranges of a scalar's value in the file: (offset in the value, offset in the file) of each unbroken range."""
    if style == "'":
        return _quoted(text, start + 1, value, "'")
    if style == '"':
        return _quoted(text, start + 1, value, '"')
    if style in ("|", ">"):
        newline = text.find("\n", start)
        return _lines(text, len(text) if newline < 0 else newline + 1, value)
    if "\n" not in value and text.startswith(value, start):
        return ((0, start),)
    return _lines(text, start, value)


def _lines(text: str, start: int, value: str) -> tuple[tuple[int, int], ...]:
    """Matches the lines of a block or plain scalar against its value: folding changes only the text between lines."""
    found: list[tuple[int, int]] = []
    at = 0
    # Line ends after the last character have no content to be found.
    last = len(value.rstrip())
    while at < last and start < len(text):
        newline = text.find("\n", start)
        end = len(text) if newline < 0 else newline
        indent = len(text[start:end]) - len(text[start:end].lstrip(" \t"))
        content = text[start + indent : end].rstrip("\r\n")
        if content.strip():
            gap = at
            while gap < len(value) and value[gap] in " \t\n" and not _agrees(value, gap, content):
                gap += 1
            # Indentation that belongs to the value (more than the block's own) stands right before the content.
            lead = 0
            while gap - lead > at and value[gap - lead - 1] in " \t" and lead < indent:
                lead += 1
            length = _common(value, gap, content)
            if length:
                found.append((gap - lead, start + indent - lead))
                at = gap + length
        start = end + 1
    return tuple(found) or ((0, min(start, len(text))),)


def _agrees(value: str, at: int, content: str) -> bool:
    return value[at] == content[0]


def _common(value: str, at: int, content: str) -> int:
    length = 0
    while length < len(content) and at + length < len(value) and value[at + length] == content[length]:
        length += 1
    return length


def _quoted(text: str, start: int, value: str, quote: str) -> tuple[tuple[int, int], ...]:
    """Walks a quoted scalar: escapes and folded line ends break ranges."""
    found = [(0, start)]
    at, offset = 0, start

    def resume() -> None:
        if found[-1][0] == at:
            found.pop()
        found.append((at, offset))

    while at < len(value) and offset < len(text):
        character = text[offset]
        if quote == "'" and text.startswith("''", offset):
            at, offset = at + 1, offset + 2
            resume()
        elif quote == '"' and character == "\\":
            at, offset = _escape(text, at, offset)
            resume()
        elif character in " \t\r\n" and (fold := _FOLD.match(text, offset)):
            breaks = fold.group().count("\n")
            at, offset = at + (1 if breaks == 1 else breaks - 1), fold.end()
            resume()
        elif character in " \t" and (blanks := _BLANKS.match(text, offset)):
            # All of them at once: each alone would look for a line end after the others.
            at, offset = at + len(blanks.group()), blanks.end()
        else:
            at, offset = at + 1, offset + 1
    return tuple(found)


def _escape(text: str, at: int, offset: int) -> tuple[int, int]:
    following = text[offset + 1 : offset + 2]
    if following in ("\n", "\r"):
        line = re.compile(r"\\\r?\n[ \t]*").match(text, offset)
        return at, line.end() if line else offset + 2
    return at + 1, offset + _ESCAPE_LENGTHS.get(following, 2)
