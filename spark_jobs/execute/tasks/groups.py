"""Correlation groups in a task: records that count as never read, rows whose group is rejected, and what fails here.

A task learns two things that later passes have to know: which records are dead, and which groups their failures reject.
Both go to a file of facts (`facts.py`), and what earlier passes have found comes from such files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execute.dlq.marks import Holds, Marks
from spark_jobs.execute.tasks.facts import BUCKETS, FACTS, KEYLESS, SIZES, Known, Notes, record_numbers, stored
from spark_jobs.execute.tasks.memberships import Memberships, identities, named
from spark_jobs.nodes.records import groups
from spark_jobs.nodes.terms.correlation import Bond

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from spark_jobs.execute.tasks.presence import Presence
    from spark_jobs.nodes.records.batches import Batch
    from spark_jobs.nodes.terms.correlation import GroupPlan

    Places = tuple[pa.Array, pa.Array, pa.Array]

#: Stands for the source of a group of all sources.
_ALL = ""


class Groups:
    """What a task knows of groups, and what it finds out.

    Args:
        plan: what rows belong to.
        known: what earlier passes have found.
        sources: the names of the sources by their numbers.
        notes: take what it finds out.
    """

    def __init__(self, plan: GroupPlan, known: Known, sources: Sequence[str], notes: Notes) -> None:
        self.plan = plan
        self._known = known
        self._sources = sources
        self._memberships = Memberships(plan, sources)
        self._notes = notes
        #: Where what is noted failed: the number of the node.
        self._node = 0
        self._sizes = np.zeros(SIZES if plan.limit and not known.is_looking else 0, dtype=np.int64)

    def are_dead(self, split: pa.Array, row: pa.Array) -> np.ndarray | None:
        """Which records count as never read; None where all are read."""
        if self._known.dead is None or not len(row):
            return None
        records, dead = record_numbers(split, row), stored(self._known.dead, "record").to_numpy()
        first, last = np.searchsorted(dead, [records.min(), records.max() + 1])
        found = groups.among(records, dead[first:last]) >= 0  # records stand together: few can be among them
        return found if found.any() else None

    def note_presence(self, presence: Presence, source: str, batch: Batch) -> None:
        """Note of which groups a source's records are, however they are looked up anywhere."""
        keys = self.keys(source, batch)
        for view in self.plan.views.get(source, ()):
            presence.add([keys[field] for field in view])

    def keys(self, name: str, batch: Batch) -> dict[str, pa.Array]:
        """The correlation keys of a batch at a node, field by field, as texts; empty where there is none."""
        return self._memberships.keys(name, batch)

    # ---- rows of outputs
    # ------------------------------------------------------------------------------------------

    def oversized(self, output: str, batch: Batch) -> tuple[np.ndarray, np.ndarray, pa.StringArray] | None:
        """The rows whose group has too many records, which of them are its first, and why; None: there are none.

        The records that come to outputs are counted here.
        """
        if batch.count and len(self._sizes):
            for keys, rows in self._memberships.by_fields(output, batch):
                buckets = groups.buckets(list(keys.values()), SIZES)
                self._sizes += np.bincount(buckets[rows & (buckets >= 0)], minlength=SIZES)
        if not batch.count or self._known.oversized is None:
            return None
        names, firsts = (stored(self._known.oversized, name).to_numpy() for name in ("group", "first"))
        place, are_first = np.full(batch.count, -1, dtype=np.int64), np.zeros(batch.count, dtype=bool)
        for keys, are_of in self._memberships.by_fields(output, batch, joined=True):
            at = groups.among(_whole(keys, are_of)[0], names)
            # A row may be of several such groups, and the first of one of them.
            begin = (at >= 0) & (firsts[at] == identities(batch)) & ~are_first
            place = np.where(begin | (place < 0), at, place)
            are_first |= begin
        rows = np.flatnonzero(place >= 0)
        if not len(rows):
            return None
        whys: pa.StringArray = stored(self._known.oversized, "why").take(pa.array(place[rows]))  # type: ignore[assignment]
        return rows, are_first[rows], whys

    def members(self, output: str, batch: Batch) -> None:
        """Note the rows of groups that may have too many records."""
        assert self._known.counted is not None
        suspects = stored(self._known.counted, "number").to_numpy()
        places = batch.origin.identify(batch, pa.array(np.arange(batch.count)))
        for keys, are_of in self._memberships.by_fields(output, batch):
            numbers, buckets = _whole(keys, are_of)
            rows = np.flatnonzero((numbers != groups.NONE) & (groups.among(buckets, suspects) >= 0))
            found = (identities(batch)[rows], numbers[rows], places, rows)
            self._found(Holds.MEMBER, *found, named(keys), list(self.plan.standings).index(output))

    def have_failed(self, batch: Batch) -> np.ndarray | None:
        """Which rows of aggregates have failed somewhere, so that no output writes them; None: there are none."""
        if self._known.failed is None or not batch.count:
            return None
        found: np.ndarray = groups.among(groups.aggregated(batch), stored(self._known.failed, "number").to_numpy()) >= 0
        return found if found.any() else None

    def rejected(self, output: str, batch: Batch) -> tuple[np.ndarray, pa.StringArray] | None:
        """The rows of a batch whose group is rejected, and what failed first in it; None where there are none."""
        path = self._known.rejected.get(self.plan.policies[output])
        standing = self.plan.standings[output]
        if path is None or not standing.memberships or not batch.count:
            return None
        rejected = stored(path, "group").to_numpy()
        place = np.full(batch.count, -1, dtype=np.int64)
        for membership in standing.memberships:
            keys = self._memberships.key(output, batch, membership)
            for source, are_of in [] if keys is None else self._memberships.of_sources(membership, batch):
                numbers = groups.numbers(source, membership.fields, keys or {})
                if membership.bond is Bond.GROUPED:
                    numbers = groups.or_own(numbers, groups.aggregated(batch))
                at = groups.among(numbers, rejected)
                place = np.where(are_of & (at >= 0) & (place < 0), at, place)
        rows = np.flatnonzero(place >= 0)
        return (rows, self._told(path, pa.array(place[rows]), batch, rows)) if len(rows) else None

    def _told(self, path: str, places: pa.Array, batch: Batch, rows: np.ndarray) -> pa.StringArray:
        """What failed first in the groups of rows: of which source where the rows are not of that one."""
        whys: pa.StringArray = stored(path, "why").take(places).cast(pa.string())
        if len(self._sources) == 1:
            return whys
        failed = stored(path, "source").take(places)
        own = batch.origin.identify(batch, pa.array(rows))[0].to_numpy()
        is_other = (own != failed.to_numpy()) | (groups.aggregated(batch)[rows] != 0)
        names = pa.array(self._sources).take(failed)
        longer = pc.binary_join_element_wise("source '", names, "', ", whys, "")
        found: pa.StringArray = pc.if_else(pa.array(is_other), longer, whys)
        return found

    # ---- what fails
    # -------------------------------------------------------------------------------------------------

    def failed(self, name: str, batch: Batch, places: Places, whys: pa.Array, *, is_result: bool) -> Marks:
        """Note rows that fail at a node; gives what their entries say.

        Args:
            name: the node.
            batch: the rows.
            places: where they, or the first records of the groups that they are, were read.
            whys: what failed.
            is_result: whether the result of a group fails: the entry is then that of the group's first record.
        """
        standing, aggregated, keys = self.plan.standings[name], groups.aggregated(batch), self.keys(name, batch)
        is_record = (aggregated == 0) & (not is_result)
        is_grouped = ~is_record & (aggregated & 1 == 0)
        holds = self._holds(name, aggregated, places)
        if is_result:  # it goes nowhere: it fails in each pass
            holds[is_grouped] = Holds.IN_LAST
        self._at(name)
        self._note_records(np.flatnonzero(is_record), keys, places, holds, whys, standing.whole)
        is_cut = not is_result and not standing.are_rows_whole
        rows, bucket = np.flatnonzero(~is_record), np.where(is_grouped & is_cut, KEYLESS, 0)
        numbers, records = aggregated[rows], np.full(len(rows), -1)
        self._note(rows, records, groups.NONE, numbers, places, holds, whys, bucket=bucket[rows])
        if not is_cut:
            self._note_groups(name, batch, np.flatnonzero(is_grouped), aggregated, (places, holds, whys))
        return self._marks(name, batch, holds, np.zeros_like(aggregated) if is_result else aggregated, keys)

    def _note_groups(
        self,
        name: str,
        batch: Batch,
        rows: np.ndarray,
        aggregated: np.ndarray,
        said: tuple[Places, np.ndarray, pa.Array],
    ) -> None:
        """Note the groups that rows of aggregates are of by their keys."""
        places, holds, whys = said
        for membership in self.plan.standings[name].memberships if len(rows) else ():
            keys = self._memberships.key(name, batch, membership) if membership.bond is Bond.GROUPED else None
            if keys is not None:
                for source in membership.sources:
                    for view in self._views(source, membership.fields):
                        numbers = groups.or_own(groups.numbers(source, view, keys), aggregated)[rows]
                        told = aggregated[rows]
                        self._note(rows, np.full(len(rows), -1), numbers, told, places, holds, whys)

    def beside(self, name: str, batch: Batch, cause: Batch) -> Marks:
        """What the entries of build records say that failed with their drivers: nothing more is lost by them."""
        holds = self._holds(
            name, groups.aggregated(cause), cause.origin.identify(cause, pa.array(np.arange(cause.count)))
        )
        return self._marks(name, batch, holds, groups.aggregated(batch), self.keys(name, batch))

    def _holds(self, name: str, aggregated: np.ndarray, places: Places) -> np.ndarray:
        """In which passes it counts that rows fail at a node."""
        later = Holds.BEHIND if self.plan.standings[name].is_behind else Holds.FOR_GOOD
        # The results of a group that mixes keys are settled with what stands behind them; one of no records takes
        # nothing back.
        mixed = np.where(places[0].to_numpy() >= 0, Holds.BEHIND, Holds.IN_LAST)
        return np.where(aggregated == 0, later, np.where(aggregated & 1 == 1, mixed, Holds.ROW))

    def remarks(self, name: str, batch: Batch) -> pa.StringArray | None:
        """What is to be said of rows of aggregates whose entries cannot show which they are; None for records."""
        return self._memberships.remarks(name, batch)

    def collateral(self, name: str, batch: Batch) -> Marks:
        """What the entries of rows say whose group is rejected."""
        holds = np.full(batch.count, Holds.IN_LAST, dtype=np.int8)
        return self._marks(name, batch, holds, groups.aggregated(batch), self.keys(name, batch))

    def read(self, source: str, keys: dict[str, pa.Array], places: Places, whys: pa.Array) -> Marks:
        """Note records that fail where they are read."""
        count = len(places[0])
        holds = np.full(count, Holds.FOR_GOOD, dtype=np.int8)
        self._at(source)
        self._note_records(np.arange(count), keys, places, holds, whys, frozenset([source]))
        return self._said(holds, np.zeros(count, dtype=np.int64), keys, None)

    def _marks(
        self, name: str, batch: Batch, holds: np.ndarray, aggregated: np.ndarray, keys: Mapping[str, pa.Array]
    ) -> Marks:
        self._at(name)
        return self._said(holds, aggregated, keys, self._memberships.shown(name, batch) if aggregated.any() else None)

    def _at(self, name: str) -> None:
        """What is noted from here on failed at this node."""
        self._node = list(self.plan.standings).index(name)

    def _said(
        self, holds: np.ndarray, aggregated: np.ndarray, keys: Mapping[str, pa.Array], shown: pa.RecordBatch | None
    ) -> Marks:
        empty = pa.repeat(pa.scalar(""), len(holds))
        texts = [keys.get(name, empty) for name in self.plan.fields]
        return Marks(pa.array(holds, pa.int8()), pa.array(aggregated), self._node, texts, shown)

    def _views(self, source: str, fields: Sequence[str]) -> list[tuple[str, ...]]:
        """By which of some fields a source's groups are looked up."""
        return [view for view in self.plan.views.get(source, ()) if set(view) <= set(fields)]

    def trace(self, split: pa.Array, row: pa.Array, inner: pa.Array, numbers: pa.Array) -> None:
        """Note records, and rows of other aggregates, that are in groups which are taken back."""
        assert self._known.traced is not None
        are_in = groups.among(numbers.to_numpy(), stored(self._known.traced, "number").to_numpy()) >= 0
        if not are_in.any():
            return
        chosen = pa.array(np.flatnonzero(are_in))
        split, row, count = split.take(chosen), row.take(chosen), len(chosen)
        group = pc.fill_null(inner.take(chosen), 0)
        records = np.where(group.to_numpy() == 0, record_numbers(split, row), -1)
        nothing = pa.array(np.zeros(count, dtype=np.uint64))
        columns = [
            pa.array(records), nothing, group, pa.array(np.full(count, Holds.TRACED, dtype=np.int8)),
            nothing.cast(pa.int32()), split, row, pa.nulls(count, pa.string()), nothing, nothing.cast(pa.int64()),
            nothing.cast(pa.int32()),
        ]  # fmt: skip
        self._notes.add(pa.Table.from_arrays(columns, schema=FACTS))

    def seek(self, source: str, keys: Mapping[str, pa.Array], places: Places) -> None:
        """Note the first of some records that are of groups whose first records are to be found."""
        assert self._known.sought is not None
        sought = stored(self._known.sought, "group").to_numpy()
        records = record_numbers(places[1], places[2])
        are_read = np.ones(len(records), dtype=bool)
        if self._known.taken is not None:
            are_read = groups.among(records, stored(self._known.taken, "record").to_numpy()) < 0
        for view in self._views(source, list(keys)):
            numbers = groups.numbers(source, view, keys)
            rows = np.flatnonzero((groups.among(numbers, sought) >= 0) & are_read)
            rows = rows[np.unique(numbers[rows], return_index=True)[1]]
            self._found(Holds.FIRST, records[rows], numbers[rows], places, rows)

    def _found(
        self, what: Holds, records: np.ndarray, numbers: np.ndarray, places: Places, rows: np.ndarray,
        named: pa.Array | None = None, at: int = 0,
    ) -> None:  # fmt: skip
        """Note what a pass was to find, what it is called, and at which node it came in place of what is taken back."""
        holds = np.zeros(len(places[0]), dtype=np.int8) + np.int8(what)
        named = pa.nulls(len(places[0]), pa.string()) if named is None else named
        self._note(rows, records, numbers, at, places, holds, named)

    def tell_keys(self, source: str, keys: Mapping[str, pa.Array], places: Places) -> None:
        """Note the groups of those records of a source that failed where their key was not at hand."""
        assert self._known.keyless is not None
        records = record_numbers(places[1], places[2])
        rows = np.flatnonzero(groups.among(records, stored(self._known.keyless, "record").to_numpy()) >= 0)
        holds = np.full(len(records), Holds.KEYED, dtype=np.int8)
        nothing = pa.nulls(len(records), pa.string())
        self._note_records(rows, keys, places, holds, nothing, frozenset([source]))

    def are_unmade(self, batch: Batch) -> np.ndarray | None:
        """Which rows that an aggregate has made count as never made; None: there are none."""
        if self._known.unmade is None or not batch.count:
            return None
        found: np.ndarray = groups.among(groups.aggregated(batch), stored(self._known.unmade, "number").to_numpy()) >= 0
        return found if found.any() else None

    def tell_groups(self, name: str, batch: Batch) -> None:
        """Note the groups of those rows of an aggregate that failed where their keys were not at hand."""
        assert self._known.keyless_rows is not None
        aggregated = groups.aggregated(batch)
        rows = np.flatnonzero(groups.among(aggregated, stored(self._known.keyless_rows, "number").to_numpy()) >= 0)
        places = batch.origin.identify(batch, pa.array(np.arange(batch.count)))
        said = places, np.full(batch.count, Holds.KEYED), pa.nulls(batch.count, pa.string())
        self._note_groups(name, batch, rows, aggregated, said)

    def _note_records(
        self, rows: np.ndarray, keys: Mapping[str, pa.Array], places: Places, holds: np.ndarray, whys: pa.Array,
        complete: Container[str],
    ) -> None:  # fmt: skip
        """Note records that fail, and the groups that they reject: all of their source, whatever is left of its key.

        Args:
            rows: which of the records fail.
            keys: what is left of their keys.
            places: where the records were read.
            holds: from when on that holds.
            whys: what failed.
            complete: the sources whose records have their whole key still. Of the others it is to be looked up.
        """
        if not len(rows):
            return
        records, source = record_numbers(places[1], places[2])[rows], places[0].to_numpy()[rows]
        for number in np.unique(source).tolist():
            mine = source == number
            name, of_source = self._sources[number], rows[mine]
            key = self.plan.key(name)
            if not key:
                self._note(of_source, records[mine], groups.NONE, 0, places, holds, whys)
                continue
            if name not in complete or not set(key) <= set(keys):
                self._note(of_source, records[mine], groups.NONE, 0, places, holds, whys, bucket=KEYLESS)
                continue
            for view in self.plan.views[name]:
                numbers, whole = (groups.numbers(one, view, keys)[of_source] for one in (name, _ALL))
                bucket = groups.buckets([keys[one] for one in view], BUCKETS)[of_source]
                self._note(of_source, records[mine], numbers, 0, places, holds, whys, whole, bucket)

    def _note(
        self, rows: np.ndarray, records: np.ndarray, group: np.ndarray | np.uint64, retracted: np.ndarray | int,
        places: Places, holds: np.ndarray, whys: pa.Array, whole: np.ndarray | np.uint64 = groups.NONE,
        bucket: np.ndarray | int = 0,
    ) -> None:  # fmt: skip
        count, chosen = len(rows), pa.array(rows, pa.int64())
        if not count:
            return
        columns = [
            pa.array(records, pa.int64()),
            pa.array(np.broadcast_to(np.asarray(group, dtype=np.uint64), count)),
            pa.array(np.broadcast_to(np.asarray(retracted, dtype=np.int64), count)),
            pa.array(holds[rows], pa.int8()),
            *(column.take(chosen) for column in places),
            whys.take(chosen),
            pa.array(np.broadcast_to(np.asarray(whole, dtype=np.uint64), count)),
            pa.array(np.broadcast_to(np.asarray(bucket, dtype=np.int64), count)),
            pa.array(np.full(count, self._node, dtype=np.int32)),
        ]
        self._notes.add(pa.Table.from_arrays(columns, schema=FACTS))

    def write(self, shares: int) -> bool:
        """Write down what was noted, if anything; a group that is too large is so by one of some shares at least."""
        if len(self._sizes):
            full = np.flatnonzero(self._sizes > self.plan.limit // shares)
            zero = pa.array(np.zeros(len(full), dtype=np.int64))
            nowhere = (zero.cast(pa.int32()), zero.cast(pa.int32()), zero)
            self._found(Holds.SUSPECT, np.full(len(full), -1), full, nowhere, np.arange(len(full)))
        return self._notes.close()


def _whole(keys: Mapping[str, pa.Array], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The groups of rows over all sources and their buckets."""
    numbers = np.where(rows, groups.numbers(_ALL, list(keys), keys), groups.NONE)
    return numbers, groups.buckets(list(keys.values()), SIZES)
