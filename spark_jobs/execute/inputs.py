"""What a run reads: the files of each source, how their columns meet the declared ones, and the splits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.nodes.source.run import SplitInput
from spark_jobs.scan import columns, matching, splits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan import plan as plans


@dataclass(frozen=True)
class Inputs:
    """The sources of a run in the order they are declared, and their splits numbered over all of them."""

    steps: Mapping[str, SourceStep]
    numbers: Mapping[str, int]
    scans: Mapping[str, columns.ScanPlan]
    splits: tuple[tuple[str, SplitInput], ...]

    def file_name(self, split: int, source: int) -> str:
        """The name of the file that a split belongs to; without a split (no record at all) the source's name."""
        if split < 0:
            return f"<source:{self.source_name(source)}>"
        return self.splits[split][1].file_plan.file.name

    def source_name(self, source: int) -> str:
        """A source's name by its number."""
        return next((name for name, number in self.numbers.items() if number == source), "<merged>")

    def column_names(self, source: int) -> tuple[str, ...]:
        """A source's declared columns by its number."""
        return next((step.column_names for name, step in self.steps.items() if self.numbers[name] == source), ())

    def bytes_of(self, names: Sequence[str]) -> int:
        """The size of some sources' files."""
        return sum(plan.file.size for name in names for plan in self.scans[name].files)

    def with_exact(self, wrong: set[int]) -> Inputs:
        """The same with true record borders for the files of some splits."""
        broken = {(name, place.split.file) for name, place in self.splits if place.number in wrong}
        found = list(self.splits)
        for name, file in sorted(broken):
            mine = [i for i, (other, place) in enumerate(found) if other == name and place.split.file == file]
            file_plan = found[mine[0]][1].file_plan
            exact = splits.exact_splits(file_plan, [found[i][1].split for i in mine], self.steps[name].options)
            for i, split in zip(mine, exact, strict=True):
                found[i] = (name, replace(found[i][1], split=split))
        return replace(self, splits=tuple(found))

    def with_rows(self, rows: Mapping[int, int]) -> Inputs:
        """The same with the number of each split's first record in its file; `rows` has the records per split."""
        found: list[tuple[str, SplitInput]] = []
        seen: dict[tuple[str, int], int] = {}
        for name, place in self.splits:
            key = (name, place.split.file)
            found.append((name, replace(place, first_row=seen.get(key, 0))))
            seen[key] = seen.get(key, 0) + rows[place.number]
        return replace(self, splits=tuple(found))


def find(plan: plans.Plan, split_bytes: int, *, allow_outside: bool = False) -> Inputs:
    """The inputs of a plan.

    Raises:
        FormatError: a file is missing or unreadable, or its columns are refused.
    """
    sources = [planned for planned in plan.nodes if planned.kind == "source"]
    sources.sort(key=lambda planned: planned.span.start if planned.span else 0)
    steps: dict[str, Any] = {planned.name: planned.step for planned in sources}
    scans = {name: _scan(plan, step, allow_outside) for name, step in steps.items()}
    found: list[tuple[str, SplitInput]] = []
    for number, (name, scan) in enumerate(scans.items()):
        for split in splits.plan(scan.files, split_bytes):
            found.append((name, SplitInput(number, len(found), scan.files[split.file], split)))
    return Inputs(steps, {name: number for number, name in enumerate(steps)}, scans, tuple(found))


def _scan(plan: plans.Plan, step: SourceStep, allow_outside: bool) -> columns.ScanPlan:
    """The files of a source with their columns."""
    matched = matching.match(step.name, step.match, Path(plan.base_dir), allow_outside=allow_outside)
    return columns.plan_csv(
        step.name, step.column_names, matched.files, step.options, columns.OnUnmapped(step.on_unmapped.value)
    )


def widened(plan: plans.Plan, inputs: Inputs) -> dict[str, tuple[str, ...]]:
    """The undeclared columns that records carry at each node, in first-seen order (decision 25)."""
    found: dict[str, tuple[str, ...]] = {}
    for planned in plan.nodes:
        if planned.kind == "source":
            found[planned.name] = inputs.scans[planned.name].widened
        elif planned.kind == "aggregate":
            found[planned.name] = ()
        elif planned.kind == "combine":
            driver = next(edge for edge in planned.inputs if edge.qualifier == planned.step.driver)  # type: ignore[union-attr]
            found[planned.name] = found[driver.node]
        else:
            found[planned.name] = tuple(dict.fromkeys(name for edge in planned.inputs for name in found[edge.node]))
    return found


