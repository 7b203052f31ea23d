"""Checks single records against their table, before conflicting records are compared with one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.formats import format
from spark_jobs.nodes import operator
from spark_jobs.nodes.output import run, shape
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.terms.shape import Role
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from spark_jobs.cxl import types
    from spark_jobs.nodes.output.step import CheckStep


@dataclass
class Check(operator.Operator):
    """Pushes records that the table accepts. The others become dead letters."""

    step: CheckStep
    #: The undeclared columns that reach the output, in first-seen order.
    undeclared: tuple[str, ...] = ()
    undeclared_type: types.Type = run.TEXT

    def open(self) -> None:
        self.columns = shape.written_columns(self.step.output, self.undeclared, self.undeclared_type)
        self.names = [one.name for one in self.columns]
        self.writer = run.writer(self.step.output, self.undeclared, self.undeclared_type)

    def process(self, batch: batches.Batch, port: int) -> None:
        """Check some records."""
        for piece in self.slices(self.take(batch)):
            self.push(self._taken(piece))

    def _taken(self, batch: batches.Batch) -> batches.Batch:
        known = dict(zip(batch.data.schema.names, batch.data.columns, strict=True))
        arrays = [run.column(known, one.source, batch.count) for one in self.columns]
        try:
            encoded = self.writer.encode(pa.RecordBatch.from_arrays(arrays, names=self.names))
        except format.UnwritableFile as problem:
            raise FormatError(str(problem), self.step.output.place, node=self.step.name) from problem
        if not encoded.failures:
            return batch
        self.fail(batch, encoded.failures)
        return batch.take(batches.indices_except(batch.count, [each.row for each in encoded.failures]))


#: The operators of the check by their roles.
OPERATORS = {Role.WHOLE: Check}
