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
from spark_jobs.execute import inputs, interrupts, logs, tolerance
from spark_jobs.execute.delivery import outputs, places, targets
from spark_jobs.execute.delivery.local.files import Preview
from spark_jobs.execute.delivery.participant import Reach
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
        with progress.shown(run.clock, wanted=options.shows_progress) as run.progress:
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
    with interrupts.ignored():
        for step in plan.sources.values():
            if not step.file_format.has_files:
                step.reader.release()
        if run.source_staging is not None:
            for problem in run.source_staging.close(succeeded=exit_code is ExitCode.SUCCESS):
                logs.LOG.warning("%s", problem)
        if run.before is not None:
            return run.before
        return metrics.conclude(run.facts, options.metrics_spool_dir, exit_code, error)


def _publishing(run: _Run) -> ExitCode:
    """Do everything that a run does within its draft."""
    there = destinations(run.plan, run.options)
    wanted = targets.resolve(run.plan, run.identity, run.options, there)
    asked = once.Once.asked(run.options.once, run.plan, wanted) if run.options.once else None
    if _is_done_before(run, asked, there):
        return run.ended_before
    targets.check(wanted, run.options)
    tables = _tables(run.plan, wanted)
    kept, news = _kept(run, wanted, there)
    run.plan = _looked(run.plan)
    opening = _begin(run, news)
    assert run.inputs is not None
    wanted = targets.resolve(run.plan, run.identity, run.options, there, run.inputs)
    targets.check(wanted, run.options)
    targets.refuse_own_files(run.plan, run.inputs, wanted)
    folders = [*wanted.folders, *([asked.path.parent] if asked else [])]
    draft = there.open(run.identity.execution_id, wanted.home, folders)
    with ExitStack() as held:
        held.callback(_closed, run, draft)
        unpublished = held.enter_context(ExitStack())
        unpublished.callback(_give_up, tables.values())
        is_local = partial(_is_local, run, opening)
        room = held.enter_context(
            scratch_location.location_of(run.plan, run.identity.execution_id, wanted, draft, is_local)
        )
        _fetch(run, draft.home, room)
        spark, done = _work(run, opening, wanted, draft, room)
        products = done.products
        with run.clock.phase("publish"), draft.alone():
            if _is_done_before(
                run, asked, there
            ):  # an attempt that nobody had seen any more was alive, or is completed
                return run.ended_before
            # Another run may have published meanwhile: names that were free need not be so any more.
            wanted = targets.resolve(run.plan, run.identity, run.options, there, run.inputs)
            targets.refuse_existing(wanted, run.options)
            material = outputs.Material(run.plan, run.identity, done.wanted.run, products)
            run.output_files = outputs.assemble(material, spark, wanted, draft, tables)
            _join_tables(run, spark, material, draft, held)
            writer = _dlq_writer(run.plan, done)
            run.clock.current = "letters" if products.tally.dead else "publish"
            run.dlq_files = files.deliver(spark, writer, products.dlq, wanted.dlq_paths, draft, run.options.tuning)
            run.clock.current = "publish"
            for warning in inputs.still_there(run.plan, run.inputs):
                logs.LOG.warning("%s", warning)
            if asked is not None:
                asked.note(draft, run.promised)
            if kept is not None and run.marks:
                kept.refuse_moved(there)
                kept.note(draft, run.marks, run.identity)
            draft.finish(spark)
            for table in tables.values():
                if table.commit is not None:
                    draft.join(table.commit)
            with interrupts.ignored():
                unpublished.pop_all()  # from here on the publication cleans up
                draft.publish()
                run.is_published = True
    return run.exit_code


def _is_done_before(run: _Run, asked: once.Once | None, there: Destinations) -> bool:
    """Whether an earlier attempt has published what this one is asked for; how that ended is the run's end then."""
    before = asked.found(there, run.identity.execution_id) if asked and run.options.is_retry else None
    if asked is None or before is None:
        return False
    logs.LOG.warning(
        "nothing is done: the attempt %s has published all files, and they are unchanged; %s says so",
        before.result.taken_from,
        asked.path,
    )
    run.before = metrics.taken(run.identity, run.plan, run.options, before)
    return True


def _looked(plan: plans.Plan) -> plans.Plan:
    """The plan with the columns of the tables that its outputs write."""
    if not any(step.is_in_database for step in plan.outputs.values()):
        return plan
    from spark_jobs.execute.delivery import databases  # runs without a database need no Arrow for its tables

    return databases.looked(plan)


def _join_tables(
    run: _Run, spark: SparkSession, material: outputs.Material, draft: Publication[FilePath], held: ExitStack
) -> None:
    """Have the records of tables published with the files."""
    if not any(step.is_in_database for step in run.plan.outputs.values()):
        return
    from spark_jobs.execute.delivery import databases

    for each in databases.load(spark, material, draft.part_store, run.clock.show):
        held.callback(_let_go, run, each)
        draft.join(each)


