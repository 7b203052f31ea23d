"""`clinker dlq replay`: mended records go through the pipeline that they came from, and the file keeps what is left."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs.cli import pipeline, report
from spark_jobs.cli.dlq import asking
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from spark_jobs.execute.dlq.work_list import WorkList
    from spark_jobs.execute.replay import Replayed
    from spark_jobs.plan.plan import Plan


def main(arguments: argparse.Namespace) -> int:
    """Replay; exit 2 while dead letters are left, 0 when none are."""
    found = asking.opened("replay", arguments.file)
    if isinstance(found, int):
        return found
    options = pipeline.plan_options(arguments)
    with report.opened(arguments.diagnostics) as told:
        plan = pipeline.planned(arguments.pipeline, options, told, quiet=True)
        if plan is None:
            return ExitCode.CONFIG
        return _replayed(arguments, found, plan, told)


def _replayed(arguments: argparse.Namespace, found: WorkList, plan: Plan, told: report.Report) -> int:
    from spark_jobs.execute import logs, replay
    from spark_jobs.execute.spark import masking
    from spark_jobs.plan.options import RunOptions

    options = RunOptions(
        **vars(pipeline.plan_options(arguments)), force=arguments.force, quiet=True, dry_run=arguments.dry_run
    )
    masked = masking.Secrets.of_run(options, plan).masked
    try:
        with logs.shown(sys.stderr, "warn", "text", "", masked, names_batch=False):
            outcome = replay.replay(plan, found, asking.wanted(arguments), options, arguments.into)
    except replay.Refused as error:
        return asking.refused("replay", str(error))
    except OSError as error:
        return asking.refused("replay", f"{error.filename or found.path}: {error.strerror or error}", ExitCode.IO)
    if outcome.error is not None:
        told.tell([report.of_run(outcome.error, plan)])
        return outcome.exit_code
    sys.stdout.write("".join(f"{line}\n" for line in _lines(arguments, found, outcome)))
    return outcome.exit_code


def _lines(arguments: argparse.Namespace, found: WorkList, outcome: Replayed) -> Iterator[str]:
    path = printable(str(found.path))
    if arguments.dry_run:
        yield "dry run: nothing is written"
    yield f"replayed {_records(outcome.done + outcome.failed)}: {outcome.done} done, {outcome.failed} failed again"
    for file in outcome.files:
        yield f"  {'wrote' if arguments.into else 'added to'} {printable(file)}"
    for reason, count in sorted(outcome.left.items()):
        yield f"  not replayed: {asking.letters(count)}, {printable(reason)}"
    if outcome.waiting:
        yield f"{asking.letters(outcome.waiting)} left in {path}; `clinker dlq show {path}` says why"
    else:
        yield f"nothing is left; {printable(str(found.ledger))} has what was done"


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
