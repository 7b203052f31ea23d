"""Operators of the rule `references`: each task looks up the values of its records among all referenced values.

An earlier job materializes the values (`MaterializeReferenced`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import failure, failure_columns
from spark_jobs.nodes import materialize, operator
from spark_jobs.nodes.rules import step as rules
from spark_jobs.nodes.rules import texts
from spark_jobs.nodes.rules.step import Severity
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.windows import foreign_frames
from spark_jobs.nodes.windows.rows import Order

if TYPE_CHECKING:
    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.nodes.records import batches
    from spark_jobs.nodes.rules.step import ReferencesStep
    from spark_jobs.nodes.source.step import SourceStep


@dataclass
class MaterializeReferenced(materialize.Materialize):
    """Materializes the columns to which rules refer."""

    step: SourceStep | OutputStep

    def selected(self, batch: batches.Batch, port: int) -> pa.RecordBatch:
        assert self.provides is not None
        wanted = rules.referenced_columns(self.step.rules, self.provides.input)
        return batch.data.select([name for name in batch.data.schema.names if name in wanted])


@dataclass
class References(operator.Operator):
    """Finds records whose values do not occur in the referenced source."""

    step: ReferencesStep

    def process(self, batch: batches.Batch, port: int) -> None:
        """Look up the values of a batch."""
        batch = self.take(batch)
        for piece in self.slices(batch):
            self.push(self._kept(piece))

    def _kept(self, batch: batches.Batch) -> batches.Batch:
        """The records to keep: all of them, unless the rule turns records without a match into dead letters."""
        rule = self.step.rule
        is_broken = self._groups.of_records(batch.data) == self._groups.count
        for match in rule.matches:
            is_broken &= batch.data.column(match.here).is_valid().to_numpy(zero_copy_only=False)
        broken = np.flatnonzero(is_broken)
        if not len(broken):
            return batch
        failing = batch.take(pa.array(broken))
        columns = [(match.here, match.here_type) for match in rule.matches]
        shown = texts.of(failing.data, columns, self.guard)
        field = columns[0][0] if len(columns) == 1 else None
        if rule.severity is not Severity.ERROR:
            if self.guard.hides(field):
                shown = pa.nulls(failing.count, pa.string())
            self.context.break_rule(self, rule.name, failing, shown)
            return batch
        names = "" if field else f"{', '.join(name for name, _ in columns)}: "
        before = rule.message or f"{names}nothing in '{rule.source}' has the value "
        reason = failure_columns.Reason(failure.Category.VALIDATION, field, before, None if rule.message else "")
        self.fail(failing, failure_columns.alike(np.arange(failing.count), reason, shown), trigger=rule.name)
        return batch.take(pa.array(np.flatnonzero(~is_broken)))

    @cached_property
    def _groups(self) -> foreign_frames.Groups:
        """The distinct referenced values."""
        what = f"the values of '{self.step.rows.input}', which validation '{self.step.rule.name}' refers to,"
        table = foreign_frames.materialized_rows(self.context, self.step.rows, what, self.step.name)
        return foreign_frames.Groups.of(table, self.step.rule.matches, Order((), ()))


#: The operators of such a rule by their roles.
OPERATORS = {shape.Role.WHOLE: References}
