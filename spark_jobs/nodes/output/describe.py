"""The description of outputs for `explain` and lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.nodes.output.step import IfExists
from spark_jobs.nodes.rules import step as rules
from spark_jobs.nodes.terms.description import ColumnDerivation, Description, Details, Section, no_programs, runs
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.nodes.terms.description import PlanContext


def _facts(step: OutputStep, context: PlanContext) -> dict[str, str]:
    return {"format": step.format, **rules.facts(step.rules)}


def _trace(step: OutputStep, column: str) -> ColumnDerivation:
    written = next(one for one in step.columns if one.name == column)
    how = "written" if written.source == column else f"written, renamed from {written.source}"
    return ColumnDerivation(how, ((0, written.source),))


def _lines(step: OutputStep, context: PlanContext) -> Iterator[str]:
    if not step.has_path:
        yield f"  '{step.name}' → {step.options.shown}"
        if step.is_in_database:
            yield f"      {step.options.run_time_shuffle}"
        yield from _sorted(step)
        return
    split = f' (split, naming="{step.split.naming}")' if step.split else ""
    is_below = context.base is not None and not location.is_uri(step.path) and not step.path.startswith("/")
    where = context.base.below(step.path) if context.base and is_below else step.path
    yield f"  '{step.name}' → {where}{split}"
    meta = str(step.write_meta).lower()
    suffix = ""
    if step.if_exists is IfExists.UNIQUE_SUFFIX:
        width = f":0{step.unique_suffix_width}" if step.unique_suffix_width else ""
        suffix = f" — collisions append `-{{n{width}}}` before extension"
    yield f"      [if_exists={step.if_exists}, write_meta={meta}]{suffix}"
    if step.is_table:
        yield f"      a table: mode={step.options.mode}, evolve={str(step.options.evolve).lower()}"
    elif step.parts:
        yield "      a folder of parts, as tasks write them"
    if step.by_file:
        yield f"      one file for each input file of '{step.by_file}'"
    yield from _sorted(step)


def _sorted(step: OutputStep) -> Iterator[str]:
    if step.sort_order:
        order = ", ".join(each.text for each in step.sort_order)
        yield f"      sorted by {order}: tasks write sorted runs, which tasks merge by ranges of the key"


def _files(step: OutputStep) -> tuple[str, ...]:
    return (step.path,) if step.has_path else ()


DESCRIPTION = Description(
    parallel=lambda step: "part-file",
    facts=_facts,
    programs=no_programs,
    trace=_trace,
    details=Details(Section.OUTPUTS, _lines),
    unready=runs,
    files=_files,
    stores=location.WRITABLE,
)
