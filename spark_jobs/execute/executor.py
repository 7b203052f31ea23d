"""A run, from a plan to published files: inputs, jobs, verdict, publishing, metrics."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import result
from spark_jobs.contract import ExitCode
from spark_jobs.execute import dead_letter, inputs, logs, metrics, outputs, publish, session, task, verdict, work
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats.format import FormatError
from spark_jobs.nodes.transform import directives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from spark_jobs.execute.identity import Identity
    from spark_jobs.plan import plan as plans
    from spark_jobs.plan.options import RunOptions

#: What one task holds at least: a block of input, its columns, and the bytes of the outputs. Less than that for each
#: task is E312.
LEAST_TASK_BYTES = 8 << 20


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

    @property
    def threads(self) -> int:
        """The tasks that run at a time on one machine."""
        return self.options.threads or self.plan.threads or os.cpu_count() or 1


def execute(
    plan: plans.Plan, options: RunOptions, identity: Identity, show: Callable[[str, str], None] | None = None
) -> metrics.Outcome:
    """Run a plan; never raises for what users can cause: the outcome says how it ended.

    A preview publishes nothing: `show` gets the name and the text of each output instead. KeyboardInterrupt (and
    SIGTERM, which the command turns into it) ends the run as interrupted; nothing is published then.
    """
    run = Run(plan, options, identity)
    error: result.RunError | None = None
    try:
        if options.preview is None:
            exit_code = _publishing(run)
        else:
            exit_code = _previewing(run, show or (lambda name, text: None))
    except RunFailed as failed:
        exit_code, error = failed.exit_code, result.RunError(failed.code, failed.message, failed.place)
    except FormatError as failed:
        exit_code, error = ExitCode.IO, result.RunError(failed.code or "E216", str(failed))
    except session.SessionError as failed:
        exit_code, error = ExitCode.CONFIG, result.RunError("E901", str(failed))
    except OSError as failed:
        exit_code, error = ExitCode.IO, result.RunError("E900", task.describe(failed))
    except KeyboardInterrupt:
        exit_code = ExitCode.INTERRUPTED
        error = result.RunError("interrupted", "the run was interrupted; nothing was published")
    return metrics.conclude(run, exit_code, error)


def _publishing(run: Run) -> ExitCode:
    """All of a run inside its staging folders."""
    targets = outputs.resolve(run.plan, run.identity, run.options)
    outputs.refuse_existing(targets, run.options)
    opening = _begin(run)
    staging = publish.Staging.open(run.identity.execution_id, targets.home)
    published = False
    try:
        folders = {target.name: str(staging.folder(target.path.parent)) for target in targets.outputs}
        _work(run, opening, str(staging.home), folders)
        with run.phase("publish"):
            renames = outputs.assemble(run, targets, folders)
            renames += _dead_letters(run, targets, staging)
            staging.publish(renames)
        published = True
    finally:
        staging.close(failed=not published)
    return ExitCode.DEAD_LETTERS if run.tally.dead else ExitCode.SUCCESS


def _previewing(run: Run, show: Callable[[str, str], None]) -> ExitCode:
    """A few records through the whole pipeline, to `show`; everything else happens in a folder that is thrown away."""
    targets = outputs.resolve(run.plan, run.identity, run.options)
    opening = _begin(run)
    scratch = tempfile.mkdtemp(prefix="clinker-preview-")
    try:
        folders = {target.name: scratch for target in targets.outputs}
        _work(run, opening, scratch, folders)
        renames = outputs.assemble(run, targets, folders)
        for target, rename in zip(targets.outputs, renames, strict=False):
            assert rename.source is not None
            show(target.name, Path(rename.source).read_text(getattr(target.step.options, "encoding", "utf-8")))
        run.output_files.clear()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return ExitCode.DEAD_LETTERS if run.tally.dead else ExitCode.SUCCESS


def _begin(run: Run) -> _SessionOpening:
    """Find the inputs while the session opens."""
    least = run.threads * LEAST_TASK_BYTES
    if run.plan.memory_limit_bytes < least:
        limit = run.plan.memory_limit_bytes
        raise RunFailed(
            ExitCode.CONFIG,
            "E312",
            f"memory.limit of {limit} bytes cannot hold one batch for each of {run.threads} tasks: "
            f"{least} bytes at least, or fewer threads",
        )
    opening = _SessionOpening(run)
    with run.phase("inputs"):
        run.inputs = inputs.find(run.plan, work.split_bytes(), allow_outside=run.options.allow_absolute_paths)
    for scan in run.inputs.scans.values():
        for warning in scan.warnings:
            logs.LOG.warning("%s", warning)
    return opening


def _work(run: Run, opening: _SessionOpening, scratch: str, folders: dict[str, str]) -> None:
    """The jobs and the verdict."""
    with run.phase("session"):
        spark = opening.wait()
    run.application = dict(session.describe(spark))
    _log_around(run, directives.BEFORE)
    try:
        work.Work(run, spark, scratch, folders).all_jobs()
    finally:
        for level, line in run.tally.logs:
            logs.LOG.log(logs.LEVELS[level], "%s", line)
    _log_around(run, directives.AFTER)
    assert run.inputs is not None
    verdict.judge(run.plan, run.inputs, run.tally, run.options.error_threshold)


def _log_around(run: Run, when: str) -> None:
    """The directives that stand before or after a whole transform."""
    known = {"pipeline.name": run.plan.name, "pipeline.execution_id": run.identity.execution_id}
    for planned in run.plan.nodes:
        if planned.kind == "transform" and planned.step is not None:
            for level, line in directives.once(planned.step, when, known):  # type: ignore[arg-type]
                logs.LOG.log(logs.LEVELS[level], "%s", line)


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


def _dead_letters(run: Run, targets: outputs.Targets, staging: publish.Staging) -> list[publish.Rename]:
    """The dead-letter files, and the removal of an older run's."""
    assert run.inputs is not None
    boxes = dead_letter.letterboxes(run.plan.errors, run.inputs, targets.letters)
    again = outputs.Rereader(run.inputs)
    assembly = dead_letter.Assembly(run.plan.errors, run.inputs, work.row_of(run), again.texts)
    written = assembly.write(boxes, run.tally.letter_files, lambda path: _staged(staging, path))
    renames = []
    for box in boxes:
        if box.path in written:
            renames.append(publish.Rename(str(written[box.path][0]), box.path))
        elif os.path.exists(box.path):
            renames.append(publish.Rename(None, box.path))
    if written:
        common = targets.letters.get("", "")
        run.dlq_path = common if common in written else next(iter(written))
    return renames


def _staged(staging: publish.Staging, path: str) -> Path:
    target = Path(path)
    return staging.folder(target.parent) / f"{target.name}.letters"
