"""`clinker dlq replay`: runs mended records through their pipeline; entries that fail again stay in the file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs.cli import pipeline, report
from spark_jobs.cli.dlq import opening
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark_jobs.execute.dlq.work_list import EntryFilter, WorkList
    from spark_jobs.execute.replay import Replayed
    from spark_jobs.plan.options import RunOptions
    from spark_jobs.plan.plan import Plan


def main(path: Path, file: str, wanted: EntryFilter, options: RunOptions, *, into: Path | None) -> int:
    """Replay; exit 2 while dead letters are left, 0 when none are.

    Args:
        path: the pipeline file.
        file: the dead-letter file.
        wanted: which of its entries.
        options: how the pipeline is planned and run.
        into: the folder that gets the outputs; None: the records are appended to the existing outputs.
    """
    with report.opened(options.diagnostics) as reporter:
        plan = pipeline.planned(path, options, reporter, quiet=True)
        if plan is None:
            return ExitCode.CONFIG
        found = opening.opened("replay", file, plan.stores)
        if isinstance(found, int):
            return found
        return _replayed(found, plan, reporter, wanted, options, into)


def _replayed(
    found: WorkList, plan: Plan, reporter: report.Reporter, wanted: EntryFilter, options: RunOptions, into: Path | None
) -> int:
    from spark_jobs.execute import logs, replay
    from spark_jobs.execute.spark import masking
    from spark_jobs.execute.verdict import RunFailed
    from spark_jobs.stores.refusals import StoreError

    masked = masking.Secrets.of_run(options, plan).masked
    lacking = list(_lacking(found, plan))
    try:
        with logs.show_logs(sys.stderr, "warn", "text", "", masked, names_batch=False):
            outcome = replay.replay(plan, found, wanted, options, into)
    except replay.Refused as error:
        return opening.refused("replay", str(error))
    except RunFailed as error:
        return opening.refused("replay", f"{error.code}: {error.message}", ExitCode.IO)
    except StoreError as error:
        return opening.refused("replay", f"{error.code}: {error}", ExitCode.IO)
    except OSError as error:
        return opening.refused("replay", f"{error.filename or found.path}: {error.strerror or error}", ExitCode.IO)
    if outcome.error is not None:
        reporter.add([report.of_run(outcome.error, plan)])
        return outcome.exit_code
    lines = [*lacking, *_lines(found, outcome, into, dry_run=options.dry_run)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return outcome.exit_code


def _lacking(found: WorkList, plan: Plan) -> Iterator[str]:
    """The undeclared columns that outputs write and dead letters do not have, of each source with entries."""
    from spark_jobs.formats.columns import OnUnmapped
    from spark_jobs.plan.physical import inputs
    from spark_jobs.scan.files import FormatError

    if not any(output.writes_undeclared for output in plan.outputs.values()):
        return
    replayed = {entry.source for entry in found.entries}
    sources = {name: step for name, step in plan.sources.items() if name in replayed and step.endpoint is None}
    discovered = inputs.discover(plan, allow_outside=True) if sources else {}
    for name, step in sources.items():
        if step.on_unmapped is not OnUnmapped.AUTO_WIDEN or discovered[name].problem is not None:
            continue
        try:
            names = step.scan(discovered[name].files, step.on_unmapped).undeclared
        except FormatError:
            continue  # the files of the run may be gone: a replay does not need them
        if names:
            shown = ", ".join(f"`{printable(each)}`" for each in names[:5]) + (", …" if len(names) > 5 else "")
            yield f"warning: dead letters have declared columns alone: {shown} of source '{name}' will be missing"


def _lines(found: WorkList, outcome: Replayed, into: Path | None, *, dry_run: bool) -> Iterator[str]:
    path = printable(str(found.path))
    if dry_run:
        yield "dry run: nothing is written"
    yield f"replayed {_records(outcome.done + outcome.failed)}: {outcome.done} done, {outcome.failed} failed again"
    for file in outcome.files:
        yield f"  {'wrote' if into else 'added to'} {printable(file)}"
    yield from (f"  {line}" for line in opening.left_out(found))
    for reason, count in sorted(outcome.left.items()):
        yield f"  not replayed: {opening.letters(count)}, {printable(reason)}"
    if outcome.waiting:
        yield f"{opening.letters(outcome.waiting)} left in {path}; `clinker dlq show {path}` says why"
    elif found.done_elsewhere and not outcome.done:
        yield "nothing is left to do"
    else:
        yield f"nothing is left; {printable(str(found.ledger))} has what was done"


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
