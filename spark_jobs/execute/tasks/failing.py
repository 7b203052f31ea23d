"""What fails in a task: dead letters, the failure that ends the task, and what is known of correlation groups."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import failure, failure_columns
from spark_jobs.execute.dlq import buffer, failed_record
from spark_jobs.execute.tasks import facts, groups, presence, report
from spark_jobs.nodes import operator
from spark_jobs.nodes.records import guarded
from spark_jobs.nodes.records.groups import aggregated
from spark_jobs.plan import plan as plans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.cxl.failure_columns import Failures
    from spark_jobs.execute.dlq.buffer import DlqEntries, Site
    from spark_jobs.execute.dlq.marks import Marks
    from spark_jobs.execute.tasks.spec import JobSpec
    from spark_jobs.nodes.records.batches import Batch

#: The part of a task's share that dead letters may hold before they are written down.
_LETTERS_SHARE = 8
_MOST_LETTERS_BYTES = 16 << 20
#: The stage of rows whose correlation group is rejected, and what puts them behind all other entries of a record: what
#: is told of a whole group before what is told of a record as one of its group.
_COMMIT, _OF_GROUP, _COLLATERAL = "correlation_commit", 1 << 29, 1 << 30


class Failing:
    """What a task does with records that fail, and with those that are not wanted because others did.

    Args:
        spec: the job.
        told: the task's report.
        name: what the task's files are called by.
    """

    def __init__(self, spec: JobSpec, told: report.TaskReport, name: str) -> None:
        self.spec = spec
        self.report = told
        # What earlier passes have found is still needed, that of the last one by a pass that looks for something.
        name = f"{name}-{spec.known.passes}{'-looking' if spec.known.is_looking else ''}"
        self._notes = facts.Notes(os.path.join(spec.run.scratch, f"facts-{name}.arrow"))
        self.correlation = spec.run.groups
        self.guards = spec.run.guards
        self.is_tracing = spec.known.traced is not None
        self.is_looking = spec.known.is_looking
        self.groups: groups.Groups | None = None
        if spec.run.groups is not None:
            self.groups = groups.Groups(spec.run.groups, spec.known, list(spec.run.steps), self._notes)
        #: Which groups were read, where the next pass may do some tasks again and leave others as they are.
        self._presence = presence.Presence() if spec.notes_groups else None
        self._present = os.path.join(spec.run.scratch, f"present-{name}")
        self.dlq = buffer.DlqBuffer(
            os.path.join(spec.run.scratch, f"dlq-{name}.arrow"),
            # With correlation keys entries are sorted out when the last pass is done.
            None if spec.run.groups else spec.run.filed,
            0 if spec.run.groups else spec.run.named,
            min(spec.run.memory_share // _LETTERS_SHARE, _MOST_LETTERS_BYTES),
        )

    def fail(
        self,
        operator_: operator.Operator,
        batch: Batch,
        failing: Failures,
        trigger: str = "",
        cause: Batch | None = None,
        stage: str | None = None,
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
            causes = (*driver, pa.array(aggregated(cause)), cause.places)
        marks = None
        if self.groups is not None:
            rows = batch.take(indices)
            marks = self._marks(operator_, rows, places, failing, cause)
            failing = failure_columns.remarked(failing, self.groups.remarks(operator_.step.name, rows))
        entries = buffer.DlqEntries(failing, places, causes, batch.branches.take(indices), texts, marks)
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
        marks = None
        if self.groups is not None and self.spec.known.looks_at_sources:
            self._look(operator_.step.name, keys or {}, places)
            return
        if self.groups is not None:
            kept = np.arange(len(failing))
            if (dead := self.groups.are_dead(places[1], places[2])) is not None:
                kept = np.flatnonzero(~dead)  # an earlier pass has noted the others
            chosen = pa.array(kept)
            failing, places = failing.take(kept), tuple(column.take(chosen) for column in places)  # type: ignore[assignment]
            texts = None if texts is None else texts.take(chosen)
            keys = {name: column.take(chosen) for name, column in (keys or {}).items()}
            marks = self.groups.read(operator_.step.name, keys, places, failure_columns.details(failing))
        entries = buffer.DlqEntries(failing, places, texts=texts, marks=marks)
        self._note(operator_, entries, buffer.Site(stages, operator_.number, guard=operator_.guard))

    def _marks(
        self, operator_: operator.Operator, batch: Batch, places: buffer.Places, failing: Failures, cause: Batch | None
    ) -> Marks:
        """What failing rows say of correlation groups, and note of them for later passes."""
        assert self.groups is not None
        name = operator_.step.name
        if cause is not None:
            return self.groups.beside(name, batch, cause)
        if failing.are_late:
            return self.groups.collateral(name, batch)  # what comes too late for a window rejects no group
        # Groups are made behind an exchange: before it records fail, behind it their results.
        is_result = operator_.step.groups_by is not None and not operator_.first
        return self.groups.failed(name, batch, places, failure_columns.details(failing), is_result=is_result)

    def unread(self, operator_: operator.Operator, batch: Batch) -> np.ndarray | None:
        """The rows of records that count as never read; None where there are none."""
        if self.groups is None:
            return None
        places = batch.origin.identify(batch, pa.array(np.arange(batch.count)))
        if self.spec.known.looks_at_sources:
            self._look(operator_.step.name, self.groups.keys(operator_.step.name, batch), places)
            return np.ones(batch.count, dtype=bool)
        if self._presence is not None:
            self.groups.note_presence(self._presence, operator_.step.name, batch)
        return self.groups.are_dead(places[1], places[2])

    def _look(self, source: str, keys: Mapping[str, pa.Array], places: buffer.Places) -> None:
        assert self.groups is not None
        if self.spec.known.sought is not None:
            self.groups.seek(source, keys, places)
        else:
            self.groups.tell_keys(source, keys, places)

    def unmade(self, operator_: operator.Operator, batch: Batch) -> np.ndarray | None:
        """The rows of an aggregate that count as never made; None where there are none."""
        if self.groups is None:
            return None
        if self.spec.known.keyless_rows is not None:
            self.groups.tell_groups(operator_.step.name, batch)
        return self.groups.are_unmade(batch)

    def trace(self, split: pa.Array, row: pa.Array, inner: pa.Array, groups: pa.Array) -> None:
        """Note which records, and groups of other aggregates, are in groups that are taken back."""
        assert self.groups is not None
        self.groups.trace(split, row, inner, groups)

    def rejected(self, operator_: operator.Operator, batch: Batch) -> np.ndarray | None:
        """The rows that an output leaves out: they have failed, or their group is rejected, which is noted here."""
        if self.groups is None:
            return None
        have_failed = self.groups.have_failed(batch)
        if have_failed is None:
            return self._rejected(operator_, batch)
        rest = np.flatnonzero(~have_failed)
        rejected = self._rejected(operator_, batch.take(pa.array(rest)))
        if rejected is not None:
            have_failed[rest[rejected]] = True
        return np.flatnonzero(have_failed)

    def may_be_others(self, operator_: operator.Operator) -> bool:
        """Whether other records come to a node, or with other values, where some count as never read."""
        return self.groups is not None and self.groups.plan.standings[operator_.step.name].depth > 0

    def _rejected(self, operator_: operator.Operator, batch: Batch) -> np.ndarray | None:
        """The rows whose correlation group is rejected, which are noted; None where there are none."""
        assert self.groups is not None
        if self.is_looking:
            if self.spec.known.counted is not None:
                self.groups.members(operator_.step.name, batch)
            return np.arange(batch.count)
        oversized = self.groups.oversized(operator_.step.name, batch)
        firsts, others = _correlated(oversized, self.groups.rejected(operator_.step.name, batch))
        if not len(firsts) and not len(others):
            return None
        self._leave_out(operator_, batch, firsts, _OF_GROUP)
        self._leave_out(operator_, batch, others, _COLLATERAL)
        return np.concatenate([firsts.rows, others.rows])

    def _leave_out(self, operator_: operator.Operator, batch: Batch, failing: Failures, number: int) -> None:
        """Note rows that are not written because of others; entries of a record with lower numbers come first."""
        if not len(failing):
            return
        assert self.groups is not None
        gone = batch.take(pa.array(failing.rows))
        indices = pa.array(np.arange(gone.count))
        texts = gone.origin.texts(gone, indices) if self.spec.run.keep_texts else None
        marks = self.groups.collateral(operator_.step.name, gone)
        places = gone.origin.identify(gone, indices)
        entries = buffer.DlqEntries(failing, places, buffer.own(gone.places), None, texts, marks)
        stages = [_COMMIT] * len(failing.reasons)
        # The failure of the others, wherever that was, is told of them.
        guard = guarded.Guard(is_read=bool(self.spec.run.guards))
        self._note(operator_, entries, buffer.Site(stages, number + operator_.number, guard=guard))

    def _note(
        self, operator_: operator.Operator, entries: DlqEntries, site: Site, data: pa.RecordBatch | None = None
    ) -> None:
        self.dlq.add(entries, site)
        if self.spec.run.strategy is not plans.Strategy.FAIL_FAST or entries.failing.are_late:
            return
        self._ends(failed_record.first(entries, site, data))

    def pause(self) -> None:
        """Records are through: a failure among them that ends the run ends the task, the earliest one told."""
        if self.report.failure is not None:
            raise operator.StopTask

    def abort(self, operator_: operator.Operator, code: str, message: str, batch: Batch, rows: np.ndarray) -> None:
        """Note that the run ends because of records, the earliest of which is told."""
        places = [column.to_numpy() for column in batch.origin.identify(batch, pa.array(rows))]
        first = np.lexsort(places[::-1])[0]
        source, split, place = (int(column[first]) for column in places)
        record = failed_record.at_hand(batch.data, int(rows[first]), operator_.guard)
        step = operator_.step
        message = f"{step.kind} '{step.name}': {message}"
        self._ends(report.FirstFailure(source, split, place, step.stage, message, None, code, record=record))

    def _ends(self, failure_: report.FirstFailure) -> None:
        """Note a failure that ends the run, unless another one is told instead."""
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
        if self.groups is not None and self.groups.write(self.spec.shares):
            self.report.dirty.append(self._notes.path)
        if self._presence is not None:
            self._presence.write(self._present)
            self.report.present = self._present


def _correlated(
    oversized: tuple[np.ndarray, np.ndarray, pa.StringArray] | None, found: tuple[np.ndarray, pa.StringArray] | None
) -> tuple[Failures, Failures]:
    """The rows whose group is rejected: the first ones of groups that are too large, which tell that, and others."""
    reason = failure_columns.Reason(failure.Category.CORRELATED, None, "correlated with failure in group: ", "")
    firsts, parts = failure_columns.none(), []
    taken = np.empty(0, dtype=np.int64)
    if oversized is not None:
        taken, are_first, whys = oversized
        too_large = failure_columns.Reason(failure.Category.GROUP_SIZE, None, "", "")
        firsts, rest = (
            failure_columns.alike(taken[are], why, whys.filter(pa.array(are)))
            for are, why in ((are_first, too_large), (~are_first, reason))
        )
        parts.append(rest)
    if found is not None:
        others = np.flatnonzero(~np.isin(found[0], taken))
        parts.append(failure_columns.alike(found[0][others], reason, found[1].take(pa.array(others, pa.int64()))))
    return firsts, failure_columns.joined(parts)
