"""`clinker test`: runs the cases and reports their differences."""

from __future__ import annotations

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.cli import clinker_toml
from spark_jobs.cli.cases import comparing, junit, reading, running, writing
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics import render
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.printable import printable
from spark_jobs.disk import durable
from spark_jobs.execute.spark import cores
from spark_jobs.stores.location import Location
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cli.cases.comparing import Difference
    from spark_jobs.cli.cases.reading import Case
    from spark_jobs.cli.cases.running import Ran
    from spark_jobs.stores.location import FilePath

#: The number of cases for which another process is worth its start.
_LEAST_CASES = 10


@dataclass
class Result:
    """A case that ran.

    Args:
        case: the case.
        differences: the assertions that do not hold; none: it passes.
        ran: the result; None if it could not run.
        seconds: how long it took.
    """

    case: Case
    differences: list[Difference]
    ran: Ran | None = None
    seconds: float = 0.0


@dataclass
class _Reached:
    """The nodes and branches of a pipeline, and whether any case has reached them."""

    found: dict[str, bool] = field(default_factory=dict)

    def add(self, ran: Ran) -> None:
        """Take in a case."""
        branches = {name: bool(rows) for name, rows in ran.rows.items() if name not in ran.nodes}
        for name, is_reached in {**ran.nodes, **branches}.items():
            self.found[name] = self.found.get(name, False) or is_reached


def run(case: Case, *, with_branches: bool = False) -> Result:
    """Run a case and compare; never raises for what people wrote."""
    started = time.perf_counter()
    ran = None
    try:
        ran = running.run(_setup(case, with_branches=with_branches))
        found = comparing.differences(case, ran)
    except running.Unknown as error:
        found = [comparing.Difference(case.place(*error.path), str(error))]
    except StoreError as error:
        found = [comparing.Difference(case.span, f"{error.code}: {error}")]
    except OSError as error:
        found = [comparing.Difference(case.span, f"{error.filename}: {error.strerror or error}")]
    return Result(case, found, ran, time.perf_counter() - started)


def _setup(case: Case, *, with_branches: bool) -> running.Setup:
    return running.Setup(case.pipeline, case.path.parent, case.config, tuple(case.config.expect), with_branches)


def _is_wanted(case: Case, only: str | None) -> bool:
    return not only or only.casefold() in case.name.casefold()


