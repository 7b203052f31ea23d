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
from spark_jobs.execute.letters import settled
from spark_jobs.execute.letters.marks import Holds
from spark_jobs.execute.run import cursors
from spark_jobs.execute.tasks import part_file
from spark_jobs.execute.tasks.facts import (
    DEAD,
    FACTS,
    KEYLESS,
    OVERSIZED,
    REJECTED,
    SOUGHT,
    TRACED,
    Known,
    record_numbers,
)
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.plan import plan as plans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.run.products import Products
    from spark_jobs.execute.tasks.spec import RunSpec
    from spark_jobs.nodes.terms.correlation import GroupPlan

#: As many passes in a row may find no dead records: what fails without being one depends on nothing else.
_MOST_IDLE = 4
_RESTLESS = (
    "other rows of aggregates fail in each pass over the same records, nothing is published: a program behind an "
    "aggregate fails depending on `now`; read it into a field of the records before, or use `$pipeline.start_time`"
)
_EVERYTHING = tuple(int(each) for each in Holds)
#: Groups and records of which something is known.
_PAIRS = pa.schema([("group", pa.uint64()), ("record", pa.int64())])


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
    count: int = 0
    #: How many passes in a row have found no dead records.
    _idle: int = 0
    #: Whether the last pass knew all that was found.
    are_over: bool = False
    #: The groups of aggregates that were taken back.
    retracted: int = 0
    #: The rounds in which some were.
    retractions: int = 0
    _letters: list[settled.Found] = field(default_factory=list)
    #: The groups that records reject, and those that rows of aggregates reject in the last pass.
    _of_records: pa.Table = field(default_factory=REJECTED.empty_table)
    _of_rows: pa.Table = field(default_factory=REJECTED.empty_table)
    #: These rows, and those that fail without a group.
    _rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: Which records reject which groups, those over all sources with them, and the first records of rejected groups.
    _failed: pa.Table = field(default_factory=_PAIRS.empty_table)
    _failed_whole: pa.Table = field(default_factory=_PAIRS.empty_table)
    _firsts: pa.Table = field(default_factory=_PAIRS.empty_table)
    #: The records of groups that are too large.
    _oversized: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: The buckets of groups over all sources.
    _buckets: pa.Table = field(default_factory=_PAIRS.empty_table)
    #: Failures of which the groups of some are still to be found, and the rows before each split.
    _keyless: tuple[pa.Table, Mapping[int, int]] | None = None
    #: What is to be looked for: the records of groups, the first records of groups, the sizes in buckets.
    _traced: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _sought: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _suspects: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def take(self, products: Products) -> None:
        """Take in what a pass has found.

        Raises:
            RunFailed: passes find other things each time, though no record is dead that was not.
        """
        facts = _facts(products.dirty)
        holds = facts.column("holds").to_numpy()
        taken = next((each for each in (Holds.FOR_GOOD, Holds.BEHIND) if (holds == each).any()), None)
        in_last = facts.filter(pa.array(holds == Holds.IN_LAST))
        of_rows, rows = _rejected(in_last, products.rows_before), _aggregated(in_last)
        is_same = np.array_equal(of_rows.column("group").to_numpy(), self._of_rows.column("group").to_numpy())
        is_same = is_same and np.array_equal(rows, self._rows)
        self.are_over = taken is None and is_same
        self._idle = 0 if taken is not None else self._idle + 1
        if self.are_over:
            if self.known.oversized is None:
                self._suspect(facts.filter(pa.array(holds == Holds.SUSPECT)), products.shares)
            return
        if self._idle > _MOST_IDLE:
            raise RunFailed(ExitCode.EVALUATION, "E903", _RESTLESS)
        self.count += 1
        self._of_rows, self._rows = of_rows, rows
        if taken is not None:
            self._letters.append(settled.Found(tuple(products.letters), (int(taken),)))
            self._accept(facts.filter(pa.array(holds == taken)), products.rows_before)
        self._reject()

    def _accept(self, facts: pa.Table, rows_before: Mapping[int, int]) -> None:
        """Records have failed, and rows that are made of records."""
        self._bury(facts)
        self._traced = _aggregated(facts)
        self.retracted += len(self._traced)
        self.retractions += int(len(self._traced) > 0)
        if pc.any(_are_keyless(facts)).as_py():
            self._keyless = facts, rows_before
        else:
            self._blame(facts, rows_before)

    def _blame(self, facts: pa.Table, rows_before: Mapping[int, int]) -> None:
        """Failures reject groups."""
        self._of_records = _joined([self._of_records, _rejected(facts, rows_before)])
        whole = facts.select(["whole", "record"]).rename_columns(_PAIRS.names)
        buckets = facts.select(["whole", "bucket"]).rename_columns(_PAIRS.names)
        self._buckets = _distinct([self._buckets, buckets])
        self._failed_whole = _distinct([self._failed_whole, whole])
        if "primary" in self.plan.policies.values():
            self._failed = _distinct([self._failed, facts.select(_PAIRS.names)])
            found, all_groups = self._firsts.column("group"), self._of_records.column("group")
            self._sought = np.setdiff1d(all_groups.to_numpy(), found.to_numpy())

    def _bury(self, facts: pa.Table) -> None:
        """Records count as never read from now on."""
        records = facts.column("record").to_numpy()
        dead = np.unique(records[records >= 0])
        path = self._written("dead", pa.table([dead], schema=DEAD))
        self.known = replace(self.known, dead=(*self.known.dead, path))

    def _reject(self) -> None:
        """Groups are rejected from now on."""
        rejected = {"any": self._written("rejected", _joined([self._of_records, self._of_rows]))}
        if "primary" in self.plan.policies.values():
            known = pa.concat_tables([self._firsts, self._failed]).group_by(_PAIRS.names).aggregate([([], "count_all")])
            both = known.filter(pc.equal(known.column("count_all"), 2)).column("group").to_numpy()
            primary = self._of_records.filter(pa.array(np.isin(self._of_records.column("group").to_numpy(), both)))
            rejected["primary"] = self._written("primary", _joined([primary, self._of_rows]))
        failed = self._written("failed", pa.table([self._rows], schema=TRACED)) if len(self._rows) else None
        self.known = replace(self.known, rejected=rejected, failed=failed, passes=self.count)

    # ---- passes that look for something
    # -----------------------------------------------------------------------------

    @property
    def looking(self) -> Known | None:
        """What a pass has to know that looks for something; None when there is nothing to look for."""
        if self._keyless is not None:
            records = self._keyless[0].filter(_are_keyless(self._keyless[0])).column("record").to_numpy()
            sought = pa.table([np.unique(records)], schema=DEAD)
            return replace(self.known, keyless=self._written("keyless", sought))
        if len(self._traced):
            return replace(self.known, traced=self._written("traced", pa.table([self._traced], schema=TRACED)))
        if len(self._sought):
            sought = pa.table([self._sought], schema=SOUGHT)
            return replace(self.known, sought=self._written("sought", sought))
        if len(self._suspects):
            return replace(self.known, counted=self._written("counted", pa.table([self._suspects], schema=TRACED)))
        return None

    def look(self, products: Products) -> None:
        """Take in what such a pass has found."""
        self.count += 1
        facts = _facts(products.dirty)
        holds = facts.column("holds").to_numpy()
        if self._keyless is not None:
            failed, rows_before = self._keyless
            self._keyless = None
            self._blame(_with_keys(failed, facts.filter(pa.array(holds == Holds.KEYED))), rows_before)
            self._reject()
        elif len(self._traced):
            facts = facts.filter(pa.array(holds == Holds.TRACED))
            self._bury(facts)
            self._traced = _aggregated(facts)  # groups of aggregates before: their records come next
        elif len(self._sought):
            self._sought = self._sought[:0]
            self._firsts = _first_of_each([self._firsts, facts.filter(pa.array(holds == Holds.FIRST))])
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
        are = np.isin(self._buckets.column("group").to_numpy(), failed[sizes > self.plan.limit // shares])
        self._suspects = np.union1d(told, self._buckets.filter(pa.array(are)).column("record").to_numpy())

    def _measure(self, facts: pa.Table) -> None:
        """Groups are too large that have more records, at outputs and failed, than they may."""
        came = facts.take(pa.array(_in_order(facts)))
        pairs = _distinct([came.select(_PAIRS.names), self._failed_whole])
        sizes = pairs.group_by("group").aggregate([([], "count_all")])
        large = sizes.filter(pc.greater(sizes.column("count_all"), self.plan.limit))
        numbers, counts = large.column("group").to_numpy(), large.column("count_all").to_numpy()
        group = came.column("group").to_numpy()
        known, starts = np.unique(group, return_index=True)
        order = np.argsort(numbers)
        numbers, counts = numbers[order], counts[order]
        is_there = np.isin(numbers, known) & (numbers != 0)
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
        members = record_numbers(came.column("split"), came.column("row"))[np.isin(group, numbers)]
        failed = self._failed_whole.filter(pa.array(np.isin(self._failed_whole.column("group").to_numpy(), numbers)))
        self._oversized = np.concatenate([members[members >= 0], failed.column("record").to_numpy()])
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
        """The dead letters of all rounds become those of the last pass."""
        self._letters.append(settled.Found(tuple(products.letters), _EVERYTHING))
        products.letters = settled.settle(spark, self.run, self._letters)
        products.tally.recount(products.letters)
        rejected = _joined([self._of_records, self._of_rows]).num_rows
        if rejected or self.retracted:
            text = "correlation: groups rejected: %d; rows of aggregates taken back: %d, in rounds: %d; passes: %d"
            logs.LOG.info(text, rejected, self.retracted, self.retractions, self.count + 1)
        products.rounds = {
            "passes": self.count + 1,
            "rejected_groups": rejected,
            "retract.iterations": self.retractions,
            "retract.groups_recomputed": self.retracted,
            "retract.degrade_fallback_count": 0,
            "per_source_rollback_cursors": cursors.cursors(
                products.inputs, products.records, self.known.dead, self._oversized
            ),
        }

    def _written(self, name: str, table: pa.Table) -> str:
        path = f"{self.run.scratch}/{name}-{self.count}.arrow"
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table.combine_chunks())
        return path


def _facts(files: Sequence[str]) -> pa.Table:
    tables = [part_file.mapped(path).read_all() for path in files]
    return pa.concat_tables(tables).combine_chunks() if tables else FACTS.empty_table()


def _are_keyless(facts: pa.Table) -> pa.ChunkedArray:
    """Which records failed where their key was not at hand."""
    found: pa.ChunkedArray = pc.equal(facts.column("bucket"), KEYLESS)
    return found


def _with_keys(failed: pa.Table, keyed: pa.Table) -> pa.Table:
    """Failures with the groups that were found for records which had none, each for the reason that is known."""
    is_keyless = _are_keyless(failed)
    lacking = failed.filter(is_keyless).select(["record", "why"]).group_by("record").aggregate([("why", "min")])
    at = pc.index_in(keyed.column("record").combine_chunks(), lacking.column("record").combine_chunks())
    whys = lacking.column("why_min").take(at)
    place = keyed.schema.get_field_index("why")
    return pa.concat_tables([failed.filter(pc.invert(is_keyless)), keyed.set_column(place, "why", whys)])


def _in_order(facts: pa.Table) -> np.ndarray:
    """What came to outputs by groups and places: records before rows that begin with them, these by their outputs."""
    columns = [facts.column(name).to_numpy() for name in ("aggregated", "record", "row", "split", "group")]
    output, record, row, split, group = columns
    is_row = record != record_numbers(facts.column("split"), facts.column("row"))
    found: np.ndarray = np.lexsort((output, is_row, row, split, group))
    return found


def _aggregated(facts: pa.Table) -> np.ndarray:
    """The groups of aggregates that are named, each once."""
    numbers = np.unique(facts.column("aggregated").to_numpy())
    found: np.ndarray = numbers[numbers != 0]
    return found


def _rejected(facts: pa.Table, rows_before: Mapping[int, int]) -> pa.Table:
    """The groups that facts reject, each with what comes first in the order of records."""
    facts = facts.filter(pc.not_equal(facts.column("group"), pa.scalar(0, pa.uint64())))
    facts = facts.sort_by([("group", "ascending"), *((name, "ascending") for name in ("source", "split", "row"))])
    group = facts.column("group").to_numpy()
    is_first = np.ones(len(group), dtype=bool)
    is_first[1:] = group[1:] != group[:-1]
    first = facts.filter(pa.array(is_first))
    splits = first.column("split").to_numpy()
    before = np.array([rows_before.get(int(split), 0) for split in np.unique(splits)], dtype=np.int64)
    rows = before[np.searchsorted(np.unique(splits), splits)] + first.column("row").to_numpy() + 1
    whys = pc.binary_join_element_wise("row ", pa.array(rows).cast(pa.string()), ": ", first.column("why"), "")
    return pa.table([first.column("group"), whys, first.column("source")], schema=REJECTED)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Rejected groups, each once, with what is said first of it."""
    whole = pa.concat_tables(tables).combine_chunks()
    _, first = np.unique(whole.column("group").to_numpy(), return_index=True)
    return whole.take(pa.array(first))


def _distinct(tables: Sequence[pa.Table]) -> pa.Table:
    """Pairs of groups and records, each once; those without a group or a record are none."""
    whole = pa.concat_tables([table.cast(_PAIRS) for table in tables])
    whole = whole.filter(pc.not_equal(whole.column("group"), pa.scalar(0, pa.uint64())))
    return whole.group_by(_PAIRS.names).aggregate([]).select(_PAIRS.names).combine_chunks()


def _first_of_each(tables: Sequence[pa.Table]) -> pa.Table:
    """The first record of each group."""
    whole = pa.concat_tables([table.select(_PAIRS.names) for table in tables]).sort_by(
        [("group", "ascending"), ("record", "ascending")]
    )
    _, first = np.unique(whole.column("group").to_numpy(), return_index=True)
    return whole.take(pa.array(first))
