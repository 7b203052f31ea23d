"""A run's figures in Airflow's own metrics: counters and timers per task, pipeline, node, category and phase.

They go where `[metrics]` in Airflow's configuration sends everything: StatsD, Datadog or OpenTelemetry. Like
Airflow's own metrics, each figure is sent twice: under a short name with tags, and, for collectors without tags, under
a name that contains the names of DAG, task, pipeline and node, unless `[metrics] legacy_names_on` is off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from spark_jobs.result import RunResult

#: The counters of a run, and what its record calls them.
RECORDS = {
    "records_read": "total", "records_written": "written", "records_filtered": "filtered",
    "records_deduplicated": "deduplicated", "dead_letters": "dlq",
}  # fmt: skip
#: The counters of a node, which its record calls the same.
NODE = ("records_in", "records_out", "filtered", "deduplicated", "dead")
_PREFIX = "clinker"
#: Names longer than Airflow takes would be dropped with a line in the log: a name within one is cut.
_LONGEST_PART = 90
_ODD = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True)
class Figure:
    """A metric: its short name with tags, its names without tags, and its value.

    A counter's value is how much it grows, a timer's is in milliseconds.
    """

    name: str
    tags: Mapping[str, str]
    names: tuple[str, ...]
    value: int
    is_time: bool = False


def of(record: RunResult | None, status: str, dag_id: str, task_id: str) -> Iterator[Figure]:
    """The figures of a run that has ended; counters that do not grow are left out.

    Records and dead letters are counted for runs that have published their files.

    Args:
        record: the result record of the run; None if it left none.
        status: `success`, `partial_success`, `failed` or `lost`.
        dag_id: the DAG's name.
        task_id: the task's.
    """
    pipeline = (record.pipeline_name if record else "") or "unknown"
    tags = {"dag_id": dag_id, "task_id": task_id, "pipeline": pipeline}
    whole = (("task", dag_id, task_id), ("pipeline", pipeline))

    def figure(
        name: str, value: Any, more: Mapping[str, str], *places: tuple[str, ...], is_time: bool = False
    ) -> Iterator[Figure]:
        if isinstance(value, int) and (value > 0 or is_time):
            yield Figure(_joined(*name.split(".")), {**tags, **more}, _names(places), value, is_time)

    def of_whole(name: str, value: Any, *, is_time: bool = False) -> Iterator[Figure]:
        yield from figure(name, value, {}, *((*place, name) for place in whole), is_time=is_time)

    yield from figure("runs", 1, {"status": status}, *((*place, "runs", status) for place in whole))
    if record is None:
        return
    yield from of_whole("duration", record.metrics.get("duration_ms"), is_time=True)
    for phase, milliseconds in record.phases_ms.items():
        yield from figure(
            "phase.duration", milliseconds, {"phase": phase}, ("phase", pipeline, phase, "duration"), is_time=True
        )
    if status == "failed":
        return
    counts = record.records
    for name, key in RECORDS.items():
        yield from of_whole(name, counts.get(key))
    for category, count in record.dlq_categories.items():
        yield from figure(
            "category.dead_letters", count, {"category": category}, ("category", pipeline, category, "dead_letters")
        )
    for node, found in record.nodes.items():
        more = {"node": node, "kind": str(found.get("kind", ""))}
        for name in NODE:
            yield from figure(f"node.{name}", found.get(name), more, ("node", pipeline, node, name))


def publish(record: RunResult | None, status: str, dag_id: str, task_id: str, stats: Any = None) -> None:
    """Send the figures of a run to Airflow's metrics: to `stats`, by default the metrics of this task's process."""
    from airflow.providers.common.compat.sdk import Stats, conf

    stats = stats or Stats
    # Airflow before 3.2 has no such option, and names of the first kind alone have lost their tags there.
    with_names = conf.getboolean("metrics", "legacy_names_on", fallback=True)
    for figure in of(record, status, dag_id, task_id):
        act = stats.timing if figure.is_time else stats.incr
        act(figure.name, figure.value, tags=dict(figure.tags))
        for name in figure.names if with_names else ():
            act(name, figure.value)


def _names(places: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(_joined(*place) for place in places)


def _joined(*parts: str) -> str:
    """Parts as one name; within a part a dot would begin another one."""
    return ".".join([_PREFIX, *(_ODD.sub("_", part.replace(".", "__"))[:_LONGEST_PART] or "_" for part in parts)])
