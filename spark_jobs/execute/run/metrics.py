"""The records of a run: the metrics file with counters per node, and the result record for the caller."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import contract, result
from spark_jobs.disk import durable
from spark_jobs.execute import logs
from spark_jobs.execute.dlq.reasons import ReasonSummary
from spark_jobs.execute.spark import cores, processes
from spark_jobs.nodes.records.ledger import Counters
from spark_jobs.plan import paths
from spark_jobs.plan.physical import upstream
from spark_jobs.stores import location, opening
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.contract import ExitCode
    from spark_jobs.execute.identity import Identity
    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.execute.run import rules
    from spark_jobs.execute.tally import Tally
    from spark_jobs.plan import plan as plans
    from spark_jobs.plan.options import RunOptions
    from spark_jobs.stores.location import FilePath

DIRECTORY_VARIABLE = "CLINKER_METRICS_SPOOL_DIR"
#: The longest file name that file systems accept, without the suffix.
_LONGEST_NAME_BYTES = 200


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Args:
        result: the record for its scheduler.
        nodes: the record counts of each node.
        document: the contents of the run's metrics file, even if none is written; empty for a run that did nothing.
    """

    result: result.RunResult
    nodes: Mapping[str, Mapping[str, Any]]
    document: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """The facts about a run when it ends, however far it came.

    Args:
        plan: the plan.
        identity: its ids, and when it began.
        threads: the tasks that ran at a time on one machine.
        inputs: its inputs; None if they were not determined.
        tally: the counts of its tasks.
        application: the Spark application.
        phases: the seconds of its phases.
        output_files: the published files of each output.
        dlq_files: the published dead-letter files, the common one first.
        is_one_process: whether all its tasks ran in this process.
    """

    plan: plans.Plan
    identity: Identity
    threads: int
    inputs: Inputs | None
    tally: Tally
    application: Mapping[str, str | None]
    phases: Mapping[str, float]
    output_files: Mapping[str, tuple[str, ...]]
    dlq_files: tuple[str, ...]
    is_one_process: bool
    #: Statistics of the passes of a run with correlation keys.
    correlation: Mapping[str, Any] = field(default_factory=dict)
    #: The event time that the files of each source have reached, see `PassResults.watermarks`.
    watermarks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: The reasons of dead letters.
    reasons: ReasonSummary = field(default_factory=ReasonSummary)
    #: The results of rules on data.
    rules: Sequence[rules.Outcome] = ()

    @property
    def dlq_path(self) -> str | None:
        """The dead-letter file: the common one, or the first where only sources have theirs."""
        return next(iter(self.dlq_files), None)


def conclude(run: Facts, folder: str | None, exit_code: ExitCode, error: result.RunError | None) -> Outcome:
    """Write the metrics file, if one is wanted, and give the run's outcome; a failed run has both too.

    The file goes to the given folder, or else to the folder of the environment or of the plan.
    """
    finished = datetime.now(UTC)
    folder = _folder(folder, run.plan)
    summary = _summary(run, finished)
    document = {**_document(run, finished, exit_code, error), **summary}
    path = _written(folder, run.plan.stores, run.identity, document) if folder else None
    return replace(_outcome(run, summary, exit_code, error, path), document=document)


def refused(
    names: Identity, plan: plans.Plan | None, path: FilePath, options: RunOptions, record: result.RunResult
) -> str | None:
    """Write the metrics file of a run that ended before it began, if one is wanted. Returns its path.

    It has the keys of every metrics file, with no counts, because the plan may be unknown.
    """
    folder = _folder(options.metrics_spool_dir, plan)
    if not folder:
        return None
    now = names.started.isoformat()
    document = {
        **_names(names, plan.name if plan else record.pipeline_name, path),
        "started_at": now,
        "finished_at": now,
        "exit_code": record.exit_code,
        "error": str(record.error) if record.error else None,
        "execution_mode": _mode(plan) if plan else None,
        "thread_count": cores.at_a_time(options.master, options.threads or (plan.threads if plan else None)),
        "input_files": [],
        "output_files": list(record.output_files),
        "dlq_path": record.dlq_path,
        "dlq_paths": list(record.dlq_paths),
        "dlq_reasons": list(record.dlq_reasons),
        **{f"records_{counted}": count for counted, count in record.records.items()},
        "duration_ms": 0,
        "peak_rss_bytes": processes.peak_rss(),
    }
    return _written(folder, plan.stores if plan else StoreSettings(), names, document)


