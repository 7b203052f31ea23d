"""The description of combines for `explain` and lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.nodes import program_reads
from spark_jobs.nodes.records.columns import is_engine
from spark_jobs.nodes.terms.description import (
    ColumnDerivation,
    Description,
    Details,
    Expression,
    Section,
    by_record,
    no_files,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.cxl import typed
    from spark_jobs.nodes.combine.step import CombineStep
    from spark_jobs.nodes.terms.description import PlanContext


def _strategy(step: CombineStep) -> str:
    if not step.equalities:
        return "ranges of the build side, sorted" if step.ranges else "range comparison of every pair"
    return "grace hash; both sides partitioned by key" if step.wants_shuffle else "hash build and probe"


def _facts(step: CombineStep, context: PlanContext) -> dict[str, str]:
    return {"strategy": _strategy(step)}


def _programs(step: CombineStep) -> Iterator[Expression]:
    for equality in step.equalities:
        yield Expression("key", equality.driver, title=None)
        yield Expression("key", equality.build, title=None)
    for each in step.ranges:
        yield Expression("range", each.driver, title=None)
        yield Expression("range", each.build, title=None)
    if step.residual is not None:
        yield Expression("residual", step.residual, "residual")
    if step.body is not None:
        yield Expression("cxl", step.body)


def _trace(step: CombineStep, column: str) -> ColumnDerivation:
    numbers = {qualifier: number for number, (qualifier, _) in enumerate(step.schemas)}
    for name, qualifier, source in step.pass_through:
        if column == name:
            return ColumnDerivation("carried", ((numbers[qualifier], source),))
    if step.body is None:
        if column in numbers and column != step.driver:
            row = dict(step.schemas)[column]
            return ColumnDerivation("combined", tuple((numbers[column], name) for name in row.names))
        return ColumnDerivation("combined", ((numbers[step.driver], column),))
    if column not in dict(step.body.emits):
        return ColumnDerivation("combined", ((numbers[step.driver], column),))
    return ColumnDerivation(
        "combined", tuple(_origin(step, numbers, name) for name in program_reads.inputs_of(step.body, column))
    )


def _origin(step: CombineStep, numbers: Mapping[str, int], name: str) -> tuple[int, str]:
    """The input and column behind a name in the body: a qualified name, or an engine column of the driver's record."""
    if is_engine(name):
        return numbers[step.driver], name
    qualifier, _, column = name.partition(".")
    return numbers[qualifier], column


def _lines(step: CombineStep, context: PlanContext) -> Iterator[str]:
    yield f"Combine '{step.name}':"
    yield f"  Strategy: {_strategy(step)}"
    yield f"  Driving input: {step.driver} (probe, from {context.feeds[step.driver]})"
    for build in step.builds:
        yield f"  Build input: {build} (build, from {context.feeds[build]})"
    residual = "yes" if step.rest is not None else "no"
    yield f"  Predicate: equalities={len(step.equalities)}, ranges={len(step.ranges)}, residual={residual}"
    if step.equalities:
        yield "  Equalities:"
        for equality in step.equalities:
            yield f"    - {_side(equality.driver)} == {_side(equality.build)}"
    if step.ranges:
        yield "  Ranges:"
        for each in step.ranges:
            sign = ("<" if each.is_upper else ">") + ("" if each.is_strict else "=")
            yield f"    - {_side(each.driver)} {sign} {_side(each.build)}"
    yield f"  Match: {step.match}"
    yield f"  On miss: {step.on_miss}"


def _side(program: typed.Program) -> str:
    start, end = program.statements[-1].place
    return str(program.text[start:end])


DESCRIPTION = Description(
    parallel=by_record,
    facts=_facts,
    programs=_programs,
    trace=_trace,
    details=Details(Section.LOOKUPS, _lines),
    unready=runs,
    files=no_files,
)
