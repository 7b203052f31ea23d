"""Log lines of programs, `trace` and `debug`: each knows the row of the batch that it is about."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from spark_jobs.cxl import values

LOG = logging.getLogger("clinker.cxl")
#: The levels as Python's logging numbers them; `trace` is finer than DEBUG.
LEVELS = {"trace": 5, "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


@dataclass
class TraceContext:
    """The row in its batch that the interpreter is evaluating, if there is a batch."""

    position: int | None = None


LOOKING = TraceContext()


def is_enabled(level: str) -> bool:
    """True if anybody reads lines of a level."""
    return LOG.isEnabledFor(LEVELS[level])


def write(level: str, message: Any, position: int | None = None) -> None:
    """Write a line about a row: that at the position, or else the one the interpreter is looking at."""
    text = message if message.__class__ is str else values.text_of(message)
    at = LOOKING.position if position is None else position
    LOG.log(LEVELS[level], "%s", text, extra={"position": at})