def _folder(given: str | None, plan: plans.Plan | None) -> str | None:
    return given or os.environ.get(DIRECTORY_VARIABLE) or (plan.metrics_dir if plan else None)


def expected(names: Identity, plan: plans.Plan, folder: str | None) -> str | None:
    """The future path of the metrics file while the run goes on; None if none is wanted."""
    found = _folder(folder, plan)
    if not found:
        return None
    try:
        return str(_place(location.located(found), plan.stores, names))
    except (OSError, location.BadLocation):  # it is told when the file is written
        return None


def adopt_outcome(names: Identity, plan: plans.Plan, options: RunOptions, before: Outcome) -> Outcome:
    """The outcome of an attempt that had nothing to do: the metrics file is the one of the attempt that did the work.

    If that attempt died before it could write one, this attempt writes the document of its record.
    """
    record = before.result
    if record.metrics_path is None or _is_there(location.located(record.metrics_path), plan.stores):
        return before
    return replace(before, result=replace(record, metrics_path=refused(names, plan, plan.path, options, record)))


def outcome(
    run: Facts, finished: datetime, exit_code: ExitCode, error: result.RunError | None = None, path: str | None = None
) -> Outcome:
    """The outcome of a run that has ended or is about to; `path` is its metrics file."""
    return _outcome(run, _summary(run, finished), exit_code, error, path)


def _outcome(
    run: Facts, summary: Mapping[str, Any], exit_code: ExitCode, error: result.RunError | None, path: str | None
) -> Outcome:
    record = result.RunResult(
        execution_id=run.identity.execution_id,
        exit_code=int(exit_code),
        pipeline_name=run.plan.name,
        records_total=summary["records_total"],
        records_ok=summary["records_ok"],
        records_written=summary["records_written"],
        records_filtered=summary["records_filtered"],
        records_deduplicated=summary["records_deduplicated"],
        records_dlq=summary["records_dlq"],
        dlq_path=run.dlq_path,
        dlq_paths=run.dlq_files,
        dlq_count=run.tally.dead,
        dlq_reasons=run.reasons.reasons,
        dlq_reasons_more=run.reasons.more,
        dlq_reasons_more_count=run.reasons.more_count,
        dlq_categories=dict(run.tally.dead_per_category),
        rules=tuple(each.record for each in run.rules),
        output_files=tuple(file for files in run.output_files.values() for file in files),
        outputs=_outputs(run),
        inputs=_inputs(run),
        metrics_path=path,
        metrics={key: value for key, value in summary.items() if not isinstance(value, dict | list)},
        nodes=_nodes(run),
        started_at=run.identity.started.isoformat(),
        phases_ms=_phases(run),
        application_id=run.application.get("application_id"),
        error=error,
    )
    return Outcome(record, record.nodes)


def counts(plan: plans.Plan, tally: Tally) -> dict[str, int]:
    """The counts of all tasks so far, by the paths of the counters."""
    return {
        "pipeline.total_count": sum(counters.records_in for counters in _of_kind(plan, tally, "source")),
        "pipeline.ok_count": tally.ok,
        "pipeline.dlq_count": tally.dead,
    }


def _of_kind(plan: plans.Plan, tally: Tally, kind: str) -> list[Counters]:
    names = {planned.name for planned in plan.nodes if planned.kind == kind}
    return [counters for name, counters in tally.counters.items() if name in names]


