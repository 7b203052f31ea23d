"""Base operators of aggregates with time windows: event times, watermarks, late records, order by windows.

Groups come in the order of their windows, and within a window in the order of their first records. The partitions of
`RestoreOrder` share the windows by a sample that tasks report with their watermarks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import memory, sorted_runs, spill
from spark_jobs.nodes.aggregate import partial, run
from spark_jobs.nodes.aggregate.timed import suspects, watermarks, windows
from spark_jobs.nodes.correlation import Contributions
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.records.columns import CORRELATION, GROUP, ORIGIN_NAMES, SOURCE, WINDOW

if TYPE_CHECKING:
    from spark_jobs.nodes.aggregate.step import AggregateStep
    from spark_jobs.nodes.aggregate.timed.time_window import TimeWindow
    from spark_jobs.nodes.aggregate.timed.watermarks import EarlierMaxima, Numbers

EVENT_TIME = SOURCE.of("event_time")
#: A record's index in the batch in which the operator received it.
NTH = WINDOW.of("nth")
#: The sort key of a group's window: its number or its start.
NUMBER = WINDOW.of("number")
#: Groups come in this order.
ORDERED_BY = (NUMBER, order.AT)
#: How many of its groups a task samples to report their places; fewer if there are very many tasks.
_SAMPLE, _SAMPLES = 32, 16_384


def _stage(step: AggregateStep) -> str:
    """The stage that dead letters of late records name."""
    return f"time_window:{step.name}"


@dataclass
class Partial(partial.Partial):
    """Groups the records of a task that have an event time, and broadcasts the event times its sources have reached."""

    def open(self) -> None:
        super().open()
        assert self.step.time_window is not None
        self.window: TimeWindow = self.step.time_window
        self.sets = watermarks.Sets()
        self.watches: dict[int, watermarks.WatermarkTracker] = {}
        self.sample: list[tuple[int, int]] = []
        self._suspected = 0

    def timed(self, batch: batches.Batch) -> tuple[batches.Batch, Numbers]:
        """The records that have an event time, and their times in microseconds. Others are skipped and counted."""
        if EVENT_TIME not in batch.data.schema.names:
            self.drop(filtered=batch.count)
            return batch.slice(0, 0), np.empty(0, dtype=np.int64)
        times = batch.data.column(EVENT_TIME)
        if times.null_count:
            self.drop(filtered=times.null_count)
            batch = batch.take(pa.array(np.flatnonzero(times.is_valid().to_numpy(zero_copy_only=False))))
        return batch, pc.cast(batch.data.column(EVENT_TIME), pa.int64()).to_numpy()

    def watch(self, batch: batches.Batch, times: Numbers) -> EarlierMaxima:
        """Advance the watermarks by a batch. Every record counts, even if it fails later."""
        sources, _, _ = batch.origin.identify(batch, pa.array(np.arange(batch.count)))
        watch = self.watches.setdefault(self.stream.rank(batch), watermarks.WatermarkTracker())
        return watch.take(times, sources.to_numpy().astype(np.int64))

    def fail_late(self, batch: batches.Batch, rows: Numbers, starts: Numbers) -> None:
        """Fail records of a batch that are certainly late, given the starts of their windows."""
        late = windows.late(self.step.name, rows, starts, starts + self.window.size_us)
        # Records that are found late after an exchange have lost their correlation keys. Dead letters must not depend
        # on where lateness is found, so they show the key that the record was read with.
        known = [name for name in batch.data.schema.names if name not in CORRELATION]
        self.fail(replace(batch, data=batch.data.select(known)), late, stage=_stage(self.step))

    def collect(self, batch: batches.Batch, prepared: dict[str, pa.Array]) -> None:
        """Do nothing: the final operator knows the windows of each record and reports them."""

    def suspect(self, places: pa.Table, partition: int, rank: int) -> None:
        """Send the places of records that might be late."""
        wide = pa.table({name: places.column(name).cast(pa.int64()) for name in places.schema.names})
        for piece in spill.slices(wide, memory.step_bytes(self.context.memory_pool.share)):
            columns = {name: piece.column(name).to_numpy() for name in piece.schema.names}
            self.context.exchanges.send(self.exchange, partition, rank, suspects.encode_places(columns))

    def note_sample(self, numbers: pa.ChunkedArray, places: pa.ChunkedArray) -> None:
        """Add a few of the groups to the sample of places."""
        chosen = pa.array(np.linspace(0, len(places) - 1, min(_SAMPLE, len(places))).astype(np.int64))
        self.sample += zip(numbers.take(chosen).to_pylist(), places.take(chosen).to_pylist(), strict=True)

    def finish(self) -> None:
        """Send the remaining groups, and broadcast the event times that the sources have reached."""
        super().finish()
        most = max(1, min(_SAMPLE, _SAMPLES // len(self.arrivals.numbers)))
        step = max(1, len(self.sample) // most)
        sample = sorted(self.sample)[step // 2 :: step] if self.partitions > 1 else []
        self.context.exchanges.broadcast(self.exchange, watermarks.message(self.watches, self.sets, sample))


@dataclass
class Final(run.Final):
    """Merges the groups of a partition, and sends them to the range partitions of their windows."""

    ordered_by: ClassVar[tuple[str, ...]] = ORDERED_BY

    def open(self) -> None:
        super().open()
        assert self.step.time_window is not None
        self.window: TimeWindow = self.step.time_window
        self.received = watermarks.ReceivedWatermarks(self.window.sources)

    def receive_message(self, message: bytes) -> None:
        self.received.receive_message(message)

    def collect(self, records: pa.Table) -> None:
        """Report the windows of records if correlation asks for them. In that case records arrive ungrouped."""
        self.context.correlation.collect(self.step.name, lambda: self._contributions(records))

    def _contributions(self, records: pa.Table) -> Contributions:
        split, row = (partial.array(records, name) for name in ORIGIN_NAMES[1:])
        return Contributions(split, row, pa.nulls(records.num_rows, GROUP.type), self.row_keys(records))

    def fail_late(self, places: pa.Table, starts: Numbers, ends: Numbers) -> None:
        """Fail late records, given their places and the bounds of their windows."""
        columns = {name: partial.array(places, name) for name in self.grouping.origin}
        data, rows = pa.RecordBatch.from_pydict(columns), np.arange(places.num_rows)
        origin = batches.GroupOrigin(self.number_of_partition)
        batch = batches.Batch(data, pa.array(rows), origin, at=partial.array(places, order.AT))
        self.count_replaced(0, batch.count)
        self.fail(batch, windows.late(self.step.name, rows, starts, ends), stage=_stage(self.step))

    @property
    def has_one_group(self) -> bool:
        """False: there is no window without a record."""
        return False

    @cached_property
    def _cuts(self) -> list[tuple[int, int]]:
        """The window and place at which each range partition after the first begins."""
        sample = sorted(map(tuple, self.received.sample))
        places = (len(sample) * number // self.partitions for number in range(1, self.partitions))
        return [sample[place] for place in places] if sample else []

    def send_in_order(self, table: pa.Table) -> None:
        """Send sorted groups to the range partitions of their windows."""
        assert self.exchange is not None
        self.leave(table.num_rows)
        starts = [0, *(sorted_runs.rows_before(table, ORDERED_BY, cut, "left") for cut in self._cuts), table.num_rows]
        for number, start in enumerate(starts[:-1]):
            if part := starts[number + 1] - start:
                self.context.exchanges.send(self.exchange, number, self.number_of_partition, table.slice(start, part))


@dataclass
class RestoreOrder(run.RestoreOrder):
    """Puts groups back into the order of their windows."""

    ordered_by: ClassVar[tuple[str, ...]] = ORDERED_BY
