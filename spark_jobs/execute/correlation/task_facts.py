"""Collects the facts of a task: failing rows, the groups that they reject, and the results of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.correlation.facts import FACTS, NO_BUCKET, NO_RECORD, FactKind
from spark_jobs.nodes.correlation import KeyOrigin
from spark_jobs.nodes.records import identity
from spark_jobs.nodes.records.identity import KEY_BUCKETS, NO_GROUP, NO_ROW, record_numbers

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from spark_jobs.execute.correlation.facts import FactWriter
    from spark_jobs.execute.correlation.group_keys import GroupKeys
    from spark_jobs.nodes.correlation import CorrelationPlan
    from spark_jobs.nodes.records.batches import Batch

    #: The origin of records, or of the first records of rows: source, split, row.
    Places = tuple[pa.Array, pa.Array, pa.Array]

#: Stands for the source of a group over all sources.
ALL_SOURCES = ""


@dataclass(frozen=True)
class FactRows:
    """Rows that become facts.

    Args:
        node: the node that found them.
        places: their origin: source, split, row.
        kinds: the kind of fact, row by row.
        whys: the reasons of failures, in words; in searches nulls, or the names of groups.
        at: the positions of the failed rows among all rows of the node; None if that does not matter.
    """

    node: str
    places: Places
    kinds: np.ndarray
    whys: pa.Array
    at: pa.Array | None = None

    @classmethod
    def of(cls, node: str, places: Places, kind: FactKind, whys: pa.Array | None = None) -> FactRows:
        """Rows that are all of one kind."""
        count = len(places[0])
        whys = pa.nulls(count, pa.string()) if whys is None else whys
        return cls(node, places, np.full(count, kind, dtype=np.int8), whys)


class TaskFacts:
    """The facts of a task.

    Args:
        plan: the keys that assign rows to groups.
        sources: the names of the sources by their numbers.
        keys: finds the keys of rows.
        writer: writes the facts.
    """

    def __init__(self, plan: CorrelationPlan, sources: Sequence[str], keys: GroupKeys, writer: FactWriter) -> None:
        self._plan = plan
        self._sources = sources
        self._keys = keys
        self.writer = writer
        self._nodes = {name: number for number, name in enumerate(plan.nodes)}

    def node_number(self, name: str) -> int:
        """A node's position in the plan, which is its number in facts and dead letters."""
        return self._nodes[name]

    def views(self, source: str, fields: Sequence[str]) -> list[tuple[str, ...]]:
        """The fields by which a source's groups are looked up."""
        return [view for view in self._plan.views.get(source, ()) if set(view) <= set(fields)]

    def add(
        self,
        found: FactRows,
        rows: np.ndarray,
        *,
        records: np.ndarray | int = NO_RECORD,
        group: np.ndarray | np.uint64 = NO_GROUP,
        aggregated: np.ndarray | int = NO_ROW,
        whole: np.ndarray | np.uint64 = NO_GROUP,
        bucket: np.ndarray | int = NO_BUCKET,
        lacks_key: np.ndarray | bool = False,
    ) -> None:
        """Add facts about rows given by number. Fields are named as in `FACTS`, with one value or one for each row.

        Raises:
            OSError: facts cannot be written.
        """
        count, chosen = len(rows), pa.array(rows, pa.int64())
        if not count:
            return

        def repeated(value: object, kind: type) -> pa.Array:
            return pa.array(np.broadcast_to(np.asarray(value, dtype=kind), count))

        columns = [
            repeated(records, np.int64),
            repeated(group, np.uint64),
            repeated(aggregated, np.int64),
            pa.array(found.kinds[rows], pa.int8()),
            *(column.take(chosen) for column in found.places),
            found.whys.take(chosen),
            repeated(whole, np.uint64),
            repeated(bucket, np.int64),
            repeated(self._nodes[found.node], np.int32),
            repeated(0, np.int64) if found.at is None else found.at.take(chosen),
            repeated(lacks_key, np.int8),
        ]
        self.writer.add(pa.Table.from_arrays(columns, schema=FACTS))

    def add_records(
        self, found: FactRows, rows: np.ndarray, keys: Mapping[str, pa.Array], complete: Container[str]
    ) -> None:
        """Add records that fail, and the groups that they reject: all groups of their source that their keys determine.

        Args:
            found: the records.
            rows: the failing ones.
            keys: the key fields that they still have.
            complete: the sources whose records still have their whole key. Groups of other sources are searched for.
        """
        if not len(rows):
            return
        source, split, row = found.places
        records, of = record_numbers(split, row)[rows], source.to_numpy()[rows]
        for number in np.unique(of).tolist():
            mine = of == number
            name, of_source = self._sources[number], rows[mine]
            key = self._plan.key(name)
            if not key:
                self.add(found, of_source, records=records[mine])
                continue
            if name not in complete or not set(key) <= set(keys):
                self.add(found, of_source, records=records[mine], lacks_key=True)
                continue
            for view in self._plan.views[name]:
                group, whole = (identity.group_numbers(one, view, keys)[of_source] for one in (name, ALL_SOURCES))
                bucket = identity.key_buckets([keys[one] for one in view], KEY_BUCKETS)[of_source]
                self.add(found, of_source, records=records[mine], group=group, whole=whole, bucket=bucket)

    def add_rows_of_groups(self, found: FactRows, rows: np.ndarray, batch: Batch) -> None:
        """Add the groups of aggregate rows by their keys. `rows` are rows of the batch."""
        aggregated = identity.aggregate_row_numbers(batch)
        for key in self._plan.nodes[found.node].keys if len(rows) else ():
            texts = self._keys.texts(found.node, batch, key) if key.origin is KeyOrigin.AGGREGATE else None
            if texts is None:
                continue
            for source in key.sources:
                for view in self.views(source, key.fields):
                    groups = identity.own_group_if_empty(identity.group_numbers(source, view, texts), aggregated)[rows]
                    self.add(found, rows, group=groups, aggregated=aggregated[rows])
