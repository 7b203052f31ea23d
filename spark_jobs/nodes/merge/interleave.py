"""An interleaved merge: its inputs are materialized, and then deliver one record each in turn.

The merge interleaves the records that arrive, after all filters and failures upstream. Their numbers are known when the
previous job has written them. Each task computes a range of the merged order by itself: the counts tell it whose turn
it is, so it reads the records of each input that fall into its range and puts them into order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import materialize, operator, shuffle, spill
from spark_jobs.nodes.merge import run, turns
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.nodes.merge.step import MergeStep


@dataclass
class MaterializeInput(materialize.Materialize):
    """Materializes the records of an input, in the columns of the result."""

    step: MergeStep

    def selected(self, batch: batches.Batch, port: int) -> pa.RecordBatch:
        """The records in the columns and types of the result."""
        return run.unified(self, batch, port)


@dataclass
class Interleave(operator.Operator):
    """The root of a fragment that reads a range of the merged records."""

    step: MergeStep
    number_of_partition: int = 0

    def read(self, start: int, end: int, schedule: IO[bytes] | None) -> None:
        """Push the records `start` to `end`, in order. `schedule` is the file of a drawn order."""
        needs = self.step.needs
        counts = [self.context.files.count(rows) for rows in needs]
        if schedule is None:
            wanted = turns.round_robin(counts, start, end)
        else:
            wanted = turns.read_drawn(counts, schedule, start, end)
        records = spill.ExternalSorter(self.context, self.step.name)
        places = np.argsort(wanted.inputs, kind="stable")
        sizes = np.bincount(wanted.inputs, minlength=len(needs))
        done = 0
        for number in np.flatnonzero(sizes).tolist():
            first = int(wanted.before[number])
            for table in self.context.files.materialized_range(needs[number], first, first + int(sizes[number])):
                at = pa.array(places[done : done + table.num_rows])
                done += table.num_rows
                records.add(table.append_column(order.AT, at))
        self.enter(done)
        shuffle.push_all(self, records, self.context.exchanges.record_origin(self.number_of_partition))


#: The operators of an interleaved merge by their roles.
OPERATORS = {shape.Role.WHOLE: Interleave, shape.Role.BUILD: MaterializeInput}
