"""Streams pieces of sessions in the order of keys and time, so that a key may have more pieces than fit in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes import partition, spill
from spark_jobs.nodes.records import order
from spark_jobs.nodes.records.columns import WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_jobs.nodes.aggregate.timed.watermarks import Numbers

#: A number for the key of each piece. Different keys may share a number.
_KEY = WINDOW.of("key")


class Flow:
    """Buffers pieces, and returns all pieces of a session in one table, like `spill.ExternalMap`.

    Args:
        room: the memory and spill folder of the task.
        node: the aggregate.
        keys: the columns of the keys; without any, all pieces have the same key.
        since: the column with the first time of each piece.
        ends: computes for each piece of a table when its session ends, judged by the pieces of that table.
        merge: merges the pieces of one session, where a table shows that they are one.
    """

    def __init__(
        self,
        room: spill.SpillContext,
        node: str,
        keys: Sequence[str],
        since: str,
        ends: Callable[[pa.Table], Numbers],
        merge: Callable[[Sequence[pa.Table]], pa.Table],
    ) -> None:
        self._room = room
        self._node = node
        self._keys = keys
        self._held = spill.ExternalSorter(room, node, (_KEY, since, order.AT))
        self._since = since
        self._ends = ends
        self._merge = merge

    def add(self, table: pa.Table) -> None:
        """Add pieces in any order."""
        if self._keys:
            keys = partition.hashes([table.column(name) for name in self._keys]).view(np.int64)
        else:
            keys = np.zeros(table.num_rows, dtype=np.int64)
        self._held.add(table.append_column(_KEY, pa.array(keys)))

    def tables(self) -> Iterator[pa.Table]:
        """The pieces, once. Pieces whose session may continue are held back until the next ones have come."""
        waiting: list[pa.Table] = []
        for table in self._held.tables():
            key, come = (table.column(name)[-1].as_py() for name in (_KEY, self._since))
            whole = pa.concat_tables([*waiting, table], promote_options="permissive")
            goes_on = (whole.column(_KEY).to_numpy() == key) & (self._ends(whole) >= come)
            kept = self._merge([whole.filter(pa.array(goes_on)).drop_columns([_KEY])])
            spill.checked(self._room, self._node, kept.nbytes)
            waiting = [kept.append_column(_KEY, pa.repeat(pa.scalar(key, pa.int64()), kept.num_rows))]
            if not np.all(goes_on):
                yield whole.filter(pa.array(~goes_on)).drop_columns([_KEY])
        for table in waiting:
            yield table.drop_columns([_KEY])


class SessionMap(spill.ExternalMap):
    """Groups pieces by their keys and merges them as they come. Spilled pieces are read back in the order of time.

    Args:
        flow: makes the buffer that a spilled subset of the keys is streamed through.
    """

    def __init__(
        self,
        room: spill.SpillContext,
        node: str,
        keys: Sequence[str],
        merge: Callable[[Sequence[pa.Table]], pa.Table],
        row_bytes: int,
        flow: Callable[[], Flow],
    ) -> None:
        super().__init__(room, node, keys, merge, row_bytes=row_bytes)
        self._flow = flow

    def deeper(self) -> Flow:
        """Stream the subset: splitting it again would not help, since a key with too many pieces stays whole."""
        return self._flow()
