"""YAML to plan: reads no data and needs no Spark.

Here: the stages of planning, the plan, and its entry points, which import what they need when they are called.
Not here: the meaning of a node, and its operators (`nodes/`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.plan import Plan
    from spark_jobs.stores.location import FilePath


def validate(
    path: str | os.PathLike[str] | FilePath,
    *,
    base_dir: str | os.PathLike[str] | FilePath | None = None,
    options: PlanOptions | None = None,
    to_run: bool = False,
) -> list[Diagnostic]:
    """All problems of a pipeline file, by position; warnings included. Never raises for what users wrote.

    Args:
        path: the pipeline file, also as a URI.
        base_dir: what its paths are relative to, where there are no `options`.
        options: everything that its meaning depends on beside its text.
        to_run: whether parts that are valid but cannot run yet count as problems too (E400).
    """
    from spark_jobs.plan import pending, planner
    from spark_jobs.plan.options import PlanOptions

    chosen = options or PlanOptions(base_dir=_place(base_dir) if base_dir is not None else None)
    plan, found = planner.plan(_place(path), chosen)
    return found.sorted() + (pending.pending(plan) if plan is not None and to_run else [])


def load(path: str | os.PathLike[str] | FilePath, options: PlanOptions | None = None) -> Plan:
    """The plan of a pipeline file.

    Raises:
        DiagnosticError: the file has errors; it carries everything that was found.
    """
    from spark_jobs.diagnostics.diagnostic import DiagnosticError
    from spark_jobs.plan import planner
    from spark_jobs.plan.options import PlanOptions

    plan, found = planner.plan(_place(path), options or PlanOptions())
    if plan is None:
        raise DiagnosticError(found.sorted())
    return plan


def explain_text(path: str | os.PathLike[str] | FilePath, options: PlanOptions | None = None) -> str:
    """The plan of a pipeline file as text.

    Raises:
        DiagnosticError: the file has errors.
    """
    from spark_jobs.plan.explain import explain

    return explain.text(load(path, options))


def _place(path: str | os.PathLike[str] | FilePath) -> FilePath:
    from spark_jobs.stores import location

    if isinstance(path, location.Location):
        return path
    return location.located(path) if isinstance(path, str) and location.is_readable(path) else Path(path)
