"""A run, from a plan to published files: inputs, jobs, verdict, publishing, metrics."""

from __future__ import annotations

import importlib
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs import result
from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable, shared_paths
from spark_jobs.execute import inputs, interrupts, logs, tolerance, verdict
from spark_jobs.execute.delivery import outputs, places, targets
from spark_jobs.execute.delivery.local.files import Preview
from spark_jobs.execute.delivery.participant import StorageAccess
from spark_jobs.execute.dlq import dropped, files, reasons, writer
from spark_jobs.execute.run import (
    bookmark,
    breakdown,
    metrics,
    name_search,
    once,
    progress,
    rules,
    scratch_location,
    shared_folders,
    unpacked,
    work,
)
from spark_jobs.execute.run.passes import Pass
from spark_jobs.execute.run.stopwatch import Stopwatch
from spark_jobs.execute.scratch import Scratch
from spark_jobs.execute.spark import cores, executors, masking, session
from spark_jobs.execute.tally import Tally
from spark_jobs.execute.tasks import spill
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import splits
from spark_jobs.nodes import memory
from spark_jobs.nodes.transform import directives
from spark_jobs.nodes.transform import step as transform
from spark_jobs.plan import plan as plans
from spark_jobs.scan.files import FormatError
from spark_jobs.scan.staging.staging import SourceStaging
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.databases import Tables
    from spark_jobs.execute.delivery.destination import Draft, Publication
    from spark_jobs.execute.delivery.destinations import Destinations
    from spark_jobs.execute.delivery.tables.output import Target
    from spark_jobs.execute.identity import Identity
    from spark_jobs.plan.options import RunOptions
    from spark_jobs.scan import bookmarks
    from spark_jobs.stores.location import FilePath


@dataclass
class _Run:
    """A run in progress, for this module alone; a failure reports the fields that are set by then."""

    plan: plans.Plan
    options: RunOptions
    identity: Identity
    clock: Stopwatch = field(default_factory=Stopwatch)
    inputs: inputs.Inputs | None = None
    #: The bookmarks of incremental sources after this run has published.
    marks: Mapping[str, bookmarks.Mark] = field(default_factory=dict)
    work: work.Work | None = None
    source_staging: SourceStaging | None = None
    application: dict[str, str | None] = field(default_factory=dict)
    output_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dlq_files: tuple[str, ...] = ()
    is_published: bool = False
    progress: progress.Progress | None = None
    #: The outcome of an earlier attempt that has done all of this.
    before: metrics.Outcome | None = None

    @property
    def threads(self) -> int:
        """The tasks that run at a time on one machine."""
        master = self.application.get("master") or self.options.master
        return cores.at_a_time(master, self.options.threads or self.plan.threads)

    @property
    def memory_share(self) -> int:
        """The bytes that each of these may hold."""
        return self.plan.memory_limit_bytes // self.threads

    @property
    def local_dir(self) -> str:
        """The folder of Spark's shuffle files, as messages name it."""
        return session.local_dir(self.options, self.plan.storage.spill_root)

    @property
    def tally(self) -> Tally:
        """The counts of its tasks."""
        return self.work.products.tally if self.work else Tally()

    @property
    def exit_code(self) -> ExitCode:
        """The exit code if nothing stops the run any more."""
        return ExitCode.DEAD_LETTERS if self.tally.dead else ExitCode.SUCCESS

    @property
    def ended_before(self) -> ExitCode:
        """The exit code of the earlier attempt."""
        assert self.before is not None
        return ExitCode(self.before.result.exit_code)

    @cached_property
    def _secrets(self) -> masking.Secrets:
        return masking.Secrets.of_run(self.options, self.plan)

    def masked(self, text: str) -> str:
        """A text without the secrets of the run; they are collected when the first text needs them."""
        return self._secrets.masked(text)

    @property
    def facts(self) -> metrics.Facts:
        """The reasons that are reported at its end."""
        return metrics.Facts(
            plan=self.plan,
            identity=self.identity,
            threads=self.threads,
            inputs=self.inputs,
            tally=self.tally,
            application=self.application,
            phases=self.clock.seconds,
            output_files=self.output_files if self.is_published else {},
            dlq_files=self.dlq_files if self.is_published else (),
            is_one_process=self.options.in_process,
            correlation=self.work.products.correlation if self.work else {},
            watermarks=self.work.products.watermarks if self.work else {},
            reasons=self._reasons,
            rules=self._rules,
        )

    @property
    def _rules(self) -> list[rules.Outcome]:
        if self.work is None:
            return []
        if not self.work.is_done:
            return rules.so_far(self.plan, self.tally)
        is_preview = self.options.preview is not None
        return rules.outcomes(self.plan, self.tally, self.identity.started, is_preview=is_preview)

    @property
    def _reasons(self) -> reasons.ReasonSummary:
        if self.work is None:
            return reasons.ReasonSummary()
        products = self.work.products
        here = products.inputs
        return reasons.summary(
            self.tally.reasons, here.file_name, here.source_name, products.rows_before, self.masked, here.column_names
        )

    @property
    def promised(self) -> metrics.Outcome:
        """The outcome of the run if publishing succeeds."""
        facts = replace(self.facts, output_files=self.output_files, dlq_files=self.dlq_files)
        path = metrics.expected(self.identity, self.plan, self.options.metrics_spool_dir)
        return metrics.outcome(facts, datetime.now(UTC), self.exit_code, path=path)


