"""The jobs of a run: what each task is told, runs again after a wrong cut, and what ends a run early."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics import nearest
from spark_jobs.execute import chain, durable, failed_record, inputs, joining, letters, logs, spec, spill, verdict
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.nodes.aggregate.step import AggregateStep
from spark_jobs.nodes.combine.step import CombineStep
from spark_jobs.nodes.operator import Counters
from spark_jobs.nodes.output import run as output_run
from spark_jobs.nodes.output.step import OutputStep
from spark_jobs.plan import plan as plans
from spark_jobs.plan import regions
from spark_jobs.scan import splits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from spark_jobs.execute.executor import Run
    from spark_jobs.execute.report import Part, TaskReport

#: For tests and tuning: the nominal size of splits, and of what a partition of an exchange gets, in bytes. Results
#: never depend on them.
SPLIT_BYTES_VARIABLE = "CLINKER_SPLIT_BYTES"
PARTITION_BYTES_VARIABLE = "CLINKER_PARTITION_BYTES"
_MOST_PARTITIONS = 512
#: Starting a Spark task costs as much as reading some megabytes: small files share one.
_PACK_BYTES = 4 << 20


def split_bytes() -> int:
    """The nominal size of splits."""
    return int(os.environ.get(SPLIT_BYTES_VARIABLE, splits.SPLIT_BYTES))


class Work:
    """Runs the jobs of a plan; `scratch` is for parts that stay inside the run, `folders` for those of outputs."""

    def __init__(
        self, run: Run, spark: SparkSession, scratch: str, folders: dict[str, str], spilling: spill.Settings
    ) -> None:
        assert run.inputs is not None
        self.run = run
        self.spark = spark
        self.scratch = scratch
        self.folders = folders
        self.spilling = spilling
        self.widened = inputs.widened(run.plan, run.inputs)
        self._check_names()
        #: The sizes of the build sides that were written down, by box.
        self.build_bytes: dict[str, int] = {}
        #: What combines counted while their build sides were written down.
        self.build_counts: dict[str, Counters] = {}

    @property
    def inputs(self) -> inputs.Inputs:
        """What the run reads."""
        assert self.run.inputs is not None
        return self.run.inputs

    @property
    def memory_share(self) -> int:
        """Bytes that each task may hold."""
        return self.run.plan.memory_limit_bytes // self.run.threads

    def _check_names(self) -> None:
        """Undeclared columns are known by now: an output's encoding must have what their names are written with."""
        kind = inputs.widened_type(self.inputs)
        for planned in self.run.plan.nodes:
            if isinstance(planned.step, OutputStep):
                self._warn_of_absent(planned.step)
                _, written = output_run.columns(planned.step, self.widened[planned.name], kind)
                for _, message in planned.step.unwritable(column.name for column in written):
                    help_text = "name it under `mapping`, leave it out by `exclude`, or choose another encoding"
                    raise verdict.broken(self.run.plan, "E900", f"{message}; {help_text}", planned.name)

    def _warn_of_absent(self, step: OutputStep) -> None:
        """What an output names, no schema declares and no file has may be meant; it may also be misspelt."""
        known = self.widened[step.name]
        absent = [(each.name, "", "it is sorted or split by") for each in step.fields if each.type is None]
        absent += [(name, "W212: ", "`mapping` or `exclude` names") for name in step.undeclared]
        for name, code, use in absent:
            if name not in known:
                hint = nearest.hint(name, [*known, *(column.source for column in step.columns)])
                text = "%soutput '%s': no input file has the column '%s', which %s%s"
                logs.LOG.warning(text, code, step.name, name, use, f"; {hint}" if hint else "")

    def all_jobs(self) -> None:
        """All jobs, in order; each gets the build sides that earlier ones wrote down."""
        run = self.run
        if run.options.preview is not None:
            run.inputs = self.inputs.beginnings()
        if run.options.preview is not None or self._reads_rows():
            with run.phase("count"):
                self._count()
        if run.options.preview is not None:
            run.inputs = self.inputs.limited(run.options.preview)
        materialized: dict[str, tuple[str, ...]] = {}
        for index in range(len(self._jobs())):
            job = self._jobs()[index]  # planned anew: build sides that are small after all go to every task
            with run.phase(f"job {job.number}"):
                reports = self._run(self._spec(job, materialized))
            run.tally.add(job.number, reports)
            self._stop_when_broken()
            for box in job.boxes.values():
                if box.role is regions.Role.BUILD:
                    parts = run.tally.parts_of(box.id)
                    self._check(parts, box.step.name)
                    materialized[box.id] = tuple(part.path for part in parts)
                    self.build_bytes[box.id] = sum(part.bytes for part in parts)
                    name = box.step.name
                    self.build_counts[name] = replace(run.tally.counters.get(name, Counters()))
        if wrong := run.tally.unbalanced():
            text = f"records do not add up, nothing is published: {'; '.join(wrong)}"
            raise RunFailed(ExitCode.EVALUATION, "E903", text)

    def _check(self, parts: Iterable[Part], node: str) -> None:
        """Build sides are what their tasks wrote, before other tasks map them."""
        try:
            for part in parts:
                joining.check(joining.whole(part.path, part.bytes))
        except OSError as error:
            raise verdict.broken(self.run.plan, "E900", durable.describe(error), node) from error

    def _spec(
        self, job: regions.Job, materialized: dict[str, tuple[str, ...]], *, counts_only: bool = False
    ) -> spec.JobSpec:
        errors = self.run.plan.errors
        filed = self.filed
        return spec.JobSpec(
            run=self.run.identity.execution_id,
            job=job,
            steps=self.inputs.steps,
            splits=tuple(item for item in self.inputs.splits if item[0] in job.sources),
            widened=self.widened,
            widened_type=inputs.widened_type(self.inputs),
            values=self._values(),
            strategy=errors.strategy,
            filed=filed,
            named=0 if errors.strategy is plans.Strategy.FAIL_FAST else letters.NAMED,
            keep_texts=errors.include_source_row and filed != frozenset(),
            scratch=self.scratch,
            staging=self.folders,
            memory_share=self.memory_share,
            spill=self.spilling,
            log_level=logs.LEVELS.get(self.run.options.log_level, logs.LEVELS["info"]),
            counts_only=counts_only,
            materialized=dict(materialized),
            pack_bytes=min(_PACK_BYTES, split_bytes()),
            numbers=self._numbers(job),
            counted=self._counted(job),
            branches=branches(self.run.plan),
        )

    def _counted(self, job: regions.Job) -> dict[str, Counters]:
        """What nodes counted before a job, without what its own tasks count (again) and tell each other."""
        if not any(job.totals(exchange) for exchange in job.exchanges):
            return {}
        here = {box.step.name for box in job.boxes.values() if box.role is not regions.Role.BUILD}
        before = {name: counters for name, counters in self.run.tally.counters.items() if name not in here}
        return before | {name: counters for name, counters in self.build_counts.items() if name in here}

    @property
    def filed(self) -> frozenset[int] | None:
        """The sources whose dead letters go to a file, None: all; a preview writes none."""
        errors = self.run.plan.errors
        if errors.strategy is not plans.Strategy.CONTINUE or self.run.options.preview is not None:
            return frozenset()
        if errors.dead_letters.path:
            return None
        numbers = self.inputs.numbers
        return frozenset(numbers[name] for name, target in errors.per_source.items() if target.path and name in numbers)

    def _numbers(self, job: regions.Job) -> range:
        """The numbers of the tasks whose records leave for an exchange: splits, and behind a first one partitions."""
        mine = [place.number for name, place in self.inputs.splits if name in job.sources] or [0]
        if all(each.level == 1 for each in job.exchanges if each.kind is regions.ExchangeKind.GROUP):
            return range(min(mine), max(mine) + 1)
        return range(max([*mine, *(exchange.partitions for exchange in job.exchanges)]) + 1)

    def _run(self, wanted: spec.JobSpec) -> list[TaskReport]:
        """Run a job; once more with exact borders when a split was cut inside quotes."""
        reports = chain.run(self.spark, wanted)
        wrong = {split.number for report in reports for split in report.splits if not split.is_consistent}
        if not wrong:
            return reports
        self.run.inputs = self.inputs.with_exact(wrong)
        places = tuple(item for item in self.inputs.splits if item[0] in wanted.job.sources)
        return chain.run(self.spark, spec.replace_splits(wanted, places))

    def _reads_rows(self) -> bool:
        """Whether some program reads a record's position in its file or source, which must be known before the pass."""
        steps = self.inputs.steps.values()
        return any({"row", "total_count"} & step.reads_source or "source_row" in step.provenance for step in steps)

    def _count(self) -> None:
        """A pass that only counts the records of each split."""
        steps = self.inputs.steps.items()
        boxes = {name: regions.Box(name, step, regions.Role.WHOLE, 0, silent=True) for name, step in steps}
        reports = self._run(self._spec(regions.Job(-1, tuple(boxes), boxes, ()), {}, counts_only=True))
        self.run.tally.broken += [report.broken for report in reports if report.broken]
        self._stop_when_broken()
        self.run.inputs = self.inputs.with_rows({split.number: split.records for r in reports for split in r.splits})

    def _values(self) -> dict[str, Any]:
        """The run-wide values behind `$...`."""
        run = self.run
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

    def _jobs(self) -> tuple[regions.Job, ...]:
        return regions.jobs(self.run.plan, self._partitions)

    def _partitions(self, name: str) -> int:
        """How many partitions a node's records are spread over: from sizes, never from cores."""
        match self.run.plan.by_name[name].step:
            case AggregateStep(group_by=()):
                return 1
            case AggregateStep() as step:
                return self._share(self._bytes_before(name, len(step.input) + 1))
            case CombineStep() as step:
                return self._partitions_of_combine(name, step)
            case _:
                return self._share(self.inputs.bytes_of(_sources_of(self.run.plan, name)))

    def _partitions_of_combine(self, name: str, step: CombineStep) -> int:
        """One where each task can have the whole build side, as far as its size is known."""
        if not step.is_keyed:
            return 1
        planned = self.run.plan.by_name[name]
        first = next(edge for edge in planned.inputs if edge.qualifier == step.builds[0])
        build = self.inputs.bytes_of(_sources_of(self.run.plan, first.node))
        known = self.build_bytes.get(step.build_box(first.qualifier), build)
        fits = min(2 * self._unit, self.memory_share // 2)
        wanted = self._share(max(build, self.inputs.bytes_of(_sources_of(self.run.plan, name))))
        if min(build, known) <= fits:
            return wanted if step.wants_shuffle else 1
        return max(wanted, build // fits + 1)

    def _bytes_before(self, name: str, columns: int) -> int:
        """About how many bytes of its sources a node needs that reads some of their columns."""
        sources = _sources_of(self.run.plan, name)
        everything = max(sum(len(self.inputs.steps[source].columns) for source in sources), 1)
        return int(self.inputs.bytes_of(sources) * min(1.0, columns / everything))

    def _share(self, size: int) -> int:
        """How many partitions of the usual size there are in some bytes."""
        return max(1, min(size // self._unit, _MOST_PARTITIONS))

    @property
    def _unit(self) -> int:
        """The usual size of a partition, in bytes of input."""
        wanted = int(os.environ.get(PARTITION_BYTES_VARIABLE, plans.PARTITION_BYTES))
        return plans.partition_bytes(self.run.plan.memory_limit_bytes, wanted)

    def _stop_when_broken(self) -> None:
        """Broken files end the run, and so does a failing record where no strategy forgives it."""
        tally = self.run.tally
        if tally.broken:
            broken = tally.broken[0]
            raise verdict.broken(self.run.plan, broken.code, broken.message, broken.node)
        strategy = self.run.plan.errors.strategy
        first = verdict.first_failure(tally, strategy)
        if first is not None:
            raise failed_record.blamed(first, self.inputs, rows_before(self.run), strategy)


def branches(plan: plans.Plan) -> tuple[str, ...]:
    """The branches of all routes as records and dead letters count them, with none before them."""
    return ("", *dict.fromkeys(name for node in plan.nodes if node.kind == "route" for name in node.outputs))


def rows_before(run: Run) -> dict[int, int]:
    """The records of each split's file before the split, by its number; known after the pass."""
    assert run.inputs is not None
    before: dict[int, int] = {}
    seen: dict[tuple[str, int], int] = {}
    for name, place in run.inputs.splits:
        key = (name, place.split.file)
        before[place.number] = seen.get(key, 0)
        seen[key] = before[place.number] + run.tally.records_per_split.get(place.number, 0)
    return before


def _sources_of(plan: plans.Plan, name: str) -> list[str]:
    """The sources whose records reach a node."""
    found, waiting = set(), [name]
    while waiting:
        planned = plan.by_name[waiting.pop()]
        if planned.kind == "source":
            found.add(planned.name)
        waiting += [edge.node for edge in planned.inputs]
    return sorted(found)
