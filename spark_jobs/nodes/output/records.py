"""Part files with an index of their records.

Outputs that are sorted or split move records after they have been written. Their parts are a sequence of records, each
followed by the separator. `<part>.index` has a row per record, in blocks of up to `BLOCK_ROWS`:

- `size`: its bytes, including the separator;
- `key` (sorted outputs): its sort key followed by its place in the run, so that no two are equal;
- `group` (outputs split by a key): the text of its `group_key`;
- `mark` (sorted outputs of formats with a frame): the record's values that the frame needs.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.nodes import sorting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_jobs.formats.frame import Frame
    from spark_jobs.nodes.operator import Create

SUFFIX = ".index"
SIZE, KEY, GROUP, MARK = "size", "key", "group", "mark"
#: Small enough that merging hundreds of sorted parts can hold a block of each.
BLOCK_ROWS = 4096
#: A range of a merge has at least one block of each run. A run has this many blocks, unless they would be tiny.
_BLOCKS, _LEAST_BLOCK_ROWS = 64, 256
#: Sorted records are assembled in portions: at most this many records, and at most this part of all (one in so many).
_WRITTEN_ROWS, _WRITTEN_PARTS = 16 * BLOCK_ROWS, 8
_TYPES = {SIZE: pa.int64(), KEY: sorting.KEY, GROUP: pa.string()}


class IndexedFile:
    """A part file with its index.

    Args:
        create: creates a file.
        path: the part.
        columns: the columns of the index besides the sizes.
        marks: the type of marks.
    """

    def __init__(self, create: Create, path: str, columns: Sequence[str], marks: pa.DataType | None = None) -> None:
        types = {**_TYPES, MARK: marks}
        self._schema = pa.schema([(name, types[name]) for name in (SIZE, *columns)])
        self._data = create(path)
        self._index_file = create(path + SUFFIX)
        self._index = pa.ipc.new_file(self._index_file, self._schema)

    def write(self, records: pa.Array, columns: Mapping[str, pa.Array], block_rows: int = BLOCK_ROWS) -> None:
        """Append records, as a binary column, and their rows of the index."""
        ends = _ends(records)
        self._data.write(_bytes(records, ends))
        known = {SIZE: pa.array(np.diff(ends)), **columns}
        batch = pa.RecordBatch.from_arrays([known[name] for name in self._schema.names], schema=self._schema)
        for start in range(0, batch.num_rows, block_rows):
            self._index.write_batch(batch.slice(start, block_rows))

    def tell(self) -> int:
        """The bytes of the records so far."""
        return self._data.tell()

    def close(self) -> None:
        """Write buffered data."""
        self._index.close()
        self._index_file.close()
        self._data.close()


class FramedFile:
    """A part file of ordered records, with the frame's text between them. It needs no index.

    Args:
        create: creates a file.
        path: the part.
        frame: provides the text between records.
    """

    def __init__(self, create: Create, path: str, frame: Frame) -> None:
        self._frame = frame
        self._data = create(path)
        #: Facts about the part that the merge of parts needs.
        self.note = ""

    def write(self, records: pa.Array, columns: Mapping[str, pa.Array], block_rows: int = BLOCK_ROWS) -> None:
        """Append records, as a binary column, given their marks.

        Raises:
            Unfit: they cannot be written.
        """
        data, self.note = self._frame.enclose(records, columns[MARK], self.note)
        self._data.write(data)

    def tell(self) -> int:
        """The bytes so far."""
        return self._data.tell()

    def close(self) -> None:
        """Write buffered data."""
        self._data.close()


def write_sorted(file: Any, records: pa.Array, columns: Mapping[str, pa.Array]) -> int:
    """Append records in the order of their keys. Returns their number."""
    order = pc.sort_indices(columns[KEY])
    rows = max(BLOCK_ROWS, min(_WRITTEN_ROWS, len(order) // _WRITTEN_PARTS))
    block_rows = max(_LEAST_BLOCK_ROWS, min(BLOCK_ROWS, len(order) // _BLOCKS))
    for start in range(0, len(order), rows):
        chosen = order.slice(start, rows)
        file.write(records.take(chosen), {name: column.take(chosen) for name, column in columns.items()}, block_rows)
    return len(order)


@contextmanager
def index(arrow: Callable[[str], pa.NativeFile], part: str) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """The index of a part, to be read block by block. `arrow` opens files.

    Raises:
        OSError: it cannot be read, or differs from what was written.
    """
    try:
        with arrow(part + SUFFIX) as source:
            yield pa.ipc.open_file(source)
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "filename", None):
            raise
        raise OSError(errno.EIO, f"is not a complete index: {error}", part + SUFFIX) from error


def of(data: Any, ends: np.ndarray, separator: bytes) -> pa.Array:
    """Split a writer's bytes for a batch into one binary value per record, each followed by the separator."""
    return sorting.binary(np.concatenate([[0], ends]), b"".join((data, separator)) if separator else data)


def _ends(records: pa.Array) -> np.ndarray:
    found: np.ndarray = np.frombuffer(records.buffers()[1], dtype=np.int64)
    return found[records.offset : records.offset + len(records) + 1]


def _bytes(records: pa.Array, ends: np.ndarray) -> memoryview:
    if not len(records):
        return memoryview(b"")
    return memoryview(records.buffers()[2]).cast("B")[ends[0] : ends[-1]]