def execute(
    plan: plans.Plan, options: RunOptions, identity: Identity, show: Callable[[str, str], None] | None = None
) -> metrics.Outcome:
    """Run a plan; never raises: the outcome says how it ended, also when Spark or a bug has ended it.

    A preview publishes nothing: `show` gets the name and the text of each output instead. KeyboardInterrupt (and
    SIGTERM, which the command turns into it) ends the run as interrupted; nothing is published then.
    """
    plan = plan if options.preview is None else plan.whole
    run = _Run(plan, options, identity)
    error: result.RunError | None = None
    try:
        with progress.show_progress(run.clock, wanted=options.shows_progress) as run.progress:
            if options.preview is None:
                exit_code = _publishing(run)
            else:
                exit_code = _previewing(run, show or (lambda name, text: None))
    except RunFailed as failed:
        exit_code, error = failed.exit_code, result.RunError(failed.code, failed.message, failed.place)
    except FormatError as failed:
        unshared = failed.unseen.explained() if failed.unseen else None
        code = shared_paths.UNSHARED if unshared else failed.code or "E900"
        exit_code, error = ExitCode.IO, result.RunError(code, unshared or str(failed))
    except session.SessionError as failed:
        exit_code, error = failed.exit_code, result.RunError("E901", str(failed))
    except ConnectionError as failed:
        exit_code, error = breakdown.explain(failed, run.local_dir)
    except StoreError as failed:
        exit_code, error = ExitCode.IO, result.RunError(failed.code, str(failed))
    except OSError as failed:
        exit_code, error = ExitCode.IO, result.RunError("E900", durable.describe(failed))
    except KeyboardInterrupt:
        if run.is_published:  # it came too late to change anything
            exit_code = run.exit_code
        else:
            exit_code = ExitCode.INTERRUPTED
            error = result.RunError("interrupted", "the run was interrupted; nothing was published")
    except Exception as failed:  # noqa: BLE001 - reported with its place; the traceback is in the log
        exit_code, error = breakdown.explain(failed, run.local_dir)
        logs.LOG.debug("the run broke down", exc_info=failed)
    if error is not None:
        error = replace(error, message=run.masked(error.message))
    with interrupts.ignore_signals():
        _release_sources(run, succeeded=exit_code is ExitCode.SUCCESS)
        return run.before or metrics.conclude(run.facts, options.metrics_spool_dir, exit_code, error)


def _release_sources(run: _Run, *, succeeded: bool) -> None:
    """Close the connections of sources, and keep or remove their staged copies."""
    for step in run.plan.sources.values():
        if not step.file_format.has_files:
            step.reader.release()
    if run.source_staging is not None:
        for problem in run.source_staging.close(succeeded=succeeded):
            logs.LOG.warning("%s", problem)


def _publishing(run: _Run) -> ExitCode:
    """Run and publish, once more if a table refuses records that were not compared with one another."""
    plan = run.plan
    try:
        return _attempt(run, compares=False)
    except verdict.NotCompared as refusal:
        logs.LOG.info(
            "a table refuses records of this run, which begins again and finds out which: %s", run.masked(str(refusal))
        )
    with interrupts.ignore_signals():
        _release_sources(run, succeeded=False)
    run.plan, run.work, run.source_staging, run.output_files = plan, None, None, {}
    return _attempt(run, compares=True)


