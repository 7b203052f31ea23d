"""Log lines of a run: caught in tasks, written by the driver in the order of the records."""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_jobs.cxl import tracing
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from socketserver import BaseServer
    from typing import Any, TextIO

    from spark_jobs.execute.report import LogLine, Notice

#: The levels of pipelines and of `--log-level`.
LEVELS = tracing.LEVELS
#: A task keeps this many lines; the rest is counted.
LINES_PER_TASK = 1000
#: The logger of runs.
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
    """From now on, what py4j and PySpark say of lost connections is written with `--log-level debug` only."""
    from spark_jobs.execute.spark import internals

    logging.getLogger().addFilter(_GATEWAY_ASIDE)
    internals.on_lost_connections(_debug_connection)


def _debug_connection(server: BaseServer, request: object, client_address: object) -> None:
    """Log a lost JVM at debug level, in place of py4j's traceback: the run reports the end of the JVM itself."""
    LOG.debug("the connection of %s to Spark was lost", type(server).__name__, exc_info=True)


class _Catcher(logging.Handler):
    def __init__(self, take: Callable[[str, str, int | None], None]) -> None:
        super().__init__(LEVELS["trace"])
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        level = next((name for name, number in LEVELS.items() if number >= record.levelno), "error")
        self._take(level, record.getMessage(), getattr(record, "position", None))


@contextmanager
def capture_traces(take: Callable[[str, str, int | None], None], least: int) -> Iterator[None]:
    """Within, what CXL programs trace from a level on goes to `take(level, line, the row's position in its batch)`."""
    level, handler = tracing.LOG.level, _Catcher(take)
    tracing.LOG.setLevel(least)
    tracing.LOG.addHandler(handler)
    propagate, tracing.LOG.propagate = tracing.LOG.propagate, False
    try:
        yield
    finally:
        tracing.LOG.removeHandler(handler)
        tracing.LOG.setLevel(level)
        tracing.LOG.propagate = propagate


@contextmanager
def show_logs(
    stream: TextIO, level: str, style: str, batch_id: str, masked: Callable[[str], str], *, names_batch: bool
) -> Iterator[None]:
    """Within, log lines go to a stream, as text or as one JSON object a line; `masked` takes secrets out of them.

    Objects always have the batch id, texts where somebody has chosen it: a made-up one tells a reader nothing.
    """
    logger = logging.getLogger("clinker")
    logging.addLevelName(LEVELS["trace"], "TRACE")
    handler = logging.StreamHandler(stream)
    lines = _JsonLines(batch_id) if style == "json" else _TextLines(batch_id if names_batch else "")
    handler.setFormatter(_Masked(lines, masked))
    before, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(LEVELS.get(level, logging.INFO))
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = propagate


class _Masked(logging.Formatter):
    """Formats whole lines, including tracebacks, with secrets masked."""

    def __init__(self, lines: logging.Formatter, masked: Callable[[str], str]) -> None:
        super().__init__()
        self._lines = lines
        self._masked = masked

    def format(self, record: logging.LogRecord) -> str:
        return self._masked(self._lines.format(record))


class _TextLines(logging.Formatter):
    """Data stays on its line and steers no terminal; a traceback has the lines that it has."""

    def __init__(self, batch_id: str) -> None:
        super().__init__()
        self._batch = f"batch_id={printable(batch_id)} " if batch_id else ""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return f"{record.levelname} {self._batch}{printable(record.message)}"

    def formatException(self, ei: Any) -> str:
        return printable(super().formatException(ei), keep="\n")


class _JsonLines(logging.Formatter):
    def __init__(self, batch_id: str) -> None:
        super().__init__()
        self._batch_id = batch_id

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "batch_id": self._batch_id,
            "message": printable(record.getMessage()),
        }
        if record.exc_info:
            line["traceback"] = printable(self.formatException(record.exc_info), keep="\n")
        return json.dumps(line, ensure_ascii=False)


def warn(notices: Iterable[Notice], file_of: Callable[[int, int], str], rows_before: Mapping[int, int]) -> None:
    """Write warnings of what users should know; one about values has their number, and the place of the first."""
    for notice in notices:
        text = notice.text
        if notice.count:
            row = rows_before.get(notice.split, 0) + notice.row + 1
            place = f"{file_of(notice.split, notice.source)}, row {row}"
            text = f"{text}: {notice.count}; the first is '{notice.shown}' of {place}"
        LOG.warning("%s", text)


def object_line(level: str, message: str, batch_id: str, facts: Mapping[str, Any]) -> str:
    """A line as `--log-format json` has them, with more facts."""
    record = logging.LogRecord("clinker", LEVELS[level], "", 0, "%s", (message,), None)
    return json.dumps({**json.loads(_JsonLines(batch_id).format(record)), **facts}, ensure_ascii=False)


def write(lines: Iterable[LogLine], file_of: Callable[[int, int], str], rows_before: Mapping[int, int]) -> None:
    """Write what tasks have to say; a line about a record begins with its row and file, or shows its row."""
    for line in lines:
        text = line.text
        row = rows_before.get(line.split, 0) + line.row + 1
        if line.row_texts:
            # Rows that begin with no record, such as the row of a global aggregate, have no number.
            text = (f"row {row}: " if line.split >= 0 and row > 0 else "").join([text, *line.row_texts])
        elif line.split >= 0:
            text = f"source_row={row} source_file={file_of(line.split, line.source)}: {text}"
        LOG.log(LEVELS[line.level], "%s", text)
