"""Findings of the front end in a program: mistakes and warnings, each with its stage and place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes

if TYPE_CHECKING:
    from spark_jobs.cxl.syntax.ast import Place
    from spark_jobs.diagnostics.diagnostic import Code
    from spark_jobs.diagnostics.source import Text


class Stage(StrEnum):
    """The phase that found something, in the words that `cxl check` prints."""

    PARSE = "parse"
    RESOLVE = "resolve"
    TYPECHECK = "typecheck"


@dataclass(frozen=True)
class Finding:
    """A mistake or warning.

    `text` is the module's text where the place is in a module, None for the program itself. `label` are words that
    stand beside the place.
    """

    stage: Stage
    message: str
    place: Place
    help: str | None = None
    code: Code = codes.E200
    text: Text | None = None
    label: str | None = None

    @property
    def is_error(self) -> bool:
        """True if the program cannot be used."""
        return self.code.severity == "error"