def _attempt(run: _Run, *, compares: bool) -> ExitCode:
    """Run the jobs, and publish the files and tables of all outputs by one verdict.

    Args:
        run: the run.
        compares: whether records are compared by all unique indexes of their tables.

    Raises:
        NotCompared: a table refuses records, and `compares` is false.
    """
    destination = destinations(run.plan, run.options)
    wanted = targets.resolve(run.plan, run.identity, run.options, destination)
    once_file = once.Once.asked(run.options.once, run.plan, wanted) if run.options.once else None
    if _is_done_before(run, once_file, destination):
        return run.ended_before
    targets.check(wanted, run.options)
    tables = _tables(run.plan, wanted)
    last_bookmark, news = _last_bookmark(run, wanted, destination)
    run.plan = _with_table_columns(run.plan, compares=compares)
    opening = _begin(run, news)
    assert run.inputs is not None
    # With the inputs known, outputs with a file for each input file have their names.
    wanted = targets.resolve(run.plan, run.identity, run.options, destination, run.inputs)
    targets.check(wanted, run.options)
    targets.refuse_own_files(run.plan, run.inputs, wanted)
    folders = [*wanted.folders, *([once_file.path.parent] if once_file else [])]
    draft = destination.open(run.identity.execution_id, wanted.home, folders)
    with ExitStack() as cleanup:
        cleanup.callback(_closed, run, draft)
        uncommitted = cleanup.enter_context(ExitStack())
        uncommitted.callback(_give_up, tables.values())
        is_local = partial(_is_local, run, opening)
        scratch = cleanup.enter_context(
            scratch_location.location_of(run.plan, run.identity.execution_id, wanted, draft, is_local)
        )
        _fetch(run, draft.home, scratch)
        spark, done = _work(run, opening, wanted, draft, scratch)
        with run.clock.phase("publish"), draft.exclusive():
            # An attempt that seemed dead may have published meanwhile.
            if _is_done_before(run, once_file, destination):
                return run.ended_before
            publication = _Publication(run, destination, draft, tables, once_file, last_bookmark)
            publication.prepare(spark, done, cleanup)
            with interrupts.ignore_signals():
                uncommitted.pop_all()  # from here on the publication cleans up
                draft.publish()
                run.is_published = True
    return run.exit_code


@dataclass(frozen=True)
class _Publication:
    """The part of a run between its jobs and the moment at which everything becomes visible.

    Args:
        run: the run.
        destination: the places that publish its files.
        draft: its files as long as nobody sees them.
        tables: the tables that its outputs write, by output.
        once_file: the file that notes the result of a run for its later attempts; None if nobody asked for it.
        last_bookmark: the bookmark as the run has read it; None if no source is incremental.
    """

    run: _Run
    destination: Destinations
    draft: Publication[FilePath]
    tables: Mapping[str, Target]
    once_file: once.Once | None
    last_bookmark: bookmark.Bookmark | None

    def prepare(self, spark: SparkSession, done: work.Work, cleanup: ExitStack) -> None:
        """Do everything that can fail: assemble files and dead letters, load tables, check inputs and names again."""
        run, draft, products = self.run, self.draft, done.products
        assert run.inputs is not None
        # Another run may have published: names that were free at the beginning may be taken.
        wanted = targets.resolve(run.plan, run.identity, run.options, self.destination, run.inputs)
        targets.refuse_existing(wanted, run.options)
        material = outputs.Material(run.plan, run.identity, done.wanted.run, products)
        run.output_files = outputs.assemble(material, spark, wanted, draft, self.tables)
        _load_tables(run, spark, material, draft, cleanup)
        run.clock.current = "letters" if products.tally.dead else "publish"
        writer = _dlq_writer(run.plan, done)
        run.dlq_files = files.deliver(spark, writer, products.dlq, wanted.dlq_paths, draft, run.options.tuning)
        run.clock.current = "publish"
        for warning in inputs.growth_warnings(run.plan, run.inputs):
            logs.LOG.warning("%s", warning)
        self._note()
        draft.finish(spark)
        for table in self.tables.values():
            if table.commit is not None:
                draft.join(table.commit)

    def _note(self) -> None:
        """Add the result for later attempts and the new bookmark to the files that are published."""
        run, last = self.run, self.last_bookmark
        if self.once_file is not None:
            self.once_file.note(self.draft, run.promised)
        if last is not None and run.marks:
            last.refuse_moved(self.destination)
            last.note(self.draft, run.marks, run.identity)


