"""The sum of all task reports: counts, and failures that would end the run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_jobs.execute.dlq.reasons import Reasons
from spark_jobs.execute.report import LogLine, Notice
from spark_jobs.nodes.records.ledger import Counters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.execute.report import Broken, BrokenRule, DlqReport, FirstFailure, TaskReport
    from spark_jobs.nodes.rules.measurement import Measurement


@dataclass
class Stage:
    """The tasks of a stage of a job: of the work between two shuffles."""

    tasks: int = 0
    seconds: float = 0.0
    payload_bytes: int = 0

    def add(self, report: TaskReport) -> None:
        """Add one dead letter."""
        self.tasks += 1
        self.seconds += report.seconds
        self.payload_bytes += report.payload_bytes


@dataclass
class Tally:
    """The counts of tasks, added up."""

    counters: dict[str, Counters] = field(default_factory=dict)
    dead: int = 0
    #: The records that came to outputs, each once; known when all jobs are done.
    ok: int = 0
    dead_per_source: dict[int, int] = field(default_factory=dict)
    dead_per_category: dict[str, int] = field(default_factory=dict)
    dead_per_stage: dict[str, int] = field(default_factory=dict)
    #: The number of dead letters that name each rule, by its stage and its name.
    dead_per_rule: dict[tuple[str, str], int] = field(default_factory=dict)
    #: Why records died, with examples.
    reasons: Reasons = field(default_factory=Reasons)
    #: The length of each split, by its number: several jobs may read one.
    split_bytes: dict[int, int] = field(default_factory=dict)
    payload_bytes: int = 0
    spilled: dict[str, int] = field(default_factory=dict)
    peak_task_bytes: int = 0
    stage_metrics: dict[tuple[int, int], Stage] = field(default_factory=dict)
    failures: list[FirstFailure] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    logs: list[LogLine] = field(default_factory=list)
    #: Notices for users, by their text.
    notices: dict[str, Notice] = field(default_factory=dict)
    #: Rules that were broken by records which continue, by node and name.
    broken_rules: dict[tuple[str, str], BrokenRule] = field(default_factory=dict)
    #: Measurements for rules about values, by node and name.
    measured: dict[tuple[str, str], Measurement] = field(default_factory=dict)

    def add(self, job: int, report: TaskReport) -> None:
        """Add the report of a task."""
        for name, counters in report.counters.items():
            self.counters.setdefault(name, Counters()).add(counters)
        for split in report.splits:
            self.split_bytes[split.number] = max(split.bytes, self.split_bytes.get(split.number, 0))
        if report.dlq:
            self._add_dead_letters(report.dlq)
        if report.failure:
            self.failures.append(replace(report.failure, job_stage=report.stage))
        if report.broken:
            self.broken.append(report.broken)
        self.logs += report.logs
        for notice in report.notices:
            known = self.notices.get(notice.text)
            self.notices[notice.text] = notice if known is None else known.merged_with(notice)
        for rule in report.broken_rules:
            earlier = self.broken_rules.get(rule.key)
            self.broken_rules[rule.key] = rule if earlier is None else earlier.merged_with(rule)
        for each in report.measured:
            so_far = self.measured.get((each.node, each.rule))
            self.measured[each.node, each.rule] = each.found if so_far is None else so_far.merged_with(each.found)
        if report.logs_left_out:
            self.logs.append(LogLine("warn", f"{report.logs_left_out} more log lines of this task are left out"))
        self.payload_bytes += report.payload_bytes
        for name, size in report.spilled.items():
            self.spilled[name] = self.spilled.get(name, 0) + size
        self.peak_task_bytes = max(self.peak_task_bytes, report.peak_bytes)
        self.stage_metrics.setdefault((job, report.stage), Stage()).add(report)

    @property
    def input_bytes(self) -> int:
        """The bytes of input that were read, each counted once."""
        return sum(self.split_bytes.values())

    @property
    def stages(self) -> list[dict[str, float]]:
        """The `stages` of the metrics file: one entry for each stage of each job."""
        return [
            {
                "job": job, "level": number, "tasks": stage.tasks, "seconds": round(stage.seconds, 3),
                "payload_bytes": stage.payload_bytes,
            }
            for (job, number), stage in self.stage_metrics.items()
        ]  # fmt: skip

    def recount(self, dlq: Iterable[DlqReport]) -> None:
        """Replace the dead letters that the tasks reported by these."""
        self.dead, self.dead_per_source, self.dead_per_category, self.dead_per_stage = 0, {}, {}, {}
        self.reasons, self.dead_per_rule = Reasons(), {}
        for each in dlq:
            self._add_dead_letters(each)

    def _add_dead_letters(self, dlq: DlqReport) -> None:
        self.dead += dlq.count
        self.reasons.add(dlq.reasons)
        for source, count in dlq.per_source.items():
            self.dead_per_source[source] = self.dead_per_source.get(source, 0) + count
        for category, count in dlq.per_category.items():
            self.dead_per_category[category] = self.dead_per_category.get(category, 0) + count
        for stage, count in dlq.per_stage.items():
            self.dead_per_stage[stage] = self.dead_per_stage.get(stage, 0) + count
        for stage, rule, count in dlq.per_rule:
            self.dead_per_rule[stage, rule] = self.dead_per_rule.get((stage, rule), 0) + count

    def unbalanced(self) -> list[str]:
        """Nodes whose counters do not add up: records were lost or invented, which is a bug."""
        found = {name: counters.imbalance for name, counters in self.counters.items()}
        return [f"{name}: {wrong}" for name, wrong in found.items() if wrong]
