"""When a run may be interrupted, and when an interrupt comes too late."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Signals that end a run: Ctrl-C, a scheduler's stop, a closed terminal.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: The signal that has come, within `raised`.
_seen: list[int] = []


@contextmanager
def raise_on_signal(*, to_the_end: bool = False) -> Iterator[None]:
    """Within, the first of `SIGNALS` raises KeyboardInterrupt, and those after it are passed over.

    Schedulers repeat themselves, and so do people: a second signal must not end the tidying up that the first one
    began. Signals that the process was started to ignore (`nohup`) stay ignored.

    Args:
        to_the_end: the process ends after this, with its outcome: no signal changes that any more.
    """
    _seen.clear()

    def interrupt(number: int, frame: Any) -> None:
        if not _seen:
            _seen.append(number)
            raise KeyboardInterrupt

    try:
        with _handled_by(interrupt, afterwards=_pass_over if to_the_end else None):
            yield
    finally:
        _seen.clear()


def check() -> None:
    """Raise KeyboardInterrupt if a signal has come: Python drops an exception that is raised in a finalizer."""
    if _seen:
        raise KeyboardInterrupt


@contextmanager
def ignore_signals() -> Iterator[None]:
    """Within, `SIGNALS` do nothing: what runs here must come to its end."""
    with _handled_by(_pass_over):
        yield


def _pass_over(number: int, frame: Any) -> None:
    """No `SIG_IGN`: programs that are started would inherit that."""


@contextmanager
def _handled_by(handler: Any, *, afterwards: Any = None) -> Iterator[None]:
    """Python runs handlers in the main thread, and lets only that one set them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {
        number: signal.signal(number, handler) for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, afterwards or (signal.SIG_DFL if before is None else before))
