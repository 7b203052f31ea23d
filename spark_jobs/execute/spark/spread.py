"""Distributes work over Spark: one task per item, with the answers in the order of the items.

A function travels by its name and items travel pickled, so both have to be at home in a module of the engine. What
comes back to the driver is small: where the answer is data, it goes to a file, and the answer says to which.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from spark_jobs.execute.spark import cancellation, internals
from spark_jobs.execute.tasks import shuffle_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_ANSWERS = pa.schema({"number": pa.int64(), "answer": pa.binary()})
#: Spark's driver keeps a few kilobytes of each task, so a task may do several numbers, which are neighbours.
MOST_TASKS = 1 << 16


class InProcess:
    """Stands for a session where there is none: all work is done in this process (`in_process.py`)."""


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """The rows of some batches."""
    return [row for batch in batches for row in batch.to_pylist()]


def parallel_map(
    spark: SparkSession,
    function: Callable[[_Item], _Answer],
    items: Sequence[_Item],
    reraised: tuple[type[Exception], ...] = (),
) -> list[_Answer]:
    """Call a function with each item in tasks, and return its answers in order. An interrupt cancels the tasks.

    Args:
        spark: runs the tasks.
        function: a function of a module, or a `partial` of one.
        items: one task for each.
        reraised: errors that end the work at once and are raised here. After any other error Spark tries the task
            again, and does not report the error.

    Raises:
        Exception: one of `reraised`, of the first item that had any.
    """
    if not items:
        return []
    pickled = pickle.dumps((function, tuple(items), reraised), protocol=pickle.HIGHEST_PROTOCOL)
    rows = sorted(_answers(spark, pickled, len(items)), key=lambda row: row["number"])
    answers: list[tuple[_Answer | None, Exception | None]] = [pickle.loads(row["answer"]) for row in rows]
    for _, error in answers:
        if error is not None:
            raise error
    return [answer for answer, _ in answers]  # type: ignore[misc]  # an answer without an error


def numbers(spark: SparkSession, count: int) -> DataFrame:
    """The numbers from 0 on, each in a partition of its own: a task for each, unless there are very many."""
    return spark.range(0, count, 1, min(max(count, 1), MOST_TASKS))


def mapped(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Apply a function to the batches of a frame."""
    return frame.mapInArrow(function, internals.schema(schema))


def _answers(spark: SparkSession, pickled: bytes, count: int) -> list[dict[str, Any]]:
    """The answers of the tasks, in any order."""
    if isinstance(spark, InProcess):
        wanted = (pa.RecordBatch.from_pydict({"id": [number]}) for number in range(count))
        return rows_of(run_task(pickled, wanted))
    frame = mapped(numbers(spark, count), partial(run_task, pickled), _ANSWERS)
    rows: list[dict[str, Any]] = cancellation.cancellable(spark, frame.toArrow).to_pylist()
    return rows


def run_task(pickled: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Process the batches of a `mapInArrow` task: the numbers of items come in, their answers go out."""
    function, items, reraised = pickle.loads(pickled)
    for number in shuffle_records.numbers_in(batches):
        try:
            answer = (function(items[number]), None)
        except reraised as error:
            answer = (None, error)
        row = {"number": number, "answer": pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)}
        yield pa.RecordBatch.from_pylist([row], schema=_ANSWERS)
