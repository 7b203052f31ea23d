"""Outputs of formats with frames: tasks also write the text between records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.formats import format
from spark_jobs.nodes.output import records, run
from spark_jobs.nodes.rules import references_run
from spark_jobs.nodes.terms import shape
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from spark_jobs.nodes.records import batches


@dataclass
class FramedOutput(run.Output):
    """Writes parts whose notes describe the frame that surrounds them."""

    def open(self) -> None:
        """Create the frame."""
        super().open()
        frame = self.step.frame
        assert frame is not None
        self.opener = partial(records.FramedFile, frame=frame)

    def write(self, batch: batches.Batch, file: str | None) -> None:
        """Write a batch's records to the part file of their merge path."""
        encoded, _ = self.encode(batch, ends=True)
        if not encoded.rows or encoded.ends is None:
            return
        part = self.part(batch.merge_path, file, self.opener)
        try:
            part.write(records.of(encoded.data, encoded.ends, b""), {records.MARK: encoded.marks})
        except format.UnwritableFile as problem:
            raise FormatError(str(problem), self.step.path, node=self.step.name) from problem
        part.records += encoded.rows


#: The operators of such an output by their roles.
OPERATORS = {shape.Role.WHOLE: FramedOutput, shape.Role.BUILD: references_run.MaterializeReferenced}
