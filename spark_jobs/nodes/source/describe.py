"""The description of sources for `explain` and lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.nodes.rules import step as rules
from spark_jobs.nodes.terms.description import ColumnDerivation, Description, no_programs, runs
from spark_jobs.scan.bookmarks import Changed, Growth
from spark_jobs.scan.network import addresses
from spark_jobs.stores import location

if TYPE_CHECKING:
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.nodes.terms.description import PlanContext


def _facts(step: SourceStep, context: PlanContext) -> dict[str, str]:
    live = [column.name for column in step.columns if column.name in step.live]
    facts = {
        "estimated size": "unknown" if context.size is None else f"{context.size} bytes",
        "columns read": f"{len(live)} of {len(step.columns)}: {', '.join(live) or '<none>'}",
        "on_unmapped": str(step.on_unmapped),
    }
    if step.passes:
        facts["passed over"] = f"row groups without any record of `{' and '.join(map(str, step.passes))}`"
    if step.watermark_column is not None:
        delay = f", {step.watermark_delay_s:g} s behind" if step.watermark_delay_s else ""
        facts["watermark"] = f"{step.watermark_column}{delay}"
        if step.idle_timeout_s is not None:
            facts["watermark"] += f", a silent file is passed over after {step.idle_timeout_s:g} s"
    if step.file_format.is_in_folder:
        facts["table"] = f"{step.match.path}, {step.options.shown}"
    elif not step.file_format.has_files:
        facts["table"] = step.options.shown
    facts |= context.found
    facts |= rules.facts(step.rules)
    if step.incremental is not None:
        facts["incremental"] = _growth(step)
    if step.endpoint is not None:
        address = addresses.display_url(step.endpoint.url, step.endpoint.secrets)
        facts["pages"] = f"{address}, at most {step.endpoint.max_pages}, fetched by the driver"
    return facts


def _growth(step: SourceStep) -> str:
    """The part of the source that each run reads."""
    wanted = step.incremental
    assert wanted is not None
    if step.file_format.growth is Growth.VERSION:
        return "what versions have added that no earlier run has read"
    if wanted.column:
        delay = f", and are older than {wanted.delay_s:g} s" if wanted.delay_s else ""
        return f"rows whose `{wanted.column}` is greater than in earlier runs{delay}"
    changed = "read again" if wanted.changed is Changed.READ else "refused"
    return f"files that no earlier run has read; changed ones are {changed}"


def _trace(step: SourceStep, column: str) -> ColumnDerivation:
    return ColumnDerivation("read")


def _files(step: SourceStep) -> tuple[str, ...]:
    regex = (step.match.regex or "").removeprefix("^")
    return (*step.match.named, regex) if location.is_uri(regex) else step.match.named


DESCRIPTION = Description(
    parallel=lambda step: "file-split",
    facts=_facts,
    programs=no_programs,
    trace=_trace,
    details=None,
    unready=runs,
    files=_files,
    stores=location.READABLE,
)
