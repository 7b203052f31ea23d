"""What the reports of tasks amount to: counts, and what would end the run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_jobs.execute.tasks.report import LogLine
from spark_jobs.nodes.operator import Counters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.execute.tasks.report import Broken, FirstFailure, Letters, TaskReport


@dataclass
class Tally:
    """What tasks have counted, added up."""

    counters: dict[str, Counters] = field(default_factory=dict)
    dead: int = 0
    dead_per_source: dict[int, int] = field(default_factory=dict)
    dead_per_category: dict[str, int] = field(default_factory=dict)
    input_bytes: int = 0
    payload_bytes: int = 0
    spilled: dict[str, int] = field(default_factory=dict)
    peak_task_bytes: int = 0
    levels: list[dict[str, float]] = field(default_factory=list)
    failures: list[FirstFailure] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    logs: list[LogLine] = field(default_factory=list)

    def add(self, job: int, reports: Sequence[TaskReport]) -> None:
        """Add the reports of a job."""
        for report in reports:
            for name, counters in report.counters.items():
                self.counters.setdefault(name, Counters()).add(counters)
            for split in report.splits:
                self.input_bytes += split.bytes
            if report.letters:
                self._add_letters(report.letters)
            if report.failure:
                self.failures.append(replace(report.failure, level=report.level))
            if report.broken:
                self.broken.append(report.broken)
            self.logs += report.logs
            if report.logs_left_out:
                self.logs.append(LogLine("warn", f"{report.logs_left_out} more log lines of this task are left out"))
            self.payload_bytes += report.payload_bytes
            for name, size in report.spilled.items():
                self.spilled[name] = self.spilled.get(name, 0) + size
            self.peak_task_bytes = max(self.peak_task_bytes, report.peak_bytes)
        for level in sorted({report.level for report in reports}):
            mine = [report for report in reports if report.level == level]
            self.levels.append({
                "job": job, "level": level, "tasks": len(mine), "seconds": round(sum(r.seconds for r in mine), 3),
                "payload_bytes": sum(r.payload_bytes for r in mine),
            })  # fmt: skip

    def _add_letters(self, letters: Letters) -> None:
        self.dead += letters.count
        for source, count in letters.per_source.items():
            self.dead_per_source[source] = self.dead_per_source.get(source, 0) + count
        for category, count in letters.per_category.items():
            self.dead_per_category[category] = self.dead_per_category.get(category, 0) + count

    def unbalanced(self) -> list[str]:
        """Nodes whose counters do not add up: records were lost or made from nothing, which is a bug."""
        wrong = []
        for name, c in self.counters.items():
            if c.records_in + c.made != c.records_out + c.filtered + c.duplicates + c.dead:
                wrong.append(
                    f"{name}: {c.records_in} in and {c.made} made are not {c.records_out} out, {c.filtered} filtered, "
                    f"{c.duplicates} duplicates and {c.dead} dead"
                )
        return wrong
