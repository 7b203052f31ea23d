"""Where arrays and their elements end, found in the bytes of a JSON text without parsing it.

The result is right if the text is JSON. Parsing the parts shows whether it is.
"""

from __future__ import annotations

import re
import sys

import numpy as np

_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_BETWEEN = re.compile(rb"\}([ \t\r\n]*,[ \t\r\n]*)\{")
_QUOTE, _OPENING, _CLOSING, _COMMA = 1, 2, 3, 4
_ROLES = np.zeros(256, dtype=np.uint8)
_ROLES[ord('"')] = _QUOTE
_ROLES[list(b"[{")] = _OPENING
_ROLES[list(b"]}")] = _CLOSING
_ROLES[ord(",")] = _COMMA
_STEPS = np.array([0, 0, 1, -1, 0], dtype=np.int64)
_SPACE = b" \t\n\r"

Places = np.ndarray[tuple[int], np.dtype[np.int64]]


def elements(data: bytes, most: int = sys.maxsize) -> tuple[bytes, int, int] | None:
    """Elements of an array as lines, as many as are whole; None where none is.

    Args:
        data: the text from the beginning of an element on.
        most: how many elements are taken at most.

    Returns:
        The lines, how many they are, and where the comma or bracket after the last one is.
    """
    at, roles, depths, _ = _marks(without_escapes(data))
    ends = np.flatnonzero(depths < 0)
    if len(ends):
        end = int(at[ends[0]])
        at, roles, depths = at[: ends[0]], roles[: ends[0]], depths[: ends[0]]
    cuts = at[(roles == _COMMA) & (depths == 0)]
    if not len(ends):
        if not len(cuts):
            return None
        end, cuts = int(cuts[-1]), cuts[:-1]
    if len(cuts) >= most:
        end, cuts = int(cuts[most - 1]), cuts[: most - 1]
    text = np.frombuffer(data, dtype=np.uint8, count=end).copy()
    # A line end is white space in JSON, and so is a tab; neither may stand in a text.
    text[(text == ord("\n")) | (text == ord("\r"))] = ord("\t")
    text[cuts] = ord("\n")
    lines = text.tobytes().strip(_SPACE)
    if len(cuts):
        lines = _without_blanks(lines)
    return lines, len(cuts) + 1, end


def alike(data: bytes, between: bytes, *, is_end: bool, most: int = sys.maxsize) -> tuple[bytes, int, int] | None:
    """Give the result of `elements`, faster, for data that is nothing but objects with the same text between them.

    Args:
        data: as for `elements`.
        between: the text between the braces of two elements.
        is_end: whether the text ends after the data.
        most: how many elements are taken at most.
    """
    joint = b"}" + between + b"{"
    start = len(data) - len(data.lstrip(_SPACE))
    if is_end:
        end = len(data.rstrip(_SPACE).removesuffix(b"]").rstrip(_SPACE))
    else:
        end = data.rfind(joint, start) + 1
    body = data[start:end]
    if not body or b"\0" in body:
        return None
    if body.count(joint) >= most:
        end -= len(body.split(joint, most)[most]) + len(joint) - 1
        body = data[start:end]
    lines = body.replace(joint, b"}\0{").replace(b"\n", b"\t").replace(b"\r", b"\t").replace(b"\0", b"\n")
    return lines, lines.count(b"\n") + 1, end


def between(data: bytes) -> bytes | None:
    """Give the text between the first two objects of a text that follow one another; None where none do."""
    found = _BETWEEN.search(data)
    return found[1] if found else None


def _without_blanks(lines: bytes) -> bytes:
    """Lines without the white space around their ends, if it is everywhere as at the first one."""
    first = lines.find(b"\n")
    before, after = lines[max(first - 64, 0) : first], lines[first + 1 : first + 65]
    before, after = before[len(before.rstrip(_SPACE)) :], after[: len(after) - len(after.lstrip(_SPACE))]
    return lines.replace(before + b"\n" + after, b"\n") if before or after else lines


class Brackets:
    """Finds the end of an array that comes in pieces."""

    def __init__(self) -> None:
        self._is_inside_text = False
        self._depth = 0
        self._rest = b""
        #: How deep arrays and objects were nested so far.
        self.deepest = 0

    def end(self, data: bytes) -> int | None:
        """Where the array ends in the next piece, if it does: after its bracket."""
        before = len(self._rest)
        text = without_escapes(self._rest + data)
        self._rest = text[-1:] if text.endswith(b"\\") else b""
        at, _, depths, self._is_inside_text = _marks(text, is_inside_text=self._is_inside_text)
        depths = depths + self._depth
        ends = np.flatnonzero(depths == 0)
        if len(ends):
            depths = depths[: ends[0] + 1]
        if len(depths):
            self.deepest = max(self.deepest, int(depths.max()))
            self._depth = int(depths[-1])
        return int(at[ends[0]]) + 1 - before if len(ends) else None


def without_escapes(text: bytes) -> bytes:
    """A text of the same length in which every quote begins or ends a text."""
    return _ESCAPE.sub(b"__", text) if b"\\" in text else text


def _marks(text: bytes, *, is_inside_text: bool = False) -> tuple[Places, Places, Places, bool]:
    """Brackets and commas outside of texts: where they are, which, how deep after each; and whether a text is open."""
    found = _ROLES[np.frombuffer(text, dtype=np.uint8)]
    at = np.flatnonzero(found != 0)
    roles = found[at]
    is_quote = roles == _QUOTE
    is_inside = np.logical_xor.accumulate(is_quote) ^ is_inside_text
    is_open = bool(is_inside[-1]) if len(at) else is_inside_text
    chosen = ~(is_inside | is_quote)
    at, roles = at[chosen], roles[chosen]
    return at, roles, np.cumsum(_STEPS[roles]), is_open
