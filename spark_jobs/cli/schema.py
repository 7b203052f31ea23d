"""`clinker schema`: the JSON Schema of pipeline files."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


def main(*, of_cases: bool, output: Path | None) -> int:
    """Print the schema of pipelines, or of files of cases; or write it to a file."""
    from spark_jobs.plan.reading import json_schema

    if of_cases:
        from spark_jobs.cli.cases import model

        found = {"$schema": json_schema.DIALECT, "title": "Clinker cases", **model.CaseFile.model_json_schema()}
    else:
        found = json_schema.schema()
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    if output is None:
        sys.stdout.write(text)
        return ExitCode.SUCCESS
    from spark_jobs.disk import durable

    try:
        durable.replace_text(output, text)
    except OSError as error:
        sys.stderr.write(f"clinker schema error: {durable.describe(error)}\n")
        return ExitCode.IO
    return ExitCode.SUCCESS