def _is_done_before(run: _Run, once_file: once.Once | None, destination: Destinations) -> bool:
    """True if an earlier attempt has published the outputs of this one. The run then takes over its outcome."""
    before = once_file.found(destination, run.identity.execution_id) if once_file and run.options.is_retry else None
    if once_file is None or before is None:
        return False
    logs.LOG.warning(
        "nothing is done: the attempt %s has published all files, and they are unchanged; %s says so",
        before.result.taken_from,
        once_file.path,
    )
    run.before = metrics.adopt_outcome(run.identity, run.plan, run.options, before)
    return True


def _with_table_columns(plan: plans.Plan, *, compares: bool) -> plans.Plan:
    """The plan with the columns of the tables that its outputs write; see `databases.py:looked`."""
    if not any(step.is_in_database for step in plan.outputs.values()):
        return plan
    from spark_jobs.execute.delivery import databases  # runs without a database need no Arrow for its tables

    return databases.with_target_tables(plan, compares=compares)


def _load_tables(
    run: _Run, spark: SparkSession, material: outputs.Material, draft: Publication[FilePath], cleanup: ExitStack
) -> None:
    """Load records into the tables of databases, whose transactions are committed when the files are published."""
    if not any(step.is_in_database for step in run.plan.outputs.values()):
        return
    from spark_jobs.execute.delivery import databases

    for each in databases.load(spark, material, draft.part_store, run.clock.show):
        cleanup.callback(_close_tables, run, each)
        draft.join(each)


def _close_tables(run: _Run, tables: Tables) -> None:
    with interrupts.ignore_signals():
        tables.close(failed=not run.is_published)


def _closed(run: _Run, draft: Publication[FilePath]) -> None:
    with interrupts.ignore_signals():
        draft.close(failed=not run.is_published)


def _is_local(run: _Run, opening: _SessionOpening) -> bool:
    """True if all tasks run on the driver's machine. The session of a cluster is asked if nothing else shows it."""
    return session.is_certainly_local(run.options) or session.is_local(opening.wait())


def _last_bookmark(
    run: _Run, wanted: targets.Targets, destination: Destinations
) -> tuple[bookmark.Bookmark | None, dict[str, bookmarks.IncrementalRead]]:
    """The bookmark if any source is incremental, and the new inputs of such sources."""
    last = None if wanted.bookmark is None else bookmark.Bookmark.read(wanted.bookmark, destination)
    known = last or bookmark.Bookmark(Path())
    return last, known.news(run.plan.sources, run.options.since, run.options.until)


def _tables(plan: plans.Plan, wanted: targets.Targets) -> dict[str, Target]:
    """The tables that a run writes, as they are when it begins."""
    found = {}
    for target in wanted.outputs:
        if target.step.is_table:
            # Runs that write no table need no library for it.
            output = importlib.import_module(f"spark_jobs.execute.delivery.{target.step.format}.output")
            path = target.deliveries[0].path if target.deliveries else None
            access = StorageAccess(plan.stores, plan.connections, plan.catalogs)
            found[target.name] = output.TableOutput.look(
                target.name, target.step.options, path, target.step.place, access
            )
    return found


def _give_up(tables: Iterable[Target]) -> None:
    """Remove the files of tables that no commit has named."""
    for table in tables:
        try:
            if table.commit is not None:
                table.commit.give_up()
        except OSError as error:
            logs.LOG.warning("%s: files that no version of the table has are left: %s", table.output, error)


def destinations(plan: plans.Plan, options: RunOptions) -> Destinations:
    """The destinations that publish the files of a plan."""
    return places.destinations(StorageAccess(plan.stores, plan.connections, plan.catalogs), options.tuning)


