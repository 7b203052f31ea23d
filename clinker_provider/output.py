"""Filters and formats the lines that `spark-submit` prints. Free of Airflow."""

from __future__ import annotations

import logging
import re

#: The beginnings of the job's own warnings and errors.
_LEVELS = (
    (re.compile(r"WARNING |warning\["), logging.WARNING),
    (re.compile(r"error\["), logging.ERROR),
)
#: A line of Spark's log below a warning, in the layouts that Spark comes with.
_REPORT = re.compile(r"\d\d(?:\d\d)?[/-]\d\d[/-]\d\d \d\d:\d\d:\d\d(?:[.,]\d{3})? (?:INFO|DEBUG|TRACE) +[A-Z]\w*\$?: ")
#: Messages of every start of Spark on a healthy machine.
_BANNER = re.compile(
    r"WARNING: Using incubator modules: jdk\.incubator\.vector\s*$"
    r"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN NativeCodeLoader: Unable to load native-hadoop library"
    r"|Using Spark's default log4j profile: "
    r"|Setting default log level to \"|To adjust logging level use sc\.setLogLevel"
)

#: A line of a Java stack that names no cause.
_FRAME = re.compile(r"\s+at [\w.$]+|\s*\.\.\. \d+ more\s*$")
_MOST_LINES = 20


class Noise:
    """Tells Spark's reports from what people want to read: warnings, errors, and everything that the job prints.

    Args:
        is_hidden: whether there is noise at all; else every line is wanted.
    """

    def __init__(self, *, is_hidden: bool = True) -> None:
        self._is_hidden = is_hidden
        self._is_inside = False

    def has(self, line: str) -> bool:
        """Whether the next line is noise. A report goes on in lines that begin with a tab."""
        if not self._is_hidden:
            return False
        if _BANNER.match(line):
            return True
        self._is_inside = bool(_REPORT.match(line)) or (self._is_inside and line.startswith("\t"))
        return self._is_inside


def level_of(line: str) -> int | None:
    """The level of a warning or an error that the job reports; None for other lines."""
    return next((level for pattern, level in _LEVELS if pattern.match(line)), None)


def without_frames(text: str) -> str:
    r"""A headline and the last lines below it, without the frames of Java's stacks, which would hide the cause.

    >>> without_frames("Output:\nException in thread: no\n\tat a.B.c(D.java:1)\n\t... 3 more\nend")
    'Output:\nException in thread: no\nend'
    """
    headline, *lines = text.splitlines() or [""]
    return "\n".join([headline, *[line for line in lines if not _FRAME.match(line)][-_MOST_LINES:]])


class Indented(str):
    r"""A line that keeps its indentation, so that a caret points at its column. The Spark provider strips other lines.

    >>> Indented("   ^ here \n").strip()
    '   ^ here'
    """

    __slots__ = ()

    def strip(self, chars: str | None = None, /) -> str:
        """The text without the blanks after it."""
        return self.rstrip(chars)
