"""Records that an earlier job materialized, in files of Arrow batches in record order.

A file ends with a list of its batches, so that readers can skip some.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.execute import part_file, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The pages of a mapped file that a process has touched count as its memory. After so many bytes the file is mapped
#: anew, and the old mapping is freed with the last of its records.
_TOUCHED_BYTES = 8 << 20
#: The metadata of a file's last batch, which has no records: how many each of the others has, and whose it is.
_ROWS, _PARTITIONS = b"rows", b"partitions"


@dataclass(frozen=True, slots=True)
class MaterializedFile:
    """A file of records, and how many it has."""

    path: str
    records: int


class Writer:
    """Writes records down, and at last the list of their batches."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._file = scratch.ArrowFile(path, schema)
        self._schema = schema
        self._rows: list[int] = []
        self._partitions: list[int | None] = []

    def write_batch(self, batch: pa.RecordBatch, partition: int | None = None) -> None:
        """Append records, all of one partition if the file is read by partitions."""
        self._file.write_batch(batch)
        self._rows.append(batch.num_rows)
        self._partitions.append(partition)

    def close(self) -> None:
        """Write the index of the batches."""
        listed = {_ROWS: json.dumps(self._rows), _PARTITIONS: json.dumps(self._partitions)}
        self._file.write_batch(pa.RecordBatch.from_pylist([], schema=self._schema), listed)
        self._file.close()

    @property
    def size(self) -> int:
        """The number of bytes written, known after closing."""
        return self._file.size


def whole(files: Sequence[MaterializedFile], partition: int | None = None) -> pa.Table:
    """All records, or the records of one partition: mapped, or copied if there are many files.

    Columns that the records of a merge path or file lack are null.
    """
    if len(files) > part_file.MOST_OPEN:
        starts = range(0, len(files), part_file.MOST_OPEN)
        copies = [whole(files[start : start + part_file.MOST_OPEN], partition).combine_chunks() for start in starts]
        return pa.concat_tables(copies, promote_options="default")
    tables = [table for each in files for table in _of_partition(each.path, partition)]
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def _of_partition(path: str, partition: int | None) -> list[pa.Table]:
    if partition is None:
        return [part_file.mapped(path, is_whole=True).read_all()]
    file = part_file.mapped(path)
    with part_file.unchanged(path):
        mine = [file.get_batch(number) for number, whose in enumerate(_listed(file, _PARTITIONS)) if whose == partition]
    return [pa.Table.from_batches([batch]) for batch in mine]


def _listed(file: pa.ipc.RecordBatchFileReader, what: bytes) -> list[int]:
    """The entries in the list of a file for each batch that has records."""
    packed = file.get_batch_with_custom_metadata(file.num_record_batches - 1).custom_metadata[what]
    found: list[int] = json.loads(packed)
    return found


def records(files: Sequence[MaterializedFile], start: int, end: int) -> Iterator[pa.Table]:
    """The records from `start` to `end`, in tables as they were written; of all files one is open at a time."""
    first = 0
    for each in files:
        if first < end and first + each.records > start:
            yield from _between(each.path, start - first, end - first)
        first += each.records


def _between(path: str, start: int, end: int) -> Iterator[pa.Table]:
    with part_file.unchanged(path):
        file, touched = part_file.mapped(path), 0
        rows = _listed(file, _ROWS)
        for number, (first, count) in enumerate(zip(accumulate(rows, initial=0), rows, strict=False)):
            low, high = max(start - first, 0), min(end - first, count)
            if low >= high:
                continue
            if touched > _TOUCHED_BYTES and scratch.is_mapped(path):
                file, touched = part_file.mapped(path), 0
            batch = file.get_batch(number)
            touched += batch.nbytes
            yield pa.Table.from_batches([batch.slice(low, high - low)])
