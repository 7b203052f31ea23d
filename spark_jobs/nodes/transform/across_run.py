"""Windows over another source: the frame of each record is the whole group of rows that it matches.

One job materializes the source's rows (`MaterializeRows`). In the next, `Across` reads all of them, groups them by the
matched columns, sorts them, and computes each function for each group. A record finds its group and takes its results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine
from spark_jobs.formats.typed import record_sizes
from spark_jobs.nodes import operator
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.windows import foreign_frames, running
from spark_jobs.nodes.windows.arguments import Evaluator
from spark_jobs.nodes.windows.rows import Order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.transform.phases import AcrossStep


@dataclass
class Across(operator.Operator):
    """Adds the results of the functions for a record's group to the record."""

    step: AcrossStep

    def open(self) -> None:
        """Prepare the programs. The rows are opened with the first record."""
        self.evaluator = Evaluator(self._run_on_rows, self.context.tuning)
        self.state = engine.EvaluationContext()

    def process(self, batch: batches.Batch, port: int) -> None:
        """Find the groups of some records."""
        batch = self.take(batch)
        for piece in self._pieces(batch):
            own = Evaluator(partial(self._run_on_records, piece), self.context.tuning)
            found = foreign_frames.with_results(
                self._groups, self._results, self.step.calls, piece.data, self.evaluator, own
            )
            self.push(replace(piece, data=found))

    def _pieces(self, batch: batches.Batch) -> Iterator[batches.Batch]:
        """The records in slices whose arrays and texts fit the memory."""
        for piece in self.slices(batch):
            if self._array_bytes is None:
                yield piece
                continue
            sizes = self._array_bytes[self._groups.of_records(piece.data)]
            for start, count in running.runs(sizes, self.context.memory_pool.share):
                yield piece.slice(start, count)

    @cached_property
    def _array_bytes(self) -> np.ndarray | None:
        """The bytes of the arrays and texts of each group, and last of no group; None if no function returns any."""
        found: np.ndarray | None = None
        for call in self.step.calls:
            if not call.gathers:
                if not call.own and running.is_wide(call.type):
                    column = self._results.column(call.column)
                    wide = record_sizes.of([column], len(column))
                    found = wide if found is None else found + wide
                continue
            if call.own:
                # Each record gets its own copy of the values of its group's rows.
                sizes = np.append(np.diff(self._groups.bounds), 0) * running.LEAST_BYTES
            else:
                sizes = running.array_bytes(self._results.column(call.column))
            running.check(call, float(sizes.max(initial=0.0)), self.context.memory_pool.share, self.step.name)
            found = sizes if found is None else found + sizes
        return found

    @cached_property
    def _groups(self) -> foreign_frames.Groups:
        what = f"the rows of '{self.step.rows.input}', which the window ranges over,"
        table = foreign_frames.materialized_rows(self.context, self.step.rows, what, self.step.name)
        return foreign_frames.Groups.of(table, self.step.matches, Order((), self.step.fields))

    @cached_property
    def _results(self) -> pa.RecordBatch:
        """For each group, and then for no group, the results of functions that depend on the group alone."""
        return self._groups.results([call for call in self.step.calls if not call.own], self.evaluator)

    def _run_on_rows(self, program: engine.BatchProgram, rows: pa.RecordBatch) -> engine.BatchResult:
        """Run a program on rows of the source. They know their files if a program reads these."""
        origin = (
            self.context.exchanges.record_origin(0)
            if self.step.member_properties.reads_origins
            else batches.GroupOrigin(0)
        )
        batch = batches.Batch(rows, pa.array(np.arange(rows.num_rows)), origin)
        return self.run(program, batch, self.state)

    def _run_on_records(
        self, records: batches.Batch, program: engine.BatchProgram, rows: pa.RecordBatch
    ) -> engine.BatchResult:
        """Run a program on the records that look into the source; `rows` are these records with more columns."""
        return self.run(program, replace(records, data=rows), self.state)


#: The operators of such windows by their roles.
OPERATORS = {shape.Role.WHOLE: Across}
