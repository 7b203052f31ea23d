"""Whether the inputs of a plan are there: what `validate` and `--dry-run` ask of the file system (decision 48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.nodes.source.step import SourceStep

if TYPE_CHECKING:
    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.plan.plan import Plan


def missing(plan: Plan, *, allow_outside: bool = False) -> list[Diagnostic]:
    """A diagnostic for each source whose files are missing or refused."""
    # Matching needs Arrow's file systems, which planning itself must not load.
    from spark_jobs.formats.format import FormatError
    from spark_jobs.scan import matching

    found: list[Diagnostic] = []
    for planned in plan.nodes:
        step = planned.step
        if not isinstance(step, SourceStep) or step.endpoint is not None:
            continue
        try:
            matching.match(planned.name, step.match, plan.base_dir, allow_outside=allow_outside)
        except FormatError as error:
            code = codes.by_id().get(error.code or "", codes.E216)
            found.append(code.at(plan.places.get(planned.name, planned.span), str(error), help="check the path"))
    return found
