"""How a split becomes batches: blocks read and converted, bad records to the dead letters, the rest pushed on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure, types, values
from spark_jobs.formats import cell_text, format
from spark_jobs.nodes import operator
from spark_jobs.scan import scanning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.scan.columns import FilePlan
    from spark_jobs.scan.reading import SplitOutcome
    from spark_jobs.scan.splits import Split


#: The column of the records' event times, for programs that read them.
EVENT_TIME = "$source.event_time"
#: The first moment that a DateTime can be.
_FIRST = datetime.min
#: No delay is longer, in seconds: it leads out of all years from any moment.
_LONGEST_DELAY = 10_000 * 366 * 86_400


@dataclass(frozen=True)
class SplitInput:
    """A split to read.

    Args:
        source: the source's number in the plan.
        number: the split's number over all sources.
        file_plan: how its file is read.
        split: the part of the file.
        first_row: records of the file before this split, when that is known before reading (programs read
            `$source.row`).
        first_of_source: the same over all files of the source.
        limit: how many records are read at most; None for all (a preview has a limit).
    """

    source: int
    number: int
    file_plan: FilePlan
    split: Split
    first_row: int | None = None
    first_of_source: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class SplitOrigin:
    """Records that were read from a split."""

    place: SplitInput
    step: SourceStep
    block: format.Block

    @property
    def number(self) -> int:
        """The split's number over all sources."""
        return self.place.number

    def identify(self, batch: operator.Batch, indices: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """This split, and the rows."""
        return self.of_rows(batch.rows.take(indices))

    def of_rows(self, rows: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """This split, and the rows."""
        count = len(rows)
        source = pa.array(np.full(count, self.place.source, dtype=np.int32))
        return source, pa.array(np.full(count, self.place.number, dtype=np.int32)), rows

    def texts(self, batch: operator.Batch, indices: pa.Array) -> pa.RecordBatch | None:
        """The declared columns of records that were read well, in their text form (decision 81)."""
        rows = batch.rows.take(indices)
        if self.block.rows is None:
            found = pc.subtract(rows, self.block.first_row)
        else:
            found = pc.index_in(rows, value_set=self.block.rows)
        names = [column.name for column in self.step.columns]
        if any(name not in self.block.batch.schema.names for name in names):
            return None
        columns = [
            cell_text.texts(self.block.batch.column(column.name).take(found), column.type)
            for column in self.step.columns
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def surroundings(self, batch: operator.Batch) -> dict[str, Any]:
        """The file's values, and the row numbers where they are known."""
        known = self.of_file()
        if self.place.first_row is not None:
            known["source.row"] = self.row_numbers(batch.rows)
        if self.place.first_of_source is not None:
            known["pipeline.total_count"] = pc.add(batch.rows, self.place.first_of_source + 1)
        return known

    def of_file(self) -> dict[str, Any]:
        """What is the same for all records of the file."""
        file = self.place.file_plan.file
        return {"source.file": file.source_file or file.name, "source.path": file.name, "source.name": self.step.name}

    def row_numbers(self, rows: pa.Array) -> pa.Array:
        """The rows in the file, from 1, of rows of the split; only when they are known."""
        assert self.place.first_row is not None
        return pc.add(rows, self.place.first_row + 1)


@dataclass
class Source(operator.Operator):
    """The root of a region that reads a split."""

    step: SourceStep
    #: What undeclared columns hold downstream; a CSV file's texts become values of any kind where others have such.
    widened_type: types.Type = types.STRING

    def reading(self, widened: tuple[str, ...], keep_texts: bool) -> format.Reading:
        """What is wanted of the files: all columns where dead letters show the record, else those read downstream."""
        return format.Reading(
            columns=tuple(format.SourceColumn(c.name, c.type, c.required, c.format) for c in self.step.columns),
            widened=widened,
            live=None if keep_texts else self.step.live,
            failure_texts=keep_texts,
            date_formats=self.step.date_formats,
        )

    def read(self, place: SplitInput, wanted: format.Reading, outcome: SplitOutcome) -> None:
        """Push the records of a split; `outcome` tells about the split afterwards."""
        blocks: Iterator[format.Block] = scanning.read(
            self.step.format, place.split, place.file_plan, self.step.options, wanted, outcome, self.step.array_paths
        )
        carried = [c.name for c in self.step.columns if c.name in self.step.live]
        carried += [format.WIDENED + name for name in wanted.widened]
        for block in blocks:
            if place.limit is not None:
                block = block.until(place.limit)
            self.counters.records_in += block.count
            origin = SplitOrigin(place, self.step, block)
            if len(block.failures):
                self._fail(origin, block)
            rows = block.rows
            if rows is None:
                rows = pa.array(np.arange(block.first_row, block.first_row + block.batch.num_rows))
            data = block.batch.select([name for name in carried if name in block.batch.schema.names])
            if self.widened_type.is_dynamic and self.step.format == "csv":
                data = _with_values(data)
            if "event_time" in self.step.reads_source and self.step.watermark_column:
                data = operator.overlay(data, {EVENT_TIME: self._event_times(block.batch)})
            if self.step.provenance:
                data = operator.overlay(data, self._provenance(origin, rows))
            if not data.num_columns:
                data = pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=["$none"])
            self.push(operator.Batch(data, rows, origin))
            self.context.pause()
            if place.limit is not None and block.first_row + block.count >= place.limit:
                return

    def _event_times(self, data: pa.RecordBatch) -> pa.Array:
        """The watermark column as it was read, minus its delay (decision 95); null where that is before all years."""
        delay = timedelta(seconds=min(self.step.watermark_delay_s, _LONGEST_DELAY))
        moments = data.column(self.step.watermark_column).cast(pa.timestamp("us"))
        earlier = pc.subtract(moments, pa.scalar(delay, pa.duration("us")))
        return pc.if_else(pc.less(earlier, pa.scalar(_FIRST, pa.timestamp("us"))), None, earlier)

    def _provenance(self, origin: SplitOrigin, rows: pa.Array) -> dict[str, pa.Array]:
        """The metadata that says where records were read, as far as somebody asks."""
        known = origin.of_file()
        found = {}
        for key in self.step.provenance:
            value = known[key.replace("_", ".", 1)] if key != "source_row" else origin.row_numbers(rows)
            found[f"$meta.{key}"] = value if isinstance(value, pa.Array) else pa.repeat(value, len(rows))
        return found

    def count(self, place: SplitInput, outcome: SplitOutcome) -> None:
        """Count the records of a split."""
        scanning.count(
            self.step.format, place.split, place.file_plan, self.step.options, outcome, self.step.array_paths
        )

    def _fail(self, origin: SplitOrigin, block: format.Block) -> None:
        """Bad records leave at the first downstream stage (decision 26); malformed ones at the source itself."""
        self.counters.dead += len(block.failures)
        stages = [
            f"source:{self.step.name}" if reason.category is failure.Category.MALFORMED else self.step.failure_stage
            for reason in block.failures.reasons
        ]
        is_refused = np.array([stage == self.step.failure_stage for stage in stages])
        self.counters.refused += int(is_refused[block.failures.reason].sum())
        rows = pa.array(block.failures.rows)
        self.context.letters(self, block.failures, origin.of_rows(rows), block.failed_rows, stages)


def _with_values(data: pa.RecordBatch) -> pa.RecordBatch:
    """Undeclared texts as values of any kind."""
    names = [name for name in data.schema.names if name.startswith(format.WIDENED)]
    return operator.overlay(data, {name: values.to_arrow(data.column(name).to_pylist(), types.ANY) for name in names})


def open_operator(step: SourceStep, **wiring: Any) -> Source:
    """The operator of a source."""
    return Source(step, **wiring)
