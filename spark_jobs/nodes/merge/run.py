"""How a concat merge treats batches: each gets the result's types and notes the input that it came from.

Parts are put in order at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.cxl import values
from spark_jobs.nodes import operator
from spark_jobs.nodes.records import columns as engine
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.nodes.merge.step import MergeStep


class Merge(operator.Operator):
    """Inputs are matched by column name; the first input gives the order (decision 52)."""

    step: MergeStep

    def process(self, batch: operator.Batch, port: int) -> None:
        """Put the columns in order, in the types that all inputs fit in, and remember the input."""
        self.enter(batch.count)
        names = batch.data.schema.names
        order = [
            *(name for name in self.step.columns if name in names),
            *(name for name in names if engine.is_engine(name)),
        ]
        columns = {name: batch.data.column(name) for name in order}
        for name, static, wanted in self.step.conversions[port]:
            if name in names:
                columns[name] = values.retyped(columns[name], static, wanted)
            elif engine.with_fate(engine.Fate.FILLED, "merge", [name]):
                columns[name] = pa.nulls(batch.count, values.arrow_type(wanted))
        data = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        self.push(replace(batch, data=data, lane=(port, *batch.lane)))


#: The operators of a merge by their roles.
OPERATORS = {shape.Role.WHOLE: Merge}
