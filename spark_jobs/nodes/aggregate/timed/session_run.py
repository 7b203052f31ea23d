"""The operators of aggregates with session windows. A session's end is known only after all its records have arrived.

`Partial` merges its records into pieces (`sessions.py`). Three kinds of records are not merged. First, a record that
may be late although others of its piece are not: a session that continues in another task closes later. Second, all
records if a function depends on their order, because the records of two pieces of one session may interleave. Third,
all records in passes that search for the records of a session. `Final` knows the watermark before each piece. It merges
a piece that cannot be late at once. A piece that may be late waits, with the places of its records, until its session
is complete.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import partition, sorted_runs
from spark_jobs.nodes.aggregate import accumulators, groups, partial
from spark_jobs.nodes.aggregate.timed import sessions, suspects, windowed
from spark_jobs.nodes.aggregate.timed.session_flow import Flow, SessionMap
from spark_jobs.nodes.aggregate.timed.watermarks import NEVER
from spark_jobs.nodes.aggregate.timed.windowed import NTH, NUMBER
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.records.columns import WINDOW
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.nodes.aggregate.partial import Grouping, _Grouped
    from spark_jobs.nodes.aggregate.timed.watermarks import Numbers

#: The first and the last time of a piece.
SINCE, UNTIL = WINDOW.of("since"), WINDOW.of("until")
#: The event time that a source had reached before a piece, by the source's number; and the time that all sources had
#: reached, for pieces that may be late.
_REACHED, PASSED = WINDOW.of("reached."), WINDOW.of("passed_by")
#: The place of a piece's first record, stored with the places of its other records.
PIECE = WINDOW.of("piece")
#: The place of the last record of a piece, if a function needs it.
_END = WINDOW.of("end")
#: The number of a session while its pieces are merged.
_SESSION = WINDOW.of("session")


def needs_order(grouping: Grouping) -> bool:
    """True if a function needs the order of all records of a group. Places suffice for the first and the last."""
    return any(each.needs_order for each in grouping.state_accumulators)


def _needs_end(grouping: Grouping) -> bool:
    """True if a function needs the last record of a group."""
    return any(each.needs_last for each in grouping.state_accumulators)


@dataclass
class Partial(windowed.Partial):
    """Merges the records of a task into pieces."""

    def open(self) -> None:
        super().open()
        self.is_alone = needs_order(self.grouping) or bool(self.context.correlation.record_columns)

    def process(self, batch: batches.Batch, port: int) -> None:
        """Buffer records with the watermarks at their arrival."""
        batch, times = self.timed(self.take(batch))
        seen = self.watch(batch, times)
        nth = {NTH: pa.array(np.arange(batch.count))}
        batch, columns = self.ready(replace(batch, data=batches.overlay(batch.data, nth)))
        self.count_replaced(batch.count, 0)
        rows = batch.data.column(NTH).to_numpy()
        data = batches.with_origin(batch, batch.data, self.context.branches)
        prepared = self.prepared(batch, columns) | {name: data.column(name) for name in self.grouping.origin}
        prepared |= {_reached(source): pa.array(times[rows]) for source, times in seen.before.items()}
        self.hold(batch, {**prepared, SINCE: pa.array(times[rows])})

    def _sample(self, part: dict[str, pa.Array]) -> pa.Table:
        """Every record: there may be as many pieces as records."""
        return pa.table({order.AT: part[order.AT]})

    def _group(self, state: _Grouped) -> None:
        """Merge the buffered records into pieces, and send them."""
        columns, count = _joined(state.raw), state.raw_rows
        state.raw, state.raw_rows, state.raw_bytes = [], 0, 0
        self._count_held()
        numbers = self._pieces(columns, count)
        states = []
        for accumulator in self.grouping.state_accumulators:
            states += accumulator.first([columns[name] for name in accumulator.call.arguments], count)
        if _needs_end(self.grouping):
            states.append(accumulators.Grouped(_END, columns[order.AT], "max"))
        pieces = reduced(self.grouping, columns, numbers, states)
        range_partitions = self._range_partitions(pieces)
        for range_partition, part in partition.cut(pieces, range_partitions):
            self.note_sample(part.column(SINCE), part.column(order.AT))
            self.context.exchanges.send(self.exchange, range_partition, state.rank, part.drop_columns([_SESSION]))
        # No watermark has passed before the first task.
        if state.rank and pieces.num_rows < count:
            range_partition_of = np.zeros(int(numbers.max()) + 1, dtype=np.int64)
            range_partition_of[pieces.column(_SESSION).to_numpy()] = range_partitions
            self._suspect(
                {name: columns[name] for name in (*self.grouping.origin, order.AT)},
                numbers,
                range_partition_of,
                state.rank,
            )

    def _pieces(self, columns: dict[str, pa.Array], count: int) -> Numbers:
        """The number of each record's piece. The bounds of the pieces are added to the columns."""
        if self.is_alone:
            columns[UNTIL] = columns[SINCE]
            return np.arange(count)
        times, window = columns[SINCE].to_numpy(), self.window
        keys = sessions.key_numbers([columns[name] for name in self.grouping.keys], count)
        found = sessions.Sessions.found(keys, times, times, window.size_us)
        since, until = found.first[found.of], found.last[found.of]
        reached = {name: column.to_numpy() for name, column in columns.items() if name.startswith(_REACHED)}
        is_alone = np.zeros(count, dtype=bool)
        for passed in reached.values():
            is_alone |= passed >= until + (window.size_us + window.lateness_us)
        columns |= {name: pa.array(np.where(is_alone, passed, NEVER)) for name, passed in reached.items()}
        columns[SINCE] = pa.array(np.where(is_alone, times, since))
        columns[UNTIL] = pa.array(np.where(is_alone, times, until))
        return np.where(is_alone, len(found.first) + np.arange(count), found.of)

    def _range_partitions(self, pieces: pa.Table) -> Numbers:
        keys = self.grouping.keys
        if not keys or self.partitions == 1:
            return np.zeros(pieces.num_rows, dtype=np.int64)
        return partition.numbers([pieces.column(name) for name in keys], self.partitions)

    def _suspect(self, columns: dict[str, pa.Array], numbers: Numbers, range_partitions: Numbers, rank: int) -> None:
        """Report the places of the records that follow others in their piece."""
        at = columns[order.AT].to_numpy()
        firsts = np.empty(len(range_partitions), dtype=np.int64)
        firsts[numbers[::-1]] = at[::-1]  # the last assignment wins, which is the first record
        others = np.flatnonzero(at != firsts[numbers])
        places = pa.table({**columns, PIECE: pa.array(firsts[numbers])}).take(pa.array(others))
        for range_partition, part in partition.cut(places, range_partitions[numbers[others]]):
            self.suspect(part, range_partition, rank)


