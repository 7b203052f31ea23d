"""`clinker validate`: reports all problems of pipelines, without reading data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs.cli import pipeline, report
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics import render
from spark_jobs.disk import small_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.stores.location import FilePath


def main(paths: Sequence[FilePath], options: PlanOptions, *, diagnostics: str, look_for_inputs: bool) -> int:
    """Check each pipeline; exit 1 when any has an error.

    Args:
        paths: the pipeline files.
        options: how they are planned.
        diagnostics: how problems are shown.
        look_for_inputs: whether input files have to exist.
    """
    found: list[Diagnostic] = []
    for path in paths:
        found += _problems(path, options, look_for_inputs=look_for_inputs)
    with report.opened(diagnostics) as reporter:
        reporter.add(found)
    failed = any(item.is_error for item in found)
    if not failed and not render.Style(diagnostics).is_document:
        files = ", ".join(str(path) for path in paths)
        sys.stdout.write(f"{files}: valid\n")
    return ExitCode.CONFIG if failed else ExitCode.SUCCESS


def _problems(path: FilePath, options: PlanOptions, *, look_for_inputs: bool) -> list[Diagnostic]:
    from spark_jobs.plan import remembered

    if remembered.is_without_problems(path, options, look_for_inputs=look_for_inputs):
        return []
    from spark_jobs.plan import pending, planner
    from spark_jobs.plan.physical import inputs

    with small_files.recorded() as files:
        plan, found = planner.plan(path, options)
    problems = found.sorted()
    if plan is None:
        return problems
    problems += pending.uris(plan)
    discover = pipeline.discovery(plan, options)
    if look_for_inputs:
        problems += inputs.missing(plan, discover()) + pipeline.storage(plan, discover)
    if not problems:
        remembered.remember_check(path, options, plan, files, discover() if look_for_inputs else None)
    return problems
