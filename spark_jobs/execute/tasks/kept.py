"""Records that an earlier job wrote down, in files of Arrow batches in record order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.execute.tasks import part_file
from spark_jobs.nodes import operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: What a process has touched of a mapped file counts as its memory. Behind so much the file is mapped anew, and the old
#: mapping goes with the last of its records.
_TOUCHED_BYTES = 8 << 20
#: Of a batch that is passed over a page is looked at, and the system maps so much around it.
_AROUND_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of records, and how many it has."""

    path: str
    records: int


def whole(files: Sequence[Kept], partition: int | None = None) -> pa.Table:
    """All records, or those of a partition; mapped where the file system allows it, and copied where files are many.

    What the records of some lane or file lack is null there.
    """
    if len(files) > part_file.MOST_OPEN:
        starts = range(0, len(files), part_file.MOST_OPEN)
        copies = [whole(files[start : start + part_file.MOST_OPEN], partition).combine_chunks() for start in starts]
        return pa.concat_tables(copies, promote_options="default")
    opened = [part_file.mapped(each.path) for each in files]
    if partition is None:
        tables = [file.read_all() for file in opened]
    else:
        found = [file.get_batch_with_custom_metadata(i) for file in opened for i in range(file.num_record_batches)]
        wanted = str(partition).encode()
        mine = [each.batch for each in found if each.custom_metadata[operator.PARTITION] == wanted]
        tables = [pa.Table.from_batches([batch]) for batch in mine]
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def records(files: Sequence[Kept], start: int, end: int) -> Iterator[pa.Table]:
    """The records from `start` to `end`, in tables as they were written; of all files one is open at a time."""
    first = 0
    for each in files:
        if first < end and first + each.records > start:
            with part_file.unchanged(each.path):
                file, touched = part_file.mapped(each.path), 0
                for number in range(file.num_record_batches):
                    if touched > _TOUCHED_BYTES:
                        file, touched = part_file.mapped(each.path), 0
                    batch = file.get_batch(number)
                    low, high = max(start - first, 0), min(end - first, batch.num_rows)
                    touched += batch.nbytes if low < high else _AROUND_BYTES
                    if low < high:
                        yield pa.Table.from_batches([batch.slice(low, high - low)])
                    first += batch.num_rows
                    if first >= end:
                        return
        else:
            first += each.records