def _let_go(run: _Run, tables: Tables) -> None:
    with interrupts.ignored():
        tables.close(failed=not run.is_published)


def _closed(run: _Run, draft: Publication[FilePath]) -> None:
    with interrupts.ignored():
        draft.close(failed=not run.is_published)


def _is_local(run: _Run, opening: _SessionOpening) -> bool:
    """Whether all tasks run on this machine; a cluster is asked for where nothing else shows it."""
    return session.is_certainly_local(run.options) or session.is_local(opening.wait())


def _kept(
    run: _Run, wanted: targets.Targets, there: Destinations
) -> tuple[bookmark.Bookmark | None, dict[str, bookmarks.News]]:
    """The bookmark if any source is incremental, and the new inputs of such sources."""
    kept = None if wanted.bookmark is None else bookmark.Bookmark.read(wanted.bookmark, there)
    asked = kept or bookmark.Bookmark(Path())
    return kept, asked.news(run.plan.sources, run.options.since, run.options.until)


def _tables(plan: plans.Plan, wanted: targets.Targets) -> dict[str, Target]:
    """The tables that a run writes, as they are when it begins."""
    found = {}
    for target in wanted.outputs:
        if target.step.is_table:
            # Runs that write no table need no library for it.
            output = importlib.import_module(f"spark_jobs.execute.delivery.{target.step.format}.output")
            path = target.deliveries[0].path if target.deliveries else None
            reach = Reach(plan.stores, plan.connections, plan.catalogs)
            found[target.name] = output.TableOutput.look(
                target.name, target.step.options, path, target.step.place, reach
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
    return places.destinations(Reach(plan.stores, plan.connections, plan.catalogs), options.tuning)


def _previewing(run: _Run, show: Callable[[str, str], None]) -> ExitCode:
    """A few records through the whole pipeline, to `show`; everything else happens in a folder that is thrown away."""
    opening = _begin(run, {})
    wanted = targets.resolve(run.plan, run.identity, run.options, destinations(run.plan, run.options), run.inputs)
    draft = Preview(Path(tempfile.mkdtemp(prefix="clinker-preview-")))
    room = Scratch(str(draft.home))
    try:
        _fetch(run, draft.home, room)
        spark, done = _work(run, opening, wanted, draft, room)
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


def _begin(run: _Run, news: Mapping[str, bookmarks.News]) -> _SessionOpening:
    """Find the inputs while the session opens; `news` says what to read of incremental sources."""
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


def _fetch(run: _Run, folder: Path, room: Scratch) -> None:
    """The pages of network sources become files in a folder of the run, where every machine can read them."""
    assert run.inputs is not None
    steps = run.inputs.on_network
    if not steps:
        return
    from spark_jobs.execute.run import network  # runs without a network source need no HTTP

    with run.clock.phase("fetch"):
        pages = network.fetch(run.plan, steps, folder, run.options.preview)
        pages = network.handed_over(pages, room)
        run.inputs = inputs.with_pages(run.plan, run.inputs, pages, splits.configured_bytes())
    _warn(run.inputs, steps)


def _warn(found: inputs.Inputs, names: Iterable[str]) -> None:
    for name in names:
        for warning in found.scans[name].warnings:
            logs.LOG.warning("%s", warning)


def _work(
    run: _Run, opening: _SessionOpening, wanted: targets.Targets, draft: Draft[FilePath], scratch: Scratch
) -> tuple[SparkSession, work.Work]:
    """The jobs and the verdict."""
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
            room = work.TaskFolders(scratch, parts, spilling, run.memory_share)
            named = partial(_named, run, opening, room)
            run.work = work.Work(_first_pass(run, room), run.clock, named, run.options.preview)
            run.work.all_jobs(spark)
    finally:
        if run.work:
            places = run.work.products.inputs.file_name, run.work.products.rows_before
            logs.write(run.tally.logs, *places)
            logs.warn(run.tally.notices.values(), *places)
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


def _first_pass(run: _Run, room: work.TaskFolders) -> Pass:
    assert run.inputs is not None
    spec = work.run_spec(run.plan, run.options, run.inputs, room)
    return Pass(run.plan, spec, run.inputs, work.run_values(run.plan, run.identity), progress=run.progress)


def _named(run: _Run, opening: _SessionOpening, room: work.TaskFolders, names: Collection[str]) -> Pass:
    """The first pass, knowing all undeclared columns of some sources."""
    assert run.inputs is not None
    text = "%s: records have undeclared columns that the first ones lack; all are looked for, and read again"
    for name in sorted(names):
        logs.LOG.info(text, name)
    search = name_search.NameSearch(opening.wait, run.options.tuning, samples=False, threads=run.threads)
    run.inputs = inputs.searched(run.plan, run.inputs, names, splits.configured_bytes(), search)
    return _first_pass(run, room)


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
