"""Waiting for what happens a moment later: in another process or thread, on a machine that has other work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")


def until(look: Callable[[], T], seconds: float = 240.0, *, every: float = 0.02) -> T:
    """Call `look` until it returns a true value or the time is over; returns its last value.

    Args:
        look: looks for something.
        seconds: how long it may take.
        every: seconds between two calls; more if calls slow down the thing that is waited for.
    """
    end = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < end:
        time.sleep(every)
    return found
