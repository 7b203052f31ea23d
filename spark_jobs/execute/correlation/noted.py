"""What the tasks of a pass have noted of failing records and groups: facts, read a portion at a time.

Where there are many they stay in the tasks' files, and are read again for each thing that is asked of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute.correlation import stored
from spark_jobs.execute.tasks import part_file
from spark_jobs.execute.tasks.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

#: Facts as they are read: many texts are longer together than small ones may be.
SCHEMA = FACTS.set(FACTS.get_field_index("why"), pa.field("why", pa.large_string()))


@dataclass(frozen=True)
class Facts:
    """Some facts of a pass, in the order of tasks.

    Args:
        read: gives their portions, of which it reads the named columns alone.
    """

    read: Callable[[Sequence[str]], Iterator[pa.Table]]

    def portions(self, *names: str) -> Iterator[pa.Table]:
        """These columns, some thousand rows at a time."""
        return self.read(names)

    def where(self, *needs: str, are: Callable[[pa.Table], np.ndarray]) -> Facts:
        """The facts that are chosen by some columns."""

        def read(names: Sequence[str]) -> Iterator[pa.Table]:
            for portion in self.read(tuple(dict.fromkeys([*names, *needs]))):
                chosen = are(portion)
                some = portion.select(list(names))
                if chosen.any():
                    yield some if chosen.all() else some.filter(pa.array(chosen))

        return Facts(read)

    def that_hold(self, holds: int, nodes: Collection[int] | None = None) -> Facts:
        """The facts of a kind, which nodes told."""
        if nodes is None:
            return self.where("holds", are=lambda portion: portion.column("holds").to_numpy() == holds)
        some = sorted(nodes)

        def are(portion: pa.Table) -> np.ndarray:
            node, held = (portion.column(name).to_numpy() for name in ("node", "holds"))
            found: np.ndarray = (held == holds) & np.isin(node, some)
            return found

        return self.where("node", "holds", are=are)

    def each(self, change: Callable[[pa.Table], pa.Table]) -> Facts:
        """What a function makes of the facts, portion by portion."""

        def read(names: Sequence[str]) -> Iterator[pa.Table]:
            for portion in self.read(SCHEMA.names):
                yield change(portion).select(list(names))

        return Facts(read)

    def any(self) -> bool:
        """Whether there are some."""
        return any(portion.num_rows for portion in self.read(["holds"]))


def together(*several: Facts) -> Facts:
    """Some facts, and then others."""
    return Facts(lambda names: chain.from_iterable(each.read(names) for each in several))


def of(files: Sequence[str]) -> Facts:
    """The facts of all tasks of a pass."""
    found = list(islice(_portions(files, SCHEMA.names), 2))
    if len(found) > 1:
        return Facts(partial(_portions, tuple(files)))
    whole = found[0] if found else SCHEMA.empty_table()
    return Facts(lambda names: iter([whole.select(list(names))]))


def _portions(files: Sequence[str], names: Sequence[str]) -> Iterator[pa.Table]:
    """Columns of facts; one file is open at a time."""
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
