"""Joins a build side that is larger than a task's memory, a chunk at a time.

Matches are stored with the numbers of their driver and build records, and sorted by these after the last chunk
(`spill.ExternalSorter`). So results, failures and their order are the same as for a build side that fits in memory.
Each probe reads the whole build side again, so as many driver records as possible are buffered for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine
from spark_jobs.nodes import spill
from spark_jobs.nodes.combine import collecting
from spark_jobs.nodes.combine.index import BuildTable
from spark_jobs.nodes.combine.joining import Pairs
from spark_jobs.nodes.combine.step import Match
from spark_jobs.nodes.records import batches, columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.nodes.combine.index import Compared
    from spark_jobs.nodes.combine.run import Combine

#: Columns of matches: the driver record's number among the buffered ones, and the build record's number.
_DRIVER, _ROW = columns.MATCHED.of("driver"), columns.MATCHED.of("row")


class Waiting:
    """Driver records of a batch that probe one chunk after another.

    Args:
        batch: the records.
        keys: the driver's side of the keys.
        compared: the driver's side of the ranges.
        start: the number of driver records buffered before these.
    """

    def __init__(self, batch: batches.Batch, keys: Sequence[pa.Array], compared: Compared, start: int) -> None:
        self.batch = batch
        self.start = start
        self._keys = keys
        self._compared = compared
        self._found = np.zeros(batch.count, dtype=np.int64)
        self.failed: dict[int, engine.RowFailure] = {}

    def matches(self, combine: Combine, table: BuildTable) -> Iterator[Pairs]:
        """The pairs with records of a chunk, in driver order, then build order, for records that need more matches."""
        enough = combine.enough
        is_open = np.ones(self.batch.count, dtype=np.bool_) if enough is None else self._found < enough
        is_open[list(self.failed)] = False
        chosen = np.flatnonzero(is_open)
        some = pa.array(chosen)
        part = self.batch.take(some)
        located = table.find(part.count, [key.take(some) for key in self._keys], self._compared.take(some))
        most = combine.most_pairs(part)
        for start, end, drivers, rows in table.candidates(located, most):
            piece = part.slice(start, end - start)
            for low in range(0, len(rows), most):
                pairs, failing = combine.chains(piece, drivers[low:][:most], rows[low:][:most])
                for item in failing:
                    row = int(chosen[start + item.row])
                    self.failed.setdefault(row, engine.RowFailure(row, item.failure))
                found = Pairs(chosen[start + pairs.driver], pairs.builds)
                if combine.step.match is Match.FIRST:
                    found = found.first(is_complete=True)
                if combine.step.match is Match.COLLECT:
                    found = found.take(np.flatnonzero(self._found[found.driver] <= collecting.LIMIT))
                np.add.at(self._found, found.driver, 1)
                if len(found.driver):
                    yield found
                if failing or (enough is not None and end - start == 1 and self._found[chosen[start]] >= enough):
                    break

    def pairs(self, low: int, high: int, drivers: np.ndarray, qualifier: str) -> tuple[Pairs, list[engine.RowFailure]]:
        """The matches and failures of the records `low` to `high`. Row numbers in the result count from `low`.

        Args:
            low: the first record of the batch.
            high: the one after the last.
            drivers: the driver record of each match, in order.
            qualifier: the build side.
        """
        first, last = np.searchsorted(drivers, [low, high])
        found = Pairs(drivers[first:last] - low, {qualifier: np.arange(first, last)})
        failed = [
            engine.RowFailure(row - low, item.failure) for row, item in sorted(self.failed.items()) if low <= row < high
        ]
        return (found.without([item.row for item in failed]) if failed else found), failed


def probe(combine: Combine, waiting: Sequence[Waiting], table: pa.Table) -> None:
    """Join driver records with all records of a build side.

    Raises:
        ResourcesExhausted: a build record, or one driver record's matches, do not fit into the task's memory (E310).
    """
    (qualifier,) = combine.step.builds
    matches = spill.ExternalSorter(combine.context, combine.step.name, by=(_DRIVER, _ROW))
    for first, chunk in combine.cut(qualifier, table):
        combine.tables[qualifier] = combine.indexed(qualifier, chunk)
        for each in waiting:
            for pairs in each.matches(combine, combine.tables[qualifier]):
                rows = pairs.builds[qualifier]
                found = pa.Table.from_batches([combine.tables[qualifier].records.take(pa.array(rows))])
                found = found.append_column(_DRIVER, pa.array(pairs.driver + each.start))
                matches.add(found.append_column(_ROW, pa.array(rows + first)))
        combine.forget(qualifier)
    done = 0
    for found in _whole(combine, matches.tables()):
        drivers = found.column(_DRIVER).to_numpy()
        _emit_complete(combine, waiting, found, drivers, done, int(drivers[-1]) + 1)
        done = int(drivers[-1]) + 1
    nothing = np.zeros(0, dtype=np.int64)
    _emit_complete(combine, waiting, table.slice(0, 0), nothing, done, waiting[-1].start + waiting[-1].batch.count)
    combine.forget(qualifier)


def _emit_complete(
    combine: Combine, waiting: Sequence[Waiting], found: pa.Table, drivers: np.ndarray, low: int, high: int
) -> None:
    """Emit the driver records `low` to `high`, whose matches are complete."""
    (qualifier,) = combine.step.builds
    records = batches.gather(found.drop_columns([name for name in (_DRIVER, _ROW) if name in found.column_names]))
    combine.tables[qualifier] = BuildTable(records, np.arange(records.num_rows))
    for each in waiting:
        start, end = max(low, each.start), min(high, each.start + each.batch.count)
        most = combine.most_pairs(each.batch)
        while start < end:
            stop = min(start + most, end)
            pairs, failed = each.pairs(start - each.start, stop - each.start, drivers - each.start, qualifier)
            combine.emit_matches(each.batch.slice(start - each.start, stop - start), pairs, failed)
            start = stop


def _whole(combine: Combine, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Regroup the matches so that one table has all matches of a driver record."""
    held: pa.Table | None = None
    for table in tables:
        held = table if held is None else pa.concat_tables([held, table])
        drivers = held.column(_DRIVER).to_numpy()
        cut = int(np.searchsorted(drivers, drivers[-1]))
        if cut:
            yield held.slice(0, cut)
            held = held.slice(cut)
        elif held.nbytes > combine.reservation.room:
            raise spill.ResourcesExhausted(
                "E310",
                f"a record of '{combine.step.driver}' has matches of {held.nbytes} bytes and more, memory.limit leaves "
                f"{combine.context.memory_pool.share} to each task; raise memory.limit, or use fewer threads",
                combine.step.name,
            )
    if held is not None:
        yield held
