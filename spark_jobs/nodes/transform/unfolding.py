"""Limits for `emit each`: its blocks repeat the values of a record for each element.

A batch for which they would repeat too much is processed in slices. A single record for which they would repeat more
than a task may hold ends the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import tree_walk, typed, types, values
from spark_jobs.formats.typed import record_sizes
from spark_jobs.nodes import memory, spill
from spark_jobs.nodes.windows import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.records.batches import Batch


@dataclass(frozen=True)
class Blocks:
    """The blocks of a program.

    sources: for each block, the column whose elements it loops over (None if the array is computed), and the maximal
        number of records that it may make of one record.
    read: the other columns that the program reads.
    """

    sources: tuple[tuple[str | None, int], ...]
    read: tuple[str, ...]

    @classmethod
    def of(cls, program: typed.Program) -> Blocks:
        """The `emit each` blocks of a program."""
        blocks = [each for each in program.statements if isinstance(each, typed.Each)]
        if not blocks:
            return cls((), ())  # without blocks nothing is repeated, so the columns do not matter
        direct = {id(each.source) for each in blocks if isinstance(each.source, typed.Column)}
        parts = (part for statement in program.statements for part in tree_walk.walk(statement))
        read = {part.name for part in parts if isinstance(part, typed.Column) and id(part) not in direct}
        sources = ((each.source.name if isinstance(each.source, typed.Column) else None, each.limit) for each in blocks)
        return cls(tuple(sources), tuple(sorted(read)))

    def slices(self, batch: Batch, share: int, node: str) -> Iterator[Batch]:
        """Slices of a batch that are so small that a task can hold the repeated values of each.

        Raises:
            ResourcesExhausted: the task cannot hold the repeated values of one record (E310).
        """
        read = [batch.data.column(name) for name in self.read if name in batch.data.schema.names]
        if not self.sources or not read:
            yield batch
            return
        sizes = record_sizes.of(read, batch.count)
        repeated = sizes * sum(self._most(batch, sizes, *source) for source in self.sources)
        if repeated.sum() <= memory.record_bytes(share):
            yield batch
            return
        for row in np.flatnonzero(repeated > share).tolist():
            count = sum(_count(batch, row, *source) for source in self.sources)
            if sizes[row] * count > share:
                raise spill.ResourcesExhausted(
                    "E310",
                    f"`emit each` repeats {int(sizes[row])} bytes of a record for each of {count} elements; "
                    f"memory.limit leaves {share} to each task; raise memory.limit, use fewer threads, or emit what "
                    "the block needs of the long columns in a transform before it",
                    node,
                )
        for start, count in running.runs(repeated, share):
            yield batch.slice(start, count)

    def _most(self, batch: Batch, sizes: np.ndarray, name: str | None, limit: int) -> np.ndarray:
        """An upper bound of the number of elements of each record. A record with more than the limit fails."""
        if name is None or name not in batch.data.schema.names:
            return np.where(sizes >= limit, limit, sizes + 1)
        column = batch.data.column(name)
        if pa.types.is_list(column.type):
            counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
            return np.where(counts > limit, 0, counts)
        # In the text of an array, each element and each separator takes at least one character.
        counts = record_sizes.of([column], batch.count) // 2 + 1
        return np.where(counts > limit, limit, counts)


def _count(batch: Batch, row: int, name: str | None, limit: int) -> int:
    """The number of elements of a record, as far as it is known; 0 for arrays that fail the record."""
    if name is None or name not in batch.data.schema.names:
        return 0
    column = batch.data.column(name).slice(row, 1)
    (found,) = column.to_pylist() if pa.types.is_list(column.type) else values.from_arrow(column, types.ANY)
    return len(found) if isinstance(found, list) and len(found) <= limit else 0
