"""A run, from a plan to published files: inputs, jobs, verdict, publishing, metrics."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_jobs import result
from spark_jobs.contract import ExitCode
from spark_jobs.execute import chain, dead_letter, inputs, metrics, outputs, publish, session, spec, verdict
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats.format import FormatError
from spark_jobs.plan import plan as plans
from spark_jobs.plan import regions
from spark_jobs.scan import splits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.identity import Identity
    from spark_jobs.execute.report import TaskReport
    from spark_jobs.plan.options import RunOptions

#: Bytes of input whose partial groups are taken to make a payload worth a partition of its own.
_PARTITION_BYTES = 64 << 20
#: For tests and tuning: the nominal size of splits, and of what a partition of an exchange gets, in bytes. Results never depend on them.
SPLIT_BYTES_VARIABLE = "CLINKER_SPLIT_BYTES"
PARTITION_BYTES_VARIABLE = "CLINKER_PARTITION_BYTES"


@dataclass
class Run:
    """A run on its way; what is known so far is what a failure can report."""

    plan: plans.Plan
    options: RunOptions
    identity: Identity
    tally: verdict.Tally = field(default_factory=verdict.Tally)
    inputs: inputs.Inputs | None = None
    application: dict[str, str | None] = field(default_factory=dict)
    output_files: list[str] = field(default_factory=list)
    dlq_path: str | None = None
    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - started


def execute(plan: plans.Plan, options: RunOptions, identity: Identity) -> metrics.Outcome:
    """Run a plan; never raises for what users can cause: the outcome says how it ended.

    KeyboardInterrupt (and SIGTERM, which the command turns into it) ends the run as interrupted; nothing is published then.
    """
    run = Run(plan, options, identity)
    error: result.RunError | None = None
    try:
        exit_code = _publishing(run)
    except RunFailed as failed:
        exit_code, error = failed.exit_code, result.RunError(failed.code, failed.message, failed.place)
    except FormatError as failed:
        exit_code, error = ExitCode.IO, result.RunError(failed.code or "E216", str(failed))
    except session.SessionError as failed:
        exit_code, error = ExitCode.CONFIG, result.RunError("E901", str(failed))
    except OSError as failed:
        exit_code, error = ExitCode.IO, result.RunError("E900", _describe(failed))
    except KeyboardInterrupt:
        exit_code, error = ExitCode.INTERRUPTED, result.RunError("interrupted", "the run was interrupted; nothing was published")
    return metrics.conclude(run, exit_code, error)


def _describe(error: OSError) -> str:
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _publishing(run: Run) -> ExitCode:
    """All of a run inside its staging folders."""
    targets = outputs.resolve(run.plan, run.identity, run.options)
    outputs.refuse_existing(targets, run.options)
    with run.phase("inputs"):
        opening = _SessionOpening(run)
        try:
            run.inputs = inputs.find(
                run.plan, _split_bytes(), allow_outside=run.options.allow_absolute_paths
            )
        except BaseException:
            opening.abandon()
            raise
    staging = publish.Staging.open(run.identity.execution_id, targets.home)
    published = False
    try:
        folders = {target.name: str(staging.folder(target.path.parent)) for target in targets.outputs}
        with run.phase("session"):
            spark = opening.wait()
        run.application = dict(session.describe(spark))
        _run_jobs(run, spark, staging, folders)
        _judge(run)
        with run.phase("publish"):
            renames = outputs.assemble(run, targets, folders)
            renames += _dead_letters(run, targets, staging)
            staging.publish(renames)
        published = True
    finally:
        staging.close(failed=not published)
    return ExitCode.DEAD_LETTERS if run.tally.dead else ExitCode.SUCCESS


def _split_bytes() -> int:
    return int(os.environ.get(SPLIT_BYTES_VARIABLE, splits.SPLIT_BYTES))


class _SessionOpening:
    """Opens the session while the driver looks at the inputs: a JVM takes seconds to start."""

    def __init__(self, run: Run) -> None:
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        threads = run.options.threads or run.plan.threads
        self._thread = threading.Thread(target=self._open, args=(run.options, threads), daemon=True)
        self._thread.start()

    def _open(self, options: RunOptions, threads: int | None) -> None:
        try:
            self._session = session.open_session(options, threads)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            self._error = error

    def wait(self) -> SparkSession:
        """The session, or why there is none."""
        self._thread.join()
        if self._error:
            raise self._error
        assert self._session is not None
        return self._session

    def abandon(self) -> None:
        """The run ends before it needs the session; one that is being opened stays for the next run of this process."""
        self._thread.join(timeout=0)


def _run_jobs(run: Run, spark: SparkSession, staging: publish.Staging, folders: dict[str, str]) -> None:
    """All jobs, in order; each gets the build sides that earlier ones wrote down."""
    assert run.inputs is not None
    widened = inputs.widened(run.plan, run.inputs)
    if _reads_rows(run.inputs):
        with run.phase("count"):
            _count(run, spark, staging, folders, widened)
    materialized: dict[str, tuple[str, ...]] = {}
    for job in regions.jobs(run.plan, lambda name: _partitions(run, name)):
        with run.phase(f"job {job.number}"):
            reports = _run_job(run, spark, _spec(run, job, staging, folders, widened, materialized))
        run.tally.add(job.number, reports)
        _stop_on_failure(run)
        for box in job.boxes.values():
            if box.role is regions.Role.BUILD:
                materialized[box.id] = tuple(part.path for part in run.tally.parts_of(box.id))
    if wrong := run.tally.unbalanced():
        raise RunFailed(ExitCode.EVALUATION, "internal", f"records do not add up, nothing is published: {'; '.join(wrong)}")


def _spec(
    run: Run, job: regions.Job, staging: publish.Staging, folders: dict[str, str],
    widened: dict[str, tuple[str, ...]], materialized: dict[str, tuple[str, ...]],
) -> spec.JobSpec:  # fmt: skip
    assert run.inputs is not None
    errors = run.plan.errors
    shows = errors.strategy is plans.Strategy.CONTINUE and errors.include_source_row
    has_file = errors.dead_letters.path or any(target.path for target in errors.per_source.values())
    return spec.JobSpec(
        run=run.identity.execution_id,
        job=job,
        steps=run.inputs.steps,
        splits=tuple(item for item in run.inputs.splits if item[0] in job.sources),
        widened=widened,
        values=_values(run),
        strategy=errors.strategy,
        keep_texts=bool(shows and has_file),
        scratch=str(staging.home),
        staging=folders,
        materialized=dict(materialized),
        width=max(len(run.inputs.splits), *(e.partitions for e in job.exchanges), 1) if job.exchanges else 1,
    )


def _run_job(run: Run, spark: SparkSession, wanted: spec.JobSpec) -> list[TaskReport]:
    """Run a job; once more with exact borders when a split was cut inside quotes."""
    assert run.inputs is not None
    reports = chain.run(spark, wanted)
    wrong = {split.number for report in reports for split in report.splits if not split.is_consistent}
    if not wrong:
        return reports
    run.inputs = run.inputs.with_exact(wrong)
    places = tuple(item for item in run.inputs.splits if item[0] in wanted.job.sources)
    return chain.run(spark, spec.replace_splits(wanted, places))


def _reads_rows(found: inputs.Inputs) -> bool:
    """Whether some program reads a record's position in its file, which must be known before the pass."""
    return any({"row", "count", "total_count"} & step.reads_source for step in found.steps.values())


