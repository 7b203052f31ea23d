"""The rounds of a run with correlation keys: what each pass has found, until one finds nothing more (decision 105).

A pass is told which records count as never read and which groups are rejected, and finds more of both. Records only
ever die, so that comes to an end; what fails without being a record (the row of an aggregate) is found anew in each
pass, and the last pass has to know what it finds. Between the passes there may be others that only look for something:
the records of groups that are taken back, the first records of groups, the sizes of groups that may be too large.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.contract import ExitCode
from spark_jobs.cxl.failure import Category
from spark_jobs.execute import logs
from spark_jobs.execute.correlation import ascending, findings, strata, untouched
from spark_jobs.execute.correlation.failed_rows import FailedRows
from spark_jobs.execute.correlation.firsts import Firsts
from spark_jobs.execute.letters import marks, settled
from spark_jobs.execute.letters.marks import Holds
from spark_jobs.execute.run import cursors
from spark_jobs.execute.run.products import Held
from spark_jobs.execute.tasks import part_file
from spark_jobs.execute.tasks.facts import (
    BUCKETS,
    DEAD,
    OVERSIZED,
    REJECTED,
    ROWS,
    SIZES,
    SOUGHT,
    TRACED,
    Known,
    record_numbers,
    stored,
)
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.plan import plan as plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.execute.run.products import Products
    from spark_jobs.execute.tasks.report import LogLine
    from spark_jobs.execute.tasks.spec import RunSpec
    from spark_jobs.nodes.terms.correlation import GroupPlan

#: As many passes in a row may find no dead records: what fails without being one depends on nothing else.
_MOST_IDLE = 4
_RESTLESS = (
    "other rows of aggregates fail in each pass over the same records, nothing is published: a program behind an "
    "aggregate fails depending on `now`; read it into a field of the records before, or use `$pipeline.start_time`"
)
_EVERYTHING = tuple(int(each) for each in Holds)


@dataclass
class Rounds:
    """What the passes so far have found.

    Args:
        run: what is the same for all passes.
        plan: what rows belong to.
    """

    run: RunSpec
    plan: GroupPlan
    known: Known = field(default_factory=Known)
    failed_rows: FailedRows = field(default_factory=FailedRows)
    count: int = 0
    #: How many passes in a row have found no dead records.
    _idle: int = 0
    #: Whether the last pass knew all that was found.
    are_over: bool = False
    #: The groups of aggregates that were taken back.
    retracted: int = 0
    #: The rounds in which some were, and the records that were taken back with them.
    retractions: int = 0
    taken_back: int = 0
    #: The groups that are too large.
    too_large: int = 0
    _letters: list[settled.Found] = field(default_factory=list)
    #: What was logged of records that count as never read.
    _lines: list[LogLine] = field(default_factory=list)
    #: The groups that records reject, and those that rows of aggregates reject in the last pass.
    _of_records: pa.Table = field(default_factory=REJECTED.empty_table)
    _of_rows: pa.Table = field(default_factory=REJECTED.empty_table)
    #: These rows, and those that fail without a group.
    _rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: Which records reject which groups, those over all sources with them, and the first records of rejected groups.
    _failed: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    _failed_whole: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    _firsts: Firsts = field(default_factory=Firsts)
    #: The records of groups that are too large.
    _oversized: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: The buckets of groups over all sources.
    _buckets: pa.Table = field(default_factory=findings.PAIRS.empty_table)
    #: Failures of which the groups of some are still to be found, and the pass that they are of.
    _keyless: tuple[pa.Table, Products] | None = None
    #: What is to be looked for: the records of groups, the sizes in buckets.
    _traced: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _suspects: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: What a pass has found of which the groups of some rows are still to be found, and these rows.
    _waiting: tuple[pa.Table, Products, np.ndarray] | None = None

    def take(self, products: Products) -> None:
        """Take in what a pass has found.

        Raises:
            RunFailed: passes find other things each time, though no record is dead that was not.
        """
        facts = findings.facts(products.dirty)
        self.are_over = False
        lacking = self.failed_rows.lacking(facts)
        self._waiting = (facts, products, lacking) if len(lacking) else None
        if self._waiting is None:
            self._weigh(self.failed_rows.with_groups(facts), products)

    def _weigh(self, facts: pa.Table, products: Products) -> None:
        """Some failures hold from now on; what else failed is found again, or is good without them."""
        holds = facts.column("holds").to_numpy()
        records, rows_ = self._first(facts, holds)
        in_last = facts.filter(pa.array(np.isin(holds, (Holds.IN_LAST, Holds.ROW))))
        of_rows = findings.joined([self.failed_rows.rejected, self._rejected(in_last, products)])
        rows = ascending.united(self.failed_rows.numbers, findings.aggregated(in_last))
        is_same = np.array_equal(of_rows.column("group").to_numpy(), self._of_rows.column("group").to_numpy())
        is_same = is_same and np.array_equal(rows, self._rows)
        is_new = records.any() or rows_.any()
        self.are_over = not is_new and is_same and not self.known.settles
        self._idle = 0 if is_new else self._idle + 1
        if self.are_over:
            if self.known.oversized is None:
                self._suspect(facts.filter(pa.array(holds == Holds.SUSPECT)), products.shares)
            return
        if self._idle > _MOST_IDLE:
            raise RunFailed(ExitCode.EVALUATION, "E903", _RESTLESS)
        self.count += 1
        self._of_rows, self._rows = of_rows, rows
        if records.any():
            self._accept(facts if records.all() else facts.filter(pa.array(records)), products)
        elif rows_.any():
            self._unmake(facts.filter(pa.array(rows_)), products)
        # When nothing is found any more, a pass writes what those before did not.
        settles = (is_new or not is_same) and self.retractions > 0
        self.known = replace(self.known, rounds=self.known.rounds + 1, settles=settles)
        self._reject()

    def _first(self, facts: pa.Table, holds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which failures of records hold from now on, and where these are none which of rows."""
        none = np.zeros(len(holds), dtype=bool)
        is_row = (holds == Holds.ROW) if self.plan.rows_meet else none
        are_behind = [standing.is_behind for standing in self.plan.standings.values()] if is_row.any() else [False]
        is_early = is_row & ~np.take(are_behind, facts.column("node").to_numpy(), mode="clip")
        fresh = (holds == Holds.FOR_GOOD) | is_early
        if fresh.any():
            chosen = fresh.copy()
            chosen[fresh] = strata.first(facts.filter(pa.array(fresh)), self.plan, list(self.run.steps))
            records = chosen & (holds == Holds.FOR_GOOD)
            return (records, none) if records.any() else (none, chosen)
        behind = holds == Holds.BEHIND
        return (behind, none) if behind.any() else (none, is_row)

    def _unmake(self, facts: pa.Table, products: Products) -> None:
        """Rows of aggregates count as never made from now on."""
        told = facts.select(["aggregated", "split", "row"]).group_by(["aggregated", "split", "row"]).aggregate([])
        first = pa.array(record_numbers(told.column("split"), told.column("row")))
        rows = self._written("rows", pa.table([told.column("aggregated"), first], schema=ROWS).sort_by("number"))
        mine = self.failed_rows
        mine.letters.append(settled.Found(tuple(products.letters), marks.Holding((Holds.ROW,), rows=rows)))
        mine.rejected = findings.joined([mine.rejected, self._rejected(facts, products)])
        failed = findings.aggregated(facts)
        mine.numbers = ascending.united(mine.numbers, failed)
        mine.lines += findings.lines_about(products.tally.logs, failed[:0], failed)
        unmade = self._written("unmade", pa.table([mine.numbers], schema=TRACED))
        self.known = replace(self.known, unmade=unmade)

    def _make_again(self) -> None:
        """Rows that have failed may be others now."""
        self.failed_rows.forget()
        self.known = replace(self.known, unmade=None)

    def _accept(self, facts: pa.Table, products: Products) -> None:
        """Records have failed, and rows that are made of records."""
        found = self._bury(facts)
        taken = int(facts.column("holds")[0].as_py())
        holding = marks.Holding((taken,), records=self._written("failing", pa.table([found], schema=DEAD)))
        self._letters.append(settled.Found(tuple(products.letters), holding))
        self._traced = findings.aggregated(facts)
        self._lines += findings.lines_about(products.tally.logs, found, self._traced)
        self.failed_rows.forgets = True
        if not len(self._traced):
            self._make_again()
        self.retracted += len(self._traced)
        self.retractions += int(len(self._traced) > 0)
        if pc.any(findings.are_keyless(facts)).as_py():
            self._keyless = facts, products
        else:
            self._blame(facts, products)

    def _rejected(self, facts: pa.Table, products: Products) -> pa.Table:
        names = findings.Names(products.rows_before, products.inputs.one_of_several, list(self.plan.standings))
        return findings.rejected(facts, names)

    def _blame(self, facts: pa.Table, products: Products) -> None:
        """Failures reject groups."""
        self._of_records = findings.joined([self._of_records, self._rejected(facts, products)])
        whole = facts.select(["whole", "record"]).rename_columns(findings.PAIRS.names)
        buckets = facts.select(["whole", "bucket"]).rename_columns(findings.PAIRS.names)
        self._buckets = findings.distinct([self._buckets, buckets])
        self._failed_whole = findings.distinct([self._failed_whole, whole])
        if "primary" in self.plan.policies.values():
            self._failed = findings.distinct([self._failed, facts.select(findings.PAIRS.names)])
            self._firsts.seek(self._of_records.column("group").to_numpy())

    def _bury(self, facts: pa.Table) -> np.ndarray:
        """Records count as never read from now on; gives these."""
        records = facts.column("record").to_numpy()
        found = ascending.each_once(records[records >= 0])
        before = self.known.dead
        dead = found if before is None else ascending.united(stored(before, "record").to_numpy(), found)
        self.known = replace(self.known, dead=self._written("dead", pa.table([dead], schema=DEAD)))
        return found

    def _reject(self) -> None:
        """Groups are rejected from now on."""
        rejected = {"any": self._written("rejected", findings.joined([self._of_records, self._of_rows]))}
        if "primary" in self.plan.policies.values():
            known = (
                pa.concat_tables([self._firsts.pairs, self._failed])
                .group_by(findings.PAIRS.names)
                .aggregate([([], "count_all")])
            )
            both = np.sort(known.filter(pc.equal(known.column("count_all"), 2)).column("group").to_numpy())
            primary = self._of_records.filter(
                pa.array(ascending.are_among(self._of_records.column("group").to_numpy(), both))
            )
            rejected["primary"] = self._written("primary", findings.joined([primary, self._of_rows]))
        failed = self._written("failed", pa.table([self._rows], schema=TRACED)) if len(self._rows) else None
        self.known = replace(self.known, rejected=rejected, failed=failed, passes=self.count)

    def held(self, products: Products) -> Held | None:
        """The tasks of a pass that would do the same again; None: there are none."""
        if products.alone is None:
            return None
        buckets = self._buckets.column("record").to_numpy()
        numbers = untouched.numbers(products.alone, self.known.dead, self._oversized, buckets)
        return Held(products.alone, frozenset(numbers)) if numbers else None

    # ---- passes that look for something
    # -----------------------------------------------------------------------------

    @property
    def looking(self) -> Known | None:
        """What a pass has to know that looks for something; None when there is nothing to look for."""
        if self._waiting is not None:
            sought = pa.table([self._waiting[2]], schema=TRACED)
            return replace(self.known, keyless_rows=self._written("keyless-rows", sought))
        if self._keyless is not None:
            records = self._keyless[0].filter(findings.are_keyless(self._keyless[0])).column("record").to_numpy()
            sought = pa.table([ascending.each_once(records)], schema=DEAD)
            return replace(self.known, keyless=self._written("keyless", sought))
        if len(self._traced):
            return replace(self.known, traced=self._written("traced", pa.table([self._traced], schema=TRACED)))
        if len(self._firsts.sought):
            where = self._written("sought", pa.table([self._firsts.sought], schema=SOUGHT))
            taken = self._written("taken", pa.table([self._firsts.taken], schema=DEAD))
            return replace(self.known, sought=where, taken=taken)
        if len(self._suspects):
            return replace(self.known, counted=self._written("counted", pa.table([self._suspects], schema=TRACED)))
        return None

    def look(self, products: Products) -> None:
        """Take in what such a pass has found."""
        self.count += 1
        facts = findings.facts(products.dirty)
        holds = facts.column("holds").to_numpy()
        if self._waiting is not None:
            failed, of_pass, sought = self._waiting
            self._waiting = None
            self.failed_rows.learn(sought, facts.filter(pa.array(holds == Holds.KEYED)))
            self._weigh(self.failed_rows.with_groups(failed), of_pass)
        elif self._keyless is not None:
            failed, of_pass = self._keyless
            self._keyless = None
            self._blame(findings.with_keys(failed, facts.filter(pa.array(holds == Holds.KEYED))), of_pass)
            self._reject()
        elif len(self._traced):
            facts = facts.filter(pa.array(holds == Holds.TRACED))
            found = self._bury(facts)
            self.taken_back += len(found)
            self._firsts.take_back(found, self._of_records.column("group").to_numpy())
            self._traced = findings.aggregated(facts)  # groups of aggregates before: their records come next
            if self.failed_rows.forgets and not len(self._traced):
                self._make_again()
        elif len(self._firsts.sought):
            self._firsts.learn(facts.filter(pa.array(holds == Holds.FIRST)))
            self._reject()
        else:
            self._suspects = self._suspects[:0]
            self._measure(facts.filter(pa.array(holds == Holds.MEMBER)))
        self.known = replace(self.known, passes=self.count)

    def _suspect(self, facts: pa.Table, shares: int) -> None:
        """Groups may be too large in the buckets that tasks have told, or that failed records fill as much."""
        if not self.plan.limit:
            return
        told = facts.column("group").to_numpy().astype(np.int64)
        failed, sizes = np.unique(self._failed_whole.column("group").to_numpy(), return_counts=True)
        are = ascending.are_among(self._buckets.column("group").to_numpy(), failed[sizes > self.plan.limit // shares])
        buckets = self._buckets.filter(pa.array(are)).column("record").to_numpy() // (BUCKETS // SIZES)
        self._suspects = ascending.each_once(np.concatenate([told, buckets]))

    def _measure(self, facts: pa.Table) -> None:
        """Groups are too large that have more records, at outputs and failed, than they may."""
        came = facts.take(pa.array(findings.in_order(facts)))
        pairs = findings.distinct([came.select(findings.PAIRS.names), self._failed_whole])
        sizes = pairs.group_by("group").aggregate([([], "count_all")])
        large = sizes.filter(pc.greater(sizes.column("count_all"), self.plan.limit))
        numbers, counts = large.column("group").to_numpy(), large.column("count_all").to_numpy()
        group = came.column("group").to_numpy()
        known, starts = np.unique(group, return_index=True)
        order = np.argsort(numbers)
        numbers, counts = numbers[order], counts[order]
        is_there = ascending.are_among(numbers, known) & (numbers != 0)
        numbers, counts = numbers[is_there], counts[is_there]
        if not len(numbers):
            return
        first_of = starts[np.searchsorted(known, numbers)]
        first, names = (
            came.column("record").to_numpy()[first_of],
            came.column("why").take(pa.array(first_of)).to_pylist(),
        )
        limit = f"is larger than max_group_buffer {self.plan.limit}"
        whys = [f"group {name} of {count} records {limit}" for name, count in zip(names, counts, strict=True)]
        members = record_numbers(came.column("split"), came.column("row"))[ascending.are_among(group, numbers)]
        failed = self._failed_whole.filter(
            pa.array(ascending.are_among(self._failed_whole.column("group").to_numpy(), numbers))
        )
        self._oversized = np.concatenate([members[members >= 0], failed.column("record").to_numpy()])
        self.too_large = len(numbers)
        path = self._written("oversized", pa.table([numbers, first, whys], schema=OVERSIZED))
        self.known = replace(self.known, oversized=path)
        self.are_over = False

    def refuse_oversized(self) -> None:
        """Under `fail_fast` a group that is too large ends the run (decision 107).

        Raises:
            RunFailed: there is one.
        """
        if self.known.oversized is not None and self.run.strategy is plans.Strategy.FAIL_FAST:
            why = part_file.mapped(self.known.oversized).read_all().column("why")[0].as_py()
            raise RunFailed(ExitCode.EVALUATION, str(Category.GROUP_SIZE), f"{why} (strategy {self.run.strategy})")

    def settle(self, spark: SparkSession, products: Products) -> None:
        """The dead letters of all rounds become those of the last pass, and so do log lines about their records."""
        last = settled.Found(tuple(products.letters), marks.Holding(_EVERYTHING))
        products.letters = settled.settle(spark, self.run, [*self._letters, *self.failed_rows.letters, last])
        products.tally.recount(products.letters)
        products.tally.logs[:0] = [*self._lines, *self.failed_rows.lines]
        rejected = findings.joined([self._of_records, self._of_rows]).num_rows
        if rejected or self.retracted or self.too_large:
            logs.LOG.info("correlation: %s", self._summary(rejected))
        products.rounds = {
            "passes": self.count + 1,
            "rejected_groups": rejected,
            "oversized_groups": self.too_large,
            "retract.iterations": self.retractions,
            "retract.groups_recomputed": self.retracted,
            "retract.records_taken_back": self.taken_back,
            "retract.degrade_fallback_count": 0,
            "per_source_rollback_cursors": cursors.cursors(
                products.inputs, products.records, self.known.dead, self._oversized
            ),
        }

    def _summary(self, rejected: int) -> str:
        """What there was of everything that correlation does."""
        parts = [f"groups with failures: {rejected}"] if rejected else []
        if self.too_large:
            parts.append(f"groups that are too large: {self.too_large}")
        if self.retracted:
            back = f"rows of aggregates taken back: {self.retracted}, with records: {self.taken_back}"
            parts.append(f"{back}, in rounds: {self.retractions}")
        return "; ".join([*parts, f"passes: {self.count + 1}"])

    def _written(self, name: str, table: pa.Table) -> str:
        path = f"{self.run.scratch}/{name}-{self.count}.arrow"
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table.combine_chunks())
        return path