def _previewing(run: _Run, show: Callable[[str, str], None]) -> ExitCode:
    """Send a few records through the whole pipeline, and show the outputs; the folder of all files is removed."""
    opening = _begin(run, {})
    wanted = targets.resolve(run.plan, run.identity, run.options, destinations(run.plan, run.options), run.inputs)
    draft = Preview(Path(tempfile.mkdtemp(prefix="clinker-preview-")))
    scratch = Scratch(str(draft.home))
    try:
        _fetch(run, draft.home, scratch)
        spark, done = _work(run, opening, wanted, draft, scratch)
        material = outputs.Material(run.plan, run.identity, done.wanted.run, done.products)
        outputs.assemble(material, spark, wanted, draft, is_shown=True)
        for target in wanted.outputs:
            if not target.step.has_path:
                show(target.name, draft.text(Path(target.name), "utf-8"))
            for each in target.deliveries:
                text = draft.text(each.path, target.step.options.encoding or "utf-8", target.step.compression)
                show(f"{target.name} ({each.path.name})" if target.step.by_file else target.name, text)
    finally:
        draft.close()
    return run.exit_code


def _begin(run: _Run, news: Mapping[str, bookmarks.IncrementalRead]) -> _SessionOpening:
    """Find the inputs while the session opens; of incremental sources, only the new ones in `news`."""
    least = run.threads * plans.LEAST_TASK_BYTES
    if run.plan.memory_limit_bytes < least:
        limit = run.plan.memory_limit_bytes
        raise RunFailed(
            ExitCode.CONFIG,
            "E312",
            f"memory.limit of {limit} bytes cannot hold one batch for each of {run.threads} tasks: "
            f"{least} bytes at least, or fewer threads",
        )
    opening = _SessionOpening(run.options, run.options.threads or run.plan.threads, run.plan.storage.spill_dir)
    with run.clock.phase("inputs"):
        run.inputs = inputs.find(
            run.plan,
            splits.configured_bytes(),
            copies=_copies(run),
            allow_outside=run.options.allow_absolute_paths,
            # A preview reads too little to notice names.
            search=name_search.NameSearch(
                opening.wait, run.options.tuning, samples=run.options.preview is None, threads=run.threads
            ),
            news=news,
            record_bytes=memory.record_bytes(run.memory_share),
        )
        run.marks = run.inputs.marks
    if run.source_staging is not None:
        logs.LOG.info("staging: %s", run.source_staging)
    _warn(run.inputs, run.inputs.scans)
    return opening


def _copies(run: _Run) -> SourceStaging | None:
    """The staging of files; a preview reads so little that it reads in place."""
    settings = run.plan.storage.staging
    if settings is None or run.options.preview is not None:
        return None
    run.source_staging = SourceStaging(settings, run.identity.started, lambda text: logs.LOG.info("%s", text))
    for problem in run.source_staging.purge():
        logs.LOG.warning("%s", problem)
    return run.source_staging


def _fetch(run: _Run, folder: Path, scratch: Scratch) -> None:
    """Store the pages of network sources as files of the run, where every machine can read them."""
    assert run.inputs is not None
    steps = run.inputs.on_network
    if not steps:
        return
    from spark_jobs.execute.run import network  # runs without a network source need no HTTP

    with run.clock.phase("fetch"):
        pages = network.fetch(run.plan, steps, folder, run.options.preview)
        pages = network.handed_over(pages, scratch)
        run.inputs = inputs.with_pages(run.plan, run.inputs, pages, splits.configured_bytes())
    _warn(run.inputs, steps)


def _warn(found: inputs.Inputs, names: Iterable[str]) -> None:
    for name in names:
        for warning in found.scans[name].warnings:
            logs.LOG.warning("%s", warning)


