"""The iteration of a run with correlation keys: it decides the next pass and its initial state.

`Iteration.state.goal` is the goal of the next pass. `Iteration.take` hands the findings of that pass to the handler of
its goal, which chooses the next goal. The docstring of the package draws the states and transitions.

Each pass can only exclude more records, so the iteration ends. Failing rows of aggregates are found again in each pass,
and the last pass must know its findings in advance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

import numpy as np
import pyarrow as pa

from spark_jobs.contract import ExitCode
from spark_jobs.cxl.failure import Category
from spark_jobs.execute import logs, scratch
from spark_jobs.execute.correlation import (
    ascending,
    dependency_order,
    entries,
    facts,
    findings,
    group_sizes,
    ordered,
    reuse,
    rollback_cursors,
)
from spark_jobs.execute.correlation.facts import FactKind
from spark_jobs.execute.correlation.rejections import Rejections
from spark_jobs.execute.correlation.state import GROUPS, NUMBERS, RECORDS, REJECTED, Goal, PassState, column
from spark_jobs.execute.correlation.suppressed_rows import SuppressedRows
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.plan import plan as plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from spark_jobs.execute.correlation.dependency_order import FailureGroup
    from spark_jobs.execute.correlation.facts import Facts
    from spark_jobs.execute.report import LogLine
    from spark_jobs.execute.run.pass_results import PassResults
    from spark_jobs.execute.tasks.spec import RunSpec
    from spark_jobs.nodes.correlation import CorrelationPlan
    from spark_jobs.nodes.rules.measurement import Measurement

#: The maximal number of consecutive passes that exclude no more records. Their failures depend only on one another.
_MOST_IDLE = 4
_RESTLESS = (
    "other rows of aggregates fail in each pass over the same records, nothing is published: a program downstream of "
    "an aggregate fails depending on `now`; emit `now` as a field upstream, or use `$pipeline.start_time`"
)


def of(run: RunSpec) -> Iteration | SinglePass:
    """The iteration of a run."""
    return SinglePass() if run.correlation is None else Iteration(run, run.correlation)


@dataclass
class SinglePass:
    """The iteration of a run without correlation keys, which has one pass."""

    state: PassState = field(default_factory=PassState)

    def take(self, products: PassResults) -> None:
        """Store the findings of a finished pass."""
        self.state = replace(self.state, goal=Goal.DONE)

    def unaffected_tasks(self) -> frozenset[int]:
        """None: no pass follows that could reuse them."""
        return frozenset()

    def finish(self, spark: SparkSession, products: PassResults) -> None:
        """Do nothing: the results of the only pass count."""


@dataclass
class _Failures:
    """The findings of a computing pass, stored while the keys of some failures are searched for."""

    found: Facts
    products: PassResults
    #: The rows of aggregates whose groups are searched for.
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))


@dataclass
class Iteration:
    """The state machine of a run with correlation keys: its passes, and their findings so far.

    Args:
        run: the settings that all passes share.
        plan: the keys that assign rows to groups.
        state: the initial state of the next pass.
        passes: the number of passes so far.
    """

    run: RunSpec
    plan: CorrelationPlan
    state: PassState = field(default_factory=PassState)
    passes: int = 0
    suppressed: SuppressedRows = field(init=False)
    #: The groups that failing records reject.
    rejections: Rejections = field(init=False)
    #: The retracted rows of retractable aggregates, the rounds in which rows were retracted, and the retracted records.
    retracted_rows: int = 0
    retraction_rounds: int = 0
    retracted_records: int = 0
    #: The groups that are too large.
    too_large: int = 0
    #: The number of consecutive passes that have excluded no more records.
    _idle: int = 0
    #: The numbers of excluded records and suppressed rows at the last choice of failures.
    _at_choice: tuple[int, int] | None = None
    _entries: list[entries.PassEntries] = field(default_factory=list)
    #: The log lines about records that count as never read.
    _lines: list[LogLine] = field(default_factory=list)
    #: The groups that rows of aggregates reject in the last pass; these rows, and rows that fail without a group.
    _rejected_by_rows: pa.Table = field(default_factory=REJECTED.empty_table)
    _failed_rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: The records of groups that are too large.
    _oversized: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: The failures whose keys are searched for.
    _waiting: _Failures | None = None
    #: The rows whose records are searched for, and the buckets whose groups are searched for.
    _retracting: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _large_buckets: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: The results of the last computing pass.
    _computed: PassResults | None = None
    #: The measurements of source values in the first pass, which excludes no record.
    _as_read: dict[tuple[str, str], Measurement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.suppressed = SuppressedRows(self._folder)
        self.rejections = Rejections(self._folder, "primary" in self.plan.policies.values())

    @property
    def _folder(self) -> str:
        """The folder for the driver's long tables."""
        return self.run.scratch.here

    def take(self, products: PassResults) -> None:
        """Process the findings of a pass. Afterwards `state` has the goal of the next pass.

        Raises:
            RunFailed: passes have different findings each time, though no more records are excluded; or under
            `fail_fast` a group is too large.
        """
        self.passes += 1
        if self.passes == 1:
            self._as_read = {key: found for key, found in products.tally.measured.items() if key[0] in self.run.steps}
        goal = self._handler(self.state.goal)(facts.of(products.fact_files), products)
        retracted = None
        if goal is Goal.FIRST_RECORDS:
            retracted = self._written("retracted", pa.table([self.rejections.retracted], schema=RECORDS))
        self.state = replace(
            self.state, goal=goal, subject=self._subject(goal), retracted=retracted, number=self.passes
        )

    def _handler(self, goal: Goal) -> Callable[[Facts, PassResults], Goal]:
        """The handler that processes the facts of a pass and returns the goal of the next one."""
        match goal:
            case Goal.COMPUTE:
                return self._take_failures
            case Goal.ROW_KEYS:
                return self._take_row_keys
            case Goal.RECORD_KEYS:
                return self._take_record_keys
            case Goal.RETRACTED_RECORDS:
                return self._take_retracted_records
            case Goal.FIRST_RECORDS:
                return self._take_first_records
            case Goal.GROUP_MEMBERS:
                return self._take_group_members
            case Goal.DONE:
                raise AssertionError("no pass comes after the last one")
            case _:
                assert_never(goal)

    def _subject(self, goal: Goal) -> str | None:
        """The subject of a search, as a file for its tasks."""
        match goal:
            case Goal.COMPUTE | Goal.DONE:
                return None
            case Goal.ROW_KEYS:
                assert self._waiting is not None
                return self._written("rows-without-key", pa.table([self._waiting.rows], schema=NUMBERS))
            case Goal.RECORD_KEYS:
                assert self._waiting is not None
                sought = findings.records(self._waiting.found.lacking_keys(), self._folder)
                return self._written("records-without-key", sought)
            case Goal.RETRACTED_RECORDS:
                return self._written("retracting", pa.table([self._retracting], schema=NUMBERS))
            case Goal.FIRST_RECORDS:
                return self._written("sought", pa.table([self.rejections.sought], schema=GROUPS))
            case Goal.GROUP_MEMBERS:
                return self._written("large-buckets", pa.table([self._large_buckets], schema=NUMBERS))
            case _:
                assert_never(goal)

    # ---- the handlers: each takes the findings of a pass and gives the next goal
    # ------------------------------------------------------------------------------------------------------------------

    def _take_failures(self, found: Facts, products: PassResults) -> Goal:
        self._computed = products
        lacking = self.suppressed.lacking_groups(found)
        if len(lacking):
            self._waiting = _Failures(found, products, lacking)
            return Goal.ROW_KEYS
        return self._weigh(self.suppressed.with_groups(found), products)

    def _take_row_keys(self, found: Facts, _: PassResults) -> Goal:
        assert self._waiting is not None
        waiting, self._waiting = self._waiting, None
        self.suppressed.learn_groups(waiting.rows, found.of_kind(FactKind.GROUP_KEY))
        return self._weigh(self.suppressed.with_groups(waiting.found), waiting.products)

    def _take_record_keys(self, found: Facts, _: PassResults) -> Goal:
        assert self._waiting is not None
        waiting, self._waiting = self._waiting, None
        keyed = findings.with_keys(waiting.found, found.of_kind(FactKind.GROUP_KEY), self._folder)
        self.rejections.add(keyed, self._rejected(keyed, waiting.products))
        self._write_rejections()
        return self._next_search()

    def _take_retracted_records(self, found: Facts, _: PassResults) -> Goal:
        found = found.of_kind(FactKind.RETRACTED_RECORD)
        records = self._exclude(found).column("record").to_numpy()
        self.retracted_records += len(records)
        self.rejections.retract(records)
        # These are rows of aggregates upstream, whose records are searched for next.
        self._retracting = findings.aggregated(found, self._folder)
        if self.suppressed.are_outdated and not len(self._retracting):
            self._make_rows_again()
        return self._next_search()

    def _take_first_records(self, found: Facts, _: PassResults) -> Goal:
        self.rejections.learn_first_records(found.of_kind(FactKind.FIRST_RECORD))
        self._write_rejections()
        return self._next_search()

    def _take_group_members(self, found: Facts, _: PassResults) -> Goal:
        """Find the groups whose records, at outputs and failed, exceed the limit."""
        members = found.of_kind(FactKind.GROUP_MEMBER)
        large = group_sizes.too_large(members, self.rejections.whole, self.plan.limit, self._folder)
        if large is None:
            return Goal.DONE
        self._refuse(large)
        self._oversized, self.too_large = large.records, large.groups.num_rows
        self.state = replace(self.state, oversized=self._written("oversized", large.groups))
        return Goal.COMPUTE

    def _next_search(self) -> Goal:
        """The search that is due before the next pass can compute, if there is one."""
        if len(self._retracting):
            return Goal.RETRACTED_RECORDS
        if len(self.rejections.sought):
            return Goal.FIRST_RECORDS
        return Goal.COMPUTE

    # ---- which failures count
    # ------------------------------------------------------------------------------------------------------------------

    def _weigh(self, found: Facts, products: PassResults) -> Goal:
        """Choose the failures that count from now on. Others fail again, or turn out valid without these."""
        chosen = self._chosen(dependency_order.groups_of(found))
        in_last = found.of_kind(FactKind.LAST_PASS_FAILURE, FactKind.ROW_FAILURE)
        by_rows = findings.merge_rejected([self.suppressed.rejected, self._rejected(in_last, products)], self._folder)
        rows = ascending.united(self.suppressed.rows, findings.aggregated(in_last, self._folder))
        is_same = np.array_equal(by_rows.column("group").to_numpy(), self._rejected_by_rows.column("group").to_numpy())
        is_same = is_same and np.array_equal(rows, self._failed_rows)
        is_new = bool(chosen) and self._has_progressed()
        self._idle = 0 if is_new else self._idle + 1
        if not chosen and is_same and not self.state.is_intermediate:
            return self._goal_of_sizes(found, products)
        if self._idle > _MOST_IDLE:
            raise RunFailed(ExitCode.EVALUATION, "E903", _RESTLESS)
        self._rejected_by_rows, self._failed_rows = by_rows, rows
        goal = Goal.COMPUTE
        if chosen:
            kind, nodes = FactKind(chosen[0].kind), {each.node for each in chosen}
            failing = found.of_kind(kind, nodes=nodes)
            if kind is FactKind.ROW_FAILURE:
                self._suppress(failing, tuple(each.node for each in chosen), products)
            else:
                goal = self._accept(failing, kind, products)
        # When there are no new findings, a last pass writes the outputs that earlier passes left out.
        is_intermediate = (bool(chosen) or not is_same) and self.retraction_rounds > 0
        self.state = replace(self.state, rounds=self.state.rounds + 1, is_intermediate=is_intermediate)
        self._write_rejections()
        return goal

    def _goal_of_sizes(self, found: Facts, products: PassResults) -> Goal:
        """The last pass knew all findings. Check once whether groups may be too large."""
        if self.state.oversized is None and self.plan.limit:
            large = found.of_kind(FactKind.LARGE_BUCKET)
            self._large_buckets = group_sizes.large_buckets(large, self.rejections, self.plan.limit // products.shares)
            if len(self._large_buckets):
                return Goal.GROUP_MEMBERS
        return Goal.DONE

    def _has_progressed(self) -> bool:
        """True if the failures chosen last have excluded more records, or suppressed more rows."""
        excluded = 0 if self.state.excluded is None else len(column(self.state.excluded, "record"))
        before, self._at_choice = self._at_choice, (excluded, len(self.suppressed.rows))
        return self._at_choice != before

    def _chosen(self, failed: list[FailureGroup]) -> list[FailureGroup]:
        """Choose the failures that count from now on, all of one kind: records, or if none failed, rows."""
        nodes = list(self.plan.nodes.values())
        of_rows = [each for each in failed if each.kind == FactKind.ROW_FAILURE and self.plan.rows_meet]
        early = [each for each in of_rows if not nodes[each.node].is_deferred]
        fresh = [each for each in failed if each.kind == FactKind.FAILURE] + early
        if fresh:
            ready = dependency_order.first(fresh, self.plan, list(self.run.steps))
            chosen = [each for each in fresh if each.node in ready]
            return [each for each in chosen if each.kind == FactKind.FAILURE] or chosen
        return [each for each in failed if each.kind == FactKind.DOWNSTREAM_FAILURE] or of_rows

    def _suppress(self, failing: Facts, nodes: tuple[int, ...], products: PassResults) -> None:
        """Suppress rows of aggregates that failed at some nodes: from now on they count as never made."""
        mine, rows = self.suppressed, findings.aggregated(failing, self._folder)
        path = self._written("rows", pa.table([rows], schema=NUMBERS))
        count = entries.EntryFilter((FactKind.ROW_FAILURE,), rows=path, nodes=nodes)
        mine.entries.append(entries.PassEntries(tuple(products.dlq), count))
        mine.rejected = findings.merge_rejected([mine.rejected, self._rejected(failing, products)], self._folder)
        mine.rows = ascending.united(mine.rows, rows)
        mine.lines += findings.lines_about(products.tally.logs, rows[:0], rows)
        suppressed = self._written("suppressed", pa.table([mine.rows], schema=NUMBERS))
        self.state = replace(self.state, suppressed_rows=suppressed)

    def _make_rows_again(self) -> None:
        """Make failed rows again, because they may have changed."""
        self.suppressed.forget()
        self.state = replace(self.state, suppressed_rows=None)

    def _accept(self, failing: Facts, kind: FactKind, products: PassResults) -> Goal:
        """Accept failures of records, and of rows made of records. Returns the goal of the next pass."""
        records = self._exclude(failing)
        count = entries.EntryFilter((kind,), records=self._written("failing", records))
        self._entries.append(entries.PassEntries(tuple(products.dlq), count))
        self._retracting = findings.aggregated(failing, self._folder)
        self._lines += findings.lines_about(products.tally.logs, records.column("record").to_numpy(), self._retracting)
        self.suppressed.are_outdated = True
        if not len(self._retracting):
            self._make_rows_again()
        self.retracted_rows += len(self._retracting)
        self.retraction_rounds += int(len(self._retracting) > 0)
        if failing.lacking_keys().any():
            self._waiting = _Failures(failing, products)
            return Goal.RECORD_KEYS
        self.rejections.add(failing, self._rejected(failing, products))
        return self._next_search()

    def _rejected(self, found: Facts, products: PassResults) -> pa.Table:
        names = findings.Names(products.rows_before, products.inputs.one_of_several, list(self.plan.nodes))
        return findings.rejected(found, names, self._folder)

    def _exclude(self, found: Facts) -> pa.Table:
        """Exclude records: from now on they count as never read. Returns the excluded records."""
        records = findings.records(found, self._folder)
        known = self.state.excluded
        before = [] if known is None else [pa.table([column(known, "record")], schema=RECORDS)]
        excluded = ordered.united(self._folder, RECORDS, [*before, records], RECORDS.names)
        self.state = replace(self.state, excluded=self._written("excluded", excluded))
        return records

    def _write_rejections(self) -> None:
        """Write the files of rejected groups and failed rows for the next pass."""
        # If all records of a group failed, none is left to reject. But a failing row stands for all of its records.
        by_policy = {"any": self.rejections.groups, "all": REJECTED.empty_table()}
        if self.rejections.needs_first_records:
            by_policy["primary"] = self.rejections.by_first_records()
        rejected = {
            policy: self._written(
                name, findings.merge_rejected([by_policy[policy], self._rejected_by_rows], self._folder)
            )
            for policy, name in (("any", "rejected"), ("primary", "primary"), ("all", "all"))
            if policy in by_policy
        }
        rows = self._failed_rows
        failed = self._written("failed", pa.table([rows], schema=NUMBERS)) if len(rows) else None
        self.state = replace(self.state, rejected=rejected, failed_rows=failed)

    def _refuse(self, large: group_sizes.TooLarge) -> None:
        """Under `fail_fast`, end the run because of a group that is too large: the first one in record order."""
        if self.run.strategy is not plans.Strategy.FAIL_FAST:
            return
        assert self._computed is not None
        split, row, why = large.earliest
        # The row of a global aggregate may have no first record.
        number = self._computed.rows_before.get(split, 0) + row + 1
        place = f"{self._computed.inputs.file_name(split, -1)}, row {number}: " if split >= 0 else ""
        raise RunFailed(ExitCode.EVALUATION, str(Category.GROUP_SIZE), f"{place}{why} (strategy {self.run.strategy})")

    def unaffected_tasks(self) -> frozenset[int]:
        """The tasks of the last computing pass that would have the same results in the next one."""
        if self._computed is None or self._computed.independent_reports is None:
            return frozenset()
        buckets = self.rejections.buckets.column("record").to_numpy()
        return reuse.unaffected(self._computed.independent_reports, self.state.excluded, self._oversized, buckets)

    # ---- the end
    # ------------------------------------------------------------------------------------------------------------------

    def finish(self, spark: SparkSession, products: PassResults) -> None:
        """Move the dead letters of all passes, and log lines about their records, to the last pass."""
        last = entries.PassEntries(tuple(products.dlq), entries.EVERYTHING)
        products.dlq = entries.merged_reports(spark, self.run, [*self._entries, *self.suppressed.entries, last])
        products.tally.recount(products.dlq)
        products.tally.measured |= self._as_read
        products.tally.logs[:0] = [*self._lines, *self.suppressed.lines]
        rejected = findings.merge_rejected([self.rejections.groups, self._rejected_by_rows], self._folder).num_rows
        if rejected or self.retracted_rows or self.too_large:
            logs.LOG.info("correlation: %s", self._summary(rejected))
        retract = {
            "iterations": self.retraction_rounds,
            "groups_recomputed": self.retracted_rows,
            "output_rows_retracted_total": self.retracted_records,
            "degrade_fallback_count": 0,
        }
        products.correlation = {
            "passes": self.passes,
            "rejected_groups": rejected,
            "oversized_groups": self.too_large,
            "retract": retract,
            # The former metric names are kept for one release.
            "retract.iterations": self.retraction_rounds,
            "retract.groups_recomputed": self.retracted_rows,
            "retract.records_taken_back": self.retracted_records,
            "retract.degrade_fallback_count": 0,
            "per_source_rollback_cursors": rollback_cursors.of(
                products.inputs, products.records, self.state.excluded, self._oversized
            ),
        }

    def _summary(self, rejected: int) -> str:
        """A summary of rejected groups, retracted records and passes."""
        parts = [f"groups with failures: {rejected}"] if rejected else []
        if self.too_large:
            parts.append(f"groups that are too large: {self.too_large}")
        if self.retracted_rows:
            back = f"rows of aggregates taken back: {self.retracted_rows}, with records: {self.retracted_records}"
            parts.append(f"{back}, in rounds: {self.retraction_rounds}")
        return "; ".join([*parts, f"passes: {self.passes}"])

    def _written(self, name: str, table: pa.Table) -> str:
        """Write a file of this pass's findings. Each name is written once in a pass."""
        path = self.run.scratch.file(f"{name}-{self.passes}.arrow")
        with scratch.ArrowFile(path, table.schema) as file:
            file.write_table(table.combine_chunks())
        return path
