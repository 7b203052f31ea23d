"""Tables of any length: a short one is in memory, the columns of a longer one are mapped files.

Readers need not distinguish the two. Each column is a single array, and slicing it copies nothing.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.execute import part_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The maximal number of rows of a table in memory. A longer table is stored in files.
MOST_ROWS = 1 << 18
MOST_BYTES = 1 << 26


def are_many(rows: int, size: int) -> bool:
    """True if a table of this many rows and bytes is too large for memory."""
    return rows > MOST_ROWS or size > MOST_BYTES


def rows_at_once(rows: int, size: int) -> int:
    """The number of a table's rows that may be in memory at a time, given its rows and bytes."""
    return min(MOST_ROWS, max(1, MOST_BYTES * rows // max(size, 1)))


def store_table(folder: str, schema: pa.Schema, parts: Iterable[pa.Table]) -> pa.Table:
    """Concatenate parts to one table, in mapped files if it is long. Texts must be `large_string` without nulls."""
    held: list[pa.Table] = []
    rows = size = 0
    columns: _Columns | None = None
    for part in parts:
        held.append(part)
        rows, size = rows + part.num_rows, size + part.nbytes
        if are_many(rows, size):
            columns = columns or _Columns(folder, schema)
            columns.append(held)
            held, rows, size = [], 0, 0
    if columns is None:
        return pa.concat_tables([schema.empty_table(), *held]).combine_chunks()
    columns.append(held)
    return columns.mapped()


def slices(table: pa.Table, most: int | None = None) -> Iterator[pa.Table]:
    """A table, some rows at a time."""
    step = rows_at_once(table.num_rows, table.nbytes) if most is None else most
    for first in range(0, table.num_rows, step):
        yield table.slice(first, step)


class _Columns:
    """Writes a table column by column in the layout of its buffers in memory.

    Args:
        folder: the folder of its files. When they are mapped they are unlinked, so that they end with the table.
        schema: its columns: numbers, and large texts.
    """

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows = 0
        path = os.path.join(folder, f"column-{uuid.uuid4().hex}")
        self._values = [_file(f"{path}-{place}") for place in range(len(schema))]
        #: For text columns, a file with the ends of texts, and the bytes so far.
        self._ends = {at: _file(f"{path}-{at}-ends") for at, field in enumerate(schema) if _is_text(field)}
        self._bytes = dict.fromkeys(self._ends, 0)
        for file in self._ends.values():
            file.write(np.zeros(1, dtype=np.int64))

    def append(self, parts: Iterable[pa.Table]) -> None:
        for part in parts:
            assert part.schema.equals(self._schema), part.schema
            self._rows += part.num_rows
            for place, column in enumerate(part.columns):
                assert not column.null_count, self._schema.names[place]
                for chunk in column.chunks:
                    if place in self._ends:
                        self._append_texts(place, chunk)
                    else:
                        self._values[place].write(np.ascontiguousarray(chunk.to_numpy()))

    def _append_texts(self, place: int, texts: pa.Array) -> None:
        if not len(texts):
            return
        _, ends, data = texts.buffers()
        known = np.frombuffer(ends, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        first, last = int(known[0]), int(known[-1])
        self._ends[place].write(known[1:] + (self._bytes[place] - first))
        if last > first:
            self._values[place].write(data.slice(first, last - first))
        self._bytes[place] += last - first

    def mapped(self) -> pa.Table:
        """The complete table, mapped."""
        arrays = []
        for place, file in enumerate(self._values):
            buffers = [_mapped(each) for each in (self._ends.get(place), file) if each is not None]
            arrays.append(pa.Array.from_buffers(self._schema.field(place).type, self._rows, [None, *buffers]))
        return pa.Table.from_arrays(arrays, schema=self._schema)


def _is_text(field: pa.Field) -> bool:
    return pa.types.is_large_string(field.type)


def _file(path: str) -> part_file.PartFile:
    return part_file.PartFile(lambda name: open(name, "xb"), path)


def _mapped(file: part_file.PartFile) -> pa.Buffer:
    """Map the bytes of a file, and unlink it."""
    file.close()
    found = pa.memory_map(file.path).read_buffer() if file.bytes else pa.py_buffer(b"")
    os.unlink(file.path)
    return found
