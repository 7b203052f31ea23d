"""Selects the files to stage by the path patterns of `storage.staging.patterns`.

`*`, `?` and `[ab]` stay within a folder; `**` crosses folders. A pattern without a folder matches file names in any
folder. A pattern with a folder is relative to the folder of `clinker.toml`.
"""

from __future__ import annotations

import glob
import os
import re
from functools import cache
from typing import TYPE_CHECKING

from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A folder may have no name: the one before the first slash.
_ANY_FOLDERS = "(?:[^/]*/)*"
_TOKEN = re.compile(r"\[(?P<negated>!?)(?P<members>\]?[^\]/]*)\]|(?P<any>\*)|(?P<one>\?)|(?P<text>[^*?\[]+)")


class BadPattern(ValueError):
    """A pattern that means nothing; the text says why."""


def matches(patterns: Sequence[str], path: str) -> bool:
    """True if a file's absolute path, the place behind its symbolic links, its URI, or its name fits a pattern."""
    places = {path} if location.is_uri(path) else {os.path.normpath(path), os.path.realpath(path)}
    texts = {*places, os.path.basename(path)}
    return any(compiled(pattern).fullmatch(text) for pattern in patterns for text in texts)


def rooted(pattern: str, folder: str) -> str:
    """A pattern that starts at a folder, unless it starts at the root, anywhere, in a store, or is about names.

    >>> rooted("in/*.csv", "/work[1]"), rooted("**/in/*.csv", "/work"), rooted("*.csv", "/work")
    ('/work[[]1]/in/*.csv', '**/in/*.csv', '*.csv')
    """
    if "/" not in pattern or pattern.startswith(("/", "**/")) or location.is_uri(pattern):
        return pattern
    return os.path.normpath(os.path.join(glob.escape(folder), pattern))


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression for whole paths.

    Raises:
        BadPattern: it is empty, a bracket is open, or `**` is not a whole component.
    """
    if not pattern:
        raise BadPattern("it is empty")
    *folders, last = pattern.split("/")
    text = "".join(_ANY_FOLDERS if part == "**" else _component(part) + "/" for part in folders)
    return re.compile(text + (".+" if last == "**" else _component(last)), re.DOTALL)


def _component(part: str) -> str:
    if "**" in part:
        raise BadPattern("`**` must be alone between slashes")
    found, at = "", 0
    while at < len(part):
        token = _TOKEN.match(part, at)
        if token is None:
            raise BadPattern("a bracket is never closed")
        if token["any"]:
            found += "[^/]*"
        elif token["one"]:
            found += "[^/]"
        elif token["text"]:
            found += re.escape(token["text"])
        else:
            found += _bracket(token["members"], is_negated=bool(token["negated"]))
        at = token.end()
    return found


def _bracket(members: str, *, is_negated: bool) -> str:
    if not members:
        raise BadPattern("a bracket is empty")
    escaped = "".join(member if member == "-" else re.escape(member) for member in members)
    text = f"[{'^' if is_negated else ''}{escaped}]"
    try:
        re.compile(text)
    except re.error as error:
        raise BadPattern(f"a bracket has a bad range: {error}") from None
    # A slash is never one of them, negated or not.
    return f"(?!/){text}"
