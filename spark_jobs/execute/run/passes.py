"""A pass: all jobs of a plan, or a measuring of its inputs, as a value that can be run, thrown away and run again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.disk import durable
from spark_jobs.execute import scratch, tolerance, verdict
from spark_jobs.execute.correlation.state import Goal, PassState, per_split
from spark_jobs.execute.delivery import destination
from spark_jobs.execute.dlq import failed_record
from spark_jobs.execute.run.partitions import Sizes, Written
from spark_jobs.execute.run.pass_results import (
    MaterializedInputs,
    MergedReports,
    PassResults,
    ReusableJob,
    ReusableTasks,
)
from spark_jobs.execute.spark import chain
from spark_jobs.execute.tasks import spec, task_inputs
from spark_jobs.execute.tasks.materialized import MaterializedFile
from spark_jobs.nodes.correlation import KeyOrigin
from spark_jobs.nodes.output import shape
from spark_jobs.nodes.source import record_origin as origins
from spark_jobs.nodes.terms.shape import Role
from spark_jobs.plan.physical import fragments, job_pruning

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.execute.report import Part, TaskReport
    from spark_jobs.execute.run.measures import Measures
    from spark_jobs.execute.run.progress import Progress
    from spark_jobs.execute.run.stopwatch import Stopwatch
    from spark_jobs.nodes.records.ledger import Counters
    from spark_jobs.nodes.terms.needs import Need
    from spark_jobs.plan import plan as plans


@dataclass(frozen=True)
class Pass:
    """A pass over the jobs of a plan, from a known state. Its products are in `PassResults`, and nowhere else.

    Args:
        plan: the plan.
        run: the settings that all passes share.
        inputs: the inputs, with measurements of earlier passes.
        values: the known values of `$…` members.
        state: the initial state: its goal, excluded records and rejected groups.
        materializes_sources: whether the records of all sources are materialized as they are read, for a later job.
        materialized_inputs: the records of sources as an earlier pass materialized them, read in place of the sources.
        reusable_jobs: the jobs of the pass before that this one may leave as they are, by their numbers.
        reusable: the tasks of the last job of that pass that would do the same again, if all jobs before it do.
        progress: shows how far its jobs are.
    """

    plan: plans.Plan
    run: spec.RunSpec
    inputs: Inputs
    values: Mapping[str, Any]
    state: PassState = field(default_factory=PassState)
    materializes_sources: bool = False
    materialized_inputs: MaterializedInputs | None = None
    reusable_jobs: Mapping[int, ReusableJob] = field(default_factory=dict)
    reusable: ReusableTasks | None = None
    progress: Progress | None = field(default=None, compare=False)

    def measure(self, spark: SparkSession) -> tuple[Inputs, Measures]:
        """Measure all splits; returns the inputs with their true borders, and the measure of each split."""
        steps = self.inputs.steps.items()
        ops = {name: fragments.PhysicalOperator(name, step, Role.WHOLE, 0, silent=True) for name, step in steps}
        products = PassResults(self.inputs)
        wanted = self._spec(fragments.Job(-1, tuple(ops), ops, ()), products, {})
        products.add(-1, self._reports(spark, replace(wanted, measures_only=True), products))
        self._stop_when_broken(products)
        return products.inputs, products.measures

    def run_jobs(self, spark: SparkSession, products: PassResults, clock: Stopwatch) -> None:
        """Run all jobs in order; each gets what earlier ones materialized. `products` collects their results.

        It ends early where it is of no use.
        """
        written: dict[Need, list[Part]] = {}
        stands = True  # whether all jobs so far are as they were in the pass before
        for index in range(len(self._jobs(written))):
            job = self._jobs(written)[index]  # planned anew: build sides that are small after all go to every task
            done = self._done(job, products) if stands else None
            if self.materializes_sources and self.materialized_inputs is not None and index == 0:
                products.add_materialized_inputs(self.materialized_inputs, self.state)
            elif done is not None:
                products.add(job.number, done.reports)
                products.reusable_jobs[job.number] = done
            else:
                wanted = self._spec(job, products, written)
                with clock.phase(f"job {job.number}"):
                    reports = self._ran(spark, wanted, products, self.reusable if stands else None)
                stands = False
                products.add(job.number, reports)
                if wanted.notes_groups:
                    products.independent_reports = reports
                if self.materializes_sources and index == 0:
                    products.materialized_inputs = MaterializedInputs(job.number, reports, self.state.excluded)
                elif self._is_apart(job) and not self.state.goal.is_search:
                    products.reusable_jobs[job.number] = ReusableJob(job.ops, reports, self.state.excluded)
            if products.is_useless:
                return
            self._stop_when_broken(products)
            for op in job.ops.values():
                if op.provides is not None:
                    written[op.provides] = products.written(op.provides)
                    self._check(written[op.provides], op.step.name)

    def _ran(
        self, spark: SparkSession, wanted: spec.JobSpec, products: PassResults, reusable: ReusableTasks | None
    ) -> Iterable[TaskReport]:
        """Run a job, without the tasks whose results of the previous pass can be reused."""
        if reusable is None or not wanted.notes_groups:
            return self._reports(spark, wanted, products)
        loads = [load for load in wanted.loads if load.number not in reusable.numbers]
        again = self._reports(spark, replace(wanted, loads=self._provided(loads)), products)
        return MergedReports(again, reusable)

    def _done(self, job: fragments.Job, products: PassResults) -> ReusableJob | None:
        """The job as it was in the pass before, if it would do the same again; all jobs before it do."""
        done = self.reusable_jobs.get(job.number)
        if done is None or done.ops != job.ops or self.state.goal.ends_at_sources:
            return None
        read = {*job.sources, *(rows.node for op in job.readers for rows in op.reads)}
        before, now = per_split(done.excluded), per_split(self.state.excluded)
        more = {products.inputs.by_number[split][0] for split in now if now[split] != before.get(split)}
        return done if more.isdisjoint(read) else None

    def _is_apart(self, job: fragments.Job) -> bool:
        """True if rejected groups and rows of aggregates are nothing to a job, and its records depend on none."""
        steps = [op.step for op in job.ops.values()]
        return job.stages == 1 and not any(
            each.record_properties.group_by is not None or each.name in self.plan.outputs for each in steps
        )

    def _is_independent(self, job: fragments.Job, jobs: Sequence[fragments.Job]) -> bool:
        """True if a job makes all outputs, of records that it reads itself and that do not depend on one another."""
        nodes = self.run.node_correlations
        if not nodes or self.state.goal.is_search or job.number != jobs[-1].number:
            return False
        outputs = [nodes[name] for name in self.plan.outputs]
        # A row may have been joined with records of a group of which the task has read none.
        is_own = all(key.origin is KeyOrigin.RECORD for each in outputs for key in each.keys)
        is_whole = job.stages == 1 and not job.readers and is_own
        return is_whole and all(self._is_apart(each) for each in jobs[:-1])

    def unfolded(self, names: Collection[str]) -> Pass:
        """The pass with some nodes evaluated in order."""
        nodes = tuple(
            replace(each, step=each.step.unfolded()) if each.name in names and each.step else each
            for each in self.plan.nodes
        )
        return replace(self, plan=replace(self.plan, nodes=nodes))

    def _jobs(self, written: Mapping[Need, list[Part]]) -> tuple[fragments.Job, ...]:
        sizes = self._sizes(written)
        jobs, unwanted = fragments.jobs(self.plan, sizes.of, sizes.materialized_sources), self._unwanted()
        if self.state.goal is Goal.RETRACTED_RECORDS:
            jobs = tuple(job_pruning.short(job, self._silent) for job in jobs)
        return tuple(job_pruning.without(job, unwanted) for job in jobs)

    @property
    def _silent(self) -> set[str]:
        """The aggregates that only find which of their records are retracted, while these are searched for."""
        nodes = self.run.node_correlations.items()
        return {name for name, each in nodes if each.mixes and not each.feeds_mixed}

    def _unwanted(self) -> set[str]:
        """The nodes at which the pass has nothing to find."""
        run = self.run
        if self.state.goal is Goal.RETRACTED_RECORDS:
            nodes = run.node_correlations.items()
            return {name for name, each in nodes if not each.mixes and not each.feeds_mixed}
        if self.state.is_intermediate and not self.state.goal.is_search:
            outputs = self.plan.outputs.items()
            return {name for name, step in outputs if shape.takes_all(step, run.undeclared[name], run.undeclared_type)}
        return set()

    def _sizes(self, written: Mapping[Need, list[Part]]) -> Sizes:
        sizes = {
            rows: Written(sum(part.bytes for part in parts), sum(part.records for part in parts))
            for rows, parts in written.items()
        }
        materializes = self.materializes_sources
        return Sizes(self.plan, self.inputs, self.run.memory_share, sizes, materializes_sources=materializes)

    def _spec(self, job: fragments.Job, products: PassResults, written: Mapping[Need, list[Part]]) -> spec.JobSpec:
        loads, jobs = self._loads(job, products, written), self._jobs(written)
        return spec.JobSpec(
            run=self.run,
            job=job,
            loads=self._provided(loads),
            values=self.values,
            state=self.state,
            materialized={
                rows: tuple(MaterializedFile(p.path, p.records) for p in parts) for rows, parts in written.items()
            },
            numbers=_numbers(job, loads),
            departing=_departing(job, loads),
            places=_places(job, products.inputs),
            shares=products.share(_shares(job, loads, len(jobs))),
            notes_groups=self._is_independent(job, jobs),
            counted=_counted(job, products),
        )

    def _provided(self, loads: Sequence[task_inputs.Load]) -> Sequence[task_inputs.Load]:
        return task_inputs.provide(loads, self.run.scratch, self.run.tuning)

    def _packed(self, products: PassResults, job: fragments.Job) -> list[task_inputs.Load]:
        splits = products.inputs.splits_of(job.sources)
        return task_inputs.packed(splits, self.run.pack_bytes, self.run.tuning.pack_splits)

    def _loads(
        self, job: fragments.Job, products: PassResults, written: Mapping[Need, list[Part]]
    ) -> list[task_inputs.Load]:
        found = self._packed(products, job)
        number = 1 + max((place.number for _, place in products.inputs.splits), default=-1)
        for op in job.readers:
            parts = [written[rows] for rows in op.reads]
            counts = [sum(part.records for part in each) for each in parts]
            size = sum(part.bytes for each in parts for part in each)
            most = self._sizes(written).range_bytes
            found += task_inputs.materialized_ranges(op, counts, size, number, most, self.run.scratch)
            number = max([number, *(load.number + 1 for load in found)])
        return found

    def _reports(self, spark: SparkSession, wanted: spec.JobSpec, products: PassResults) -> Iterable[TaskReport]:
        """Run a job; once more with exact borders when a split was cut inside quotes."""
        reports = self._run(spark, wanted)
        wrong = {split.number for report in reports for split in report.splits if not split.is_consistent}
        if not wrong:
            return reports
        products.inputs = products.inputs.with_exact(wrong)
        ranges = [load for load in wanted.loads if isinstance(load, task_inputs.MaterializedRange)]
        loads = [*self._packed(products, wanted.job), *ranges]
        return self._run(spark, replace(wanted, loads=self._provided(loads)))

    def _run(self, spark: SparkSession, wanted: spec.JobSpec) -> Iterable[TaskReport]:
        if self.progress is None:
            return chain.run(spark, wanted)
        with self.progress.job(wanted) as watched:
            return chain.run(spark, watched)

    def _check(self, parts: Iterable[Part], node: str) -> None:
        """Build sides are what their tasks wrote, before other tasks map them."""
        try:
            scratch.each(_check_size, parts, are_local=self.run.scratch.is_local)
        except OSError as error:
            raise verdict.broken(self.plan, "E900", durable.describe(error), node) from error

    def _stop_when_broken(self, products: PassResults) -> None:
        """Broken files end the run, and so does a failing record where no strategy forgives it."""
        tally, strategy = products.tally, self.run.strategy
        if tally.broken:
            broken = tally.broken[0]
            raise verdict.broken(self.plan, broken.code, broken.message, broken.node, broken.unseen)
        first = tolerance.first_failure(tally, strategy)
        if first is not None:
            raise failed_record.blamed(first, products.inputs, products.rows_before, strategy)


def _check_size(part: Part) -> None:
    destination.check_size(destination.whole(part.path, part.bytes), scratch.size(part.path))


def _places(job: fragments.Job, inputs: Inputs) -> origins.Places | None:
    """The facts about splits that are read by another task than the one that uses their records."""
    if job.readers or any(op.step.member_properties.reads_origins for op in job.ops.values()):
        return origins.Places.of(inputs.splits)
    return origins.Places.of(inputs.splits_of(job.sources)) if job.exchanges else None


def _numbers(job: fragments.Job, loads: Sequence[task_inputs.Load]) -> range:
    """The numbers of all tasks: of splits and materialized ranges, and of partitions after exchanges."""
    return range(max([0, *_read(loads), *(exchange.partitions for exchange in job.exchanges)]) + 1)


def _departing(job: fragments.Job, loads: Sequence[task_inputs.Load]) -> range:
    """The numbers of tasks that send to an exchange: loads, or partitions after a first exchange."""
    if any(each.stage > 1 for each in job.exchanges if each.kind.gives_places):
        return _numbers(job, loads)
    mine = [*_read(loads)] or [0]
    return range(min(mine), max(mine) + 1)


def _read(loads: Sequence[task_inputs.Load]) -> Iterator[int]:
    """The numbers of the splits and materialized ranges that are read."""
    for load in loads:
        if isinstance(load, task_inputs.Splits):
            yield from (place.number for place in load.splits)
        else:
            yield load.number


def _shares(job: fragments.Job, loads: Sequence[task_inputs.Load], jobs: int) -> int:
    """A bound for skew: a task has at most this many times the average of something. All tasks of a job share it."""
    return (len(loads) + sum(exchange.partitions for exchange in job.exchanges)) * jobs + 1


def _counted(job: fragments.Job, products: PassResults) -> dict[str, Counters]:
    """The counts of nodes before a job, without those that its own tasks count again or exchange."""
    if not any(job.totals(exchange) for exchange in job.exchanges):
        return {}
    here = {op.step.name for op in job.ops.values() if op.provides is None and op.role is not Role.READ_MATERIALIZED}
    before = {name: counters for name, counters in products.tally.counters.items() if name not in here}
    return before | {name: counters for name, counters in products.counted.items() if name in here}