def _work(
    run: _Run, opening: _SessionOpening, wanted: targets.Targets, draft: Draft[FilePath], scratch: Scratch
) -> tuple[SparkSession, work.Work]:
    """Run the jobs and judge their results.

    Raises:
        RunFailed: there are too many dead letters, or a rule on data is broken.
    """
    with run.clock.phase("session"):
        spark = opening.wait()
    run.application = {k: v and run.masked(v) for k, v in session.describe(spark).items()}
    assert run.inputs is not None
    parts = outputs.places(wanted, draft)
    if not _is_local(run, opening):
        shared_folders.refuse_unseen(spark, run.plan, run.inputs, parts.folders, scratch)
    if run.options.preview is None:
        with run.clock.phase("unpack"):
            run.inputs = unpacked.unpack(spark, run.plan, run.inputs, scratch, splits.configured_bytes())
    _log_around(run, transform.BEFORE)
    try:
        with spill.folder(run.plan.storage) as spilling:
            folders = work.TaskFolders(scratch, parts, spilling, run.memory_share)
            with_names = partial(_pass_with_names, run, opening, folders)
            run.work = work.Work(_first_pass(run, folders), run.clock, with_names, run.options.preview)
            run.work.all_jobs(spark)
    finally:
        if run.work:
            file_names, rows_before = run.work.products.inputs.file_name, run.work.products.rows_before
            logs.write(run.tally.logs, file_names, rows_before)
            logs.warn(run.tally.notices.values(), file_names, rows_before)
    products = run.work.products
    dropped.log(_dlq_writer(run.plan, run.work), products.dlq)
    _log_around(run, transform.AFTER)
    try:
        tolerance.judge(run.plan.errors, products, run.options.error_threshold)
        rules.judge(run.plan, products, run.identity.started, is_preview=run.options.preview is not None)
    except RunFailed:
        dropped.log_unpublished(_dlq_writer(run.plan, run.work), products.dlq, products.tally.dead)
        raise
    return spark, run.work


def _first_pass(run: _Run, folders: work.TaskFolders) -> Pass:
    assert run.inputs is not None
    spec = work.run_spec(run.plan, run.options, run.inputs, folders)
    return Pass(run.plan, spec, run.inputs, work.run_values(run.plan, run.identity), progress=run.progress)


def _pass_with_names(run: _Run, opening: _SessionOpening, folders: work.TaskFolders, sources: Collection[str]) -> Pass:
    """The first pass again, with all undeclared columns of some sources known."""
    assert run.inputs is not None
    text = "%s: records have undeclared columns that the first ones lack; all are looked for, and read again"
    for name in sorted(sources):
        logs.LOG.info(text, name)
    search = name_search.NameSearch(opening.wait, run.options.tuning, samples=False, threads=run.threads)
    run.inputs = inputs.with_undeclared(run.plan, run.inputs, sources, splits.configured_bytes(), search)
    return _first_pass(run, folders)


def _log_around(run: _Run, when: str) -> None:
    """The directives that stand before or after a whole transform."""
    names = {"pipeline.name": run.plan.name, "pipeline.execution_id": run.identity.execution_id}
    known = {**names, **metrics.counts(run.plan, run.tally)}
    for planned in run.plan.nodes:
        if planned.kind == "transform" and planned.step is not None:
            for level, line in directives.once(planned.step, when, known):  # type: ignore[arg-type]
                logs.LOG.log(logs.LEVELS[level], "%s", line)


class _SessionOpening:
    """Opens the session while the driver looks at the inputs: a JVM takes seconds to start."""

    def __init__(self, options: RunOptions, threads: int | None, local_dir: str | None) -> None:
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._options = options
        self._thread = threading.Thread(target=self._open, args=(options, threads, local_dir), daemon=True)
        self._thread.start()

    def _open(self, options: RunOptions, threads: int | None, local_dir: str | None) -> None:
        try:
            self._session = session.open_session(options, threads, local_dir)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            self._error = error

    def _limit(self) -> float:
        return executors.limit_s(session.setting(self._options, executors.LIMIT_SETTING))

    def wait(self) -> SparkSession:
        """The session, or the error that prevents it. The queue of a cluster may be full."""
        watch = executors.StartupWatch(self._limit, notice_after_s=executors.START_S)
        while self._thread.is_alive():
            self._thread.join(executors.LOOK_EVERY_S)
            if session.is_on_cluster(self._options):
                watch.look("Spark has not started: see whether its cluster runs and has room, or the machine is busy")
        if self._error:
            raise self._error
        assert self._session is not None
        return self._session


def _dlq_writer(plan: plans.Plan, done: work.Work) -> writer.DlqWriter:
    products, scratch = done.products, done.wanted.run.scratch
    return writer.DlqWriter(plan.errors, products.inputs, products.rows_before, work.branches(plan), scratch)
