"""The correlation hooks of tasks: the knowledge about groups that operators and dead letters need.

`of` returns the hook of a task. Without keys it does nothing, so callers need not distinguish the cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure, failure_columns
from spark_jobs.execute.correlation.facts import NO_RECORD, FactKind, FactWriter
from spark_jobs.execute.correlation.group_keys import GroupKeys, group_names, identities
from spark_jobs.execute.correlation.reuse import GroupBitmap
from spark_jobs.execute.correlation.state import Goal, column
from spark_jobs.execute.correlation.task_facts import ALL_SOURCES, FactRows, TaskFacts
from spark_jobs.execute.dlq import buffer
from spark_jobs.execute.dlq.buffer import DlqEntries, GroupColumns, Site
from spark_jobs.nodes.correlation import CorrelationHook, KeyOrigin
from spark_jobs.nodes.records import columns, guarded, identity
from spark_jobs.nodes.records.identity import NO_GROUP, NO_ROW, SIZE_BUCKETS, record_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_jobs.cxl.failure_columns import Failures
    from spark_jobs.execute.correlation.task_facts import Places
    from spark_jobs.execute.report import TaskReport
    from spark_jobs.execute.tasks.spec import JobSpec, RunSpec
    from spark_jobs.nodes.correlation import Contributions, CorrelationPlan
    from spark_jobs.nodes.operator import Operator
    from spark_jobs.nodes.records.batches import Batch

    #: Writes dead letters of the operator at which rows failed.
    Record = Callable[[Operator, DlqEntries, Site], None]

#: The stage of rows whose group is rejected, and the offsets that order their entries after all others of a record:
#: entries about the whole group come before entries about a record as a member of its group.
_COMMIT, _OF_GROUP, _COLLATERAL = "correlation_commit", 1 << 29, 1 << 30


class TaskHook(CorrelationHook):
    """The correlation of a task. This class is for pipelines without keys, and does nothing."""

    def filed(self, run: RunSpec) -> tuple[frozenset[int] | None, int]:
        """The sources whose entries the task writes (None: all), and the number of other entries that it logs."""
        return run.filed, run.named

    def failed(
        self, operator: Operator, batch: Batch, failing: Failures, places: Places, cause: Batch | None
    ) -> tuple[Failures, GroupColumns | None]:
        """Record rows of a batch that fail. Returns the failures for their entries, and the entries' group columns.

        Args:
            operator: the operator at which they fail.
            batch: the batch.
            failing: the failing rows, with the reasons.
            places: the origin of the failing rows, or of their first records.
            cause: the driver records of a combine with which build records fail.
        """
        return failing, None

    def failed_read(self, source: str, entries: DlqEntries, keys: Mapping[str, pa.Array]) -> DlqEntries | None:
        """Record failures while reading. Returns the entries to be written; None if there are none."""
        return entries

    def about(self, batch: Batch, row: int) -> dict[str, Any]:
        """The identity of a row for a log line, so that lines of abandoned passes can be dropped."""
        return {}

    def close(self, report: TaskReport, shares: int) -> None:
        """Write the facts and report their files. `shares` tasks share the limits of groups.

        Raises:
            OSError: the facts cannot be written.
        """


def of(spec: JobSpec, name: str, record: Record) -> TaskHook:
    """The hook of a task. `name` is the prefix of its files, and `record` writes dead letters."""
    return TaskHook() if spec.run.correlation is None else CorrelatedTask(spec, spec.run.correlation, name, record)


class CorrelatedTask(TaskHook):
    """The hook of a task in a pipeline with correlation keys.

    Args:
        spec: the job.
        plan: the keys that assign rows to groups.
        name: the prefix of the task's file names.
        record: writes dead letters.
    """

    def __init__(self, spec: JobSpec, plan: CorrelationPlan, name: str, record: Record) -> None:
        self._plan = plan
        self._state = spec.state
        self._keep_texts = spec.run.keep_texts
        self._record = record
        self._guard = guarded.Guard(is_read=bool(spec.run.guards))
        self._sources = list(spec.run.steps)
        self._keys = GroupKeys(plan, self._sources)
        writer = FactWriter(spec.run.scratch.file(f"facts-{name}.arrow"), spec.run.tuning)
        self._facts = TaskFacts(plan, self._sources, self._keys, writer)
        #: The groups that the task has read, if the next pass may repeat some tasks only.
        self._bitmap = GroupBitmap() if spec.notes_groups else None
        self._bitmap_path = spec.run.scratch.file(f"groups-{name}")
        counts_sizes = plan.limit and spec.state.goal is Goal.COMPUTE
        self._sizes = np.zeros(SIZE_BUCKETS if counts_sizes else 0, dtype=np.int64)
        self._collects = spec.state.goal is Goal.RETRACTED_RECORDS
        self.record_columns = columns.ORIGIN_NAMES[1:] if self._collects else ()

    def filed(self, run: RunSpec) -> tuple[frozenset[int] | None, int]:
        """All entries are written: the last pass decides which ones count."""
        return None, 0

    # ---- records where they are read
    # ------------------------------------------------------------------------------------------------------------------

    def excluded(self, source: str, batch: Batch) -> np.ndarray | None:
        """The records that count as never read. A search that ends at sources keeps only the records that it needs."""
        places = _places(batch)
        if self._state.goal.ends_at_sources:
            self._search(source, self._keys.all_texts(source, batch), places)
            return np.ones(batch.count, dtype=bool)
        if self._bitmap is not None:
            keys = self._keys.all_texts(source, batch)
            for view in self._plan.views.get(source, ()):
                self._bitmap.add([keys[field] for field in view])
        return self._are_excluded(places)

    def _are_excluded(self, places: Places) -> np.ndarray | None:
        _, split, row = places
        if self._state.excluded is None or not len(row):
            return None
        records, excluded = record_numbers(split, row), column(self._state.excluded, "record").to_numpy()
        first, last = np.searchsorted(excluded, [records.min(), records.max() + 1])
        found = identity.sorted_index(records, excluded[first:last]) >= 0  # a slice of a sorted array: few can be in it
        return found if found.any() else None

    def failed_read(self, source: str, entries: DlqEntries, keys: Mapping[str, pa.Array]) -> DlqEntries | None:
        """Record failures while reading, except failures that an earlier pass has recorded."""
        if self._state.goal.ends_at_sources:
            self._search(source, keys, entries.places)
            return None
        failing, places, texts = entries.failing, entries.places, entries.texts
        kept = np.arange(len(failing))
        if (excluded := self._are_excluded(places)) is not None:
            kept = np.flatnonzero(~excluded)
        chosen = pa.array(kept)
        failing, places = failing.take(kept), tuple(each.take(chosen) for each in places)  # type: ignore[assignment]
        keys = {name: each.take(chosen) for name, each in keys.items()}
        found = FactRows.of(source, places, FactKind.FAILURE, failure_columns.details(failing))
        self._facts.add_records(found, np.arange(len(kept)), keys, frozenset([source]))
        are_records = np.full(len(kept), NO_ROW, dtype=np.int64)
        said = self._columns(source, found.kinds, are_records, keys, None)
        return DlqEntries(failing, places, texts=None if texts is None else texts.take(chosen), correlation=said)

    def _search(self, source: str, keys: Mapping[str, pa.Array], places: Places) -> None:
        if self._state.goal is Goal.FIRST_RECORDS:
            self._find_first_records(source, keys, places)
        else:
            self._find_record_keys(source, keys, places)

    def _find_first_records(self, source: str, keys: Mapping[str, pa.Array], places: Places) -> None:
        sought = self._state.sought("group")
        records = record_numbers(places[1], places[2])
        are_read = np.ones(len(records), dtype=bool)
        if self._state.retracted is not None:
            are_read = identity.sorted_index(records, column(self._state.retracted, "record").to_numpy()) < 0
        found = FactRows.of(source, places, FactKind.FIRST_RECORD)
        for view in self._facts.views(source, list(keys)):
            numbers = identity.group_numbers(source, view, keys)
            rows = np.flatnonzero((identity.sorted_index(numbers, sought) >= 0) & are_read)
            rows = rows[np.unique(numbers[rows], return_index=True)[1]]
            self._facts.add(found, rows, records=records[rows], group=numbers[rows])

    def _find_record_keys(self, source: str, keys: Mapping[str, pa.Array], places: Places) -> None:
        records = record_numbers(places[1], places[2])
        rows = np.flatnonzero(identity.sorted_index(records, self._state.sought("record")) >= 0)
        self._facts.add_records(FactRows.of(source, places, FactKind.GROUP_KEY), rows, keys, frozenset([source]))

    # ---- rows of aggregates
    # ------------------------------------------------------------------------------------------------------------------

    def suppressed(self, aggregate: str, batch: Batch) -> np.ndarray | None:
        """Mask the rows that count as never made. A search for the keys of rows finds them here."""
        if self._state.goal is Goal.ROW_KEYS:
            rows = np.flatnonzero(
                identity.sorted_index(identity.aggregate_row_numbers(batch), self._state.sought("number")) >= 0
            )
            self._facts.add_rows_of_groups(FactRows.of(aggregate, _places(batch), FactKind.GROUP_KEY), rows, batch)
        return _rows_among(batch, self._state.suppressed_rows)

    def collect(self, aggregate: str, contributions: Callable[[], Contributions]) -> None:
        """Record the records, and rows of other aggregates, that contribute to retracted rows."""
        if not self._collects:
            return
        split, row, inner, keys = contributions()
        mixes = self._plan.nodes[aggregate].mixes
        numbers = identity.aggregate_rows(aggregate, keys, len(row), mixes=mixes).to_numpy()
        rows = np.flatnonzero(identity.sorted_index(numbers, self._state.sought("number")) >= 0)
        if not len(rows):
            return
        chosen = pa.array(rows)
        split, row = split.take(chosen), row.take(chosen)
        nowhere = pa.array(np.zeros(len(rows), dtype=np.int32))
        found = FactRows.of(aggregate, (nowhere, split, row), FactKind.RETRACTED_RECORD)
        inside = pc.fill_null(inner.take(chosen), NO_ROW).to_numpy()
        records = np.where(inside == NO_ROW, record_numbers(split, row), NO_RECORD)
        self._facts.add(found, np.arange(len(rows)), records=records, aggregated=inside)

    def needs_rows(self, aggregate: str) -> bool:
        """True in a search for retracted records only if an aggregate downstream mixes groups."""
        return not self._collects or self._plan.nodes[aggregate].feeds_mixed

    def inner_rows(self, batch: Batch) -> dict[str, pa.Array]:
        """The numbers of the rows that contribute to another aggregate."""
        name = columns.GROUP.name
        return {name: batch.data.column(name)} if self._collects and name in batch.data.schema.names else {}

    def row_columns(
        self, aggregate: str, keys: Callable[[], Sequence[pa.Array]], positions: range
    ) -> dict[str, pa.Array]:
        """The numbers of rows. Positions are valid only in a single partition, which is used if outputs show them."""
        mixes = self._plan.nodes[aggregate].mixes
        found = {columns.GROUP.name: identity.aggregate_rows(aggregate, keys(), len(positions), mixes=mixes)}
        if mixes:
            found[columns.group_number(aggregate)] = pa.array(np.arange(positions.start, positions.stop))
        return found

    def joined_columns(self, count: int) -> dict[str, pa.Array]:
        return {columns.JOINED.name: pa.repeat(pa.scalar(value=True), count)}

    # ---- rows at outputs
    # ------------------------------------------------------------------------------------------------------------------

    def withheld(self, output: Operator, batch: Batch) -> np.ndarray | None:
        """The rows that failed elsewhere, and the rows of rejected groups, which become dead letters."""
        have_failed = _rows_among(batch, self._state.failed_rows)
        if have_failed is None:
            return self._rejected_rows(output, batch)
        rest = np.flatnonzero(~have_failed)
        rejected = self._rejected_rows(output, batch.take(pa.array(rest)))
        if rejected is not None:
            have_failed[rest[rejected]] = True
        return np.flatnonzero(have_failed)

    def rechecked(self, output: str, batch: Batch) -> np.ndarray | None:
        """Rows of aggregates; all rows at nodes where records depend on others, since they may have changed."""
        if self._state.goal.is_search:
            return None
        if self._plan.nodes[output].depth > 0:
            return np.arange(batch.count)
        return np.flatnonzero(identity.aggregate_row_numbers(batch) != NO_ROW)

    def _rejected_rows(self, output: Operator, batch: Batch) -> np.ndarray | None:
        """The rows of rejected groups, which become dead letters; None if there are none. Searches write no rows."""
        name = output.step.name
        if self._state.goal.is_search:
            if self._state.goal is Goal.GROUP_MEMBERS:
                self._find_members(name, batch)
            return np.arange(batch.count)
        firsts, others = _correlated(self._oversized(name, batch), self._rejected(name, batch))
        if not len(firsts) and not len(others):
            return None
        self._leave_out(output, batch, firsts, _OF_GROUP)
        self._leave_out(output, batch, others, _COLLATERAL)
        return np.concatenate([firsts.rows, others.rows])

    def _find_members(self, output: str, batch: Batch) -> None:
        """Record the rows of groups that may have too many records."""
        buckets_sought, places = self._state.sought("number"), _places(batch)
        for keys, are_of in self._keys.by_fields(output, batch):
            numbers, buckets = _whole(keys, are_of)
            rows = np.flatnonzero((numbers != NO_GROUP) & (identity.sorted_index(buckets, buckets_sought) >= 0))
            found = FactRows.of(output, places, FactKind.GROUP_MEMBER, group_names(keys))
            self._facts.add(found, rows, records=identities(batch)[rows], group=numbers[rows])

    def _oversized(self, output: str, batch: Batch) -> tuple[np.ndarray, np.ndarray, pa.StringArray] | None:
        """The rows of groups with too many records, a mask of first rows, and the reasons; None if there are none.

        This also counts the records at outputs.
        """
        if batch.count and len(self._sizes):
            for keys, rows in self._keys.by_fields(output, batch):
                buckets = identity.key_buckets(list(keys.values()), SIZE_BUCKETS)
                self._sizes += np.bincount(buckets[rows & (buckets >= 0)], minlength=SIZE_BUCKETS)
        if not batch.count or self._state.oversized is None:
            return None
        names, firsts = (column(self._state.oversized, name).to_numpy() for name in ("group", "first"))
        place, are_first = np.full(batch.count, -1, dtype=np.int64), np.zeros(batch.count, dtype=bool)
        for keys, are_of in self._keys.by_fields(output, batch, joined=True):
            at = identity.sorted_index(_whole(keys, are_of)[0], names)
            # A row may belong to several such groups, and be the first row of one of them.
            begin = (at >= 0) & (firsts[at] == identities(batch)) & ~are_first
            place = np.where(begin | (place < 0), at, place)
            are_first |= begin
        rows = np.flatnonzero(place >= 0)
        if not len(rows):
            return None
        whys: pa.StringArray = column(self._state.oversized, "why").take(pa.array(place[rows]))  # type: ignore[assignment]
        return rows, are_first[rows], whys

    def _rejected(self, output: str, batch: Batch) -> tuple[np.ndarray, pa.StringArray] | None:
        """The rows of a batch whose group is rejected, and the first failure of the group; None if there are none."""
        path = self._state.rejected.get(self._plan.policies[output])
        node = self._plan.nodes[output]
        if path is None or not node.keys or not batch.count:
            return None
        rejected = column(path, "group").to_numpy()
        place = np.full(batch.count, -1, dtype=np.int64)
        for key in node.keys:
            texts = self._keys.texts(output, batch, key)
            for source, are_of in [] if texts is None else self._keys.of_sources(key, batch):
                numbers = identity.group_numbers(source, key.fields, texts or {})
                if key.origin is KeyOrigin.AGGREGATE:
                    numbers = identity.own_group_if_empty(numbers, identity.aggregate_row_numbers(batch))
                at = identity.sorted_index(numbers, rejected)
                place = np.where(are_of & (at >= 0) & (place < 0), at, place)
        rows = np.flatnonzero(place >= 0)
        return (rows, self._reasons(path, pa.array(place[rows]), batch, rows)) if len(rows) else None

    def _reasons(self, path: str, places: pa.Array, batch: Batch, rows: np.ndarray) -> pa.StringArray:
        """The first failure in each row's group, with its source if it differs from the row's."""
        whys: pa.StringArray = column(path, "why").take(places).cast(pa.string())
        if len(self._sources) == 1:
            return whys
        failed = column(path, "source").take(places)
        own = batch.origin.identify(batch, pa.array(rows))[0].to_numpy()
        is_other = (own != failed.to_numpy()) | (identity.aggregate_row_numbers(batch)[rows] != NO_ROW)
        names = pa.array(self._sources).take(failed)
        longer = pc.binary_join_element_wise("source '", names, "', ", whys, "")
        found: pa.StringArray = pc.if_else(pa.array(is_other), longer, whys)
        return found

    def _leave_out(self, output: Operator, batch: Batch, failing: Failures, number: int) -> None:
        """Write dead letters of rows that are left out because of others. Lower numbers of a record come first."""
        if not len(failing):
            return
        gone = batch.take(pa.array(failing.rows))
        places = _places(gone)
        texts = gone.origin.texts(gone, pa.array(np.arange(gone.count))) if self._keep_texts else None
        said = self._collateral(output.step.name, gone)
        entries = DlqEntries(failing, places, buffer.own(gone.places), texts=texts, correlation=said)
        stages = [_COMMIT] * len(failing.reasons)
        # The dead letters name the failure that rejected the group.
        self._record(output, entries, Site(stages, number + output.number, guard=self._guard))

    # ---- rows that fail
    # ------------------------------------------------------------------------------------------------------------------

    def failed(
        self, operator: Operator, batch: Batch, failing: Failures, places: Places, cause: Batch | None
    ) -> tuple[Failures, GroupColumns | None]:
        """Record rows that fail, and the groups that they reject."""
        name, rows = operator.step.name, batch.take(pa.array(failing.rows))
        if cause is not None:  # build records fail with their driver record, which is recorded itself
            kinds = self._kinds(name, identity.aggregate_row_numbers(cause), _places(cause))
            said = self._columns_of(name, rows, kinds, identity.aggregate_row_numbers(rows))
        elif failing.are_late:  # records that are late for a window reject no group
            said = self._collateral(name, rows)
        else:
            # Groups are made after an exchange: records fail before it, results after it.
            is_result = operator.step.record_properties.group_by is not None and not operator.first
            said = self._failed_rows(name, rows, places, failure_columns.details(failing), is_result=is_result)
        return failure_columns.remarked(failing, self._keys.remarks(name, rows)), said

    def _failed_rows(self, name: str, batch: Batch, places: Places, whys: pa.Array, *, is_result: bool) -> GroupColumns:
        """Record rows that fail at a node.

        Args:
            name: the node.
            batch: the rows.
            places: the origin of the rows, or of the first records of groups.
            whys: the reasons.
            is_result: the result of a group fails. The entry is then about the group's first record.
        """
        node, aggregated, keys = (
            self._plan.nodes[name],
            identity.aggregate_row_numbers(batch),
            self._keys.all_texts(name, batch),
        )
        is_record = (aggregated == NO_ROW) & (not is_result)
        retracts_nothing = ~is_record & ~identity.are_mixed(aggregated)
        kinds = self._kinds(name, aggregated, places)
        if is_result:  # it reaches no node downstream, so it fails in each pass
            kinds[retracts_nothing] = FactKind.LAST_PASS_FAILURE
        found = FactRows(name, places, kinds, whys, batch.places)
        self._facts.add_records(found, np.flatnonzero(is_record), keys, node.whole)
        is_cut = not is_result and not node.are_rows_whole
        rows = np.flatnonzero(~is_record)
        self._facts.add(found, rows, aggregated=aggregated[rows], lacks_key=retracts_nothing[rows] & is_cut)
        if not is_cut:
            self._facts.add_rows_of_groups(found, np.flatnonzero(retracts_nothing), batch)
        shown = np.full_like(aggregated, NO_ROW) if is_result else aggregated
        return self._columns_of(name, batch, kinds, shown)

    def _kinds(self, name: str, aggregated: np.ndarray, places: Places) -> np.ndarray:
        """The kinds of facts for failing rows of a node."""
        is_deferred = self._plan.nodes[name].is_deferred
        of_record = FactKind.DOWNSTREAM_FAILURE if is_deferred else FactKind.FAILURE
        # The results of a group that mixes keys count with failures downstream of it. A group without records retracts
        # nothing.
        has_records = places[0].to_numpy() >= 0
        mixed = np.where(has_records, FactKind.DOWNSTREAM_FAILURE, FactKind.LAST_PASS_FAILURE)
        of_row = np.where(identity.are_mixed(aggregated), mixed, FactKind.ROW_FAILURE)
        return np.where(aggregated == NO_ROW, of_record, of_row)

    def _collateral(self, name: str, batch: Batch) -> GroupColumns:
        """The columns of entries that reject no group; they count in the last pass."""
        kinds = np.full(batch.count, FactKind.LAST_PASS_FAILURE, dtype=np.int8)
        return self._columns_of(name, batch, kinds, identity.aggregate_row_numbers(batch))

    def _columns_of(self, name: str, batch: Batch, kinds: np.ndarray, aggregated: np.ndarray) -> GroupColumns:
        shown = self._keys.shown(name, batch) if aggregated.any() else None
        return self._columns(name, kinds, aggregated, self._keys.all_texts(name, batch), shown)

    def _columns(
        self, name: str, kinds: np.ndarray, aggregated: np.ndarray, keys: Mapping[str, pa.Array],
        shown: pa.RecordBatch | None,
    ) -> GroupColumns:  # fmt: skip
        empty = pa.repeat(pa.scalar(""), len(kinds))
        texts = [keys.get(field, empty) for field in self._plan.fields]
        number = self._facts.node_number(name)
        return GroupColumns(pa.array(kinds, pa.int8()), pa.array(aggregated), number, texts, shown)

    # ---- the end
    # ------------------------------------------------------------------------------------------------------------------

    def about(self, batch: Batch, row: int) -> dict[str, Any]:
        """The number of a record, or of the row of an aggregate."""
        one = batch.slice(row, 1)
        (group,) = identity.aggregate_row_numbers(one).tolist()
        if group != NO_ROW:
            return {"group": group}
        _, split, place = one.origin.identify(one, pa.array([0], pa.int64()))
        return {"record": int(record_numbers(split, place)[0])}

    def close(self, report: TaskReport, shares: int) -> None:
        """Write facts and the bitmap of groups."""
        large = np.flatnonzero(self._sizes > self._plan.limit // shares)
        zero = pa.array(np.zeros(len(large), dtype=np.int64))
        nowhere = (zero.cast(pa.int32()), zero.cast(pa.int32()), zero)
        found = FactRows.of(next(iter(self._plan.nodes)), nowhere, FactKind.LARGE_BUCKET)
        self._facts.add(found, np.arange(len(large)), group=large.astype(np.uint64))
        if self._facts.writer.close():
            report.fact_files.append(self._facts.writer.path)
        if self._bitmap is not None:
            self._bitmap.write(self._bitmap_path)
            report.group_bitmap = self._bitmap_path


def _places(batch: Batch) -> Places:
    """The origin of records, or of the first records of rows."""
    return batch.origin.identify(batch, pa.array(np.arange(batch.count)))


def _rows_among(batch: Batch, path: str | None) -> np.ndarray | None:
    """A mask of the aggregate rows that are in a file; None without a file."""
    if path is None or not batch.count:
        return None
    found: np.ndarray = (
        identity.sorted_index(identity.aggregate_row_numbers(batch), column(path, "number").to_numpy()) >= 0
    )
    return found if found.any() else None


def _whole(keys: Mapping[str, pa.Array], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The groups of rows over all sources and their buckets."""
    numbers = np.where(rows, identity.group_numbers(ALL_SOURCES, list(keys), keys), NO_GROUP)
    return numbers, identity.key_buckets(list(keys.values()), SIZE_BUCKETS)


def _correlated(
    oversized: tuple[np.ndarray, np.ndarray, pa.StringArray] | None, found: tuple[np.ndarray, pa.StringArray] | None
) -> tuple[Failures, Failures]:
    """The rows whose group is rejected: first rows of groups that are too large, with that reason, and others."""
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
    return firsts, failure_columns.concatenated(parts)
