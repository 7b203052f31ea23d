"""The operator of a route: it evaluates each condition on the records that no earlier branch took."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine
from spark_jobs.nodes import operator
from spark_jobs.nodes.records import batches, columns
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.nodes.route.step import RouteStep


class Route(operator.Operator):
    """Exclusive mode takes the first branch whose condition is true, inclusive mode all of them; else the default."""

    step: RouteStep

    def open(self) -> None:
        self.branches = [(name, operator.compiled(program)) for name, program in self.step.branches]
        names = [name for name, _ in self.step.branches] + [self.step.default]
        self.numbers = {name: self.context.branches.index(name) for name in names}

    def process(self, batch: batches.Batch, port: int) -> None:
        """Split a batch over the branches. A record for which a condition fails takes none of them."""
        batch = self.take(batch)
        outcomes = self._inclusive(batch) if self.step.inclusive else self._exclusive(batch)
        self.count_replaced(batch.count - self._failed, sum(len(rows) for _, rows in outcomes))
        for name, rows in outcomes:
            if len(rows):
                taken = batch if len(rows) == batch.count else batch.take(pa.array(rows))
                self.push(_branched(taken, self.numbers[name]), name)

    def _exclusive(self, batch: batches.Batch) -> list[tuple[str, np.ndarray]]:
        rest, self._failed = np.arange(batch.count), 0
        outcomes = []
        for name, program in self.branches:
            hits, failed = self._evaluate(batch, rest, program)
            outcomes.append((name, hits))
            rest = _without(rest, batch.count, hits, failed)
        return [*outcomes, (self.step.default, rest)]

    def _inclusive(self, batch: batches.Batch) -> list[tuple[str, np.ndarray]]:
        rest, self._failed = np.arange(batch.count), 0
        taken = np.zeros(batch.count, dtype=bool)
        outcomes = []
        for name, program in self.branches:
            hits, failed = self._evaluate(batch, rest, program)
            outcomes.append((name, hits))
            taken[hits] = True
            rest = _without(rest, batch.count, failed)
        outcomes = [(name, np.intersect1d(hits, rest, assume_unique=True)) for name, hits in outcomes]
        return [*outcomes, (self.step.default, rest[~taken[rest]])]

    def _evaluate(
        self, batch: batches.Batch, rows: np.ndarray, program: engine.BatchProgram
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows where the condition is true, rows where it fails) among these rows of the batch."""
        whole = len(rows) == batch.count
        part = batch if whole else batch.take(pa.array(rows))
        if not part.count:
            return rows, rows
        result = self.run(program, part, engine.EvaluationContext())
        hits = np.arange(part.count) if result.rows is None else result.rows.to_numpy(zero_copy_only=False)
        failed = np.array([item.row for item in result.failures], dtype=np.int64)
        self._failed += len(failed)
        self.fail(part, result.failures)
        return (hits, failed) if whole else (rows[hits], rows[failed])


def _branched(batch: batches.Batch, branch: int) -> batches.Batch:
    """The records with their new branch, which replaces the branch of an earlier route."""
    data = batch.data
    if made := columns.with_fate(columns.Fate.MADE, "route", data.schema.names):
        data = data.drop_columns(made)
    return replace(batch, data=data, branch=branch)


def _without(rows: np.ndarray, count: int, *others: np.ndarray) -> np.ndarray:
    """The rows, all below `count`, that are not among others, in order."""
    is_left = np.ones(count, dtype=np.bool_)
    for other in others:
        is_left[other] = False
    left: np.ndarray = rows[is_left[rows]]
    return left


#: The operators of a route by their roles.
OPERATORS = {shape.Role.WHOLE: Route}
