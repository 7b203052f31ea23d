"""The operator of a transform: the program's emits over the input columns, then the validations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import engine, failure, failure_columns, types, values
from spark_jobs.formats.typed import record_sizes
from spark_jobs.nodes import operator
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.records import columns as engine_columns
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.transform import directives, unfolding
from spark_jobs.nodes.windows import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.transform.step import TransformStep, Validation


class Transform(operator.Operator):
    """Runs the program. Columns that it does not emit stay on the record. A record that fails has no output at all."""

    step: TransformStep

    def open(self) -> None:
        """Compile the program and the checks."""
        self.program = operator.compiled(self.step.program)
        self.blocks = unfolding.Blocks.of(self.step.program)
        self.checks = [(check, operator.compiled(check.check)) for check in self.step.validations]
        self.state = engine.EvaluationContext()
        self.seen = 0

    @property
    def can_pass_over(self) -> bool:
        """True if the program begins with a filter."""
        return self.first and bool(self.step.column_properties.pushed_predicates)

    def process(self, batch: batches.Batch, port: int) -> None:
        """Run the program, then each validation on its results."""
        for each in self.blocks.slices(batch, self.context.memory_pool.share, self.step.name):
            self._process(each)

    def _process(self, batch: batches.Batch) -> None:
        batch = self.take(batch)
        result = self.run(self.program, batch, self.state)
        self.drop(filtered=result.filtered, duplicates=result.duplicates)
        directives.log(self, directives.on_error(self, self.step, batch, result.failures, are_made=False))
        at = None
        if self.checks and result.rows is not None:
            batch.at, at = self.stream.child_places(batch, result.rows)
        self.fail(batch, result.failures)
        made = batch.count if result.rows is None else len(result.rows)
        self.count_replaced(batch.count - result.filtered - result.duplicates - len(result.failures), made)
        for start, count in self._pieces(batch, result):
            output = _output(batch, result if count == made else _slice(result, start, count), fields=self.last)
            if at is not None:
                output.at = at.slice(start, count)
            for check, program in self.checks:
                output = self._validate(output, check, program)
            if self.step.log:
                directives.log(self, directives.per_record(self, self.step, output, self.seen))
                self.seen += output.count
            self.push(output)

    def _pieces(self, batch: batches.Batch, result: engine.BatchResult) -> Iterator[tuple[int, int]]:
        """The starts and counts of slices of the records.

        Records made by `emit each` repeat all values next to the array.
        """
        if result.rows is None or len(result.rows) <= batch.count:
            return iter([(0, batch.count if result.rows is None else len(result.rows))])
        sizes = record_sizes.of(batch.data.columns, batch.count)
        return running.runs(sizes[result.rows.to_numpy()], self.context.memory_pool.share)

    def _warn(self, batch: batches.Batch, check: Validation, rows: list[int]) -> None:
        self.context.break_rule(self, check.name, batch.take(pa.array(rows, pa.int64())))
        for row in rows:
            self.log("warn", f"{self.step.stage}: {check.message}", (batch, row), shows_place=True)

    def _validate(self, batch: batches.Batch, check: Validation, program: engine.BatchProgram) -> batches.Batch:
        """Fail records whose check is false. Null passes, as in SQL's CHECK. An error in a check fails the record."""
        result = self.run(program, batch, engine.EvaluationContext())
        broken = [engine.RowFailure(item.row, _check_error(item.failure)) for item in result.failures]
        false = _false(result.emits["value"], check.check.emits[0][1])
        if result.rows is not None:
            false = result.rows.to_numpy()[false]
        failing = failure_columns.of(broken)
        if check.is_error:
            expression = check.check.expression(0)
            reason = failure_columns.Reason(failure.Category.VALIDATION, None, check.message, expression=expression)
            failing = failure_columns.concatenated([failing, failure_columns.alike(false, reason)])
        else:
            self._warn(batch, check, false.tolist())
        if not len(failing):
            return batch
        directives.log(self, directives.on_error(self, self.step, batch, failing, are_made=True))
        self.fail(batch, failing, trigger=check.name)
        return batch.take(failure_columns.without(batch.count, failing))


def _refusal(detail: str) -> failure.Failure:
    return failure.Failure(detail, failure.Category.VALIDATION)


def _check_error(found: failure.Failure) -> failure.Failure:
    """Remove the field from a check's failure, because it is not a field of the user."""
    restated = failure.restated(found, f"validation check error: {found.detail}", failure.Category.VALIDATION)
    restated.field = None
    return restated


def _false(verdicts: pa.Array, static: types.Type) -> failure_columns.Rows:
    """The rows whose value is false, not null."""
    if static.kind is not types.Kind.BOOL:
        found = [value is False for value in values.from_arrow(verdicts, static)]
        return np.flatnonzero(np.array(found, dtype=bool))
    rows: failure_columns.Rows = pc.indices_nonzero(pc.invert(pc.fill_null(verdicts, True))).to_numpy().astype(np.int64)
    return rows


def _slice(result: engine.BatchResult, start: int, count: int) -> engine.BatchResult:
    """A slice of the results."""
    assert result.rows is not None
    columns = (
        {name: each.slice(start, count) for name, each in group.items()}
        for group in (result.emits, result.metas, result.emitted)
    )
    emits, metas, emitted = columns
    return replace(result, rows=result.rows.slice(start, count), emits=emits, metas=metas, emitted=emitted)


def _output(batch: batches.Batch, result: engine.BatchResult, *, fields: bool) -> batches.Batch:
    """The input records that passed, overlaid with the emits; without `fields` only the columns of the next phase."""
    kept = batch if result.rows is None else batch.take(result.rows)
    columns = {name: values_ for name, values_ in result.emits.items() if fields or engine_columns.is_engine(name)}
    known = set(kept.data.schema.names)
    for name, emitted in result.emitted.items():
        if name in known:
            columns[name] = pc.if_else(emitted, columns[name], kept.data.column(name))
    columns.update({engine_columns.META.of(key): values for key, values in result.metas.items()})
    data = batches.overlay(kept.data, columns)
    if fields:
        made = engine_columns.with_fate(engine_columns.Fate.MADE, "transform", data.schema.names)
        data = data.drop_columns(made) if made else data
    return replace(kept, data=data)


#: The operators of a transform by their roles.
OPERATORS = {shape.Role.WHOLE: Transform}
