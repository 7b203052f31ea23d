"""Functions for commands on pipelines: planning with reported problems, and `clinker run`."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.cli import report
from spark_jobs.contract import ExitCode
from spark_jobs.execute import without_pandas
from spark_jobs.result import RunError
from spark_jobs.scan.files import STORE_FAILED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.plan.options import PlanOptions, RunOptions
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import Plan
    from spark_jobs.stores.location import FilePath


def planned(path: FilePath, options: PlanOptions, reporter: report.Reporter, *, quiet: bool = False) -> Plan | None:
    """The plan of a pipeline, None when it has errors; reports its problems (`quiet` leaves warnings out)."""
    return _planned(path, options, reporter, quiet=quiet)[0]


def _planned(
    path: FilePath, options: PlanOptions, reporter: report.Reporter, *, quiet: bool
) -> tuple[Plan | None, Sequence[Diagnostic]]:
    from spark_jobs import plan as planning
    from spark_jobs.diagnostics.diagnostic import DiagnosticError

    try:
        plan = planning.load(path, options)
    except DiagnosticError as error:
        reporter.add(error.diagnostics)
        return None, error.diagnostics
    if not quiet:
        reporter.add(plan.warnings)
    return plan, plan.warnings


def _failed(found: Sequence[Diagnostic]) -> ExitCode:
    """The exit code of a pipeline that cannot be planned: where a store refuses, other errors may come of that."""
    is_refused = any(each.code.id == STORE_FAILED for each in found if each.is_error)
    return ExitCode.IO if is_refused else ExitCode.CONFIG


def _first(found: Sequence[Diagnostic]) -> RunError:
    """The first error as the error of the run, with the number of further ones."""
    first, *more = [each for each in found if each.is_error]
    others = f" (and {len(more)} more)" if more else ""
    return RunError(first.code.id, first.message + others, str(first.span) if first.span else None)


def _ended(path: FilePath, options: RunOptions, code: ExitCode, error: RunError, plan: Plan | None = None) -> int:
    """End a run that has not begun: write its metrics, and the record that its scheduler trusts."""
    if options.explain or (options.dry_run and options.preview is None):
        return code
    from spark_jobs.cli import run as execution

    execution.leave(path, options, code, error, plan)
    return code


def run(path: FilePath, options: RunOptions, *, to_the_end: bool) -> int:
    """`clinker run`: plan, then explain, check, preview or execute. `to_the_end`: the process ends with it."""
    if to_the_end:
        _begin(path, options)
    with report.opened(options.diagnostics, options.log_format, options.batch_id) as reporter:
        try:
            return _run(path, options, reporter, to_the_end=to_the_end)
        except (KeyboardInterrupt, RuntimeError) as stopped:
            # Python 3.11 makes a RuntimeError of what interrupts the making of a class, as importing does.
            if not isinstance(stopped, KeyboardInterrupt) and not isinstance(stopped.__cause__, KeyboardInterrupt):
                raise
            error = RunError("interrupted", "the run was interrupted before it began")
            reporter.add([report.of_run(error)])
            return _ended(path, options, ExitCode.INTERRUPTED, error)


def _begin(path: FilePath, options: RunOptions) -> None:
    """Let Spark's JVM start while the pipeline is planned: both take half a second.

    Not where the workspace may say where a run spills: the JVM has to know that. Nor where one of them is in a store,
    which may refuse.
    """
    base = options.base_dir or path.parent
    if not isinstance(path, Path) or not isinstance(base, Path):
        return
    if options.explain or (options.dry_run and options.preview is None):
        return
    from spark_jobs.plan.reading import workspace_file

    try:
        settings = workspace_file.find(Path(os.path.abspath(base)))
        if not path.is_file() or (isinstance(settings, Path) and b"spill" in settings.read_bytes()):
            return
    except OSError:  # planning reports it
        return
    from spark_jobs.execute.spark import session

    session.begin(options)


def _run(path: FilePath, options: RunOptions, reporter: report.Reporter, *, to_the_end: bool) -> int:
    plan, found = _planned(path, options, reporter, quiet=options.quiet)
    if plan is None:
        return _ended(path, options, _failed(found), _first(found))
    if options.explain:
        return show(plan, options.explain, allow_outside=options.allow_absolute_paths)
    from spark_jobs.plan import pending

    is_check = options.dry_run and options.preview is None
    if to_the_end and not is_check:
        without_pandas.hide_pandas()
    discover = discovery(plan, options)
    problems = storage(plan, discover) + (_missing(plan, discover) if options.dry_run else [])
    problems += pending.uris(plan) if is_check else pending.pending(plan, discover)
    failed = any(problem.is_error for problem in problems)
    if failed or not options.quiet:
        reporter.add(problems)
    if failed:
        return _ended(path, options, ExitCode.CONFIG, _first(problems), plan)
    if is_check:
        return _say_valid(plan, options)
    from spark_jobs.cli import run as execution

    if refused := execution.unreachable(plan, options):
        reporter.add([refused])
        return _ended(path, options, ExitCode.IO, _first([refused]), plan)
    return execution.execute(plan, options, reporter)


def show(plan: Plan, form: str, *, allow_outside: bool) -> int:
    """Print a plan in the chosen format."""
    from spark_jobs.cli import source_probe
    from spark_jobs.plan.explain import explain

    sys.stdout.write(explain.show(plan, form, allow_outside=allow_outside, look=source_probe.probe))
    return ExitCode.SUCCESS


def discovery(plan: Plan, options: PlanOptions) -> Callable[[], Mapping[str, Discovered]]:
    """A function that finds the files of a plan's sources; it looks once, when it is first called."""
    from spark_jobs.plan.physical import inputs

    return cache(lambda: inputs.discover(plan, allow_outside=options.allow_absolute_paths))


def storage(plan: Plan, discover: Callable[[], Mapping[str, Discovered]]) -> list[Diagnostic]:
    """Whether the folders that the workspace names are fit for a run; asked before any work."""
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.checks import storage_checks

    found = Diagnostics()
    storage_checks.check(plan, discover, found)
    return found.sorted()


def unfit(plan: Plan, discover: Callable[[], Mapping[str, Discovered]]) -> list[Diagnostic]:
    """The reasons why a valid plan cannot run: folders, input files, unsupported features."""
    from spark_jobs.plan import pending

    return storage(plan, discover) + _missing(plan, discover) + pending.pending(plan, discover)


def _missing(plan: Plan, discover: Callable[[], Mapping[str, Discovered]]) -> list[Diagnostic]:
    from spark_jobs.plan.physical import inputs

    return inputs.missing(plan, discover())


def _say_valid(plan: Plan, options: RunOptions) -> int:
    if not options.quiet:
        kinds = [planned.kind for planned in plan.nodes]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        sys.stdout.write(f"Dry run: {plan.path} is valid ({counts})\n")
    return ExitCode.SUCCESS