def _reached(source: int) -> str:
    return f"{_REACHED}{source}"


def _joined(parts: list[dict[str, pa.Array]]) -> dict[str, pa.Array]:
    """Concatenate columns of records. Sources that the first parts do not know get `NEVER` there."""
    counts = [len(part[order.AT]) for part in parts]
    found = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        columns = [part.pop(name, None) for part in parts]
        filled = [pa.repeat(pa.scalar(NEVER), n) if c is None else c for c, n in zip(columns, counts, strict=True)]
        found[name] = pa.chunked_array(filled).combine_chunks()
    return found


def reduced(
    grouping: Grouping,
    columns: Mapping[str, pa.Array],
    numbers: Numbers,
    states: list[accumulators.Grouped],
    ends: Numbers | None = None,
) -> pa.Table:
    """Merge rows with equal numbers: shared columns, the first row's origin, and merged states."""
    kept = [name for name in columns if name in grouping.keys or name in grouping.extra_columns or name in WINDOW]
    return groups.reduce([_SESSION], {**columns, _SESSION: pa.array(numbers)}, kept, states, ends)


@dataclass
class Final(windowed.Final):
    """Merges the pieces of a partition into sessions."""

    extra_keys = (NUMBER,)

    def open(self) -> None:
        super().open()
        self.is_alone = needs_order(self.grouping) or bool(self.context.correlation.record_columns)
        keys = self.grouping.keys
        flow = functools.partial(Flow, self.context, self.step.name, keys, SINCE, self._ends, self.merged)
        self.groups = (
            SessionMap(self.context, self.step.name, keys, self.merged, self.grouping.row_bytes, flow)
            if keys
            else flow()
        )
        #: Pieces of the sending task that might be late: their keys and places.
        self.suspected: list[pa.Table] = []
        self.rank = -1

    def receive(self, table: pa.Table) -> None:
        """Add pieces of a task, or the places of their records."""
        if PIECE in table.schema.names:
            self._note(suspects.decode_places(table))
            return
        rank = table.column(order.AT)[0].as_py() >> order.ROW_BITS
        if rank != self.rank:
            self.rank, self.suspected = rank, []
        passed = self._passed(table)
        might = passed >= table.column(UNTIL).to_numpy() + (self.window.size_us + self.window.lateness_us)
        if might.any():
            self.suspected.append(table.select([*self.grouping.keys, SINCE, order.AT]).filter(pa.array(might)))
        table = table.drop_columns([name for name in table.schema.names if name.startswith(_REACHED)])
        super().receive(table.append_column(PASSED, pa.array(np.where(might, passed, NEVER))))

    def _passed(self, table: pa.Table) -> Numbers:
        """The event time that all sources had reached before each piece."""
        before = self.received.before(self.rank)
        names = {name: int(name.removeprefix(_REACHED)) for name in table.schema.names if name.startswith(_REACHED)}
        reached = {
            source: np.maximum(table.column(name).to_numpy(), before.get(source, NEVER))
            for name, source in names.items()
        }
        others = [time for source, time in before.items() if source not in reached]
        if len(reached) + len(others) < self.window.sources:
            return np.full(table.num_rows, NEVER)
        least = np.full(table.num_rows, min(others, default=np.iinfo(np.int64).max))
        for times in reached.values():
            least = np.minimum(least, times)
        return least

    def _note(self, places: pa.Table) -> None:
        """Store the places of records whose piece might be late beside the piece."""
        if not self.suspected:
            return
        pieces = pa.concat_tables(self.suspected)
        at = pieces.column(order.AT).to_numpy()
        by = np.argsort(at)
        found = np.searchsorted(at[by], wanted := places.column(PIECE).to_numpy()).clip(max=len(at) - 1)
        is_one = at[by][found] == wanted
        if is_one.any():
            kept = places.filter(pa.array(is_one))
            theirs = pieces.take(pa.array(by[found[is_one]]))
            for name in (*self.grouping.keys, SINCE):
                kept = kept.append_column(name, theirs.column(name))
            self.groups.add(kept.append_column(UNTIL, theirs.column(SINCE)))

    def merged(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge the pieces that cannot be late, where they belong to one session."""
        table = _together(tables)
        if self.is_alone:
            return table
        is_free = np.asarray(table.column(PASSED).fill_null(0).to_numpy() == NEVER)
        rest = table.filter(pa.array(~is_free))
        free = table.filter(pa.array(is_free)) if rest.num_rows else table
        found, _ = self._found(free)
        bounds = {SINCE: pa.array(found.first[found.of]), UNTIL: pa.array(found.last[found.of])}
        merged = self._reduce(free, found.of, bounds).drop_columns([_SESSION])
        return _together([merged, rest]) if rest.num_rows else merged

    def _found(self, table: pa.Table) -> tuple[sessions.Sessions, Numbers]:
        """The sessions of some pieces, and the watermark that closes each session."""
        keys = sessions.key_numbers([partial.array(table, name) for name in self.grouping.keys], table.num_rows)
        since, until = table.column(SINCE).to_numpy(), table.column(UNTIL).to_numpy()
        found = sessions.Sessions.found(keys, since, until, self.window.size_us)
        return found, found.last + (self.window.size_us + self.window.lateness_us)

    def _ends(self, table: pa.Table) -> Numbers:
        """For each piece the end of its session, judged by the pieces of the table."""
        found, _ = self._found(table)
        return (found.last + self.window.size_us)[found.of]

    def _reduce(self, table: pa.Table, numbers: Numbers, bounds: dict[str, pa.Array]) -> pa.Table:
        """Merge rows with equal numbers, in record order."""
        columns = {name: partial.array(table, name) for name in table.schema.names} | bounds
        by = sorted_runs.order(table, [order.AT])
        columns = {name: column.take(by) for name, column in columns.items()}
        states = [
            state for accumulator in self.grouping.state_accumulators for state in accumulator.merge_states(columns)
        ]
        if _END not in columns:
            return reduced(self.grouping, columns, numbers[by.to_numpy()], states)
        states.append(accumulators.Grouped(_END, columns[_END], "max"))
        return reduced(self.grouping, columns, numbers[by.to_numpy()], states, columns[_END].to_numpy())

    def whole(self) -> Iterator[pa.Table]:
        """The complete sessions without late records, after all pieces have been received."""
        for table in self.groups.tables():
            places = table.slice(0, 0)
            if PIECE in table.schema.names:
                is_place = table.column(PIECE).is_valid()
                table, places = table.filter(pc.invert(is_place)), table.filter(is_place)
            found, closes = self._found(table)
            passed = table.column(PASSED).to_numpy()
            is_late = (passed != NEVER) & (passed >= closes[found.of])
            if is_late.any():
                self._fail(table, places, is_late, found)
                table = table.filter(pa.array(~is_late))
            if table.num_rows:
                numbers = found.of[~is_late]
                starts = pa.array(found.first[numbers])
                self.collect(table.append_column(NUMBER, starts))
                whole = self._reduce(table, numbers, {NUMBER: starts})
                yield whole.drop_columns([name for name in (_END,) if name in whole.schema.names])

    def _fail(self, pieces: pa.Table, places: pa.Table, is_late: Numbers, found: sessions.Sessions) -> None:
        """Fail the first records of late pieces, and the others in them."""
        late, session = pieces.filter(pa.array(is_late)), found.of[is_late]
        self._fail_of(late, found, session)
        if not places.num_rows:
            return
        at = late.column(order.AT).to_numpy()
        by = np.argsort(at)
        place = np.searchsorted(at[by], wanted := places.column(PIECE).to_numpy()).clip(max=len(at) - 1)
        is_one = at[by][place] == wanted
        self._fail_of(places.filter(pa.array(is_one)), found, session[by[place[is_one]]])

    def _fail_of(self, places: pa.Table, found: sessions.Sessions, session: Numbers) -> None:
        if places.num_rows:
            self.fail_late(places, found.first[session], found.last[session] + self.window.size_us)


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


#: The operators of an aggregate with sessions, by their roles.
OPERATORS = {shape.Role.PARTIAL: Partial, shape.Role.FINAL: Final, shape.Role.ORDERED: windowed.RestoreOrder}
