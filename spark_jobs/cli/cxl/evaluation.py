"""Runs a compiled program on one record, on either engine, and prints the outcome of `cxl eval`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import engine, failure, values

if TYPE_CHECKING:
    from spark_jobs.cxl import typed
    from spark_jobs.cxl.schema import Schema

_NO_ID = "00000000-0000-0000-0000-000000000000"


@dataclass
class Outcome:
    """The result of evaluating a record."""

    records: list[dict[str, Any]] = field(default_factory=list)
    filtered: bool = False
    duplicate: bool = False
    fans_out: bool = False


def context_of(name: str) -> engine.EvaluationContext:
    """The values of `$pipeline` and `$source` without a pipeline."""
    start = datetime.now(UTC).replace(tzinfo=None)
    return engine.EvaluationContext(
        {
            "pipeline.name": "cxl-eval",
            "pipeline.execution_id": _NO_ID,
            "pipeline.batch_id": _NO_ID,
            "pipeline.start_time": start,
            "pipeline.total_count": 1,
            "source.file": name,
            "source.path": name,
            "source.name": name,
            "source.batch": _NO_ID,
            "source.row": 1,
            "source.ingestion_timestamp": start,
        }
    )


def run(program: typed.Program, record: dict[str, Any], row: Schema, name: str, engine_name: str) -> Outcome:
    """Run a program; raises `Failure` when the record fails."""
    from spark_jobs.cxl import typed

    fans_out = any(isinstance(statement, typed.Each) for statement in program.statements)
    outcome = (_on_arrow if engine_name == "arrow" else _interpreted)(program, record, row, context_of(name))
    outcome.fans_out = fans_out
    return outcome


def _interpreted(
    program: typed.Program, record: dict[str, Any], row: Schema, context: engine.EvaluationContext
) -> Outcome:
    from spark_jobs.cxl.interpreter import interpreter

    result = interpreter.compile(program)(record, context)
    return Outcome(result.outputs, result.filtered, result.duplicate)


def _on_arrow(
    program: typed.Program, record: dict[str, Any], row: Schema, context: engine.EvaluationContext
) -> Outcome:
    import pyarrow as pa

    from spark_jobs.cxl.kernels import kernels

    arrays = [values.to_arrow([record.get(column.name)], column.type) for column in row]
    # A batch without columns has no rows, and every program deserves one.
    arrays.append(pa.array([0], pa.int64()))
    batch = pa.RecordBatch.from_arrays(arrays, names=[*row.names, "$row"])
    result = kernels.compile(program)(batch, context)
    if result.failures:
        raise result.failures[0].failure
    static = dict(program.emits)
    count = 1 if result.rows is None else len(result.rows)
    columns = {name: values.from_arrow(array, static[name]) for name, array in result.emits.items()}
    masks = {name: mask.to_pylist() for name, mask in result.emitted.items()}
    records = [
        {name: column[i] for name, column in columns.items() if name not in masks or masks[name][i]}
        for i in range(count)
    ]
    return Outcome(records, bool(result.filtered), bool(result.duplicates))


def failure_text(problem: failure.Failure) -> str:
    """A record's failure as `cxl` prints it: the row, the field if there is one, and the reason."""
    place = f"field '{problem.field}': " if problem.field else ""
    return f"row 1: {place}{problem.detail}"


def json_of(outcome: Outcome) -> str:
    """The outcome as one JSON object on one line."""
    return f'{{"status":"ok","records":{values.json_text(outcome.records)}}}'


def json_of_failure(problem: failure.Failure) -> str:
    """A failure as one JSON object on one line."""
    return json.dumps(
        {"status": "failed", "category": str(problem.category), "message": failure_text(problem)}, ensure_ascii=False
    )


def pretty(value: Any, indent: str = "") -> str:
    """A value as JSON with two blanks a level."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        parts = [f"{inner}{values.json_text(key)}: {pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + pretty(item, inner) for item in value) + f"\n{indent}]"
    return values.json_text(value)
