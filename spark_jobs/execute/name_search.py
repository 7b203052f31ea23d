"""Finds the undeclared columns of JSON sources: here in small inputs, by tasks of their own in large ones."""

from __future__ import annotations

import json
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.execute import cancellation
from spark_jobs.formats.format import FormatError
from spark_jobs.scan import json_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.scan.json_columns import Part

#: Up to this many bytes are looked at here: a job costs more than that.
DRIVER_BYTES = 32 << 20
_PACK_BYTES = 16 << 20


class NameSearch:
    """Finds names by tasks where there is much to read; see `json_columns.Search`.

    Args:
        session: gives the Spark session, once it is open.
    """

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session

    def __call__(self, parts: Sequence[Part]) -> list[tuple[str, ...]]:
        """The names of each part.

        Raises:
            FormatError: a part cannot be read.
        """
        if sum(part.split.end - part.split.start for part in parts) <= DRIVER_BYTES:
            return json_columns.search_here(parts)
        found: list[tuple[str, ...]] = []
        for answer in _run(self._session(), _packs(parts)):
            if "error" in answer:
                raise FormatError(*answer["error"])
            found += [tuple(names) for names in answer["names"]]
        return found


def _packs(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """The parts by tasks: small neighbours together."""
    packs: list[list[Part]] = []
    filled = _PACK_BYTES
    for part in parts:
        if filled >= _PACK_BYTES:
            packs.append([])
            filled = 0
        packs[-1].append(part)
        filled += part.split.end - part.split.start
    return [tuple(pack) for pack in packs]


def _run(spark: SparkSession, packs: Sequence[tuple[Part, ...]]) -> list[dict[str, Any]]:
    """One task per pack."""
    pickled = pickle.dumps(tuple(packs), protocol=pickle.HIGHEST_PROTOCOL)
    count = len(packs)
    frame = spark.range(0, count, 1, count).mapInArrow(partial(run_task, pickled), "number long, answer string")
    told = cancellation.cancellable(spark, frame.toArrow).to_pylist()
    return [json.loads(row["answer"]) for row in sorted(told, key=lambda row: row["number"])]


def run_task(pickled: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What `mapInArrow` calls: rows with the numbers of packs in, what was found in them out."""
    packs: tuple[tuple[Part, ...], ...] = pickle.loads(pickled)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            try:
                answer: dict[str, Any] = {"names": json_columns.names_of(packs[number])}
            except FormatError as error:
                # A file that cannot be read ends the run with these words; trying it again would not help.
                answer = {"error": [error.message, error.path, error.code]}
            told = {"number": pa.array([number], pa.int64()), "answer": pa.array([json.dumps(answer)])}
            yield pa.RecordBatch.from_pydict(told)
