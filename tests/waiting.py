"""Waiting for what happens a moment later: in another process or thread, on a machine that has other work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")


def until(look: Callable[[], T], seconds: float = 240.0, *, every: float = 0.02) -> T:
    """What is looked for as soon as it is there; what there was at the end where it does not come in time.

    Args:
        look: looks for it.
        seconds: how long it may take.
        every: seconds between two looks; more than a moment for what looking makes slower.
    """
    end = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < end:
        time.sleep(every)
    return found
