"""The passes of a run, one after another: measuring passes first, then its jobs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics import nearest
from spark_jobs.execute import inputs, logs, ok_records, verdict
from spark_jobs.execute.correlation import iteration as iterations
from spark_jobs.execute.correlation.state import Goal, PassState
from spark_jobs.execute.dlq import buffer
from spark_jobs.execute.run.pass_results import PassResults, ReusableTasks
from spark_jobs.execute.tasks import spec
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats import format, splits
from spark_jobs.nodes.output import run as output_run
from spark_jobs.nodes.output import shape
from spark_jobs.plan import plan as plans
from spark_jobs.plan.physical import correlation, guards

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import Parts
    from spark_jobs.execute.identity import Identity
    from spark_jobs.execute.run.passes import Pass
    from spark_jobs.execute.run.stopwatch import Stopwatch
    from spark_jobs.execute.scratch import Scratch
    from spark_jobs.execute.tasks import spill
    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.plan.options import RunOptions

#: A preview counts so many splits of each source at first: small files of a few records each, or one of many.
_FIRST_SPLITS = 4


@dataclass(frozen=True)
class TaskFolders:
    """The folders in which tasks write, and the memory that they may use.

    Args:
        scratch: where the files lie that stay inside the run.
        parts: where the parts of outputs go.
        spilling: the folder for the spill files of tasks.
        memory_share: bytes that each task may hold.
    """

    scratch: Scratch
    parts: Parts
    spilling: spill.Settings
    memory_share: int


def run_spec(plan: plans.Plan, options: RunOptions, found: inputs.Inputs, room: TaskFolders) -> spec.RunSpec:
    """The specification that all tasks of a run share."""
    errors = plan.errors
    filed = _filed(plan, options, found)
    return spec.RunSpec(
        steps=found.steps,
        undeclared=inputs.undeclared(plan, found),
        undeclared_type=inputs.undeclared_type(found),
        strategy=errors.strategy,
        filed=filed,
        named=buffer.NAMED,
        keep_texts=errors.include_source_row and errors.strategy is plans.Strategy.CONTINUE and filed != frozenset(),
        scratch=room.scratch,
        parts=room.parts,
        memory_share=room.memory_share,
        spill=room.spilling,
        log_level=logs.LEVELS.get(options.log_level, logs.LEVELS["info"]),
        branches=branches(plan),
        pack_bytes=min(options.tuning.pack_bytes, splits.configured_bytes()),
        correlation=correlation.of(plan),
        guards=guards.of(plan),
        tuning=options.tuning,
    )


def _filed(plan: plans.Plan, options: RunOptions, found: inputs.Inputs) -> frozenset[int] | None:
    """The sources whose dead letters go to a file, None: all; a preview writes none.

    Under fail_fast there are none but late records, which end no run.
    """
    errors = plan.errors
    if errors.strategy is plans.Strategy.BEST_EFFORT or options.preview is not None:
        return frozenset()
    if errors.dead_letters.path:
        return None
    numbers = found.numbers
    return frozenset(numbers[name] for name, target in errors.per_source.items() if target.path and name in numbers)


def branches(plan: plans.Plan) -> tuple[str, ...]:
    """The branches of all routes as records and dead letters count them, with none before them."""
    return ("", *dict.fromkeys(name for node in plan.nodes for name in node.outputs if name))


def run_values(plan: plans.Plan, identity: Identity) -> dict[str, Any]:
    """The run-wide values of `$...` members that are known before anything is read."""
    started = identity.started.replace(tzinfo=None, microsecond=0)
    return {
        **plan.variables,
        "pipeline.name": plan.name,
        "pipeline.execution_id": identity.execution_id,
        "pipeline.batch_id": identity.batch_id,
        "pipeline.start_time": started,
        "source.batch": identity.execution_id,
        "source.ingestion_timestamp": started,
    }


@dataclass
class Work:
    """Runs the passes of a plan; `products` has their results so far, so that a failed run can report them.

    Args:
        wanted: the pass over all records.
        clock: what times it.
        named: gives the pass that knows all undeclared columns of some sources.
        preview: how many records of each source are wanted, None for all.
    """

    wanted: Pass
    clock: Stopwatch
    named: Callable[[Collection[str]], Pass]
    preview: int | None = None
    products: PassResults = field(init=False)
    #: True if all jobs are done; until then the counts cover only some of the records.
    is_done: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.products = PassResults(self.wanted.inputs)

    def all_jobs(self, spark: SparkSession) -> None:
        """Run them all; again as often as records of a source have undeclared columns that were not known."""
        self._run(spark)
        while unnamed := self.products.unnamed:  # a later job may read another such source
            with self.clock.phase("names"):
                self.wanted = self.named(unnamed)
            self._run(spark)
        if wrong := self.products.tally.unbalanced():
            text = f"records do not add up, nothing is published: {'; '.join(wrong)}"
            raise RunFailed(ExitCode.EVALUATION, "E903", text)
        run = self.wanted.run
        self.products.tally.ok = ok_records.count(spark, self.products.written_rows, run.scratch, run.tuning)
        self._warn_of_absent()
        self.is_done = True

    def _run(self, spark: SparkSession) -> None:
        self._check_names()
        if self.preview is not None:
            with self.clock.phase("count"):
                self._read(self._first_records(spark, self.preview))
        elif self._reads_rows():
            with self.clock.phase("count"):
                exact, measures = self.wanted.measure(spark)
                self._read(exact.with_rows(measures.of("records")))
        self._iterate(spark)

    def _first_records(self, spark: SparkSession, count: int) -> inputs.Inputs:
        """The first records of each source; splits are counted until there are enough, twice as many each time."""
        whole, splits = self.wanted.inputs, _FIRST_SPLITS
        while True:
            self._read(whole.first_splits(splits))
            exact, measures = self.wanted.measure(spark)
            known = measures.of("records")
            if not exact.lacks(count, known, whole):
                return exact.with_rows(known).limited(count)
            splits *= 2

    def _read(self, known: inputs.Inputs) -> None:
        self.wanted = replace(self.wanted, inputs=known)
        self.products.inputs = known

    def _iterate(self, spark: SparkSession) -> None:
        """Run the pass; with correlation keys more passes, until one finds nothing new."""
        iteration = iterations.of(self.wanted.run)
        while iteration.state.goal is not Goal.DONE:
            found = self._run_pass(spark, iteration.state)
            if self.products.unnamed:
                return
            iteration.take(found)
            self.wanted = replace(self.wanted, inputs=self.products.inputs)
            if iteration.state.goal is Goal.COMPUTE:
                numbers, reports = iteration.unaffected_tasks(), self.products.independent_reports
                reusable = ReusableTasks(reports, numbers) if numbers and reports is not None else None
                self.wanted = replace(self.wanted, reusable=reusable)
        iteration.finish(spark, self.products)

    def _run_pass(self, spark: SparkSession, state: PassState) -> PassResults:
        """Run a pass, and repeat it if the folds of nodes do not hold. `products` come from computing passes."""
        is_search = state.goal.is_search
        materializes_sources = self._goes_on(state)
        while True:
            found = PassResults(self.wanted.inputs)
            wanted = replace(self.wanted, state=state, materializes_sources=materializes_sources)
            if is_search:
                wanted = replace(wanted, reusable=None)
            else:
                self.products = found
            wanted.run_jobs(spark, found, self.clock)
            if found.materialized_inputs is not None:
                self.wanted = replace(self.wanted, materialized_inputs=found.materialized_inputs)
            if not found.unfolded or found.unnamed:
                if not is_search:
                    self.wanted = replace(self.wanted, reusable_jobs=found.reusable_jobs)
                return found
            self.wanted = self.wanted.unfolded(found.unfolded)

    def _goes_on(self, state: PassState) -> bool:
        """True if a pass materializes records for later ones, or reads records that an earlier one has materialized."""
        if any(step.record_properties.looked_up for step in self.wanted.plan.sources.values()):
            return False  # not all sources are read by the first job
        if state.goal.ends_at_sources or self.preview is not None or self.products.independent_reports is not None:
            return False
        return state.is_one_of_many or self.wanted.materialized_inputs is not None

    def _reads_rows(self) -> bool:
        """True if some program reads a record's position in its file or source, which must be known before the pass."""
        steps = self.wanted.inputs.steps.values()
        return any({"row", "total_count"} & step.reads_source or "source_row" in step.provenance for step in steps)

    def _check_names(self) -> None:
        """Undeclared columns are known by now: an output's encoding must have what their names are written with."""
        run, plan = self.wanted.run, self.wanted.plan
        for name, step in plan.outputs.items():
            known = run.undeclared[name]
            written = shape.written_columns(step, known, run.undeclared_type)
            for column, message in step.unwritable(column.name for column in written):
                help_text = "name it under `mapping`, or leave it out by `exclude`"
                if step.options.name_problem(column) is None:
                    help_text = "name it under `mapping`, leave it out by `exclude`, or choose another encoding"
                raise verdict.broken(plan, "E900", f"{message}; {help_text}", name)
            try:
                output_run.writer(step, known, run.undeclared_type)
            except format.UnwritableFile as problem:
                raise verdict.broken(plan, "E900", str(problem), name) from problem

    def _warn_of_absent(self) -> None:
        """Warn of names that no record had, and of columns whose name was taken, after all records were read."""
        for name, step in self.wanted.plan.outputs.items():
            known = self.wanted.run.undeclared[name]
            _warn_of_absent(step, known)
            for column, source in shape.left_out(step, known):
                logs.LOG.warning(
                    "W213: output '%s': %s; %s", name, shape.name_taken_message(column, source), shape.TAKEN_HELP
                )


def _warn_of_absent(step: OutputStep, known: Sequence[str]) -> None:
    """Warn of names in an output that neither a schema nor a file has: they may be misspelt."""
    absent = [(each.name, "", "it is sorted or split by") for each in step.fields if each.type is None]
    absent += [(name, "W212: ", "`mapping` or `exclude` names") for name in step.undeclared]
    for name, code, use in absent:
        if name not in known:
            hint = nearest.hint(name, [*known, *(column.source for column in step.columns)])
            text = "%soutput '%s': no input file has the column '%s', which %s%s"
            logs.LOG.warning(text, code, step.name, name, use, f"; {hint}" if hint else "")
