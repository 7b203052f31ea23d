"""The rows of another source that windows range over: materialized by an earlier job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.nodes import materialize
from spark_jobs.nodes.records import columns
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.nodes.records import batches
    from spark_jobs.nodes.transform.step import TransformStep


@dataclass
class MaterializeRows(materialize.Materialize):
    """Materializes the rows of the source, in the columns that the window reads."""

    step: TransformStep

    def selected(self, batch: batches.Batch, port: int) -> pa.RecordBatch:
        """The columns that the window reads, and the columns of the system values that it reads."""
        window = self.step.window
        assert window is not None
        wanted = window.reads | {columns.value(path) for path in window.values}
        return batch.data.select([name for name in batch.data.schema.names if name in wanted])


#: The operator of a transform with such windows. Its phases have their own.
OPERATORS = {shape.Role.BUILD: MaterializeRows}
