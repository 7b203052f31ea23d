"""Facts that the tasks of a pass report about failing records, rows of aggregates and groups.

A task writes its facts to a file (`FactWriter`). The driver reads the files of all tasks a table at a time (`Facts`),
and reads them again for each question. So it never holds many facts in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute import part_file, scratch
from spark_jobs.execute.correlation import stored

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from spark_jobs.tuning import Tuning


class FactKind(IntEnum):
    """The kinds of facts. A failure has a dead letter as well, which counts in the same passes."""

    #: A row of an aggregate failed. It counts only in the last pass, in which the row fails again or has changed.
    LAST_PASS_FAILURE = 0
    #: A record failed. It is excluded from the next pass on.
    FAILURE = 1
    #: The same, downstream of a retractable aggregate. It counts after all other failures.
    DOWNSTREAM_FAILURE = 2
    #: A row of an aggregate that retracts nothing failed. It counts as long as the row is suppressed.
    ROW_FAILURE = 8
    #: A search found a record of a retracted row,
    RETRACTED_RECORD = 3
    #: the first record of a group,
    FIRST_RECORD = 4
    #: a record at an output, of a group that may have too many,
    GROUP_MEMBER = 6
    #: or the groups of a record or row that failed at a node without its key.
    GROUP_KEY = 7
    #: A pass counted many records in a bucket: one of its groups may have too many.
    LARGE_BUCKET = 5


#: Replaces the record of a fact about a row of an aggregate.
NO_RECORD = -1
#: Replaces the bucket of a fact that is not looked up by one.
NO_BUCKET = 0

#: The columns of a fact: its record; the group that a failure rejects; the row of an aggregate that failed, or is
#: retracted; its kind; the source, split and row of the record, or of the row's first record; the reason in words; the
#: group over all sources and its bucket; the node, by its position in the plan, and the position of the failure there,
#: which orders failures of the same record; and true if the groups must be searched for, because the key was missing.
FACTS = pa.schema([
    ("record", pa.int64()), ("group", pa.uint64()), ("aggregated", pa.int64()), ("kind", pa.int8()),
    ("source", pa.int32()), ("split", pa.int32()), ("row", pa.int64()), ("why", pa.string()), ("whole", pa.uint64()),
    ("bucket", pa.int64()), ("node", pa.int32()), ("at", pa.int64()), ("lacks_key", pa.int8()),
])  # fmt: skip
#: The schema of facts in the driver: texts of many facts together need 64 bit offsets.
SCHEMA = FACTS.set(FACTS.get_field_index("why"), pa.field("why", pa.large_string()))


class FactWriter:
    """Writes the facts of a task to a file.

    Args:
        path: the file, which is created only if there are many facts or at the end.
        tuning: the number and bytes of facts in memory before they are written.
    """

    def __init__(self, path: str, tuning: Tuning) -> None:
        self.path = path
        self._tuning = tuning
        self._held: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._file: part_file.PartFile | None = None

    def add(self, facts: pa.Table) -> None:
        """Add facts.

        Raises:
            OSError: they cannot be written.
        """
        self._held.append(facts)
        self._rows, self._bytes = self._rows + facts.num_rows, self._bytes + facts.nbytes
        if self._rows >= self._tuning.fact_rows or self._bytes >= self._tuning.fact_bytes:
            self._write()

    def close(self) -> bool:
        """Write the remaining facts. Returns True if there is a file, because there are facts.

        Raises:
            OSError: they cannot be written.
        """
        if self._rows:
            self._write()
        if self._file is None:
            return False
        self._file.close()
        return True

    def _write(self) -> None:
        if self._file is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._file = part_file.PartFile(lambda path: scratch.ArrowFile(path, FACTS, options), self.path)
        for batch in pa.concat_tables(self._held).combine_chunks().to_batches():
            self._file.write_batch(batch)
        self._held, self._rows, self._bytes = [], 0, 0


@dataclass(frozen=True)
class Facts:
    """Some facts of a pass, in the order of tasks.

    Args:
        read: reads their tables, in the given columns only.
    """

    read: Callable[[Sequence[str]], Iterator[pa.Table]]

    def tables(self, *names: str) -> Iterator[pa.Table]:
        """The given columns, as tables of some thousand rows."""
        return self.read(names)

    def where(self, *needs: str, are: Callable[[pa.Table], np.ndarray]) -> Facts:
        """The facts selected by a mask over the columns `needs`."""

        def read(names: Sequence[str]) -> Iterator[pa.Table]:
            for table in self.read(tuple(dict.fromkeys([*names, *needs]))):
                chosen = are(table)
                some = table.select(list(names))
                if chosen.any():
                    yield some if chosen.all() else some.filter(pa.array(chosen))

        return Facts(read)

    def of_kind(self, *kinds: FactKind, nodes: Collection[int] | None = None) -> Facts:
        """The facts of the given kinds, optionally only at the given nodes."""
        if nodes is None:
            return self.where("kind", are=lambda table: np.isin(table.column("kind").to_numpy(), kinds))
        some = sorted(nodes)

        def are(table: pa.Table) -> np.ndarray:
            node, kind = (table.column(name).to_numpy() for name in ("node", "kind"))
            found: np.ndarray = np.isin(kind, kinds) & np.isin(node, some)
            return found

        return self.where("node", "kind", are=are)

    def lacking_keys(self, *, lacking: bool = True) -> Facts:
        """The failures of records and of rows without a known key; with `lacking=False` the others."""
        return self.where("lacks_key", are=lambda table: lacks_key(table) == lacking)

    def each(self, change: Callable[[pa.Table], pa.Table]) -> Facts:
        """Apply a function to the facts, table by table."""

        def read(names: Sequence[str]) -> Iterator[pa.Table]:
            for table in self.read(SCHEMA.names):
                yield change(table).select(list(names))

        return Facts(read)

    def any(self) -> bool:
        """True if there are any facts."""
        return any(table.num_rows for table in self.read(["kind"]))


def lacks_key(facts: pa.Table) -> np.ndarray:
    """A mask of the facts that are failures without a known key."""
    found: np.ndarray = facts.column("lacks_key").to_numpy() != 0
    return found


def together(*several: Facts) -> Facts:
    """Concatenate facts."""
    return Facts(lambda names: chain.from_iterable(each.read(names) for each in several))


def of(files: Sequence[str]) -> Facts:
    """The facts of all tasks of a pass."""
    found = list(islice(_tables(files, SCHEMA.names), 2))
    if len(found) > 1:
        return Facts(partial(_tables, tuple(files)))
    whole = found[0] if found else SCHEMA.empty_table()
    return Facts(lambda names: iter([whole.select(list(names))]))


def _tables(files: Sequence[str], names: Sequence[str]) -> Iterator[pa.Table]:
    """Columns of facts. Only one file is open at a time."""
    fields = sorted(FACTS.get_field_index(name) for name in names)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for path in files:
        for batch in _batches(path, fields):
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if held and stored.are_many(rows, size):
                yield _portion(held, schema)
                held, rows, size = [], batch.num_rows, batch.nbytes
            held.append(batch)
    if held:
        yield _portion(held, schema)


def _batches(path: str, fields: Sequence[int]) -> Iterator[pa.RecordBatch]:
    with part_file.unchanged(path):
        opened = part_file.mapped(path, fields)
        for number in range(opened.num_record_batches):
            yield opened.get_batch(number)


def _portion(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches).select(schema.names).cast(schema).combine_chunks()
