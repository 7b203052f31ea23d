"""`clinker lineage`: the source columns that each output column comes from."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from spark_jobs.cli import pipeline, report
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.stores.location import FilePath


def main(path: FilePath, options: PlanOptions, *, diagnostics: str, as_json: bool) -> int:
    """Print the lineage of a pipeline's outputs; `diagnostics` is how its problems are shown."""
    from spark_jobs.plan.explain import lineage

    with report.opened(diagnostics) as reporter:
        plan = pipeline.planned(path, options, reporter)
    if plan is None:
        return ExitCode.CONFIG
    origins = lineage.of_outputs(plan)
    if as_json:
        columns = [
            {
                "output": one.node,
                "column": one.column,
                "sources": [{"source": source, "column": column} for source, column in one.sources()],
            }
            for one in origins
        ]
        sys.stdout.write(json.dumps({"schema_version": 1, "columns": columns}, ensure_ascii=False, indent=2) + "\n")
        return ExitCode.SUCCESS
    for one in origins:
        origins_of = ", ".join(f"{source}.{column}" for source, column in one.sources()) or "(computed)"
        sys.stdout.write(printable(f"{one.node}.{one.column} <- {origins_of}") + "\n")
    return ExitCode.SUCCESS