def _run_all(cases: Sequence[Case], *, with_branches: bool) -> Iterator[Result]:
    """The results in the order of the cases; many cases are shared by several processes."""
    processes = min(cores.available(), len(cases) // _LEAST_CASES)
    if processes < 2:
        yield from (run(case, with_branches=with_branches) for case in cases)
        return
    running.prepare(_setup(case, with_branches=with_branches) for case in cases)
    # Forked before anything has run here: they have everything imported, and no thread of Arrow's is lost.
    context = multiprocessing.get_context("fork")
    arguments = (tuple(cases), with_branches)
    with ProcessPoolExecutor(processes, context, initializer=_take, initargs=arguments) as pool:
        numbers = range(len(cases))
        for number, result in zip(numbers, pool.map(_run_taken, numbers, chunksize=_LEAST_CASES // 2), strict=True):
            yield Result(cases[number], *result)


#: The cases for a forked process.
_TAKEN: list[tuple[Sequence[Case], bool]] = []


def _take(cases: Sequence[Case], with_branches: bool) -> None:
    _TAKEN.append((cases, with_branches))


def _run_taken(number: int) -> tuple[list[Difference], Ran | None, float]:
    cases, with_branches = _TAKEN[0]
    result = run(cases[number], with_branches=with_branches)
    return result.differences, result.ran, result.seconds


@dataclass(frozen=True)
class Options:
    """The cases to run, and the use of their results.

    Args:
        paths: files of cases, or folders with some; none: the working directory.
        only: cases with this text in their names.
        update: whether what came is written into the cases that fail.
        coverage: whether nodes and branches that no case reaches are reported.
        junit: the file that gets the results as JUnit XML.
    """

    paths: tuple[FilePath, ...]
    only: str | None
    update: bool
    coverage: bool
    junit: Path | None


def main(options: Options) -> int:
    """Run the cases; exit 1 when one fails, or when there is none."""
    with clinker_toml.reaching(options.paths):
        return _main(options)


def _main(options: Options) -> int:
    remote = next((path for path in options.paths if options.update and isinstance(path, Location)), None)
    if remote is not None:
        sys.stderr.write(f"clinker test error: {printable(str(remote))}: --update changes local files alone: copy it\n")
        return ExitCode.CONFIG
    try:
        files = list(dict.fromkeys(reading.files(options.paths or [Path()])))
    except StoreError as error:
        sys.stderr.write(f"clinker test error: {error.code}: {printable(str(error))}\n")
        return ExitCode.IO
    except FileNotFoundError as error:
        sys.stderr.write(f"clinker test error: {printable(error.filename)}: {error.strerror}\n")
        return ExitCode.CONFIG
    started = time.perf_counter()
    results: list[Result] = []
    problems = Diagnostics()
    reached: dict[FilePath, _Reached] = {}
    wanted = [case for path in files for case in reading.read(path, problems) if _is_wanted(case, options.only)]
    for result in _run_all(wanted, with_branches=options.coverage):
        results.append(result)
        if result.ran is not None:
            reached.setdefault(_real(result.case.pipeline), _Reached()).add(result.ran)
        if result.differences and not options.update:
            sys.stdout.write("".join(f"{line}\n" for line in failure_lines(result)))
    sys.stderr.write(render.render(problems.sorted(), render.Style.FULL, colour=render.wants_colour(sys.stderr)))
    if options.update:
        results = _updated(results)
    if options.junit:
        durable.replace_text(options.junit, junit.document(results))
    if options.coverage:
        sys.stdout.write("".join(f"{line}\n" for line in _coverage(reached)))
    failed = sum(bool(result.differences) for result in results)
    seconds = time.perf_counter() - started
    sys.stdout.write(f"{_cases(len(results))}: {len(results) - failed} passed, {failed} failed in {seconds:.2f} s\n")
    if not results and not problems.has_errors:
        where = ", ".join(map(str, options.paths)) or "this folder"
        sys.stderr.write(
            f"clinker test error: {printable(where)} has no cases; they are in files *{reading.ENDING} "
            "(docs/testing.md), and `clinker test --record NAME PIPELINE` makes one\n"
        )
        return ExitCode.CONFIG
    return ExitCode.CONFIG if failed or problems.has_errors else ExitCode.SUCCESS


def _real(path: FilePath) -> FilePath:
    return path.resolve() if isinstance(path, Path) else path


def failure_lines(result: Result) -> Iterator[str]:
    """A case that fails, with each assertion that does not hold and its line."""
    yield f"FAIL {printable(str(result.case.span))} {printable(result.case.name)}"
    for each in result.differences:
        yield f"  {printable(str(each.span))}: {printable(each.message)}"
        yield from (f"      {printable(line)}" for line in each.lines)


def _updated(results: Sequence[Result]) -> list[Result]:
    """Write what came into the files of cases that fail; returns the results of these cases as they are then."""
    after = [result for result in results if not result.differences]
    failing: dict[FilePath, list[Result]] = {}
    for result in results:
        if result.differences:
            failing.setdefault(result.case.path, []).append(result)
    for path, mine in failing.items():
        text = mine[0].case.file.text
        new = writing.updated(text, [(result.case, result.ran) for result in mine if result.ran is not None])
        if not reading.is_yaml(mine[0].case.file, new):
            sys.stderr.write(
                f"clinker test error: {printable(str(path))} is left as it is, because its anchors or braces are in "
                "the way; write the expected records as lists of one row per line\n"
            )
            after += mine
            continue
        if new != text:
            assert isinstance(path, Path), "others are refused"
            durable.replace_text(path, new)
            sys.stdout.write(f"updated {printable(str(path))}\n")
        names = {result.case.name for result in mine}
        again = [run(case) for case in reading.read(path, Diagnostics()) if case.name in names]
        for result in again:
            sys.stdout.write("".join(f"{line}\n" for line in failure_lines(result)) if result.differences else "")
        after += again
    return after


def _coverage(reached: dict[FilePath, _Reached]) -> Iterator[str]:
    for path, mine in reached.items():
        missed = [name for name, is_reached in mine.found.items() if not is_reached]
        count = len(mine.found)
        yield f"{printable(str(path))}: {count - len(missed)} of {count} nodes and branches reached"
        yield from (f"  no case reaches {printable(name)}" for name in missed)


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"


def record(paths: Sequence[FilePath], name: str, *, rows: int, dead_letters: FilePath | None) -> int:
    """Make a case of a pipeline's first records, or of dead letters.

    Args:
        paths: the pipeline file.
        name: the name of the case.
        rows: records of each source.
        dead_letters: the file of dead letters whose records it is made of.
    """
    from spark_jobs.cli.cases import recording
    from spark_jobs.execute.dlq.work_list import NotDeadLetters

    if len(paths) != 1:
        sys.stderr.write("clinker test error: --record NAME needs one pipeline file\n")
        return ExitCode.CONFIG
    (pipeline,) = paths
    if not isinstance(pipeline, Path):
        text = f"{pipeline}: --record writes a case beside the pipeline, into a local file: copy the pipeline first"
        sys.stderr.write(f"clinker test error: {printable(text)}\n")
        return ExitCode.CONFIG
    try:
        path = recording.record(pipeline, name, rows, dead_letters)
    except (recording.NotRecorded, NotDeadLetters) as error:
        sys.stderr.write(f"clinker test error: {printable(str(error))}\n")
        return ExitCode.CONFIG
    except StoreError as error:
        sys.stderr.write(f"clinker test error: {error.code}: {printable(str(error))}\n")
        return ExitCode.IO
    except OSError as error:
        sys.stderr.write(f"clinker test error: {printable(str(error.filename))}: {error.strerror or error}\n")
        return ExitCode.IO
    sys.stdout.write(f"recorded '{printable(name)}' in {printable(str(path))}: check that it is what you expect\n")
    return ExitCode.SUCCESS
