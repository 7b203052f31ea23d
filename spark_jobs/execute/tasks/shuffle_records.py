"""Rows between the stages of a job: shuffle records around Arrow payloads.

`slot` says which task of the next stage gets a shuffle record, `exchange` and `partition` whom it is for, `ordinal` its
place in the order of records, `payload` is an Arrow IPC stream, or counts. Shuffle records for later stages are passed
on without decoding; reports travel as shuffle records of exchange -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.plan.physical import fragments

#: (slot, exchange, partition, ordinal, payload).
ShuffleRecord = tuple[int, int, int, int, bytes]
SCHEMA = pa.schema(
    [
        ("slot", pa.int32()),
        ("exchange", pa.int32()),
        ("partition", pa.int32()),
        ("ordinal", pa.int64()),
        ("payload", pa.binary()),
    ]
)
REPORTS = -1
#: Ordinals of shuffle records without rows, which sort before all rows: the counters of a task of an earlier stage, and
#: a message from its operator to the operators downstream of the exchange.
COUNTS, MESSAGE = -1, -2
#: Payloads are some megabytes: a batch has few of them.
BATCH = 8


def slot_starts(job: fragments.Job, stage: int) -> dict[int, int]:
    """The first slot of each exchange that a stage consumes."""
    starts, start = {}, 0
    for exchange in job.at(stage):
        starts[exchange.id] = start
        start += exchange.partitions
    return starts


def slot(job: fragments.Job, stage: int, exchange: int, partition: int) -> int:
    """The task of a stage that gets a shuffle record: the exchange's own, or any that passes it on."""
    start = slot_starts(job, stage).get(exchange)
    return partition % max(job.slots(stage), 1) if start is None else start + partition


def batch(rows: Sequence[ShuffleRecord]) -> pa.RecordBatch:
    """Parcels as Spark gets them; at most `BATCH`."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def numbers_in(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The numbers of the items that a task of stage 0 was given."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
