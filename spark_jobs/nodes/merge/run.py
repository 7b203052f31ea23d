"""How a concat merge treats batches: it notes the input they came from; parts are put in order at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs.nodes import operator

if TYPE_CHECKING:
    from spark_jobs.nodes.merge.step import MergeStep


class Merge(operator.Operator):
    """Inputs are matched by column name; the first input gives the order (decision 52)."""

    step: MergeStep

    def process(self, batch: operator.Batch, port: int) -> None:
        """Put the columns in order and remember the input."""
        self.counters.records_in += batch.count
        engine_columns = [name for name in batch.data.schema.names if name.startswith("$")]
        data = batch.data.select(
            [*(name for name in self.step.columns if name in batch.data.schema.names), *engine_columns]
        )
        self.push(replace(batch, data=data, lane=(port, *batch.lane)))


def open_operator(step: MergeStep, **wiring: Any) -> Merge:
    """The operator of a merge."""
    return Merge(step, **wiring)