def _summary(run: Facts, finished: datetime) -> dict[str, Any]:
    """The figures that a scheduler shows; scalars."""
    nodes = run.tally.counters.values()
    counted = counts(run.plan, run.tally)
    return {
        "records_total": counted["pipeline.total_count"],
        "records_ok": counted["pipeline.ok_count"],
        "records_written": sum(counters.records_out for counters in _of_kind(run.plan, run.tally, "output")),
        "records_filtered": sum(counters.filtered for counters in nodes),
        "records_deduplicated": sum(counters.duplicates for counters in nodes),
        "records_dlq": run.tally.dead,
        "input_bytes": run.tally.input_bytes,
        "spilled_bytes": sum(run.tally.spilled.values()),
        "duration_ms": int((finished - run.identity.started).total_seconds() * 1000),
        "peak_rss_bytes": processes.own_peak_rss() if run.is_one_process else processes.peak_rss(),
    }


def _outputs(run: Facts) -> tuple[dict[str, Any], ...]:
    counters = run.tally.counters
    return tuple(
        {"name": name, "records": counters[name].records_out if name in counters else 0, "files": len(files)}
        for name, files in run.output_files.items()
    )


def _inputs(run: Facts) -> tuple[dict[str, Any], ...]:
    scans, counters = run.inputs.scans if run.inputs else {}, run.tally.counters
    return tuple(
        {"name": name, "records": counters[name].records_in if name in counters else 0, "files": len(scan.files)}
        for name, scan in scans.items()
    )


def _document(run: Facts, finished: datetime, exit_code: ExitCode, error: result.RunError | None) -> dict[str, Any]:
    numbers = run.inputs.numbers if run.inputs else {}
    scans = run.inputs.scans if run.inputs else {}
    nodes = _nodes(run)
    return {
        **_names(run.identity, run.plan.name, run.plan.path),
        "pipeline_hash": run.plan.source_hash,
        "started_at": run.identity.started.isoformat(),
        "finished_at": finished.isoformat(),
        "exit_code": int(exit_code),
        "error": str(error) if error else None,
        "execution_mode": _mode(run.plan),
        "thread_count": run.threads,
        "spark": run.application,
        "input_files": [plan.file.name for scan in scans.values() for plan in scan.files],
        "scans": {name: scan.facts() for name, scan in scans.items()},
        "output_files": [file for files in run.output_files.values() for file in files],
        "dlq_path": run.dlq_path,
        "dlq_paths": list(run.dlq_files),
        "dlq_files": list(run.dlq_files),  # the name of before, for a release
        "dlq_reasons": list(run.reasons.reasons),
        "dlq_reasons_more": run.reasons.more,
        "dlq_reasons_more_count": run.reasons.more_count,
        "rules": [each.record for each in run.rules],
        "per_source_record_counts": {name: nodes[name]["records_in"] for name in numbers},
        "per_source_dlq_counts": {
            name: run.tally.dead_per_source[number]
            for name, number in numbers.items()
            if number in run.tally.dead_per_source
        },
        "dlq_categories": run.tally.dead_per_category,
        "dlq_stages": run.tally.dead_per_stage,
        **_watermarks(run.watermarks),
        "correlation": run.correlation,
        "nodes": nodes,
        "stages": run.tally.stages,
        "phases_ms": _phases(run),
        "shuffled_bytes": run.tally.payload_bytes,
        "peak_task_bytes": run.tally.peak_task_bytes,
    }


def _phases(run: Facts) -> dict[str, int]:
    return {name: int(seconds * 1000) for name, seconds in run.phases.items()}


def _names(names: Identity, pipeline: str, path: FilePath) -> dict[str, Any]:
    """The names of a run, its pipeline and its machine."""
    return {
        "execution_id": names.called,
        "schema_version": contract.METRICS_SCHEMA_VERSION,
        "run_id": names.execution_id,
        "batch_id": names.batch_id,
        "pipeline_name": pipeline,
        "config_path": str(location.absolute(path)),
        "hostname": socket.gethostname(),
    }


def _mode(plan: plans.Plan) -> str:
    return (
        "batch"
        if any(not upstream.step(planned).record_properties.preserves_records for planned in plan.nodes)
        else "streaming"
    )


