"""How a combine treats its driver's records: each meets the build records that match it, in build order.

Driver records are gathered until a lookup pays, then looked up by key at once. What the keys do not decide (ranges,
the rest of `where`) is evaluated on the candidate pairs. Several build sides make a chain: a driver matches when
every side has a record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine, values
from spark_jobs.nodes import operator, spill
from spark_jobs.nodes.combine import build
from spark_jobs.nodes.combine.pairs import Pairs
from spark_jobs.nodes.combine.step import KEY, Match, OnMiss
from spark_jobs.nodes.records import columns as engine_columns
from spark_jobs.nodes.records.columns import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.cxl import typed
    from spark_jobs.nodes.combine.step import CombineStep

#: Driver records that are looked up at once: Arrow hashes the build keys anew for each lookup.
PROBE_ROWS = 524_288
#: Candidate pairs that are held at once.
PAIR_ROWS = 1_048_576
#: A pair's columns: read by the body, left by it, as records, and in the nodes behind; and its places.
_PAIR_FORMS, _PAIR_BYTES = 4, 32
#: Of a task's share, what a build side leaves to the records that meet it.
_PROBED = 4
#: `collect` takes this many matches of a driver record (spec/exec.md 10.5).
COLLECT_LIMIT = 10_000


@dataclass
class Combine(operator.Operator):
    """Probes the build sides with the driver's records."""

    step: CombineStep

    def open(self) -> None:
        """Compile keys, residual and body; build sides are opened with the first record."""
        step = self.step
        self.key_programs = {
            q: [(e, operator.compiled(e.driver)) for e in step.equalities if e.build_qualifier == q]
            for q in step.builds
        }
        #: What is tested on the pairs of a build side; where none may be missing by itself, on complete chains alone.
        parts = dict(step.residuals) if step.is_chain_of_left_joins else {}
        if step.residual and not step.is_chain_of_left_joins:
            parts = {step.builds[-1]: step.residual}
        self.residuals = {q: (program, operator.compiled(program)) for q, program in parts.items()}
        self.body = operator.compiled(step.body) if step.body else None
        self.waiting: list[operator.Batch] = []
        self.waiting_rows = 0
        #: Looking up pushes records on, so it is done when enough wait here, and never because others hold too much.
        self.place = self.context.account.open()
        self.tables: dict[str, build.BuildTable] = {}

    def process(self, batch: operator.Batch, port: int) -> None:
        """Gather driver records."""
        self.gather(self.take(batch))

    def gather(self, batch: operator.Batch) -> None:
        """Keep driver records until a lookup pays."""
        self.waiting.append(batch)
        self.waiting_rows += batch.count
        self.place.add(batch.data.nbytes)
        if self.waiting_rows >= PROBE_ROWS or self.place.bytes > self.context.account.limit:
            self._probe()

    def finish(self) -> None:
        """Look up the rest."""
        if self.waiting:
            self._probe()

    def _probe(self) -> None:
        waiting, self.waiting, self.waiting_rows = self.waiting, [], 0
        if not self.tables:
            for qualifier in self.step.builds:
                self.tables[qualifier] = self._indexed(qualifier, self.build_side(qualifier))
        first = self.step.builds[0]
        prepared = [self.keyed(first, batch) for batch in waiting]
        found = None
        if self.key_programs[first]:
            columns = [
                pa.chunked_array([keys[i] for _, keys in prepared]).combine_chunks()
                for i in range(len(self.key_programs[first]))
            ]
            found = self.tables[first].find(columns)
        start = 0
        for batch, _ in prepared:
            end = start + batch.count
            located = (found[0][start:end], found[1][start:end]) if found else None
            for piece_start, piece_end in self._pieces(batch, located):
                part = batch.slice(piece_start, piece_end - piece_start)
                here = (located[0][piece_start:piece_end], located[1][piece_start:piece_end]) if located else None
                self._join(part, here)
            start = end
        self.place.set(0)

    def build_side(self, qualifier: str) -> pa.Table:
        """The records of a build side that can match."""
        return self.context.materialized(self.step.build(qualifier))

    def _indexed(self, qualifier: str, table: pa.Table) -> build.BuildTable:
        """A build side that can be looked up; it has to fit into the task's memory."""
        share = self.context.account.share
        needed = table.nbytes + table.num_rows * build.INDEX_BYTES * len(self.key_programs[qualifier])
        if needed > share - share // _PROBED:
            raise spill.Exhausted(
                "E310",
                f"the build side '{qualifier}' needs {needed} bytes at once, memory.limit leaves "
                f"{share} to each task; raise memory.limit, use fewer threads, or let that input drive",
                self.step.name,
            )
        if not table.num_columns:
            table = build.nothing(self.step, qualifier)
        self.context.account.keep(needed)
        return build.BuildTable.index(table, len(self.key_programs[qualifier]))

    def _most_pairs(self, batch: operator.Batch) -> int:
        """How many candidate pairs fit into the task's memory, in the few forms in which they are there at a time."""
        sides = [batch.data, *(table.records for table in self.tables.values())]
        width = sum(side.nbytes // max(side.num_rows, 1) for side in sides)
        return int(max(1, min(PAIR_ROWS, self.place.room // (_PAIR_FORMS * (width + _PAIR_BYTES)))))

    def _pieces(self, batch: operator.Batch, located: tuple[np.ndarray, np.ndarray] | None) -> list[tuple[int, int]]:
        """Stretches of driver records whose candidates fit in memory together."""
        count, most = batch.count, self._most_pairs(batch)
        if located is None:
            size = max(1, most // max(self.tables[self.step.builds[0]].records.num_rows, 1))
            return [(start, min(start + size, count)) for start in range(0, count, size)]
        weights = np.maximum(located[1], 1)
        if int(weights.sum()) <= most:
            return [(0, count)]
        totals = np.cumsum(weights)
        pieces, start, done = [], 0, 0
        while start < count:
            end = max(int(np.searchsorted(totals, done + most, side="right")), start + 1)
            pieces.append((start, end))
            start, done = end, int(totals[end - 1])
        return pieces

    def keyed(self, qualifier: str, batch: operator.Batch) -> tuple[operator.Batch, list[pa.Array]]:
        """The batch without the records whose key fails, and the driver's side of the keys."""
        found: list[pa.Array] = []
        for equality, program in self.key_programs[qualifier]:
            named = replace(batch, data=build.qualified(self.step, batch.data, self.step.driver))
            result = self.run(program, named, engine.Surroundings())
            if result.failures:
                self.fail(batch, [build.combine_error(item) for item in result.failures])
                kept = operator.indices_except(batch.count, [item.row for item in result.failures])
                batch, found = batch.take(kept), [column.take(kept) for column in found]
            found.append(
                build.comparable(result.emits[KEY], build.key_type(equality.driver.emits), build.common(equality))
            )
        return batch, found

    def _join(self, batch: operator.Batch, located: tuple[np.ndarray, np.ndarray] | None) -> None:
        pairs, failed = self._chains(batch, located)
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
            self._abort(batch, pairs, int(missed[0]))
        if len(missed) and self.step.on_miss is OnMiss.NULL_FIELDS:
            pairs = pairs.with_misses(missed)
        self._emit(batch, pairs, len(broken))

    def _abort(self, batch: operator.Batch, pairs: Pairs, row: int) -> None:
        """End the run at a driver record without a match; what fails in an earlier record is told instead."""
        self._emit(batch, pairs.take(np.flatnonzero(pairs.driver < row)), 0)
        self.context.abort(self, "E319", "on_miss: error — no matching build row", batch, row)

    def _chains(
        self, batch: operator.Batch, located: tuple[np.ndarray, np.ndarray] | None
    ) -> tuple[Pairs, list[engine.RowFailure]]:
        """All chains of build records that match, in driver order, then build order; drivers of which a part fails.

        The keys of the first build side are known (`located`); a later one's are computed on the chains so far.
        """
        pairs = Pairs(np.arange(batch.count), {})
        failed: list[engine.RowFailure] = []
        for position, qualifier in enumerate(self.step.builds):
            failing: list[engine.RowFailure] = []
            if position > 0:
                pairs, keys, failing = self._chained_keys(batch, pairs, qualifier)
                failed += failing
                located = self.tables[qualifier].find(keys) if keys else None
            before = pairs
            chosen, rows = self._matches(len(pairs.driver), qualifier, located)
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

    def _matches(
        self, count: int, qualifier: str, located: tuple[np.ndarray, np.ndarray] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The chains so far and the records of a build side whose keys match; all of them where there is no key."""
        table = self.tables[qualifier]
        if located is None:
            size = table.records.num_rows
            return np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
        starts, counts = located
        chosen = np.repeat(np.arange(count), counts)
        offsets = np.arange(len(chosen)) - np.repeat(np.cumsum(counts) - counts, counts)
        return chosen, table.order[np.repeat(starts, counts) + offsets]

    def _chained_keys(
        self, batch: operator.Batch, pairs: Pairs, qualifier: str
    ) -> tuple[Pairs, list[pa.Array], list[engine.RowFailure]]:
        """The pairs without the drivers of which a key fails, the keys of the others, and those drivers."""
        found: list[pa.Array] = []
        failed: list[engine.RowFailure] = []
        for equality, program in self.key_programs[qualifier]:
            result = self.run(program, self._joined(batch, pairs, equality.driver), engine.Surroundings())
            key = result.emits[KEY]
            if result.failures:
                failing = self._of_drivers(batch, pairs, result.failures)
                is_kept = ~np.isin(pairs.driver, [item.row for item in failing])
                assert result.rows is not None  # those that did not fail
                key = key.filter(pa.array(is_kept[result.rows.to_numpy(zero_copy_only=False)]))
                found = [column.filter(pa.array(is_kept)) for column in found]
                pairs, failed = pairs.take(np.flatnonzero(is_kept)), failed + failing
            found.append(build.comparable(key, build.key_type(equality.driver.emits), build.common(equality)))
        return pairs, found, failed

    def _joined(self, batch: operator.Batch, pairs: Pairs, program: typed.Program) -> operator.Batch:
        """The candidate pairs as records of qualified columns: those that a program reads."""
        driver = pa.array(pairs.driver)
        build_rows = {q: pa.array(rows, mask=rows < 0) for q, rows in pairs.builds.items()}
        columns = {}
        for name in sorted(program.columns):
            qualifier, _, column = name.partition(".")
            is_driver = qualifier == self.step.driver
            data = batch.data if is_driver else self.tables[qualifier].records
            is_declared = (qualifier, column) not in self.step.undeclared
            found = data.column(column) if is_declared else operator.undeclared(data, column)
            columns[name] = found.take(driver if is_driver else build_rows[qualifier])
        if not columns:
            columns[engine_columns.NONE.name] = pa.nulls(len(driver))
        around = engine_columns.around(batch.data.schema.names)
        columns |= {name: batch.data.column(name).take(driver) for name in around}
        return replace(batch, data=pa.RecordBatch.from_pydict(columns), rows=batch.rows.take(driver))

    def _tested(
        self, batch: operator.Batch, pairs: Pairs, qualifier: str
    ) -> tuple[np.ndarray, list[engine.RowFailure]]:
        """The pairs for which a part of the rest of `where` is true, and the drivers for which it fails."""
        program, compiled = self.residuals[qualifier]
        result = self.run(compiled, self._joined(batch, pairs, program), engine.Surroundings())
        failed = self._of_drivers(batch, pairs, result.failures)
        kept = np.arange(len(pairs.driver)) if result.rows is None else result.rows.to_numpy(zero_copy_only=False)
        return kept, failed

    def _of_drivers(
        self, batch: operator.Batch, pairs: Pairs, failures: Iterable[engine.RowFailure]
    ) -> list[engine.RowFailure]:
        """Failures of pairs as failures of their drivers, the first of each, with the build rows that took part."""
        found: dict[int, engine.RowFailure] = {}
        for item in failures:
            driver = int(pairs.driver[item.row])
            if driver not in found:
                found[driver] = build.combine_error(engine.RowFailure(driver, item.failure))
                self._companions(batch.slice(driver, 1), pairs, item)
        return [found[driver] for driver in sorted(found)]

    def _companions(self, driver: operator.Batch, pairs: Pairs, item: engine.RowFailure) -> None:
        """An entry for each build record of a driver's failing pair (decision 62)."""
        for qualifier, rows in pairs.builds.items():
            row = int(rows[item.row])
            if row >= 0:
                self.become(0, 1)
                record = self.tables[qualifier].records.slice(row, 1)
                companion = operator.Batch(record, pa.array([0]), operator.GroupOrigin(0))
                error = build.combine_error(engine.RowFailure(0, item.failure))
                self.fail(companion, [error], cause=driver)

    def _emit(self, batch: operator.Batch, pairs: Pairs, already_failed: int) -> None:
        """Evaluate the body on the matches; a driver whose body fails gives nothing."""
        assert self.body is not None
        assert self.step.body is not None
        joined = self._joined(batch, pairs, self.step.body)
        result = self.run(self.body, joined, engine.Surroundings())
        rows = np.arange(len(pairs.driver)) if result.rows is None else result.rows.to_numpy(zero_copy_only=False)
        failed = self._of_drivers(batch, pairs, result.failures)
        emits = result.emits
        if failed:
            self.fail(batch, failed)
            kept = np.flatnonzero(~np.isin(pairs.driver[rows], [item.row for item in failed]))
            rows, emits = rows[kept], {name: column.take(pa.array(kept)) for name, column in emits.items()}
        self.drop(filtered=result.filtered)
        self.become(batch.count - len(failed) - already_failed, len(rows) + result.filtered)
        self._push(batch, pairs.take(rows), emits)

    def _push(self, batch: operator.Batch, pairs: Pairs, columns: dict[str, pa.Array]) -> None:
        """The output records, with what rides along unseen: widened columns of the driver, carried keys."""
        driver = pa.array(pairs.driver)
        out = {column.name: columns[column.name] for column in self.step.output if column.name in columns}
        for name, qualifier, column in self.step.carried:
            if qualifier == self.step.driver:
                out[name] = batch.data.column(column).take(driver)
            else:
                rows = pairs.builds[qualifier]
                out[name] = self.tables[qualifier].records.column(column).take(pa.array(rows, mask=rows < 0))
        for name in engine_columns.with_fate(Fate.OF_DRIVER, "combine", batch.data.schema.names):
            out[name] = batch.data.column(name).take(driver)
        data = pa.RecordBatch.from_pydict(out)
        self.give(replace(batch, data=data, rows=batch.rows.take(driver)))

    def give(self, batch: operator.Batch) -> None:
        """Results leave the node."""
        for piece in self.portions(batch):
            self.push(piece)

    def _collect(self, batch: operator.Batch, pairs: Pairs, broken: set[int]) -> None:
        """One record per driver, with the matches of the build side as an array of maps."""
        (qualifier,) = self.step.builds
        schema = dict(self.step.schemas)[qualifier]
        records = self.tables[qualifier].records
        decoded = {c.name: values.from_arrow(records.column(c.name), c.type) for c in schema.user_columns}
        matches: list[list[dict[str, Any]]] = [[] for _ in range(batch.count)]
        for driver, row in zip(pairs.driver.tolist(), pairs.builds[qualifier].tolist(), strict=True):
            if len(matches[driver]) < COLLECT_LIMIT:
                matches[driver].append({name: column[row] for name, column in decoded.items()})
        kept = np.array([i for i in range(batch.count) if i not in broken], dtype=np.int64)
        static = self.step.output.get(qualifier).type  # type: ignore[union-attr]
        column = values.to_arrow([matches[i] for i in kept], static)
        rows = pa.array(kept)
        data = operator.overlay(batch.data.take(rows), {qualifier: column})
        self.give(replace(batch, data=data, rows=batch.rows.take(rows)))
