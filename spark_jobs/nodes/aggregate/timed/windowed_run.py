"""The operators of aggregates with tumbling or hopping windows: the window is an additional group key.

`Partial` finds the windows of each record and groups by them. Records that are certainly late within their task become
dead letters there. `Final` knows the watermark before each group and removes late ones (`watermarks.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import memory, sorted_runs
from spark_jobs.nodes.aggregate import partial
from spark_jobs.nodes.aggregate.timed import suspects, windowed, windows
from spark_jobs.nodes.aggregate.timed.watermarks import PASSED
from spark_jobs.nodes.aggregate.timed.windowed import NTH, NUMBER
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from spark_jobs.nodes.aggregate.partial import _Grouped
    from spark_jobs.nodes.aggregate.timed.watermarks import EarlierMaxima, Numbers


@dataclass
class Partial(windowed.Partial):
    """Groups the records of a task by their windows and keys."""

    def open(self) -> None:
        super().open()
        #: With one source, a window is certainly closed or certainly open when a record arrives.
        self.marks = (PASSED,) if self.window.sources > 1 else ()
        #: In passes that collect records, each record is a group of its own until its windows are complete.
        self.record_columns = self.context.correlation.record_columns
        self.grouping = partial.Grouping(self.step, self.context, (NUMBER, *self.marks, *self.record_columns))

    @property
    def meeting_keys(self) -> list[str]:
        """The keys without the set of passed sources, which does not distinguish groups in the end."""
        return [*self.grouping.names, NUMBER]

    def process(self, batch: batches.Batch, port: int) -> None:
        """Assign records to windows, with the watermarks at their arrival."""
        batch, times = self.timed(self.take(batch))
        seen = self.watch(batch, times)
        nth = {NTH: pa.array(np.arange(batch.count))}
        batch, columns = self.ready(replace(batch, data=batches.overlay(batch.data, nth)))
        rows = batch.data.column(NTH).to_numpy()
        spans = windows.Spans.of(self.window, times[rows])
        passed = self.sets.of(seen, rows, windows.closes(self.window, spans.last))
        is_inside = spans.first <= spans.last
        self.drop(filtered=int(np.count_nonzero(~is_inside)))
        is_late = np.isin(passed, self.sets.complete(self.window.sources)) & is_inside
        late = np.flatnonzero(is_late)
        self.fail_late(batch, late, spans.first[late] * self.window.slide_us)
        kept = np.flatnonzero(is_inside & ~is_late)
        if len(kept) < batch.count:
            taken = pa.array(kept)
            batch, columns = batch.take(taken), {name: column.take(taken) for name, column in columns.items()}
            rows, spans, passed = rows[kept], spans.take(kept), passed[kept]
        self.count_replaced(batch.count, 0)
        self._suspect(batch, spans, passed)
        prepared = self.prepared(batch, columns)
        if self.record_columns:
            data = batches.with_origin(batch, batch.data, self.context.branches)
            prepared |= {name: data.column(name) for name in self.grouping.origin}
        self._hold_copies(batch, prepared, (rows, spans, passed), seen)

    def _suspect(self, batch: batches.Batch, spans: windows.Spans, passed: Numbers) -> None:
        """Report the places of records that might be late. Before the first task nothing has passed."""
        rank = self.stream.rank(batch)
        if not rank or not batch.count:
            return
        data = batches.with_origin(batch, batch.data, self.context.branches)
        known = {name: data.column(name) for name in self.grouping.origin}
        known |= {order.AT: batch.places, suspects.FIRST: pa.array(spans.first), suspects.LAST: pa.array(spans.last)}
        if self.marks:
            known[PASSED] = pa.array(passed)
        self.suspect(pa.table(known), (rank + self._suspected) % self.partitions, rank)
        self._suspected += 1

    def _hold_copies(
        self,
        batch: batches.Batch,
        prepared: dict[str, pa.Array],
        found: tuple[Numbers, windows.Spans, Numbers],
        seen: EarlierMaxima,
    ) -> None:
        """Buffer a copy of each record for each of its windows that is not certainly closed."""
        rows, spans, passed = found
        is_single = self.window.slide_us == self.window.size_us
        width = sum(column.nbytes for column in prepared.values()) // max(batch.count, 1) + 16
        room = max(memory.step_bytes(self.context.memory_pool.share) // width, 1)
        for which, numbers in spans.copies(min(windows.COPIES, room)):
            copies = prepared
            if not is_single:
                passed = self.sets.of(seen, rows[which], windows.closes(self.window, numbers))
                is_open = ~np.isin(passed, self.sets.complete(self.window.sources))
                taken, numbers, passed = pa.array(which[is_open]), numbers[is_open], passed[is_open]
                copies = {name: column.take(taken) for name, column in prepared.items()}
            copies = {**copies, NUMBER: pa.array(numbers)}
            if self.marks:
                copies[PASSED] = pa.array(passed)
            self.hold(batch, copies)

    def _send(self, state: _Grouped) -> None:
        for table in state.partial if self.partitions > 1 else ():
            self.note_sample(table.column(NUMBER), table.column(order.AT))
        super()._send(state)


@dataclass
class Final(windowed.Final):
    """Merges the groups of a partition, without late records."""

    shared_keys: ClassVar[tuple[str, ...]] = (NUMBER,)

    def receive(self, table: pa.Table) -> None:
        """Add groups of a task, or the places of its records."""
        if suspects.LAST in table.schema.names:
            self._judge(suspects.decode_places(table))
            return
        is_open = windows.closes(self.window, table.column(NUMBER).to_numpy()) > self._reached(table)
        if not is_open.all():
            table = table.filter(pa.array(is_open))
        if PASSED in table.schema.names:
            # Groups that differ only in their set are one from here on, so they stand in record order.
            table = table.drop_columns([PASSED]).take(sorted_runs.order(table, [order.AT]))
        if table.num_rows:
            self.collect(table)
            super().receive(table)

    def _reached(self, table: pa.Table) -> Numbers:
        """The event time that all sources had reached before each group or record of a task."""
        has_sets = PASSED in table.schema.names
        passed = table.column(PASSED).to_numpy() if has_sets else np.zeros(table.num_rows, dtype=np.int64)
        return self.received.reached(table.column(order.AT)[0].as_py() >> order.ROW_BITS, passed)

    def _judge(self, places: pa.Table) -> None:
        """Fail records that are late in all their windows."""
        closes = windows.closes(self.window, places.column(suspects.LAST).to_numpy())
        late = places.filter(pa.array(closes <= self._reached(places)))
        if late.num_rows:
            starts = late.column(suspects.FIRST).to_numpy() * self.window.slide_us
            self.fail_late(late, starts, starts + self.window.size_us)


#: The operators of an aggregate with windows of fixed lengths, by their roles.
OPERATORS = {shape.Role.PARTIAL: Partial, shape.Role.FINAL: Final, shape.Role.ORDERED: windowed.RestoreOrder}
