"""Dead letters inside a task: gathered as columns, written to one Arrow file, in the order of the records."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl.failure import Failure

#: A dead letter before it has its row number: `number` orders the entries of one record by their node's place in the
#: plan, then its `cause`: the driver's record of a combine that a build record was refused with, -1 for a record's own
#: failures, which come first. `at` is the place of the failing record, or of the driver's, where several may be of one
#: row (see `nodes/ordering.py`), and 0 where they come in their order.
#: `record` has the texts of the source's declared columns, null where they have to be read again.
SCHEMA = pa.schema(
    [
        ("source", pa.int32()),
        ("split", pa.int32()),
        ("row", pa.int64()),
        ("number", pa.int32()),
        ("cause_source", pa.int32()),
        ("cause_split", pa.int32()),
        ("cause_row", pa.int64()),
        ("at", pa.int64()),
        ("stage", pa.string()),
        ("route", pa.string()),
        ("category", pa.string()),
        ("detail", pa.string()),
        ("field", pa.string()),
        ("value", pa.string()),
        ("trigger", pa.string()),
        ("record", pa.list_(pa.string())),
    ]
)
_ORDERED = ("source", "split", "row", "number", "cause_source", "cause_split", "cause_row", "at")
ORDER = [(name, "ascending") for name in _ORDERED]


class Gathered:
    """The dead letters of a task."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self.count = 0
        self.per_source: dict[int, int] = {}
        self.per_category: dict[str, int] = {}
        #: The lowest and the highest split that an entry names.
        self.splits: tuple[int, int] | None = None

    def add(
        self,
        failures: Sequence[Failure],
        places: tuple[pa.Array, pa.Array, pa.Array],
        causes: tuple[pa.Array, pa.Array, pa.Array, pa.Array],
        texts: pa.RecordBatch | None,
        stages: Sequence[str],
        number: int,
        routes: Sequence[str],
        trigger: str,
        *,
        keep: bool,
    ) -> None:
        """Note failures; `keep` is false where they are only counted."""
        self.count += len(failures)
        for source, count in zip(*np.unique(places[0].to_numpy(), return_counts=True), strict=True):
            self.per_source[int(source)] = self.per_source.get(int(source), 0) + int(count)
        lowest, highest = int(places[1].to_numpy().min()), int(places[1].to_numpy().max())
        known = self.splits or (lowest, highest)
        self.splits = (min(known[0], lowest), max(known[1], highest))
        for failure in failures:
            self.per_category[failure.category] = self.per_category.get(failure.category, 0) + 1
        if keep:
            self._tables.append(_table(failures, places, causes, texts, stages, number, routes, trigger))

    def write(self, path: str) -> bool:
        """Write what was kept; False when there is nothing."""
        if not self._tables:
            return False
        table = pa.concat_tables(self._tables)
        table = table.sort_by(ORDER)
        with pa.ipc.new_file(path, SCHEMA) as file:
            file.write_table(table, max_chunksize=16_384)
        return True


def read(path: str) -> pa.Table:
    """What `write` wrote, mapped.

    Raises:
        OSError: it cannot be read, or not as it was written.
    """
    try:
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise OSError(errno.EIO, f"cannot be read as it was written: {error}", path) from error


def own(at: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """The causes of records that fail by themselves, by their places."""
    none = pa.array(np.full(len(at), -1))
    return none.cast(pa.int32()), none.cast(pa.int32()), none, at


def _table(
    failures: Sequence[Failure],
    places: tuple[pa.Array, pa.Array, pa.Array],
    causes: tuple[pa.Array, pa.Array, pa.Array, pa.Array],
    texts: pa.RecordBatch | None,
    stages: Sequence[str],
    number: int,
    routes: Sequence[str],
    trigger: str,
) -> pa.Table:
    count = len(failures)
    columns = [
        *places,
        pa.array(np.full(count, number, dtype=np.int32)),
        *causes,
        pa.array(stages, pa.string()),
        pa.array(routes, pa.string()),
        pa.array([str(failure.category) for failure in failures], pa.string()),
        pa.array([failure.detail for failure in failures], pa.string()),
        pa.array([failure.field or "" for failure in failures], pa.string()),
        pa.array([values.text_of(failure.value) for failure in failures], pa.string()),
        pa.array([trigger] * count, pa.string()),
        pa.nulls(count, SCHEMA.field("record").type) if texts is None else _records(texts),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _records(texts: pa.RecordBatch) -> pa.ListArray:
    """A list of texts per row from a column of texts each."""
    width, count = texts.num_columns, texts.num_rows
    if not width:
        return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, dtype=np.int32)), pa.array([], pa.string()))
    flat = pa.concat_arrays([_single(column) for column in texts.columns])
    order = np.arange(count * width).reshape(width, count).T.reshape(-1)
    offsets = np.arange(0, count * width + 1, width, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), flat.take(pa.array(order)))


def _single(column: pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
