"""A diagnostic: a problem, its place, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_jobs.diagnostics.source import Span


class Severity(StrEnum):
    """The consequence of a diagnostic: an error stops the work, a warning never changes the exit status."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Code:
    """A diagnostic's identity: its id, as messages print it, and the problem's name.

    Each code is declared once, in `codes.py`, and has a page of its own in `explain/`.
    """

    id: str
    title: str
    severity: Severity = Severity.ERROR

    def at(
        self, span: Span | None, message: str, *, help: str | None = None, labels: tuple[Label, ...] = ()
    ) -> Diagnostic:
        """A diagnostic of this code at a place."""
        return Diagnostic(self, message, span, help, labels)


@dataclass(frozen=True)
class Label:
    """A second place of a diagnostic with a text, or a text at the diagnostic's own place."""

    span: Span
    text: str


@dataclass(frozen=True)
class Diagnostic:
    """A problem. `span` is None only where there is no file to point into (a command line, a missing file)."""

    code: Code
    message: str
    span: Span | None = None
    help: str | None = None
    labels: tuple[Label, ...] = ()

    @property
    def is_error(self) -> bool:
        """True if this diagnostic stops the work."""
        return self.code.severity is Severity.ERROR

    def __str__(self) -> str:
        place = f"{self.span} " if self.span else ""
        return f"{place}{self.code.id} {self.message}"


@dataclass
class Diagnostics:
    """The problems that a stage found, in the order of their places."""

    _items: dict[Diagnostic, None] = field(default_factory=dict)

    @property
    def items(self) -> list[Diagnostic]:
        """All problems in the order in which they were found."""
        return list(self._items)

    def add(self, diagnostic: Diagnostic) -> None:
        """Note one problem; the same problem twice is noted once."""
        self._items.setdefault(diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Add several problems."""
        for diagnostic in diagnostics:
            self.add(diagnostic)

    @property
    def has_errors(self) -> bool:
        """True if the work cannot go on."""
        return any(item.is_error for item in self._items)

    def sorted(self) -> list[Diagnostic]:
        """All problems by file and position; those without a place come first."""
        return sorted(
            self._items, key=lambda d: (d.span.file.name, d.span.start, d.code.id) if d.span else ("", -1, d.code.id)
        )

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.sorted())

    def __len__(self) -> int:
        return len(self._items)


class DiagnosticError(Exception):
    """Raised at a stage's border when errors make its result unusable; carries all the stage found."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = list(diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)))
