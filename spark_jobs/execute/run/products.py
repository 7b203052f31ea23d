"""What a pass over the jobs of a run produced; thrown away as a whole where the pass is repeated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_jobs.execute.run.measures import ByNumber, Measures
from spark_jobs.execute.tally import Tally
from spark_jobs.nodes.records.ledger import Counters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_jobs.execute.run.inputs import Inputs
    from spark_jobs.execute.tasks.report import Letters, Part, Placed, TaskReport
    from spark_jobs.nodes.terms.needs import Rows


@dataclass
class Products:
    """What the jobs of a pass have produced so far: counts, file names and final values, never records.

    Args:
        inputs: what was read; with exact borders where splits turned out to be cut wrongly.
        tally: what was counted, and what would end the run.
        parts: the part files of outputs, and of what later jobs need.
        measures: what each split told.
        letters: the files of dead letters.
        values: the final values that tasks told, by path: those of the last record (spec/exec.md 12).
        dirty: files with the keys of groups whose records have to be read as if they were not there.
        counted: what nodes had counted when what they look up was written down.
    """

    inputs: Inputs
    tally: Tally = field(default_factory=Tally)
    parts: dict[str | Rows, list[Part]] = field(default_factory=dict)
    measures: Measures = field(default_factory=Measures)
    letters: list[Letters] = field(default_factory=list)
    values: dict[str, Placed] = field(default_factory=dict)
    dirty: list[str] = field(default_factory=list)
    counted: dict[str, Counters] = field(default_factory=dict)

    def add(self, job: int, reports: Iterable[TaskReport]) -> None:
        """Add what the tasks of a job told, by level and number."""
        for report in reports:
            self.tally.add(job, report)
            for part in report.parts:
                self.parts.setdefault(part.box, []).append(part)
            for measure in report.splits:
                self.measures.add(measure)
            if report.letters and (report.letters.path or report.letters.dropped_path):
                self.letters.append(report.letters)
            for path, placed in report.values.items():
                known = self.values.get(path)
                if known is None or known.place <= placed.place:
                    self.values[path] = placed
            self.dirty += report.dirty

    def written(self, rows: Rows) -> list[Part]:
        """The parts of what a later job needs, in record order; what its node has counted by now is kept."""
        self.counted[rows.node] = replace(self.tally.counters.get(rows.node, Counters()))
        return self.parts_of(rows)

    def parts_of(self, box: str | Rows) -> list[Part]:
        """The parts of an output, or of what a later job needs, in record order."""
        return sorted(self.parts.get(box, ()), key=lambda part: (part.lane, part.number))

    @property
    def records(self) -> Mapping[int, int]:
        """How many records each split has, by its number."""
        return self.measures.of("records")

    @property
    def rows_before(self) -> Mapping[int, int]:
        """The records of each split's file before the split, by its number; known after the pass."""
        return ByNumber((number, start.in_file) for number, start in self.inputs.starts(self.records))
