"""What a task's pipeline reads and writes, without Spark. Pure, free of Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clinker_provider.validation import Subject
    from spark_jobs.plan.explain.datasets import Datasets


def of(subject: Subject) -> Datasets | None:
    """What a pipeline reads and writes; None where the pipeline has errors."""
    from spark_jobs import plan as planning
    from spark_jobs.diagnostics.diagnostic import DiagnosticError
    from spark_jobs.plan.explain import datasets

    try:
        return datasets.of_plan(planning.load(subject.pipeline, subject.options()))
    except DiagnosticError:
        return None  # the check of the pipeline tells
