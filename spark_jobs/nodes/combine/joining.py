"""Joins driver records with the build records found by keys and ranges.

The rest of `where` is evaluated on the candidate pairs. Several build sides make a chain: a
driver matches when every side has a record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine
from spark_jobs.nodes import operator
from spark_jobs.nodes.combine import build, collecting
from spark_jobs.nodes.combine.index import Compared
from spark_jobs.nodes.combine.step import KEY, Match, OnMiss
from spark_jobs.nodes.records import batches
from spark_jobs.nodes.records import columns as engine_columns
from spark_jobs.nodes.records.columns import Fate, with_fate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from spark_jobs.cxl import typed
    from spark_jobs.nodes.combine.index import BuildTable
    from spark_jobs.nodes.combine.step import CombineStep


@dataclass
class Pairs:
    """Chains of matches: rows of the driver batch, ascending, and of each build side (-1: no record, null fields)."""

    driver: np.ndarray
    builds: dict[str, np.ndarray]

    def of_drivers(self, column: pa.Array) -> pa.Array:
        """The driver's column for the chains. It is the column itself if each record has exactly one chain."""
        return column if self._stand_alone and len(column) == len(self.driver) else column.take(self._rows)

    @cached_property
    def _stand_alone(self) -> bool:
        """True if there is exactly one chain for each driver record, in order."""
        return np.array_equal(self.driver, np.arange(len(self.driver)))

    @cached_property
    def _rows(self) -> pa.Array:
        return pa.array(self.driver)

    def take(self, chosen: np.ndarray) -> Pairs:
        """The given chains, in the given order."""
        return Pairs(self.driver[chosen], {name: rows[chosen] for name, rows in self.builds.items()})

    def slice(self, start: int, count: int) -> Pairs:
        """A contiguous slice of the chains."""
        end = start + count
        return Pairs(self.driver[start:end], {name: rows[start:end] for name, rows in self.builds.items()})

    def without(self, drivers: Collection[int]) -> Pairs:
        """The chains of all driver records except `drivers`."""
        return self.take(np.flatnonzero(~np.isin(self.driver, list(drivers))))

    def of(self, qualifier: str) -> Pairs:
        """The records of one build side in the chains of each driver record, without duplicates, in build order."""
        rows = self.builds[qualifier]
        order = np.lexsort((rows, self.driver))
        driver, rows = self.driver[order], rows[order]
        is_new = (np.diff(driver, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
        kept = np.flatnonzero(is_new & (rows >= 0))
        return Pairs(driver[kept], {qualifier: rows[kept]})

    def first(self, *, is_complete: bool) -> Pairs:
        """One chain for each driver record: the first among its chains with the most build records.

        Args:
            is_complete: every chain has a record of every build side.
        """
        best = self
        if not is_complete:
            missing = np.sum([rows < 0 for rows in self.builds.values()], axis=0)
            best = self.take(np.lexsort((missing, self.driver)))  # stable: chains keep their order
        is_first = np.diff(best.driver, prepend=-1) != 0
        return best if is_first.all() else best.take(np.flatnonzero(is_first))

    def left_joined(self, chosen: np.ndarray, found: Pairs, qualifier: str) -> Pairs:
        """Extend these chains by a left join with a build side; chains without a match stay, each in its place.

        Args:
            chosen: for each of `found`, the index of the chain that it extends, ascending.
            found: the extended chains.
            qualifier: the build side.
        """
        is_unmatched = np.ones(len(self.driver), dtype=np.bool_)
        is_unmatched[chosen] = False
        rest = np.flatnonzero(is_unmatched)
        alone = self.take(rest)
        alone.builds[qualifier] = np.full(len(rest), -1)
        return _together(found, alone, np.argsort(np.concatenate([chosen, rest]), kind="stable"))

    def with_misses(self, missed: np.ndarray) -> Pairs:
        """The chains, with driver records without a match added in their places, without build records."""
        none = np.full(len(missed), -1)
        alone = Pairs(missed, dict.fromkeys(self.builds, none))
        return _together(self, alone, np.argsort(np.concatenate([self.driver, missed]), kind="stable"))


def _together(found: Pairs, alone: Pairs, order: np.ndarray) -> Pairs:
    builds = {name: np.concatenate([rows, alone.builds[name]])[order] for name, rows in found.builds.items()}
    return Pairs(np.concatenate([found.driver, alone.driver])[order], builds)


def columns(
    step: CombineStep, driver: pa.RecordBatch, builds: Mapping[str, pa.RecordBatch], pairs: Pairs
) -> dict[str, pa.Array]:
    """The columns of results that the body does not emit.

    Args:
        step: the combine.
        driver: the driver's records.
        builds: the records of each build side.
        pairs: the results: positions among both.
    """
    found = {}
    for name, qualifier, column in step.pass_through:
        if qualifier == step.driver:
            found[name] = pairs.of_drivers(driver.column(column))
        else:
            matched = pairs.builds[qualifier]
            found[name] = builds[qualifier].column(column).take(pa.array(matched, mask=matched < 0))
    for name in with_fate(Fate.OF_DRIVER, "combine", driver.schema.names):
        found[name] = pairs.of_drivers(driver.column(name))
    return found


def firsts(pairs: Pairs, drivers: int) -> Pairs:
    """The first chain of each driver record; without a build record if it has none."""
    places = np.searchsorted(pairs.driver, np.arange(drivers))
    is_there = np.isin(np.arange(drivers), pairs.driver)
    found = {}
    for name, rows in pairs.builds.items():
        found[name] = np.full(drivers, -1)
        found[name][is_there] = rows[places[is_there]]
    return Pairs(np.arange(drivers), found)


#: A pair's memory: it exists as read and as emitted by the body, as records, and downstream; and its places' bytes.
_PAIR_FORMS, _PAIR_BYTES = 4, 32


@dataclass
class Joining(operator.Operator):
    """Joins driver records with the build records of complete tables."""

    step: CombineStep

    def open(self) -> None:
        """Compile keys, residual and body. Build sides are opened with the first record."""
        step = self.step
        self.key_programs = {
            q: [(e, operator.compiled(e.driver)) for e in step.equalities if e.build_qualifier == q]
            for q in step.builds
        }
        self.range_programs = {
            q: [(each.driver, operator.compiled(each.driver)) for each in build.ranges_of(step, q)] for q in step.builds
        }
        #: The residuals that are tested on the pairs of each build side. If only complete chains match, the whole rest
        #: is tested on those.
        parts = dict(step.residuals) if step.is_chain_of_left_joins else {}
        if step.rest and not step.is_chain_of_left_joins:
            parts = {step.builds[-1]: step.rest}
        self.residuals = {q: (program, operator.compiled(program)) for q, program in parts.items()}
        self.body = operator.compiled(step.body) if step.body else None
        self.reservation = self.context.memory_pool.reserve()
        #: The tables of the build sides that are open.
        self.tables: dict[str, BuildTable] = {}

    @property
    def enough(self) -> int | None:
        """The number of matches after which the search stops; None if all are needed or a later one may fail."""
        if self.step.match is Match.COLLECT and not self.residuals and len(self.step.builds) == 1:
            return collecting.LIMIT + 1
        return 1 if self.step.match is Match.FIRST else None

    def most_pairs(self, batch: batches.Batch) -> int:
        """The number of candidate pairs that fit the task's memory, given the copies of a pair that exist at a time."""
        sides = [batch.data, *(table.records for table in self.tables.values())]
        width = sum(side.nbytes // max(side.num_rows, 1) for side in sides)
        if self.step.match is Match.COLLECT:
            width += sum(collecting.width(self.step.collected(qualifier)) for qualifier in self.step.builds)
        fitting = self.reservation.room // (_PAIR_FORMS * (width + _PAIR_BYTES))
        return int(max(1, min(self.context.tuning.pair_rows, fitting)))

    def keyed(self, qualifier: str, batch: batches.Batch) -> tuple[batches.Batch, list[pa.Array]]:
        """The batch without the records whose key fails, and the driver's side of the keys."""
        found: list[pa.Array] = []
        for equality, program in self.key_programs[qualifier]:
            named = replace(batch, data=build.qualified(self.step, batch.data, self.step.driver))
            result = self.run(program, named, engine.EvaluationContext())
            if result.failures:
                self.fail(batch, [build.combine_error(item) for item in result.failures])
                kept = batches.indices_except(batch.count, [item.row for item in result.failures])
                batch, found = batch.take(kept), [column.take(kept) for column in found]
            found.append(
                build.comparable(result.emits[KEY], build.key_type(equality.driver.emits), build.common(equality))
            )
        return batch, found

    def join(self, batch: batches.Batch, chosen: np.ndarray, rows: np.ndarray) -> None:
        """Join driver records with candidates of the first build side: pairs of a driver row and a build row."""
        self.emit_matches(batch, *self.chains(batch, chosen, rows))

    def emit_matches(self, batch: batches.Batch, pairs: Pairs, failed: list[engine.RowFailure]) -> None:
        """Emit driver records whose matches are all known. Records in `failed` fail instead."""
        broken = {item.row for item in failed}
        if self.step.match is Match.COLLECT:
            self.fail(batch, failed)
            self._collect(batch, pairs, broken)
            return
        if self.step.match is Match.FIRST and len(pairs.driver):
            pairs = pairs.first(is_complete=not self.step.is_chain_of_left_joins)
        is_missed = np.ones(batch.count, dtype=np.bool_)
        is_missed[pairs.driver] = False
        missed = np.flatnonzero(is_missed)
        missed = missed[~np.isin(missed, list(broken))] if broken else missed
        self.fail(batch, failed)
        if len(missed) and self.step.on_miss is OnMiss.ERROR:
            self.context.abort(self, "E319", "on_miss: error — no matching build row", batch, missed)
        if len(missed) and self.step.on_miss is OnMiss.NULL_FIELDS:
            pairs = pairs.with_misses(missed)
        self._emit(batch, pairs, len(broken))

    def join_in_pieces(self, batch: batches.Batch, rows: np.ndarray, most: int) -> None:
        """Join a driver record with more candidates than fit in memory: they are tested and pushed in pieces.

        If the body fails for one pair, the record emits nothing. So the body is evaluated once before anything is
        pushed.
        """
        matches: list[np.ndarray] = []
        enough = self.enough or len(rows)
        for start in range(0, len(rows), most):
            pairs, failed = self.chains(batch, np.zeros(min(most, len(rows) - start), np.int64), rows[start:][:most])
            if failed:
                self.emit_matches(batch, pairs, failed)
                return
            matches.append(pairs.builds[self.step.builds[0]])
            if sum(map(len, matches)) >= enough:
                break
        found = Pairs(np.zeros(sum(map(len, matches)), np.int64), {self.step.builds[0]: np.concatenate(matches)})
        if self.step.match is not Match.ALL or len(found.driver) <= most:
            self.emit_matches(batch, found.slice(0, enough), [])
            return
        pieces = [found.slice(start, most) for start in range(0, len(found.driver), most)]
        pieces = next(([piece] for piece in pieces if self._fails(batch, piece)), pieces)
        for number, piece in enumerate(pieces):
            self._emit(batch, piece, 0, drivers=0 if number else 1)

    def _fails(self, batch: batches.Batch, pairs: Pairs) -> bool:
        """True if the body fails for some pair. Its log lines are not written here."""
        assert self.body is not None
        assert self.step.body is not None
        joined, self.context.running = self._joined(batch, pairs, self.step.body), None
        return bool(self.body(joined.data, engine.EvaluationContext(self.system_values(joined))).failures)

    def chains(
        self, batch: batches.Batch, chosen: np.ndarray, rows: np.ndarray
    ) -> tuple[Pairs, list[engine.RowFailure]]:
        """All matching chains, in driver order, then build order; and the driver records for which a part fails.

        The candidates of the first build side are given. Those of a later one are looked up for the chains so far.
        """
        pairs = Pairs(np.arange(batch.count), {})
        failed: list[engine.RowFailure] = []
        for position, qualifier in enumerate(self.step.builds):
            failing: list[engine.RowFailure] = []
            if position > 0:
                pairs, keys, failing = self._chained_keys(batch, pairs, qualifier)
                failed += failing
                chosen, rows = self._looked_up(batch, pairs, qualifier, keys)
            before = pairs
            pairs = pairs.take(chosen)
            pairs.builds[qualifier] = rows
            if qualifier in self.residuals and len(pairs.driver):
                kept, failing = self._tested(batch, pairs, qualifier)
                failed += failing
                pairs, chosen = pairs.take(kept), chosen[kept]
            if self.step.is_chain_of_left_joins:
                pairs = before.left_joined(chosen, pairs, qualifier)
            if failing:
                pairs = pairs.without([item.row for item in failing])
        return pairs, sorted(failed, key=lambda item: item.row)

    def _looked_up(
        self, batch: batches.Batch, pairs: Pairs, qualifier: str, keys: list[pa.Array]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The chains so far, and their candidates among the records of a later build side."""
        table, count = self.tables[qualifier], len(pairs.driver)
        located = table.find(count, keys, self.compared(batch, pairs, qualifier))
        most = self.context.tuning.pair_rows
        found = [(chosen + start, rows) for start, _, chosen, rows in table.candidates(located, most)]
        if not found:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return np.concatenate([chosen for chosen, _ in found]), np.concatenate([rows for _, rows in found])

    def compared(self, batch: batches.Batch, pairs: Pairs, qualifier: str) -> Compared:
        """Evaluate the driver's side of the ranges of a build side, for each record or chain so far."""
        programs = self.range_programs[qualifier]
        made = [
            self.run(compiled, self._joined(batch, pairs, program), engine.EvaluationContext())
            for program, compiled in programs
        ]
        return Compared.of([(result.emits[KEY], result.rows) for result in made], len(pairs.driver))

    def _chained_keys(
        self, batch: batches.Batch, pairs: Pairs, qualifier: str
    ) -> tuple[Pairs, list[pa.Array], list[engine.RowFailure]]:
        """The pairs and keys without the driver records whose key fails, and the failures of those."""
        found: list[pa.Array] = []
        failed: list[engine.RowFailure] = []
        for equality, program in self.key_programs[qualifier]:
            result = self.run(program, self._joined(batch, pairs, equality.driver), engine.EvaluationContext())
            key = result.emits[KEY]
            if result.failures:
                failing = self._of_drivers(batch, pairs, result.failures)
                is_kept = ~np.isin(pairs.driver, [item.row for item in failing])
                assert result.rows is not None  # the rows that did not fail
                key = key.filter(pa.array(is_kept[result.rows.to_numpy(zero_copy_only=False)]))
                found = [column.filter(pa.array(is_kept)) for column in found]
                pairs, failed = pairs.take(np.flatnonzero(is_kept)), failed + failing
            found.append(build.comparable(key, build.key_type(equality.driver.emits), build.common(equality)))
        return pairs, found, failed

    def _joined(self, batch: batches.Batch, pairs: Pairs, program: typed.Program) -> batches.Batch:
        """The candidate pairs as records with the qualified columns that a program reads."""
        build_rows = {q: pa.array(rows, mask=rows < 0) for q, rows in pairs.builds.items()}
        columns = {}
        for name in sorted(program.columns):
            qualifier, _, column = name.partition(".")
            is_driver = qualifier == self.step.driver
            data = batch.data if is_driver else self.tables[qualifier].records
            is_declared = (qualifier, column) not in self.step.undeclared
            found = data.column(column) if is_declared else batches.undeclared(data, column)
            columns[name] = pairs.of_drivers(found) if is_driver else found.take(build_rows[qualifier])
        if not columns:
            columns[engine_columns.NONE.name] = pa.nulls(len(pairs.driver))
        context_columns = engine_columns.context_columns(batch.data.schema.names)
        columns |= {name: pairs.of_drivers(batch.data.column(name)) for name in context_columns}
        return replace(batch, data=pa.RecordBatch.from_pydict(columns), rows=pairs.of_drivers(batch.rows))

    def _tested(self, batch: batches.Batch, pairs: Pairs, qualifier: str) -> tuple[np.ndarray, list[engine.RowFailure]]:
        """The pairs for which a part of the residual is true, and the driver records for which it fails.

        If a driver record's side of a range fails, all build records are its candidates. Most often it fails with the
        first of them.
        """
        first = np.flatnonzero(np.diff(pairs.driver, prepend=-1))
        many = first[np.diff(first, append=len(pairs.driver)) > self.context.tuning.many_candidates]
        if not len(many) or not any(each.may_fail for each in self.step.ranges):
            return self._evaluated(batch, pairs, qualifier)
        _, failed = self._evaluated(batch, pairs.take(many), qualifier)
        rest = np.flatnonzero(~np.isin(pairs.driver, [item.row for item in failed]))
        kept, more = self._evaluated(batch, pairs.take(rest), qualifier)
        return rest[kept], failed + more

    def _evaluated(
        self, batch: batches.Batch, pairs: Pairs, qualifier: str
    ) -> tuple[np.ndarray, list[engine.RowFailure]]:
        program, compiled = self.residuals[qualifier]
        result = self.run(compiled, self._joined(batch, pairs, program), engine.EvaluationContext())
        kept = np.arange(len(pairs.driver)) if result.rows is None else result.rows.to_numpy(zero_copy_only=False)
        failures = result.failures
        if failures and self.step.match is Match.FIRST and not self.step.is_chain_of_left_joins:
            # The first match decides: what follows it is not looked at.
            matched, first = np.unique(pairs.driver[kept], return_index=True)
            ends = np.full(batch.count, len(pairs.driver))
            ends[matched] = kept[first]
            failures = [item for item in failures if item.row < ends[pairs.driver[item.row]]]
        return kept, self._of_drivers(batch, pairs, failures)

    def _of_drivers(
        self, batch: batches.Batch, pairs: Pairs, failures: Iterable[engine.RowFailure]
    ) -> list[engine.RowFailure]:
        """Failures of pairs as failures of their driver records, the first of each, with the build rows of its pair."""
        found: dict[int, engine.RowFailure] = {}
        for item in failures:
            driver = int(pairs.driver[item.row])
            if driver not in found:
                found[driver] = build.combine_error(engine.RowFailure(driver, item.failure))
                self._companions(batch.slice(driver, 1), pairs, item)
        return [found[driver] for driver in sorted(found)]

    def _companions(self, driver: batches.Batch, pairs: Pairs, item: engine.RowFailure) -> None:
        """Write a companion entry for each build record in a driver record's failing chain."""
        for qualifier, rows in pairs.builds.items():
            row = int(rows[item.row])
            if row >= 0:
                self.count_replaced(0, 1)
                record = self.tables[qualifier].records.slice(row, 1)
                companion = batches.Batch(record, pa.array([0]), batches.GroupOrigin(0))
                error = build.combine_error(engine.RowFailure(0, item.failure))
                self.fail(companion, [error], cause=driver)

    def _emit(self, batch: batches.Batch, pairs: Pairs, already_failed: int, drivers: int | None = None) -> None:
        """Evaluate the body on the matches. A driver record whose body fails emits nothing.

        `drivers` is the number of driver records that the ledger counts as replaced here: all, unless another call
        emits the rest of their matches.
        """
        assert self.body is not None
        assert self.step.body is not None
        joined = self._joined(batch, pairs, self.step.body)
        result = self.run(self.body, joined, engine.EvaluationContext())
        rows = np.arange(len(pairs.driver)) if result.rows is None else result.rows.to_numpy(zero_copy_only=False)
        failed = self._of_drivers(batch, pairs, result.failures)
        emits = result.emits
        if failed:
            self.fail(batch, failed)
            kept = np.flatnonzero(~np.isin(pairs.driver[rows], [item.row for item in failed]))
            rows, emits = rows[kept], {name: column.take(pa.array(kept)) for name, column in emits.items()}
        self.drop(filtered=result.filtered)
        drivers = batch.count if drivers is None else drivers
        self.count_replaced(drivers - len(failed) - already_failed, len(rows) + result.filtered)
        self._push(batch, pairs.take(rows), emits)

    def _push(self, batch: batches.Batch, pairs: Pairs, columns: dict[str, pa.Array]) -> None:
        """Push the output records, with the pass-through columns."""
        out = {column.name: columns[column.name] for column in self.step.output if column.name in columns}
        data = pa.RecordBatch.from_pydict(out | self._passed_through(batch, pairs))
        self.give(replace(batch, data=data, rows=pairs.of_drivers(batch.rows)))

    def _passed_through(self, batch: batches.Batch, pairs: Pairs) -> dict[str, pa.Array]:
        """Columns that pass through beside the results: undeclared columns of the driver and inherited keys."""
        builds = {qualifier: table.records for qualifier, table in self.tables.items()}
        found = columns(self.step, batch.data, builds, pairs)
        return found | self.context.correlation.joined_columns(len(pairs.driver))

    def give(self, batch: batches.Batch) -> None:
        """Push the results downstream."""
        for piece in self.slices(batch):
            self.push(piece)

    def _collect(self, batch: batches.Batch, pairs: Pairs, broken: set[int]) -> None:
        """One record per driver record, with the matches of each build side as an array of maps."""
        added = self._passed_through(batch, firsts(pairs, batch.count))
        for qualifier in self.step.builds:
            found = pairs if len(self.step.builds) == 1 else pairs.of(qualifier)
            taken, cut = collecting.first_matches(found.driver)
            if cut:
                truncated = f"truncated at {collecting.LIMIT} matches for {cut} records"
                self.log("warn", f'combine "{self.step.name}" match: collect {truncated}')
                found = found.take(taken)
            records, columns = self.tables[qualifier].records, self.step.collected(qualifier)
            texts = collecting.texts(records, columns, pa.array(found.builds[qualifier]))
            added[qualifier] = collecting.arrays(batch.count, found.driver, texts)
        whole = replace(batch, data=batches.overlay(batch.data, added))
        self.give(whole.take(batches.indices_except(batch.count, sorted(broken))) if broken else whole)
