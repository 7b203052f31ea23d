"""The rounds of a run with correlation keys: what each pass has found, until one finds nothing more.

A pass is told which records count as never read and which groups are rejected, and finds more of both. Records only
ever die, so the rounds come to an end. Rows of aggregates that fail are found anew in each pass, and the last pass has
to know in advance what it will find. Between these passes there may be others that only look for something: the records
of groups that are taken back, the first records of groups, the sizes of groups that may be too large.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.contract import ExitCode
from spark_jobs.cxl.failure import Category
from spark_jobs.execute import logs
from spark_jobs.execute.correlation import ascending, findings, noted, ordered, sizes, strata, untouched
from spark_jobs.execute.correlation.blame import Blame
from spark_jobs.execute.correlation.failed_rows import FailedRows
from spark_jobs.execute.dlq import final, marks
from spark_jobs.execute.dlq.marks import Holds
from spark_jobs.execute.run import cursors
from spark_jobs.execute.run.products import Held
from spark_jobs.execute.tasks import part_file
from spark_jobs.execute.tasks.facts import DEAD, REJECTED, SOUGHT, TRACED, Known
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.plan import plan as plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.execute.correlation.noted import Facts
    from spark_jobs.execute.correlation.strata import Kind
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
    failed_rows: FailedRows = field(init=False)
    #: The groups that records reject.
    blame: Blame = field(init=False)
    count: int = 0
    #: How many passes in a row have found no dead records.
    _idle: int = 0
    #: How many were dead, and how many rows unmade, when failures were last chosen.
    _at_choice: tuple[int, int] | None = None
    #: Whether the last pass knew all that was found.
    are_over: bool = False
    #: The groups of aggregates that were taken back.
    retracted: int = 0
    #: The rounds in which some were, and the records that were taken back with them.
    retractions: int = 0
    taken_back: int = 0
    #: The groups that are too large.
    too_large: int = 0
    _entries: list[final.PassEntries] = field(default_factory=list)
    #: What was logged of records that count as never read.
    _lines: list[LogLine] = field(default_factory=list)
    #: The groups that rows of aggregates reject in the last pass.
    _of_rows: pa.Table = field(default_factory=REJECTED.empty_table)
    #: These rows, and those that fail without a group.
    _rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: The records of groups that are too large.
    _oversized: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: Where the first such group begins, by split and row, and what is said of it.
    _earliest: tuple[int, int, str] | None = None
    #: Failures of which the groups of some are still to be found, and the pass that they are of.
    _keyless: tuple[Facts, Products] | None = None
    #: What is to be looked for: the records of groups, the sizes in buckets.
    _traced: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _suspects: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: What a pass has found of which the groups of some rows are still to be found, and these rows.
    _waiting: tuple[Facts, Products, np.ndarray] | None = None

    def __post_init__(self) -> None:
        self.failed_rows = FailedRows(self.run.scratch)
        self.blame = Blame(self.run.scratch, "primary" in self.plan.policies.values())

    def take(self, products: Products) -> None:
        """Take in what a pass has found.

        Raises:
            RunFailed: passes find other things each time, though no record is dead that was not.
        """
        facts = noted.of(products.dirty)
        self.are_over = False
        lacking = self.failed_rows.lacking(facts)
        self._waiting = (facts, products, lacking) if len(lacking) else None
        if self._waiting is None:
            self._weigh(self.failed_rows.with_groups(facts), products)

    def _weigh(self, facts: Facts, products: Products) -> None:
        """Some failures hold from now on; what else failed is found again, or is good without them."""
        kinds = strata.kinds(facts)
        chosen = self._first(kinds)
        in_last = facts.where("holds", are=_are_in_last)
        of_rows = findings.joined([self.failed_rows.rejected, self._rejected(in_last, products)], self.run.scratch)
        rows = ascending.united(self.failed_rows.numbers, findings.aggregated(in_last, self.run.scratch))
        is_same = np.array_equal(of_rows.column("group").to_numpy(), self._of_rows.column("group").to_numpy())
        is_same = is_same and np.array_equal(rows, self._rows)
        is_new = bool(chosen) and self._goes_on()
        self.are_over = not chosen and is_same and not self.known.settles
        self._idle = 0 if is_new else self._idle + 1
        if self.are_over:
            if self.known.oversized is None and self.plan.limit:
                told = facts.that_hold(Holds.SUSPECT)
                self._suspects = sizes.suspects(told, self.blame, self.plan.limit // products.shares)
            return
        if self._idle > _MOST_IDLE:
            raise RunFailed(ExitCode.EVALUATION, "E903", _RESTLESS)
        self.count += 1
        self._of_rows, self._rows = of_rows, rows
        if chosen:
            holds = chosen[0].holds
            some = facts.that_hold(holds, {kind.node for kind in chosen})
            if holds == Holds.ROW:
                self._unmake(some, tuple(kind.node for kind in chosen), products)
            else:
                self._accept(some, holds, products)
        # When nothing is found any more, a pass writes what those before did not.
        settles = (bool(chosen) or not is_same) and self.retractions > 0
        self.known = replace(self.known, rounds=self.known.rounds + 1, settles=settles)
        self._reject()

    def _goes_on(self) -> bool:
        """Whether what was chosen last has made records dead, or rows unmade."""
        dead = 0 if self.known.dead is None else part_file.mapped(self.known.dead).read_all().num_rows
        before, self._at_choice = self._at_choice, (dead, len(self.failed_rows.numbers))
        return self._at_choice != before

    def _first(self, kinds: list[Kind]) -> list[Kind]:
        """Which failures of records hold from now on, and where these are none which of rows; all count alike."""
        standings = list(self.plan.standings.values())
        of_rows = [kind for kind in kinds if kind.holds == Holds.ROW and self.plan.rows_meet]
        early = [kind for kind in of_rows if not standings[kind.node].is_behind]
        fresh = [kind for kind in kinds if kind.holds == Holds.FOR_GOOD] + early
        if fresh:
            ready = strata.first(fresh, self.plan, list(self.run.steps))
            chosen = [kind for kind in fresh if kind.node in ready]
            return [kind for kind in chosen if kind.holds == Holds.FOR_GOOD] or chosen
        return [kind for kind in kinds if kind.holds == Holds.BEHIND] or of_rows

    def _unmake(self, facts: Facts, nodes: tuple[int, ...], products: Products) -> None:
        """Rows of aggregates count as never made from now on, for they failed at some nodes."""
        mine, failed = self.failed_rows, findings.aggregated(facts, self.run.scratch)
        rows = self._written("rows", pa.table([failed], schema=TRACED))
        mine.entries.append(final.PassEntries(tuple(products.dlq), marks.Holding((Holds.ROW,), rows=rows, nodes=nodes)))
        mine.rejected = findings.joined([mine.rejected, self._rejected(facts, products)], self.run.scratch)
        mine.numbers = ascending.united(mine.numbers, failed)
        mine.lines += findings.lines_about(products.tally.logs, failed[:0], failed)
        unmade = self._written("unmade", pa.table([mine.numbers], schema=TRACED))
        self.known = replace(self.known, unmade=unmade)

    def _make_again(self) -> None:
        """Rows that have failed may be others now."""
        self.failed_rows.forget()
        self.known = replace(self.known, unmade=None)

    def _accept(self, facts: Facts, holds: int, products: Products) -> None:
        """Records have failed, and rows that are made of records."""
        found = self._bury(facts)
        holding = marks.Holding((holds,), records=self._written("failing", found))
        self._entries.append(final.PassEntries(tuple(products.dlq), holding))
        self._traced = findings.aggregated(facts, self.run.scratch)
        self._lines += findings.lines_about(products.tally.logs, found.column("record").to_numpy(), self._traced)
        self.failed_rows.forgets = True
        if not len(self._traced):
            self._make_again()
        self.retracted += len(self._traced)
        self.retractions += int(len(self._traced) > 0)
        if findings.keyless(facts).any():
            self._keyless = facts, products
        else:
            self.blame.take(facts, self._rejected(facts, products))

    def _rejected(self, facts: Facts, products: Products) -> pa.Table:
        names = findings.Names(products.rows_before, products.inputs.one_of_several, list(self.plan.standings))
        return findings.rejected(facts, names, self.run.scratch)

    def _bury(self, facts: Facts) -> pa.Table:
        """Records count as never read from now on; gives these."""
        found = findings.records(facts, self.run.scratch)
        before = [] if self.known.dead is None else [part_file.mapped(self.known.dead).read_all()]
        dead = ordered.united(self.run.scratch, DEAD, [*before, found], DEAD.names)
        self.known = replace(self.known, dead=self._written("dead", dead))
        return found

    def _reject(self) -> None:
        """Groups are rejected from now on."""
        # A group of which all records failed has none left to reject, but a row that fails stands for all of them.
        by_policy = {"any": self.blame.groups, "all": REJECTED.empty_table()}
        if self.blame.asks_for_firsts:
            by_policy["primary"] = self.blame.of_firsts()
        rejected = {
            policy: self._written(name, findings.joined([by_policy[policy], self._of_rows], self.run.scratch))
            for policy, name in (("any", "rejected"), ("primary", "primary"), ("all", "all"))
            if policy in by_policy
        }
        failed = self._written("failed", pa.table([self._rows], schema=TRACED)) if len(self._rows) else None
        self.known = replace(self.known, rejected=rejected, failed=failed, passes=self.count)

    def held(self, products: Products) -> Held | None:
        """The tasks of a pass that would do the same again; None: there are none."""
        if products.alone is None:
            return None
        buckets = self.blame.buckets.column("record").to_numpy()
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
            sought = findings.records(findings.keyless(self._keyless[0]), self.run.scratch)
            return replace(self.known, keyless=self._written("keyless", sought))
        if len(self._traced):
            return replace(self.known, traced=self._written("traced", pa.table([self._traced], schema=TRACED)))
        if len(self.blame.firsts.sought):
            where = self._written("sought", pa.table([self.blame.firsts.sought], schema=SOUGHT))
            taken = self._written("taken", pa.table([self.blame.firsts.taken], schema=DEAD))
            return replace(self.known, sought=where, taken=taken)
        if len(self._suspects):
            return replace(self.known, counted=self._written("counted", pa.table([self._suspects], schema=TRACED)))
        return None

    def look(self, products: Products) -> None:
        """Take in what such a pass has found."""
        self.count += 1
        facts = noted.of(products.dirty)
        if self._waiting is not None:
            failed, of_pass, sought = self._waiting
            self._waiting = None
            self.failed_rows.learn(sought, facts.that_hold(Holds.KEYED))
            self._weigh(self.failed_rows.with_groups(failed), of_pass)
        elif self._keyless is not None:
            failed, of_pass = self._keyless
            self._keyless = None
            keyed = findings.with_keys(failed, facts.that_hold(Holds.KEYED), self.run.scratch)
            self.blame.take(keyed, self._rejected(keyed, of_pass))
            self._reject()
        elif len(self._traced):
            facts = facts.that_hold(Holds.TRACED)
            found = self._bury(facts).column("record").to_numpy()
            self.taken_back += len(found)
            self.blame.firsts.take_back(found, self.blame.numbers)
            # Groups of aggregates before: their records come next.
            self._traced = findings.aggregated(facts, self.run.scratch)
            if self.failed_rows.forgets and not len(self._traced):
                self._make_again()
        elif len(self.blame.firsts.sought):
            self.blame.firsts.learn(facts.that_hold(Holds.FIRST))
            self._reject()
        else:
            self._suspects = self._suspects[:0]
            self._measure(facts.that_hold(Holds.MEMBER))
        self.known = replace(self.known, passes=self.count)

    def _measure(self, came: Facts) -> None:
        """Groups are too large that have more records, at outputs and failed, than they may."""
        found = sizes.too_large(came, self.blame.whole, self.plan.limit, self.run.scratch)
        if found is not None:
            self._oversized, self.too_large = found.records, found.groups.num_rows
            self._earliest = found.earliest
            self.known = replace(self.known, oversized=self._written("oversized", found.groups))
            self.are_over = False

    def refuse_oversized(self, products: Products) -> None:
        """Under `fail_fast` a group that is too large ends the run.

        Raises:
            RunFailed: there is one; the first in the order of records is named.
        """
        if self._earliest is not None and self.run.strategy is plans.Strategy.FAIL_FAST:
            split, row, why = self._earliest
            # The row of a global aggregate may begin with no record.
            number = products.rows_before.get(split, 0) + row + 1
            place = f"{products.inputs.file_name(split, -1)}, row {number}: " if split >= 0 else ""
            why = f"{place}{why} (strategy {self.run.strategy})"
            raise RunFailed(ExitCode.EVALUATION, str(Category.GROUP_SIZE), why)

    def settle(self, spark: SparkSession, products: Products) -> None:
        """The dead letters of all rounds become those of the last pass, and so do log lines about their records."""
        last = final.PassEntries(tuple(products.dlq), marks.Holding(_EVERYTHING))
        products.dlq = final.merged_reports(spark, self.run, [*self._entries, *self.failed_rows.entries, last])
        products.tally.recount(products.dlq)
        products.tally.logs[:0] = [*self._lines, *self.failed_rows.lines]
        rejected = findings.joined([self.blame.groups, self._of_rows], self.run.scratch).num_rows
        if rejected or self.retracted or self.too_large:
            logs.LOG.info("correlation: %s", self._summary(rejected))
        retract = {
            "iterations": self.retractions,
            "groups_recomputed": self.retracted,
            "output_rows_retracted_total": self.taken_back,
            "degrade_fallback_count": 0,
        }
        products.rounds = {
            "passes": self.count + 1,
            "rejected_groups": rejected,
            "oversized_groups": self.too_large,
            "retract": retract,
            # The names of before, for a release.
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


def _are_in_last(facts: pa.Table) -> np.ndarray:
    """Which failures are of rows, not records, and hold as long as they are found again."""
    found: np.ndarray = np.isin(facts.column("holds").to_numpy(), (Holds.IN_LAST, Holds.ROW))
    return found
