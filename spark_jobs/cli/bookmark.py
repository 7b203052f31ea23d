"""`clinker bookmark`: shows and removes the marks of incremental sources up to which runs have read them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from spark_jobs.cli import pipeline, report
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable
from spark_jobs.result import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destinations import Destinations
    from spark_jobs.execute.run.bookmark import Bookmark
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.plan import Plan
    from spark_jobs.scan.bookmarks import Mark
    from spark_jobs.stores.location import FilePath


def show(path: FilePath, options: PlanOptions, diagnostics: str) -> int:
    """Print the place of a pipeline's bookmark, and how far each source has been read."""

    def shown(plan: Plan, found: Bookmark, there: Destinations) -> int:
        sys.stdout.write("".join(printable(line) + "\n" for line in _lines(plan, found)))
        return ExitCode.SUCCESS

    return _with_bookmark(path, options, diagnostics, shown)


def reset(path: FilePath, options: PlanOptions, diagnostics: str, sources: Sequence[str]) -> int:
    """Reset the bookmarks of some sources of a pipeline; of all sources if none is named."""

    def forgotten(plan: Plan, found: Bookmark, there: Destinations) -> int:
        if unknown := [name for name in sources if name not in found.sources and name not in plan.sources]:
            text = f"the pipeline has no source '{unknown[0]}'; it has {', '.join(plan.sources)}"
            sys.stderr.write(printable(f"clinker bookmark error: {text}") + "\n")
            return ExitCode.CONFIG
        gone = [name for name in found.sources if not sources or name in sources]
        if found.text and (gone or not sources):
            _forget(found, there, {name for name in found.sources if name not in gone})
        names = ", ".join(gone) or "nothing"
        sys.stdout.write(printable(f"{found.path}: forgot {names}") + "\n")
        return ExitCode.SUCCESS

    return _with_bookmark(path, options, diagnostics, forgotten, is_reset=not sources)


def _with_bookmark(
    path: FilePath,
    options: PlanOptions,
    diagnostics: str,
    work: Callable[[Plan, Bookmark, Destinations], int],
    *,
    is_reset: bool = False,
) -> int:
    """Do something with the bookmark of a pipeline; one that is to go may be damaged."""
    from spark_jobs.execute import identity
    from spark_jobs.execute.delivery import targets
    from spark_jobs.execute.run import bookmark, executor
    from spark_jobs.execute.verdict import RunFailed
    from spark_jobs.plan.options import RunOptions
    from spark_jobs.stores.refusals import StoreError

    with report.opened(diagnostics) as reporter:
        plan = pipeline.planned(path, options, reporter, quiet=True)
        if plan is None:
            return ExitCode.CONFIG
        try:
            run_options = RunOptions(**vars(options))
            there = executor.destinations(plan, run_options)
            names = identity.Identity.new(None, None)
            wanted = targets.resolve(plan, names, run_options, there)
            if wanted.bookmark is None:
                sys.stdout.write("no source of the pipeline has `incremental:`, so there is no bookmark\n")
                return ExitCode.SUCCESS
            there.recover(wanted.bookmark.parent)
            found = bookmark.Bookmark.at(wanted.bookmark, there, even_damaged=is_reset)
            return work(plan, found, there)
        except RunFailed as error:
            reporter.add([report.of_run(RunError(error.code, error.message, error.place), plan)])
            return error.exit_code
        except (OSError, StoreError) as error:
            reporter.add([report.of_run(RunError("E900", str(error)), plan)])
            return ExitCode.IO


def _lines(plan: Plan, found: Bookmark) -> Iterator[str]:
    if not found.text:
        yield f"{found.path}: there is none yet; the next run reads everything"
        return
    yield f"{found.path}: moved by run {found.run} at {found.moved}"
    incremental = [name for name, step in plan.sources.items() if step.incremental is not None]
    for name in dict.fromkeys([*incremental, *found.sources]):
        mark = found.sources.get(name)
        gone = "" if name in incremental else " (not an incremental source of the pipeline any more)"
        yield f"  {name}: {'nothing was read' if mark is None else _read(mark)}{gone}"


def _read(mark: Mark) -> str:
    """Describe a mark in a line."""
    if "files" in mark:
        files = mark["files"]
        last = f", the last by name {max(files)}" if files else ""
        return f"{len(files):,} file{'' if len(files) == 1 else 's'}{last}"
    place = " ".join(f"{key} {value}" for key, value in mark.items() if key not in ("by", "through"))
    return f"through {mark.get('through')} ({place})"


def _forget(found: Bookmark, there: Destinations, kept: set[str]) -> None:
    """Publish the bookmark without some sources, as a run would; without any, it goes."""
    from spark_jobs.execute import identity, interrupts
    from spark_jobs.execute.delivery.destination import Content
    from spark_jobs.execute.run import bookmark

    names = identity.Identity.new(None, None)
    home = found.path.parent if isinstance(found.path, Path) else Path(_scratch())
    draft = there.open(names.execution_id, home, [found.path.parent])
    is_published = False
    try:
        with draft.exclusive():
            found.refuse_moved(there)
            if kept:
                sources = {name: mark for name, mark in found.sources.items() if name in kept}
                draft.assemble(found.path, Content(start=bookmark.encode_bookmark(sources, names)))
            else:
                draft.remove(found.path)
            draft.finish(cast("SparkSession", None))  # a file as small as this one needs no tasks
            with interrupts.ignore_signals():
                draft.publish()
                is_published = True
    finally:
        draft.close(failed=not is_published)


def _scratch() -> str:
    import tempfile

    return tempfile.gettempdir()
