"""What there is to say of a transform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.nodes import tree
from spark_jobs.nodes.terms.description import Description, Expression, Made, no_facts, no_files, passed_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.transform.step import TransformStep


def _programs(step: TransformStep) -> Iterator[Expression]:
    yield Expression("cxl", step.program)
    for validation in step.validations:
        label = f"validation {validation.name}"
        yield Expression(label, validation.check, label)


def _trace(step: TransformStep, column: str) -> Made:
    if column not in dict(step.program.emits):
        return passed_on(step, column)
    return Made("emitted", tuple((0, name) for name in tree.behind(step.program, column)))


def _unready(step: TransformStep) -> Iterator[str]:
    yield from ()


DESCRIPTION = Description(
    parallel="record",
    facts=no_facts,
    programs=_programs,
    trace=_trace,
    details=None,
    unready=_unready,
    files=no_files,
)
