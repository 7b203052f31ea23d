"""Measures the phases of a run for its metrics."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Stopwatch:
    """Times phases; one that comes again adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        #: The phase that the run is in, or was in last.
        self.current = ""
        #: Gives how far the work of the phase is; None if nobody counts.
        self.detail: Callable[[], str] | None = None

    def show(self, detail: Callable[[], str] | None) -> None:
        """Have progress say how far the work of the phase is, from now on; with None it names the phase alone."""
        self.detail = detail

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the time of a phase."""
        started = time.perf_counter()
        self.current = name
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
