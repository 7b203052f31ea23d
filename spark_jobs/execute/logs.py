"""Log lines of a run: caught in tasks, written by the driver in the order of the records."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The levels of pipelines and of `--log-level`, as Python's logging numbers them; `trace` is finer than DEBUG.
LEVELS = {"trace": 5, "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
#: A task keeps this many lines; the rest is counted.
LINES_PER_TASK = 1000
#: What a run has to say.
LOG = logging.getLogger("clinker.run")


class _GatewayAside(logging.Filter):
    """py4j logs lost connections, with their tracebacks, as errors of the root logger: they become details of ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.pathname.replace("\\", "/").endswith("/py4j/java_gateway.py"):
            return True
        LOG.debug(record.getMessage(), exc_info=record.exc_info)
        return False


_GATEWAY_ASIDE = _GatewayAside()


def quiet_gateway() -> None:
    """From now on, what py4j has to say of its connections is written with `--log-level debug` only."""
    logging.getLogger().addFilter(_GATEWAY_ASIDE)


class _Catcher(logging.Handler):
    def __init__(self, take: Callable[[str, str], None]) -> None:
        super().__init__(LEVELS["trace"])
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        level = next((name for name, number in LEVELS.items() if number >= record.levelno), "error")
        row = getattr(record, "source_row", None)
        place = f"row {row}: " if row is not None else ""
        self._take(level, f"{place}{record.getMessage()}")


@contextmanager
def captured(take: Callable[[str, str], None]) -> Iterator[None]:
    """Within, what CXL programs trace goes to `take(level, line)`."""
    logger = logging.getLogger("clinker.cxl")
    level, handler = logger.level, _Catcher(take)
    logger.setLevel(LEVELS["trace"])
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
