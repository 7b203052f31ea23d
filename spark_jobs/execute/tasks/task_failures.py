"""Failures in a task: dead letters, and the failure that ends the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute import report
from spark_jobs.execute.correlation import hook
from spark_jobs.execute.dlq import buffer, failed_record
from spark_jobs.nodes import operator
from spark_jobs.nodes.records.identity import aggregate_row_numbers
from spark_jobs.plan import plan as plans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.cxl.failure_columns import Failures
    from spark_jobs.execute.dlq.buffer import DlqEntries, Site
    from spark_jobs.execute.tasks.spec import JobSpec
    from spark_jobs.nodes.records.batches import Batch

#: The part of a task's share that dead letters may hold before they are written down.
_LETTERS_SHARE = 8
_MOST_LETTERS_BYTES = 16 << 20


class TaskFailures:
    """Handles the failing records of a task.

    Args:
        spec: the job.
        own_report: the task's report.
        name: what the task's files are called by.
    """

    def __init__(self, spec: JobSpec, own_report: report.TaskReport, name: str) -> None:
        self.spec = spec
        self.report = own_report
        # The findings of earlier passes are still needed, so files carry the number of the pass.
        name = f"{name}-{spec.state.number}"
        self.correlation = hook.of(spec, name, self._note)
        self.guards = spec.run.guards
        filed, named = self.correlation.filed(spec.run)
        limit = min(spec.run.memory_share // _LETTERS_SHARE, _MOST_LETTERS_BYTES)
        self.dlq = buffer.DlqBuffer(spec.run.scratch.file(f"dlq-{name}.arrow"), filed, named, limit, spec.run.tuning)

    def fail(
        self,
        operator_: operator.Operator,
        batch: Batch,
        failing: Failures,
        trigger: str = "",
        cause: Batch | None = None,
        stage: str | None = None,
        equal_to: np.ndarray | None = None,
    ) -> None:
        """Send rows of a batch to the dead letters."""
        if operator_.silent:
            return
        indices = pa.array(failing.rows)
        texts = batch.origin.texts(batch, indices) if self.spec.run.keep_texts else None
        places = batch.origin.identify(batch, indices)
        if cause is None:
            causes = buffer.own(batch.places.take(indices))
        else:
            driver = cause.origin.identify(cause, pa.array(range(cause.count), pa.int64()))
            causes = (*driver, pa.array(aggregate_row_numbers(cause)), cause.places)
        failing, said = self.correlation.failed(operator_, batch, failing, places, cause)
        entries = buffer.DlqEntries(failing, places, causes, batch.branches.take(indices), texts, said, equal_to)
        stages = [stage or operator_.step.stage] * len(failing.reasons)
        site = buffer.Site(stages, operator_.number, trigger, operator_.guard)
        self._note(operator_, entries, site, batch.data)

    def fail_read_records(
        self,
        operator_: operator.Operator,
        failing: Failures,
        places: buffer.Places,
        texts: pa.RecordBatch | None,
        stages: Sequence[str],
        keys: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Note dead letters by the places of their records; each reason has its stage."""
        if operator_.silent:
            return
        if not self.spec.run.keep_texts:
            texts = None
        entries = self.correlation.failed_read(
            operator_.step.name, buffer.DlqEntries(failing, places, texts=texts), keys or {}
        )
        if entries is not None:
            self._note(operator_, entries, buffer.Site(stages, operator_.number, guard=operator_.guard))

    def _note(
        self, operator_: operator.Operator, entries: DlqEntries, site: Site, data: pa.RecordBatch | None = None
    ) -> None:
        self.dlq.add(entries, site)
        if self.spec.run.strategy is not plans.Strategy.FAIL_FAST or entries.failing.are_late:
            return
        self._ends(failed_record.first(entries, site, data))

    def pause(self) -> None:
        """Records are through: if one of their failures ends the run, the task ends with the earliest one."""
        if self.report.failure is not None:
            raise operator.StopTask

    def abort(self, operator_: operator.Operator, code: str, message: str, batch: Batch, rows: np.ndarray) -> None:
        """Note that the run ends because of records; the earliest is reported."""
        places = [column.to_numpy() for column in batch.origin.identify(batch, pa.array(rows))]
        first = np.lexsort(places[::-1])[0]
        source, split, place = (int(column[first]) for column in places)
        record = failed_record.at_hand(batch.data, int(rows[first]), operator_.guard)
        step = operator_.step
        message = f"{step.kind} '{step.name}': {message}"
        self._ends(report.FirstFailure(source, split, place, step.stage, message, None, code, record=record))

    def _ends(self, failure_: report.FirstFailure) -> None:
        """Note a failure that ends the run, unless another one is reported instead."""
        if self.report.failure is None or failure_.precedes(self.report.failure):
            self.report.failure = failure_

    def write(self) -> None:
        """Write dead letters and facts down, and report the files.

        Raises:
            OSError: that cannot be done.
        """
        if self.dlq.count:
            self.dlq.write()
            self.report.dlq = report.dlq_report(self.dlq)
        self.correlation.close(self.report, self.spec.shares)
