"""A span of each run with its phases, in the trace of the task, where Airflow traces (`[traces] otel_on`).

The engine measures its phases; the spans are made from its record when the run has ended. The times of a repeated phase
are added up, so the spans follow one another in the order in which their phases first began.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from spark_jobs.result import RunResult

_NANOSECONDS = 1_000_000


def publish(record: RunResult, provider: TracerProvider | None = None) -> None:
    """Create the spans of a run below the current one. Without tracing they cost nothing.

    Args:
        record: the result record of the run.
        provider: the tracer provider; by default the one that Airflow has set.
    """
    try:
        from opentelemetry import trace
    except ImportError:  # an Airflow without its extra `otel`
        return
    began = _nanoseconds(record.started_at)
    duration = record.metrics.get("duration_ms")
    if began is None or not isinstance(duration, int):
        return
    tracer = trace.get_tracer("clinker_provider", tracer_provider=provider)
    run = tracer.start_span("clinker.run", start_time=began, attributes=_attributes(record))
    if record.status.value == "failed":
        run.set_status(trace.StatusCode.ERROR, record.error.code if record.error else None)
    within = trace.set_span_in_context(run)
    at = began
    for phase, milliseconds in record.phases_ms.items():
        span = tracer.start_span(f"clinker.{phase}", context=within, start_time=at)
        at += milliseconds * _NANOSECONDS
        span.end(at)
    run.end(max(at, began + duration * _NANOSECONDS))


def _attributes(record: RunResult) -> dict[str, str | int]:
    return {
        "clinker.pipeline": record.pipeline_name,
        "clinker.execution_id": record.execution_id,
        "clinker.application_id": record.application_id or "",
        "clinker.status": record.status.value,
        "clinker.exit_code": record.exit_code,
        "clinker.dead_letters": record.dlq_count,
        **{f"clinker.records.{name}": count for name, count in record.records.items()},
    }


def _nanoseconds(moment: str | None) -> int | None:
    try:
        return int(datetime.fromisoformat(moment).timestamp() * 1000) * _NANOSECONDS if moment else None
    except ValueError:
        return None
