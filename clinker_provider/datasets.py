"""The datasets that a task's pipeline reads and writes, without Spark. Pure, free of Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clinker_provider.validation import Subject
    from spark_jobs.plan.explain.datasets import Datasets


def of(subject: Subject) -> Datasets | None:
    """The datasets of a pipeline; None if the pipeline has errors."""
    from spark_jobs import plan as planning
    from spark_jobs.diagnostics.diagnostic import DiagnosticError
    from spark_jobs.plan.explain import datasets

    try:
        return datasets.of_plan(planning.load(subject.pipeline, subject.options()))
    except DiagnosticError:
        return None  # the check of the pipeline tells


def with_columns(subject: Subject) -> tuple[Datasets, dict[str, dict[str, list[tuple[str, str]]]]] | None:
    """The datasets of a pipeline, and the source columns of each output column; None if the pipeline has errors."""
    from spark_jobs import plan as planning
    from spark_jobs.diagnostics.diagnostic import DiagnosticError
    from spark_jobs.plan.explain import datasets, lineage

    try:
        plan = planning.load(subject.pipeline, subject.options())
    except DiagnosticError:
        return None
    columns: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for each in lineage.of_outputs(plan):
        columns.setdefault(each.node, {})[each.column] = each.sources()
    return datasets.of_plan(plan), columns