def _watermarks(found: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """The watermarks of each file, each source and the run: a source is as far as its slowest file.

    Null where no record has an event time: of a file, of all files of a source, of any source.
    """
    sources = {name: min((time for time in files.values() if time), default=0) for name, files in found.items()}
    return {
        "per_source_file_watermarks": {
            name: {file: _moment(time) for file, time in files.items()} for name, files in found.items()
        },
        "per_source_watermarks": {name: _moment(time) for name, time in sources.items()},
        "effective_watermark": _moment(min(sources.values(), default=0)),
    }


def _moment(time: int) -> str | None:
    return (datetime.min + timedelta(microseconds=time - 1)).isoformat() if time else None


def _nodes(run: Facts) -> dict[str, dict[str, Any]]:
    """The counts of each node, in the order of the plan; zero for a node that no record reached."""
    found = {p.name: replace(run.tally.counters.get(p.name, Counters())) for p in run.plan.nodes}
    for name, step in run.plan.sources.items():
        _hand_on(found[name], run.plan.by_name[step.failure_node], name, found)
    spilled = run.tally.spilled
    return {
        p.name: {"kind": p.kind, **_node(found[p.name]), "spilled_bytes": spilled.get(p.name, 0)}
        for p in run.plan.nodes
    }


def _hand_on(source: Counters, first: plans.PlannedNode, name: str, found: Mapping[str, Counters]) -> None:
    """Count records with values that do not convert at the first node downstream, which their dead letters name."""
    if first.name == name:
        return
    source.dead -= source.refused
    source.records_out += source.refused
    downstream = found[first.name]
    downstream.dead += source.refused
    if any(edge.node == name for edge in upstream.streams(first)):
        downstream.records_in += source.refused
    else:
        downstream.made += source.refused  # the records_in of a combine are its driver's records only


def _node(counters: Counters) -> dict[str, int]:
    return {
        "records_in": counters.records_in, "records_out": counters.records_out, "filtered": counters.filtered,
        "deduplicated": counters.duplicates, "dead": counters.dead, "made": counters.more,
        **({"row_groups_passed_over": counters.passed_over} if counters.passed_over else {}),
    }  # fmt: skip


def _written(folder: str, stores: StoreSettings, identity: Identity, document: dict[str, Any]) -> str | None:
    """The metrics file's path; None, with a warning, when it cannot be written: that undoes no run."""
    text = json.dumps(document, separators=(",", ":")) + "\n"
    try:
        path = _place(location.located(folder), stores, identity)
        if isinstance(path, Path):
            _write(path, identity, text)
        else:
            opening.writable(stores.resolved()).put(path, text.encode("ascii"))
    except StoreError as error:
        logs.LOG.warning("metrics are not written: %s", error)
        return None
    except OSError as error:
        logs.LOG.warning("metrics are not written: %s", durable.describe(error, folder))
        return None
    except location.BadLocation as error:
        logs.LOG.warning("metrics are not written: %s: %s", location.without_credentials(folder), error.message)
        return None
    return str(path)


def _write(path: Path, identity: Identity, text: str) -> None:
    """Write one line of JSON to a temporary file and rename it, so that collectors never see half a file."""
    durable.make_folder(path.parent, exist_ok=True)
    partial = path.with_name(f"{identity.execution_id}.json.tmp")
    try:
        with partial.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _place(folder: FilePath, stores: StoreSettings, identity: Identity) -> FilePath:
    """The run's file, named after the batch; after the run if that file exists or its name would be hidden.

    Raises:
        StoreError: the folder is in a store that runs do not write to, or that does not answer.
    """
    if isinstance(folder, location.Location) and folder.scheme not in location.WRITABLE:
        raise StoreError(Kind.UNSUPPORTED, "metrics are not written to this kind of store", str(folder))
    called = identity.called
    own = folder / f"{identity.execution_id}.json"
    if called == identity.execution_id:
        return own
    is_name = paths.value_problem(called) is None and not called.startswith(".")
    if not is_name or len(os.fsencode(called)) > _LONGEST_NAME_BYTES:
        return own
    wanted = folder / f"{called}.json"
    return own if _is_there(wanted, stores) else wanted


def _is_there(path: FilePath, stores: StoreSettings) -> bool:
    if isinstance(path, Path):
        return path.exists()
    return opening.store(path.scheme, stores.resolved()).describe(path) is not None
