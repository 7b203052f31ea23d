"""The description of transforms for `explain` and lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import typed
from spark_jobs.nodes import program_reads
from spark_jobs.nodes.terms.description import ColumnDerivation, Description, Expression, no_files, passed_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.terms.description import PlanContext
    from spark_jobs.nodes.transform.step import TransformStep


def _programs(step: TransformStep) -> Iterator[Expression]:
    yield Expression("cxl", step.program)
    for validation in step.validations:
        label = f"validation {validation.name}"
        yield Expression(label, validation.check, label)


def _trace(step: TransformStep, column: str) -> ColumnDerivation:
    if column not in dict(step.program.emits):
        return passed_on(step, column)
    over = len(step.record_properties.looked_up)
    return ColumnDerivation(
        "emitted", tuple((over * in_frame, name) for in_frame, name in program_reads.reads(step.program, column))
    )


def _parallel(step: TransformStep) -> str:
    if step.record_properties.partition_by is not None:
        return "partition"
    return "key" if any(isinstance(part, typed.Distinct) for part in step.program.statements) else "record"


def _facts(step: TransformStep, context: PlanContext) -> dict[str, str]:
    window = step.window
    if window is None:
        return {}
    if window.source is not None:
        equal = " and ".join(f"{match.here} = {match.there}" for match in window.matches)
        facts = {"window": f"over the rows of {window.source}{f' where {equal}' if equal else ''}, the whole group"}
    else:
        partitions = f"of {', '.join(window.group_by)}" if window.group_by else "<all records>"
        facts = {"window": f"partitions {partitions}, from the first row to the current one"}
    facts["sort_by"] = ", ".join(each.text for each in window.sort_by) or "<input order>"
    return facts


def _unready(step: TransformStep) -> Iterator[str]:
    yield from ()


DESCRIPTION = Description(
    parallel=_parallel,
    facts=_facts,
    programs=_programs,
    trace=_trace,
    details=None,
    unready=_unready,
    files=no_files,
)