def _count(
    run: Run, spark: SparkSession, staging: publish.Staging, folders: dict[str, str], widened: dict[str, tuple[str, ...]]
) -> None:
    """A pass that only counts the records of each split."""
    assert run.inputs is not None
    boxes = {
        name: regions.Box(name, step, regions.Role.WHOLE, "", 0, silent=True) for name, step in run.inputs.steps.items()
    }
    job = regions.Job(-1, tuple(boxes), boxes, ())
    reports = _run_job(run, spark, _spec(run, job, staging, folders, widened, {}))
    records = {split.number: split.records for report in reports for split in report.splits}
    run.inputs = run.inputs.with_rows(records)


def _values(run: Run) -> dict[str, Any]:
    """The run-wide values behind `$...`."""
    started = run.identity.started.replace(tzinfo=None, microsecond=0)
    return {
        **run.plan.variables,
        "pipeline.name": run.plan.name,
        "pipeline.execution_id": run.identity.execution_id,
        "pipeline.batch_id": run.identity.batch_id,
        "pipeline.start_time": started,
        "source.batch": run.identity.execution_id,
        "source.ingestion_timestamp": started,
    }


def _partitions(run: Run, name: str) -> int:
    """How many partitions an aggregate's groups are spread over: from the size of what it reads, never from cores."""
    assert run.inputs is not None
    planned = run.plan.by_name[name]
    step: Any = planned.step
    if not step.group_by:
        return 1
    sources = _sources_of(run.plan, name)
    columns = max(sum(len(run.inputs.steps[source].columns) for source in sources), 1)
    share = min(1.0, (len(step.input) + 1) / columns)
    wanted = int(os.environ.get(PARTITION_BYTES_VARIABLE, _PARTITION_BYTES))
    limit = min(wanted, max(run.plan.memory_limit_bytes // 8, 1 << 20))
    return max(1, min(int(run.inputs.bytes_of(sources) * share) // limit, 512))


def _sources_of(plan: plans.Plan, name: str) -> list[str]:
    """The sources whose records reach a node."""
    found, waiting = set(), [name]
    while waiting:
        planned = plan.by_name[waiting.pop()]
        if planned.kind == "source":
            found.add(planned.name)
        waiting += [edge.node for edge in planned.inputs]
    return sorted(found)


def _stop_on_failure(run: Run) -> None:
    """Under fail_fast, and for what no strategy forgives, the first failing record ends the run."""
    stopping = [f for f in run.tally.failures if f.code and f.code.startswith("E")]
    if run.plan.errors.strategy is plans.Strategy.FAIL_FAST:
        stopping = run.tally.failures
    if not stopping:
        return
    first = min(stopping, key=lambda f: (f.source, f.split, f.row))
    assert run.inputs is not None
    message = _message(run, first)
    exit_code = ExitCode.IO if first.code == "malformed_record" else ExitCode.EVALUATION
    raise RunFailed(exit_code, first.code or "E302", message)


def _message(run: Run, first: Any) -> str:
    """The first failure with its record's place."""
    assert run.inputs is not None
    row = _row_of(run)(np.array([first.split]), np.array([first.row]))[0]
    file = run.inputs.file_name(first.split, first.source)
    name = f"field '{first.field}': " if first.field else ""
    return f"{file}, row {row}: {name}{first.detail} (stage {first.stage}; strategy {run.plan.errors.strategy})"


def _row_of(run: Run) -> Any:
    """From splits and rows in them to 1-based rows in the files."""
    assert run.inputs is not None
    records = run.tally.records_per_split
    before: dict[int, int] = {}
    seen: dict[tuple[str, int], int] = {}
    for name, place in run.inputs.splits:
        key = (name, place.split.file)
        before[place.number] = seen.get(key, 0)
        seen[key] = before[place.number] + records.get(place.number, 0)

    def row_of(split: np.ndarray, row: np.ndarray) -> np.ndarray:
        return np.array([before.get(int(s), 0) for s in split]) + row + 1

    return row_of


def _judge(run: Run) -> None:
    assert run.inputs is not None
    verdict.judge(run.plan, run.inputs, run.tally, run.options.error_threshold)


def _dead_letters(run: Run, targets: outputs.Targets, staging: publish.Staging) -> list[publish.Rename]:
    """The dead-letter files, and the removal of an older run's."""
    assert run.inputs is not None
    boxes = dead_letter.letterboxes(run.plan.errors, run.inputs, targets.letters)
    missing = outputs.Rereader(run.inputs)
    assembly = dead_letter.Assembly(run.plan.errors, run.inputs, _row_of(run), missing.texts)
    written = assembly.write(boxes, run.tally.letter_files, lambda path: _staged(staging, path))
    renames = []
    for box in boxes:
        if box.path in written:
            renames.append(publish.Rename(str(written[box.path][0]), box.path))
        elif os.path.exists(box.path):
            renames.append(publish.Rename(None, box.path))
    if written:
        run.dlq_path = targets.letters.get("") if targets.letters.get("") in written else next(iter(written))
    return renames


def _staged(staging: publish.Staging, path: str) -> Path:
    target = Path(path)
    return staging.folder(target.parent) / f"{target.name}.letters"
