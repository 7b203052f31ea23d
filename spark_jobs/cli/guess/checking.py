"""Checks a guess: reads the file with the guessed source, by the readers of runs, and lists misfits with their rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.cli.guess import source
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.source import SourceFile
from spark_jobs.formats import reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading
from spark_jobs.plan import planner
from spark_jobs.plan.options import PlanOptions
from spark_jobs.plan.reading import document
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cli.guess.source import Guess
    from spark_jobs.formats.columns import ScanPlan
    from spark_jobs.formats.format import Block
    from spark_jobs.formats.splits import Split
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.stores.location import FilePath

_PIPELINE = """\
pipeline: {{ name: guess }}
nodes:
{source}
  - {{ type: output, name: out, input: {name}, config: {{ type: csv, path: out.csv }} }}
"""
_SHOWN_ROWS = 5


@dataclass
class Misfit:
    """Records that do not fit for one reason: how many, and the first with their files, rows and values."""

    column: str | None
    reason: str
    count: int = 0
    examples: list[tuple[str, int, str]] = field(default_factory=list)


@dataclass
class Read:
    """The result of reading a file with a guessed source.

    Args:
        records: how many records there are, good and bad.
        misfits: the number of records that would be dead letters, by field and reason.
        refusal: why a file cannot be read at all.
    """

    records: int = 0
    misfits: dict[tuple[str | None, str], Misfit] = field(default_factory=dict)
    refusal: str | None = None

    @property
    def bad(self) -> int:
        """The number of records that do not fit."""
        return sum(one.count for one in self.misfits.values())


def pipeline(guess: Guess) -> str:
    """The smallest pipeline with a source."""
    return _PIPELINE.format(source=source.node(guess, "  "), name=source.scalar(guess.name))


def read(guess: Guess, paths: Sequence[FilePath]) -> Read:
    """Read files with a source that was guessed for them."""
    step = bound(guess)
    found = Read()
    if isinstance(step, str):
        found.refusal = step
        return found
    inputs = [files.describe_named(path, name) for path, name in zip(paths, guess.paths, strict=True)]
    try:
        scan = step.scan(inputs, OnUnmapped.DROP)
        if scan.missing and guess.type in ("csv", "excel"):
            found.refusal = f"the header does not have the column '{scan.missing[0][0]}'"
            return found
        for split in splits.plan(scan.files, 1 << 62):
            _read_split(step, split, scan, found)
    except FormatError as error:
        found.refusal = str(error)
    return found


def bound(guess: Guess) -> SourceStep | str:
    """Bind the guessed source; returns its problems if that fails."""
    found = Diagnostics()
    plan = None
    made = document.read(SourceFile("guess.yaml", pipeline(guess)), {}, found)
    if made is not None:
        plan = planner.plan_document(made, Path("guess.yaml"), PlanOptions(allow_absolute_paths=True), found)
    if plan is None or guess.name not in plan.sources:
        return "; ".join(each.message for each in found.sorted())
    return plan.sources[guess.name]


def _read_split(step: SourceStep, split: Split, scan: ScanPlan, found: Read) -> None:
    wanted = Reading(step.columns, (), date_formats=step.date_formats, null_values=step.options.spelling.null_values)
    outcome = reading.SplitOutcome()
    file_plan = scan.files[split.file]
    for block in step.reader.read(split, file_plan, wanted, outcome):
        found.records += block.count
        for row, why, what, value in _failures(block):
            misfit = found.misfits.setdefault((why, what), Misfit(why, what))
            misfit.count += 1
            if len(misfit.examples) < _SHOWN_ROWS:
                misfit.examples.append((file_plan.file.name, row + 1, value))


def _failures(block: Block) -> Iterator[tuple[int, str | None, str, str]]:
    for failed in block.failures:
        failure = failed.failure
        value = "" if failure.value is None else str(failure.value)
        detail = failure.detail.replace(f"'{value}'", "…") if value else failure.detail
        yield failed.row, failure.field, detail, value
