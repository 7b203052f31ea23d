"""The results of a pass over the jobs of a run. They are discarded if the pass is repeated."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.execute.correlation.state import per_split
from spark_jobs.execute.run.measures import ByNumber, Measures
from spark_jobs.execute.tally import Tally
from spark_jobs.nodes.records.ledger import Counters
from spark_jobs.nodes.terms.needs import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spark_jobs.execute.correlation.state import PassState
    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.execute.report import DlqReport, Part, TaskReport
    from spark_jobs.execute.tasks.written_rows import Bits
    from spark_jobs.nodes.terms.needs import Need
    from spark_jobs.plan.physical.fragments import PhysicalOperator


@dataclass(frozen=True)
class MaterializedInputs:
    """The input records that a pass has materialized, so that later passes need not read the inputs again.

    Args:
        job: the number of the job that materialized them.
        reports: the reports of its tasks; can be iterated again.
        excluded: the file of records that were excluded then, and so are not materialized.
    """

    job: int
    reports: Iterable[TaskReport]
    excluded: str | None


@dataclass(frozen=True)
class ReusableJob:
    """A job of an earlier pass that can be reused: each record passes alone, and is materialized for later jobs.

    It would do the same again, unless more records of its sources are excluded.

    Args:
        ops: its operators by name.
        reports: the reports of its tasks; can be iterated again.
        excluded: the file of records that were excluded then.
    """

    ops: Mapping[str, PhysicalOperator]
    reports: Iterable[TaskReport]
    excluded: str | None


@dataclass(frozen=True)
class ReusableTasks:
    """The tasks of a pass that would do the same again in the next one.

    Args:
        reports: the reports of all tasks; can be iterated again.
        numbers: the numbers of the reusable tasks.
    """

    reports: Iterable[TaskReport]
    numbers: frozenset[int]


@dataclass(frozen=True)
class MergedReports:
    """The reports of a job, some of whose tasks ran again, by task number.

    Args:
        again: theirs.
        reusable: the others.
    """

    again: Iterable[TaskReport]
    reusable: ReusableTasks

    def __iter__(self) -> Iterator[TaskReport]:
        """All of them."""
        others = (report for report in self.reusable.reports if report.number in self.reusable.numbers)
        return heapq.merge(self.again, others, key=lambda report: report.number)


@dataclass
class PassResults:
    """The products of a pass.

    Args:
        inputs: the inputs of the pass; with exact borders where splits turned out to be cut wrongly.
        tally: counts, and failures that would end the run.
        parts: the part files of outputs, and the materialized files for later jobs.
        measures: the measure of each split.
        written_rows: the records that reached outputs, as tasks reported them.
        dlq: the files of dead letters.
        shares: if n items exist anywhere, some task has at least n / `shares` of them.
        correlation: with correlation keys, the metrics of the passes.
        fact_files: the tasks' files with facts about correlation groups.
        counted: the counters of nodes at the moment when their lookup data was materialized.
        unfolded: nodes whose shortcut does not apply, so that the pass must be repeated.
        unnamed: sources with unknown undeclared columns, so that the pass must be repeated.
        materialized_inputs: the records of all sources as they were read, if the pass materialized them.
        reusable_jobs: the jobs before the last one that later passes may reuse, by their numbers.
        independent_reports: the reports of the last job, if it makes all outputs and its records depend on no records
            of other tasks.
    """

    inputs: Inputs
    tally: Tally = field(default_factory=Tally)
    parts: dict[str | Need, list[Part]] = field(default_factory=dict)
    measures: Measures = field(default_factory=Measures)
    written_rows: list[Bits] = field(default_factory=list)
    dlq: list[DlqReport] = field(default_factory=list)
    fact_files: list[str] = field(default_factory=list)
    shares: int = 1
    correlation: dict[str, Any] = field(default_factory=dict)
    counted: dict[str, Counters] = field(default_factory=dict)
    unfolded: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
    materialized_inputs: MaterializedInputs | None = None
    reusable_jobs: dict[int, ReusableJob] = field(default_factory=dict)
    independent_reports: Iterable[TaskReport] | None = None

    @property
    def is_useless(self) -> bool:
        """True if the pass has to be done again, knowing more."""
        return bool(self.unfolded or self.unnamed)

    def share(self, shares: int) -> int:
        """Take in the shares of a job."""
        self.shares = max(self.shares, shares)
        return shares

    def add(self, job: int, reports: Iterable[TaskReport]) -> None:
        """Add the reports of the tasks of a job, by stage and number."""
        for report in reports:
            self.tally.add(job, report)
            for part in report.parts:
                self.parts.setdefault(part.op, []).append(part)
            for measure in report.splits:
                self.measures.add(measure)
                if measure.has_news:
                    self.unnamed.add(self.inputs.by_number[measure.number][0])
            if report.dlq and (report.dlq.path or report.dlq.dropped_path):
                self.dlq.append(report.dlq)
            if report.written_rows:
                self.written_rows.append(report.written_rows)
            self.fact_files += report.fact_files
            self.unfolded.update(report.unfolded)

    def add_materialized_inputs(self, materialized_inputs: MaterializedInputs, state: PassState) -> None:
        """Add the reports of reading in an earlier pass, corrected for the records that are excluded now.

        Failures were reported by that pass and still hold (`spark_jobs/execute/correlation/iteration.py:Iteration`).
        """
        self.add(
            materialized_inputs.job,
            (replace(report, dlq=None, fact_files=[]) for report in materialized_inputs.reports),
        )
        before = per_split(materialized_inputs.excluded)
        for split, count in per_split(state.excluded).items():
            counters, more = self.tally.counters[self.inputs.by_number[split][0]], count - before.get(split, 0)
            counters.dead += more
            counters.records_out -= more

    def written(self, need: Need) -> list[Part]:
        """The materialized parts of a need, in record order.

        For needs of type `Rows` (lookups), the node's counters so far are kept in `counted`.
        """
        if isinstance(need, Rows):
            self.counted[need.node] = replace(self.tally.counters.get(need.node, Counters()))
        return self.parts_of(need)

    def parts_of(self, op: str | Need) -> list[Part]:
        """The parts of an output or of a need, in record order."""
        return _ordered(self.parts.get(op, ()))

    def take(self, output: str) -> list[Part]:
        """Remove and return the parts of an output, in record order, to be assembled."""
        return _ordered(self.parts.pop(output, ()))

    @property
    def records(self) -> Mapping[int, int]:
        """The number of records in each split, by the split's number."""
        return self.measures.of("records")

    @property
    def watermarks(self) -> dict[str, dict[str, int]]:
        """The event time that the files of each source with a watermark have reached, as reported by splits."""
        measured = self.measures.of("watermark")
        found: dict[str, dict[str, int]] = {
            name: {} for name, step in self.inputs.steps.items() if step.watermark_column is not None
        }
        for name, place in self.inputs.splits:
            if name in found:
                file = place.file_plan.file.name
                found[name][file] = max(found[name].get(file, 0), measured[place.number])
        return found

    @property
    def rows_before(self) -> Mapping[int, int]:
        """The records of each split's file before the split, by its number; known after the pass."""
        return ByNumber((number, start.in_file) for number, start in self.inputs.starts(self.records))


def _ordered(parts: Iterable[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: (part.merge_path, part.number))
