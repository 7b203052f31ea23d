"""The limits of a pipeline: which failure ends its run, and how many dead letters it allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.plan import plan as plans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.execute.report import FirstFailure
    from spark_jobs.execute.run.pass_results import PassResults
    from spark_jobs.execute.tally import Tally


def first_failure(tally: Tally, strategy: plans.Strategy) -> FirstFailure | None:
    """The failure that ends the run: a failure that no strategy forgives, or under fail_fast any failure.

    Among several it is the first one by source, split and row, whatever task was faster. Failing records come before
    failing groups: a task that ends sends no groups, so which groups fail downstream depends on how files are divided
    among tasks.
    """
    is_final = strategy is plans.Strategy.FAIL_FAST
    stopping = [each for each in tally.failures if is_final or (each.code or "").startswith("E")]
    return min(stopping, key=lambda each: (each.job_stage, each.source, each.split, each.row), default=None)


def judge(errors: plans.ErrorHandling, products: PassResults, error_threshold: int | None) -> None:
    """Raise `RunFailed` where there are more dead letters than the pipeline allows; as many as it allows are fine."""
    tally = products.tally
    if not tally.dead:
        return
    if error_threshold and tally.dead > error_threshold:
        raise RunFailed(
            ExitCode.EVALUATION, "E316", f"{tally.dead} dead letters, more than --error-threshold {error_threshold}"
        )
    totals = _totals(products)
    for name, target in errors.per_source.items():
        number = products.inputs.numbers.get(name, -1)
        _check_rate(f"source '{name}'", target, tally.dead_per_source.get(number, 0), totals.get(number, 0))
    total = sum(totals.values())
    _check_rate("the pipeline", errors.dead_letters, tally.dead, total)
    limit = errors.type_error_threshold
    if limit is not None and total and tally.dead / total > limit:
        raise RunFailed(
            ExitCode.EVALUATION,
            "E316",
            f"{tally.dead} of {total} records are dead letters, more than type_error_threshold {limit} allows",
        )


def _totals(products: PassResults) -> Mapping[int, int]:
    totals: dict[int, int] = {}
    for _, place in products.inputs.splits:
        totals[place.source] = totals.get(place.source, 0) + products.records[place.number]
    return totals


def _check_rate(what: str, target: plans.DeadLetterTarget, dead: int, total: int) -> None:
    if target.max_rate is None or total < target.min_records or not total:
        return
    if dead / total > target.max_rate:
        raise RunFailed(
            ExitCode.EVALUATION,
            "E316",
            f"the dead-letter rate of {what} is {dead / total:.4f} ({dead} dead letters, {total} records), "
            f"max_rate is {target.max_rate}",
        )
