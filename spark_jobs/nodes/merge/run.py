"""The operator of a concat merge: it converts batches to the types of the result and records their input.

Parts are put in order at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.cxl import values
from spark_jobs.nodes import operator
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.records import columns as engine
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.nodes.merge.step import MergeStep


class Merge(operator.Operator):
    """Concatenates its inputs. Columns are matched by name; the first input decides their order."""

    step: MergeStep

    def process(self, batch: batches.Batch, port: int) -> None:
        """Reorder the columns, convert them to the types that fit all inputs, and record the input."""
        self.enter(batch.count)
        self.push(replace(batch, data=unified(self, batch, port), merge_path=(port, *batch.merge_path)))


def unified(given: operator.Operator, batch: batches.Batch, port: int) -> pa.RecordBatch:
    """The records of an input in the columns and types of the result. Variables that they lack have their defaults."""
    step: MergeStep = given.step  # type: ignore[assignment]
    names = batch.data.schema.names
    gone = {name for name in engine.with_fate(engine.Fate.SHARED, "merge", names) if name not in step.shared}
    kept = [name for name in names if engine.is_engine(name) and name not in gone]
    order = [*(name for name in step.columns if name in names), *kept]
    columns = {name: batch.data.column(name) for name in order}
    for name, static, wanted in step.conversions[port]:
        if name in names:
            columns[name] = values.retyped(columns[name], static, wanted)
        elif engine.with_fate(engine.Fate.FILLED, "merge", [name]):
            default = given.context.values.get(engine.path(name))
            columns[name] = pa.repeat(pa.scalar(default, values.arrow_type(wanted)), batch.count)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


#: The operators of a merge by their roles.
OPERATORS = {shape.Role.WHOLE: Merge}
