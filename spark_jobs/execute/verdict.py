"""What the reports of all tasks amount to: counts, and whether the run succeeded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.execute.report import LogLine
from spark_jobs.nodes.operator import Counters
from spark_jobs.plan import plan as plans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.execute.report import Broken, FirstFailure, Letters, Part, TaskReport


class RunFailed(Exception):
    """The run ends without publishing anything.

    Args:
        exit_code: how.
        code: a diagnostic's id, or a word for what went wrong.
        message: what, where and why.
        place: `path:line:col`, when it belongs to a place in the pipeline.
    """

    def __init__(self, exit_code: ExitCode, code: str, message: str, place: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.code = code
        self.message = message
        self.place = place


def broken(plan: plans.Plan, code: str, message: str, node: str) -> RunFailed:
    """The end of a run that lacks a file or room, with the node it belongs to and that one's place."""
    exit_code = ExitCode.CONFIG if code == "E310" else ExitCode.IO
    planned = plan.by_name.get(node)
    if planned is None:
        return RunFailed(exit_code, code, message)
    place = plan.places.get(node, planned.span)
    *calls, name = node.split("/")
    where = "".join(f"in composition '{call}': " for call in calls)
    return RunFailed(exit_code, code, f"{where}{planned.kind} '{name}': {message}", str(place) if place else None)


@dataclass
class Tally:
    """All tasks' reports, added up."""

    counters: dict[str, Counters] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    letters: list[Letters] = field(default_factory=list)
    dead: int = 0
    dead_per_source: dict[int, int] = field(default_factory=dict)
    dead_per_category: dict[str, int] = field(default_factory=dict)
    records_per_split: dict[int, int] = field(default_factory=dict)
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
            self.parts += report.parts
            for split in report.splits:
                self.records_per_split[split.number] = split.records
                self.input_bytes += split.bytes
            if report.letters:
                self._add_letters(report)
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

    def _add_letters(self, report: TaskReport) -> None:
        assert report.letters is not None
        if report.letters.path or report.letters.dropped_path:
            self.letters.append(report.letters)
        self.dead += report.letters.count
        for source, count in report.letters.per_source.items():
            self.dead_per_source[source] = self.dead_per_source.get(source, 0) + count
        for category, count in report.letters.per_category.items():
            self.dead_per_category[category] = self.dead_per_category.get(category, 0) + count

    def parts_of(self, box: str) -> list[Part]:
        """The parts of an output or build side, in record order."""
        return sorted((part for part in self.parts if part.box == box), key=lambda part: (part.lane, part.number))

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


def first_failure(tally: Tally, strategy: plans.Strategy) -> FirstFailure | None:
    """The failure that ends the run: of those that no strategy forgives, or of all where none is forgiven.

    It is that of the first record by source, split and row, the same whatever task was faster. Records that fail come
    before groups that do: a task that ends sends no groups on, so which groups fail behind it depends on how files are
    shared among tasks.
    """
    is_final = strategy is plans.Strategy.FAIL_FAST
    stopping = [each for each in tally.failures if is_final or (each.code or "").startswith("E")]
    return min(stopping, key=lambda each: (each.level, each.source, each.split, each.row), default=None)


def judge(plan: plans.Plan, inputs: Inputs, tally: Tally, error_threshold: int | None) -> None:
    """Raise `RunFailed` where dead letters are more than the pipeline allows (decision 36, 64, 81)."""
    errors = plan.errors
    if not tally.dead:
        return
    if error_threshold and tally.dead > error_threshold:
        raise RunFailed(
            ExitCode.EVALUATION, "E316", f"{tally.dead} dead letters, more than --error-threshold {error_threshold}"
        )
    totals = _totals(inputs, tally)
    for name, target in errors.per_source.items():
        number = inputs.numbers.get(name, -1)
        _check_rate(f"source '{name}'", target, tally.dead_per_source.get(number, 0), totals.get(number, 0))
    total = sum(totals.values())
    _check_rate("the pipeline", errors.dead_letters, tally.dead, total)
    limit = errors.type_error_threshold
    if limit is not None and total and tally.dead / total > limit:
        raise RunFailed(
            ExitCode.EVALUATION,
            "E316",
            f"{tally.dead} of {total} records failed, more than type_error_threshold {limit}",
        )


def _totals(inputs: Inputs, tally: Tally) -> Mapping[int, int]:
    totals: dict[int, int] = {}
    for _, place in inputs.splits:
        totals[place.source] = totals.get(place.source, 0) + tally.records_per_split.get(place.number, 0)
    return totals


def _check_rate(what: str, target: plans.DeadLetterTarget, dead: int, total: int) -> None:
    if target.max_rate is None or total < target.min_records or not total:
        return
    if dead / total > target.max_rate:
        raise RunFailed(
            ExitCode.EVALUATION,
            "E316",
            f"the dead-letter rate of {what} is {dead / total:.4f} ({dead}/{total} records), "
            f"max_rate is {target.max_rate}",
        )
