"""Large compressed files are unpacked before anything is read of them: as plain files they are cut into splits.

Unpacking takes less time than the steps after it, and only one task can do it. Parsing, converting and everything
after are then divided among as many tasks as the file has splits. The unpacked files are in a folder of the run, and
are removed with it.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.execute import inputs, scratch
from spark_jobs.execute.spark import spread
from spark_jobs.plan.physical import sizes
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.execute.scratch import Scratch
    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.plan import plan as plans
    from spark_jobs.scan.files import InputFile

_CHUNK_BYTES = 1 << 20


def unpack(spark: SparkSession, plan: plans.Plan, found: Inputs, room: Scratch, split_bytes: int) -> Inputs:
    """The inputs with the files unpacked where that is worth it, a task for each.

    Args:
        spark: runs the tasks.
        plan: the plan, for the places of its nodes.
        found: the inputs.
        room: where plain files go.
        split_bytes: the nominal size of splits.

    Raises:
        RunFailed: a file is broken, or there is no room for its contents.
    """
    wanted = [
        (name, number, file_plan.file) for name in found.scans for number, file_plan in _large(found, name, split_bytes)
    ]
    if not wanted:
        return found
    try:
        made = spread.parallel_map(
            spark, partial(_unpack, room), [file for _, _, file in wanted], reraised=(FormatError, OSError)
        )
    except FormatError as error:
        broken = next(name for name, _, file in wanted if file.name == error.path)
        with inputs.as_run_errors(plan, broken):
            raise
    scans = dict(found.scans)
    for (name, number, _), file in zip(wanted, made, strict=True):
        plain = list(scans[name].files)
        with inputs.as_run_errors(plan, name):
            plain[number] = found.steps[name].reader.unpacked(plain[number], file)
        scans[name] = replace(scans[name], files=tuple(plain))
    return inputs.with_splits(found.steps, scans, split_bytes)


def _large(found: Inputs, source: str, split_bytes: int) -> list[tuple[int, FilePlan]]:
    """The files of a source that are worth unpacking, with their numbers."""
    all_sizes = [place.bytes for name, place in found.splits if name == source]
    return [
        (number, file_plan)
        for number, file_plan in enumerate(found.scans[source].files)
        if file_plan.file.is_compressed
        and file_plan.is_splittable
        and file_plan.file.most_records is None
        and sizes.is_worth_spreading(file_plan.file.plain_size, all_sizes, split_bytes)
    ]


def _unpack(room: Scratch, file: InputFile) -> InputFile:
    """Unpack a file. Returns the unpacked one. A task that is tried again writes another one."""
    path = room.file(f"{uuid.uuid4().hex}.unpacked")
    with changes.opened(file) as stream, scratch.create(path) as plain:
        while data := stream.read(_CHUNK_BYTES):
            plain.write(data)
    return replace(
        room.described(path, file.name),
        source_file=file.source_file,
        origin=file.origin or file.path,
    )
