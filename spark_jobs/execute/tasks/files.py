"""The files of a task: parts of outputs, records materialized for later jobs, and records of earlier jobs."""

from __future__ import annotations

import os
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_jobs.execute import part_file, report, scratch
from spark_jobs.execute.tasks import materialized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from spark_jobs.execute.tasks.spec import JobSpec
    from spark_jobs.nodes import operator
    from spark_jobs.nodes.terms.needs import Need, Rows


class TaskFiles:
    """The files that an attempt of a task writes, and the files of earlier jobs that it reads.

    Args:
        spec: the job.
        stage: the task's stage.
        number: the task's number in the stage.
        attempt: distinguishes the files of several attempts.
    """

    def __init__(self, spec: JobSpec, stage: int, number: int, attempt: str) -> None:
        self._spec = spec
        self._stage = stage
        self._number = number
        self._attempt = attempt
        self._parts: list[tuple[report.Part, Any]] = []
        #: The node of each file by its path, also of files that could not be opened.
        self._nodes: dict[str, str] = {}

    def part(
        self,
        output: str,
        merge_path: tuple[int, ...],
        opener: Callable[[operator.Create, str], Any],
        source_file: str | None = None,
    ) -> Any:
        """A new part of an output."""
        parts = self._spec.run.parts
        folder, create = parts.folders.get(output), parts.part_store.create
        if folder is None:  # it has no file
            folder, create = self._spec.run.scratch.folder, scratch.create
        file = self._opened(folder, output, output, partial(opener, create))
        self._parts.append((report.Part(output, merge_path, self._number, file.path, 0, 0, source_file), file))
        return file

    def materialize(self, need: Need, merge_path: tuple[int, ...], schema: pa.Schema) -> Any:
        """Open a new file for the records of a need."""
        file = self._opened(
            self._spec.run.scratch.folder, str(need), need.node, lambda path: materialized.Writer(path, schema)
        )
        self._parts.append((report.Part(need, merge_path, self._number, file.path, 0, 0), file))
        return file

    def _opened(self, folder: str, what: str, node: str, opener: Callable[[str], Any]) -> part_file.PartFile:
        name = f"{uuid.uuid5(uuid.NAMESPACE_OID, what).hex[:8]}-{self._stage}-{self._number}"
        path = os.path.join(folder, f"{name}-{len(self._parts)}-{self._attempt}.part")
        self._nodes[path] = node
        return part_file.PartFile(opener, path)

    def materialized(self, need: Need, partition: int | None = None) -> pa.Table:
        """The batches that an earlier job materialized, in order."""
        return materialized.whole(self._spec.materialized[need], partition)

    def count(self, rows: Rows) -> int:
        """The number of records that an earlier job materialized."""
        return sum(each.records for each in self._spec.materialized[rows])

    def materialized_range(self, rows: Rows, start: int, end: int) -> Iterator[pa.Table]:
        """Some of them by their numbers, in order."""
        return materialized.records(self._spec.materialized[rows], start, end)

    def node_of(self, path: str, other: str) -> str:
        """The node that a file of this task belongs to; `other` for any other path."""
        return self._nodes.get(path, other)

    def is_ours(self, path: str) -> bool:
        """True if this task has written a file, or tried to."""
        return path in self._nodes

    def close(self) -> tuple[list[report.Part], list[OSError]]:
        """Close all files; returns their parts with sizes, and the errors of the system."""
        problems = []
        for part, file in self._parts:
            part.records = file.records
            try:
                file.close()
                part.bytes, part.note = file.bytes, file.note
            except OSError as error:
                problems.append(error)
        return [part for part, _ in self._parts], problems
