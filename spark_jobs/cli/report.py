"""The diagnostics that a command reports: as text at once, or as one document at the end for programs to read."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spark_jobs.cli import standard_streams
from spark_jobs.diagnostics import codes, render
from spark_jobs.diagnostics.diagnostic import Code
from spark_jobs.diagnostics.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.diagnostics.source import SourceFile
    from spark_jobs.plan.plan import Plan
    from spark_jobs.result import RunError


class Reporter:
    """The diagnostics of a command, on standard error.

    Args:
        style: how they are shown.
        as_lines: whether texts are written as JSON lines, like the lines of the log.
        batch_id: the batch id in these lines; may be set later.
    """

    def __init__(self, style: render.Style, *, as_lines: bool = False, batch_id: str = "") -> None:
        self._style = style
        self._as_lines = as_lines and not style.is_document
        self.batch_id = batch_id
        self._waiting: list[Diagnostic] = []

    def add(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Report diagnostics: text is written now, a document by `close`."""
        if self._style.is_document:
            self._waiting += diagnostics
        else:
            self._write(diagnostics)

    def close(self) -> None:
        """Write the document, an empty one too."""
        if self._style.is_document:
            self._write(self._waiting)

    def _write(self, diagnostics: Iterable[Diagnostic]) -> None:
        with standard_streams.given_up("clinker", sys.stderr):
            sys.stderr.write(self._rendered(diagnostics))

    def _rendered(self, diagnostics: Iterable[Diagnostic]) -> str:
        if not self._as_lines:
            return render.render(diagnostics, self._style, colour=render.wants_colour(sys.stderr))
        from spark_jobs.execute import logs

        return "".join(f"{logs.object_line(*_as_line(each, self.batch_id))}\n" for each in diagnostics)


def _as_line(item: Diagnostic, batch_id: str) -> tuple[str, str, str, dict[str, Any]]:
    """Level, message, batch and the other facts, as the log's lines have them."""
    facts = render.record(item)
    message = facts.pop("message")
    level = "error" if item.is_error else "warn"
    return level, message, batch_id, {"event": "diagnostic", **facts}


@contextmanager
def opened(style: str, log_format: str = "text", batch_id: str | None = None) -> Iterator[Reporter]:
    """A report that is whole when the command ends, however it ends."""
    report = Reporter(render.Style(style), as_lines=log_format == "json", batch_id=batch_id or "")
    try:
        yield report
    finally:
        report.close()


def of_run(error: RunError, plan: Plan | None = None) -> Diagnostic:
    """The error that ended a run as a diagnostic, with a place if the plan knows the file."""
    code = codes.by_id().get(error.code) or Code(error.code, "the run was ended")
    places = [*plan.places.values(), *(node.span for node in plan.nodes), *plan.storage.places.values()] if plan else []
    known = next((place for place in places if str(place) == error.span), None)
    return code.at(known or _within([place.file for place in places if place], error.span), error.message)


def _within(files: Iterable[SourceFile], place: str | None) -> Span | None:
    """The rest of the line at `path:line:column` in one of some files."""
    path, *numbers = (place or "").rsplit(":", 2)
    file = next((file for file in files if file.name == path), None)
    if file is None or len(numbers) != len(("line", "column")):
        return None
    line, column = map(int, numbers)
    start = file.offset(line, column)
    return Span(file, start, max(start + len(file.line(line)) - column + 1, start))
