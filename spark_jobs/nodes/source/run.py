"""How splits become batches: blocks read and converted, bad records to the dead letters, the rest pushed on."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import failure, types, values
from spark_jobs.formats import format
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.nodes import memory, operator
from spark_jobs.nodes.records import columns
from spark_jobs.nodes.source.split_origin import Pack, PackOrigin, SplitOrigin
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.reader import Reader
    from spark_jobs.nodes.source.split_origin import SplitInput
    from spark_jobs.nodes.source.step import SourceStep


#: The column of the records' event times, for programs that read them.
EVENT_TIME = columns.SOURCE.of("event_time")
#: The first moment that a DateTime can be.
_FIRST = datetime.min
#: No delay is longer, in seconds: it leads out of all years from any moment.
_LONGEST_DELAY = 10_000 * 366 * 86_400


@dataclass
class Source(operator.Operator):
    """The root of a region that reads a split."""

    step: SourceStep
    #: What undeclared columns hold downstream; a CSV file's texts become values of any kind where others have such.
    widened_type: types.Type = types.STRING

    @cached_property
    def reader(self) -> Reader:
        """What reads the source's files."""
        return self.step.reader

    def reading(self, widened: tuple[str, ...], keep_texts: bool) -> format.Reading:
        """What is wanted of the files: all columns where dead letters show the record, else those read downstream."""
        return format.Reading(
            columns=self.step.columns,
            widened=widened,
            live=None if keep_texts else self.step.live,
            failure_texts=keep_texts,
            date_formats=self.step.date_formats,
            block_bytes=memory.block_bytes(self.context.account.share),
            record_bytes=memory.record_bytes(self.context.account.share),
        )

    def read(self, places: Sequence[SplitInput], wanted: format.Reading, outcomes: list[SplitOutcome]) -> None:
        """Push the records of some splits, one after the other; of each that was begun there is an outcome then."""
        pack = Pack(places)
        for run in self._runs(places):
            read = self._read_together(run, wanted) if len(run) > 1 else None
            if read is None:
                for place in run:
                    outcomes.append(SplitOutcome())
                    self._read_split(place, pack, wanted, outcomes[-1])
                continue
            blocks, counts = read
            base = pack.rows
            for place, count in zip(run, counts, strict=True):
                outcomes.append(SplitOutcome(place.split.start, place.split.end, count))
                pack.begin()
                pack.rows += count
            for block in blocks:
                self._give(block, PackOrigin(places[0], self.step, block, base, pack=pack), wanted)

    def _runs(self, places: Sequence[SplitInput]) -> Iterator[list[SplitInput]]:
        """The splits in groups: small files with the same columns, which can be read together, and single ones."""
        keys = [
            place.file_plan.columns
            if place.limit is None and self.reader.is_small(place.split, place.file_plan)
            else index
            for index, place in enumerate(places)
        ]
        for _, group in itertools.groupby(zip(keys, places, strict=True), key=lambda pair: pair[0]):
            yield [place for _, place in group]

    def _read_together(
        self, places: Sequence[SplitInput], wanted: format.Reading
    ) -> tuple[list[format.Block], list[int]] | None:
        return self.reader.read_together([place.file_plan for place in places], wanted)

    def _read_split(self, place: SplitInput, pack: Pack, wanted: format.Reading, outcome: SplitOutcome) -> None:
        """Push the records of a split; `outcome` tells about the split afterwards."""
        base = pack.begin()
        blocks = self.reader.read(place.split, place.file_plan, wanted, outcome)
        is_alone = len(pack.places) == 1
        for block in blocks:
            if place.limit is not None:
                block = block.until(place.limit)
            pack.rows += block.count
            if is_alone:
                origin = SplitOrigin(place, self.step, block)
            else:
                origin = PackOrigin(pack.places[0], self.step, block, base, pack=pack)
            self._give(block, origin, wanted)
            if place.limit is not None and block.first_row + block.count >= place.limit:
                return

    def _give(self, block: format.Block, origin: SplitOrigin, wanted: format.Reading) -> None:
        """Push the good records of a block, and the bad ones to the dead letters."""
        self.enter(block.count)
        if len(block.failures):
            self._fail(origin, block)
        first = origin.base + block.first_row
        if block.rows is None:
            rows = pa.array(np.arange(first, first + block.batch.num_rows))
        else:
            rows = pc.add(block.rows, origin.base) if origin.base else block.rows
        carried = [c.name for c in self.step.columns if c.name in self.step.live]
        carried += [columns.WIDENED.of(name) for name in wanted.widened]
        data = block.batch.select([name for name in carried if name in block.batch.schema.names])
        if self.widened_type.is_dynamic and self.step.file_format.values_are_text:
            data = _with_values(data)
        if "event_time" in self.step.reads_source and self.step.watermark_column:
            data = operator.overlay(data, {EVENT_TIME: self._event_times(block.batch)})
        if self.step.provenance:
            data = operator.overlay(data, self._provenance(origin, rows))
        if not data.num_columns:
            data = pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=[columns.NONE.name])
        self.push(operator.Batch(data, rows, origin))
        self.context.pause()

    def _event_times(self, data: pa.RecordBatch) -> pa.Array:
        """The watermark column as it was read, minus its delay (decision 95); null where that is before all years."""
        assert self.step.watermark_column is not None
        delay = timedelta(seconds=min(self.step.watermark_delay_s, _LONGEST_DELAY))
        moments = data.column(self.step.watermark_column).cast(pa.timestamp("us"))
        earlier = pc.subtract(moments, pa.scalar(delay, pa.duration("us")))
        return pc.if_else(pc.less(earlier, pa.scalar(_FIRST, pa.timestamp("us"))), None, earlier)

    def _provenance(self, origin: SplitOrigin, rows: pa.Array) -> dict[str, pa.Array]:
        """The metadata that says where records were read, as far as somebody asks."""
        known = origin.of_files(rows)
        found = {}
        for key in self.step.provenance:
            value = known[key.replace("_", ".", 1)] if key != "source_row" else origin.row_numbers(rows)
            found[columns.META.of(key)] = value if isinstance(value, pa.Array) else pa.repeat(value, len(rows))
        return found

    def count(self, place: SplitInput, outcome: SplitOutcome) -> None:
        """Count the records of a split."""
        self.reader.count(place.split, place.file_plan, outcome)

    def _fail(self, origin: SplitOrigin, block: format.Block) -> None:
        """Bad records leave at the first downstream stage (decision 26); malformed ones at the source itself."""
        self.counters.dead += len(block.failures)
        stages = [
            f"source:{self.step.name}" if reason.category is failure.Category.MALFORMED else self.step.failure_stage
            for reason in block.failures.reasons
        ]
        is_refused = np.array([stage == self.step.failure_stage for stage in stages])
        self.counters.refused += int(is_refused[block.failures.reason].sum())
        rows = pa.array(block.failures.rows + origin.base)
        self.context.letters(self, block.failures, origin.of_rows(rows), block.failed_rows, stages)


def _with_values(data: pa.RecordBatch) -> pa.RecordBatch:
    """Undeclared texts as values of any kind."""
    names = [name for name in data.schema.names if name in columns.WIDENED]
    return operator.overlay(data, {name: values.to_arrow(data.column(name).to_pylist(), types.ANY) for name in names})


#: The operators of a source by their roles.
OPERATORS = {shape.Role.WHOLE: Source}
