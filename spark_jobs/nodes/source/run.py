"""The operator of a source: it reads and converts blocks, pushes records, and sends bad ones to the dead letters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs import credentials
from spark_jobs.cxl import failure, types, values
from spark_jobs.formats import coerce, format
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.formats.typed import records
from spark_jobs.nodes import materialize, memory, operator
from spark_jobs.nodes.records import batches, columns, guarded
from spark_jobs.nodes.rules import references_run
from spark_jobs.nodes.source.record_origin import MaterializedOrigin, RecordOrigin
from spark_jobs.nodes.source.split_origin import Pack, PackOrigin, SplitOrigin
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.reader import Reader
    from spark_jobs.nodes.source.split_origin import SplitInput
    from spark_jobs.nodes.source.step import SourceStep


#: The column of the records' event times, for programs that read them.
EVENT_TIME = columns.SOURCE.of("event_time")
#: The earliest DateTime.
_FIRST = datetime.min
_FIRST_US = (_FIRST - datetime(1970, 1, 1)) // timedelta(microseconds=1)
#: Earlier than every moment.
_NO_TIME = np.iinfo(np.int64).min
#: No delay is longer, in seconds. From any moment it leads out of all years.
_LONGEST_DELAY = 10_000 * 366 * 86_400


@dataclass
class Source(operator.Operator):
    """The root of a fragment that reads a split."""

    step: SourceStep
    #: Records are materialized here only for tasks that may have to write them as dead letters.
    shows_later: bool = False
    #: The type of undeclared columns downstream. Texts of CSV files become dynamic values if another source has such
    #: values.
    undeclared_type: types.Type = types.STRING
    #: By the number of each split, the latest event time less the delay, in microseconds since the first moment,
    #: counted from 1.
    watermarks: dict[int, int] = field(default_factory=dict)

    @cached_property
    def reader(self) -> Reader:
        """The reader of the source's files."""
        share = self.context.memory_pool.share
        return replace(self.step.reader, tuning=self.context.tuning, record_bytes=memory.record_bytes(share))

    def reading(self, undeclared: tuple[str, ...], keep_texts: bool) -> format.Reading:
        """The columns to read: all columns if dead letters show the record, otherwise the columns read downstream."""
        live = None if keep_texts else self.step.live
        if live is not None and (ruled := {column.name for column in self.step.columns if column.rules}):
            # Rules check values, and failing records are shown whole.
            live = None if self.step.correlation_key else live | ruled
        return format.Reading(
            columns=self.step.columns,
            undeclared=undeclared,
            live=live,
            failure_texts=keep_texts or bool(self.step.correlation_key),
            date_formats=self.step.date_formats,
            block_bytes=memory.block_bytes(self.context.memory_pool.share),
            record_bytes=self.reader.record_bytes,
            sections=self.step.sections,
            documents=frozenset(path for path, _ in self.step.documents),
            passes=self.step.passes if self._takers_pass_over else (),
            null_values=self.step.options.spelling.null_values,
        )

    @property
    def _takers_pass_over(self) -> bool:
        """True if all operators downstream can count skipped records."""
        takers = [target for target, _ in self.targets.get("", ())]
        return not self.shows_later and bool(takers) and all(target.can_pass_over for target in takers)

    def read(self, places: Sequence[SplitInput], wanted: format.Reading, outcomes: list[SplitOutcome]) -> None:
        """Push the records of some splits, one after another. Each split that was begun adds an outcome."""
        pack = Pack(places)
        for run in self._runs(places, wanted.block_bytes):
            # Each file has its own envelope.
            read = self._read_together(run, wanted) if len(run) > 1 and not wanted.sections else None
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

    def _runs(self, places: Sequence[SplitInput], most_bytes: int) -> Iterator[list[SplitInput]]:
        """The splits in groups: small files with the same columns, which can be read together, and single splits.

        A group has no more bytes than a block, because it becomes one block.
        """
        run: list[SplitInput] = []
        size = 0
        for place in places:
            length = place.split.end - place.split.start
            is_small = place.limit is None and self.reader.is_small(place.split, place.file_plan)
            fits = is_small and size + length <= most_bytes
            if run and not (fits and place.file_plan.columns == run[-1].file_plan.columns):
                yield run
                run, size = [], 0
            run.append(place)
            size += length if is_small else most_bytes + 1
        if run:
            yield run

    def _read_together(
        self, places: Sequence[SplitInput], wanted: format.Reading
    ) -> tuple[list[format.Block], list[int]] | None:
        found = self.reader.read_together([place.file_plan for place in places], wanted)
        return None if found is None else (list(self.reader.ruled(found[0], wanted)), found[1])

    def _read_split(self, place: SplitInput, pack: Pack, wanted: format.Reading, outcome: SplitOutcome) -> None:
        """Push the records of a split. Afterwards `outcome` describes the split."""
        base = pack.begin()
        if place.limit is not None:
            wanted = replace(wanted, passes=())
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
        """Push the good records of a block, and send the bad ones to the dead letters."""
        self.enter(block.count)
        if block.passed_over:
            self._pass_over(block)
            return
        if len(block.failures):
            self._fail(origin, block)
        if block.surplus is not None:
            self._warn_of("records that lost surplus cells (`options.ragged`), empty ones aside", block.surplus, origin)
        if block.repaired is not None:
            self._warn_of("records with quotes that were read as text (`quotes: repair`)", block.repaired, origin)
        if block.doubled is not None:
            text = "records in which a key with dots and a path lead to one column, which has the value of the key"
            self._warn_of(text, block.doubled, origin)
        first = origin.base + block.first_row
        if block.rows is None:
            rows = pa.array(np.arange(first, first + block.batch.num_rows))
        else:
            rows = pc.add(block.rows, origin.base) if origin.base else block.rows
        carried = [c.name for c in self.step.columns if self.shows_later or c.name in self.step.live]
        carried += [columns.UNDECLARED.of(name) for name in wanted.undeclared]
        known = set(block.batch.schema.names)
        data = block.batch.select([name for name in carried if name in known])
        if self.undeclared_type.is_dynamic and self.step.file_format.values_are_text:
            data = _with_values(data, wanted, self.step.typed_fields)
        if "event_time" in self.step.reads_source and self.step.watermark_column:
            data = batches.overlay(data, {EVENT_TIME: self._event_times(block.batch)})
        if self.step.watermark_column:
            self._note_times(block.batch.column(self.step.watermark_column), origin.of_rows(rows)[1])
        if self.step.documents:
            data = batches.overlay(data, self._documents(block))
        if self.step.provenance:
            data = batches.overlay(data, self._provenance(origin, rows))
        if self.step.correlation_key:
            stamped = {columns.CORRELATION.of(name): block.batch.column(name) for name in self.step.correlation_key}
            data = batches.overlay(data, stamped)
        if not data.num_columns:
            data = pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=[columns.NONE.name])
        self.push(self._read(batches.Batch(data, rows, origin)))
        self.context.pause()

    def _warn_of(self, what: str, affected: format.Affected, origin: SplitOrigin) -> None:
        """Warn of records whose values were changed or cut while they were read."""
        text = f"source '{self.step.name}': {what}"
        rows = pa.array(affected.rows + origin.base)
        batch = batches.Batch(
            pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=[columns.NONE.name]), rows, origin
        )
        shown = credentials.HIDDEN if guarded.has_secret(self.step.column_names) else affected.first
        self.context.notice(self, text, batch, dict.fromkeys(range(len(rows)), "") | {0: shown})

    def _pass_over(self, block: format.Block) -> None:
        """Count records that were skipped because a filter would drop them."""
        self.counters.passed_over += block.passed_over
        self.leave(block.count)
        for target, _ in self.targets[""]:
            target.pass_over(block.count)
        self.context.pause()

    def _read(self, batch: batches.Batch) -> batches.Batch:
        """The records without those that failed in earlier passes, which count as never read."""
        excluded = self.context.correlation.excluded(self.step.name, batch)
        if excluded is None:
            return batch
        self.counters.dead += int(excluded.sum())
        return batch.take(pa.array(np.flatnonzero(~excluded)))

    def _note_times(self, moments: pa.Array, split: pa.Array) -> None:
        """Update the watermarks of splits, whose records are contiguous."""
        if moments.null_count == len(moments):
            return
        times = moments.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(_NO_TIME).to_numpy()
        numbers = split.to_numpy()
        begins = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
        shift = round(min(self.step.watermark_delay_s, _LONGEST_DELAY) * 1e6) + _FIRST_US - 1
        for number, latest in zip(numbers[begins].tolist(), np.maximum.reduceat(times, begins).tolist(), strict=True):
            if latest > shift:
                self.watermarks[number] = max(self.watermarks.get(number, 0), latest - shift)

    def _event_times(self, data: pa.RecordBatch) -> pa.Array:
        """`$source.event_time`: the watermark column minus its delay; null if that is before the year 1."""
        assert self.step.watermark_column is not None
        delay = timedelta(seconds=min(self.step.watermark_delay_s, _LONGEST_DELAY))
        moments = data.column(self.step.watermark_column).cast(pa.timestamp("us"))
        earlier = pc.subtract(moments, pa.scalar(delay, pa.duration("us")))
        return pc.if_else(pc.less(earlier, pa.scalar(_FIRST, pa.timestamp("us"))), None, earlier)

    def _documents(self, block: format.Block) -> dict[str, pa.Array]:
        """The envelope values that are read downstream."""
        found = {}
        for path, static in self.step.documents:
            column = block.documents.get(path)
            if not isinstance(column, pa.Array):
                column = pa.repeat(values.to_arrow([column], static)[0], block.batch.num_rows)
            found[columns.value(path)] = column
        return found

    def _provenance(self, origin: SplitOrigin, rows: pa.Array) -> dict[str, pa.Array]:
        """The required metadata about the origin of records."""
        known = origin.of_files(rows)
        found = {}
        for key in self.step.provenance:
            value = known[key.replace("_", ".", 1)] if key != "source_row" else origin.row_numbers(rows)
            found[columns.META.of(key)] = batches.repeated(value, len(rows))
        return found

    def count(self, place: SplitInput, outcome: SplitOutcome) -> None:
        """Count the records of a split."""
        self.reader.count(place.split, place.file_plan, outcome)

    def _fail(self, origin: SplitOrigin, block: format.Block) -> None:
        """Fail records with bad values at the first stage downstream, and malformed ones at the source itself."""
        self.counters.dead += len(block.failures)
        stages = [
            f"source:{self.step.name}" if reason.category is failure.Category.MALFORMED else self.step.failure_stage
            for reason in block.failures.reasons
        ]
        is_refused = np.array([stage == self.step.failure_stage for stage in stages])
        self.counters.refused += int(is_refused[block.failures.reason].sum())
        rows = pa.array(block.failures.rows + origin.base)
        keys = None if block.failed_rows is None else self._keys(block.failed_rows)
        self.context.fail_read_records(self, block.failures, origin.of_rows(rows), block.failed_rows, stages, keys)

    def _keys(self, failed: pa.RecordBatch) -> dict[str, pa.Array]:
        """The correlation key of records that fail; empty if the key itself does not convert."""
        declared = {column.name: column for column in self.step.columns}
        found = {}
        for name in self.step.correlation_key:
            column = declared[name]
            text: pa.StringArray = pc.fill_null(failed.column(name), "")  # type: ignore[assignment]  # always texts
            wrong = coerce.convert(text, column.type, format.forms(column, self.step.date_formats)).failed
            is_known = np.ones(len(text), dtype=bool)
            is_known[wrong] = False
            found[name] = pc.if_else(pa.array(is_known), text, "")
        return found


def _with_values(
    data: pa.RecordBatch, wanted: format.Reading, typed_fields: Sequence[format.SourceColumn]
) -> pa.RecordBatch:
    """Convert undeclared texts to dynamic values. Texts of fields with a type are converted to it if possible."""
    names = [name for name in data.schema.names if name in columns.UNDECLARED]
    found: dict[str, pa.Array] = {name: records.tagged(data.column(name), types.STRING) for name in names}
    for field_ in typed_fields:
        name = columns.UNDECLARED.of(field_.name)
        if name in found:
            texts = cast("pa.StringArray", data.column(name))
            texts = pc.replace_with_mask(texts, pc.equal(texts, ""), pa.scalar(None, pa.string()))
            done = coerce.convert(texts, field_.type, wanted.forms(field_), field_.spelling)
            failed = np.zeros(data.num_rows, dtype=bool)
            failed[done.failed] = True
            found[name] = pc.if_else(pa.array(failed), found[name], records.tagged(done.array, field_.type))
    return batches.overlay(data, found)


@dataclass
class ReadMaterialized(materialize.ReadMaterialized):
    """The root of a fragment that continues with records which another task has read."""

    step: SourceStep

    def given(self, batch: batches.Batch) -> batches.Batch:
        """The columns that are read downstream. Declared columns are kept aside for dead letters if all are stored."""
        return self._alive(self._shown(batch))

    def _alive(self, batch: batches.Batch) -> batches.Batch:
        """The records without those that failed in passes since they were stored."""
        excluded = self.context.correlation.excluded(self.step.name, batch)
        return batch if excluded is None else batch.take(pa.array(np.flatnonzero(~excluded)))

    def _shown(self, batch: batches.Batch) -> batches.Batch:
        names = batch.data.schema.names
        if not set(self.step.column_names) <= set(names):
            return batch
        assert isinstance(batch.origin, RecordOrigin)
        first = int(batch.rows[0].as_py()) if batch.count else 0
        origin = MaterializedOrigin(batch.origin.number, batch.origin.places, self.step, batch.data, first)
        unread = frozenset(self.step.column_names) - self.step.live
        data = batch.data.select([name for name in names if name not in unread])
        return replace(batch, data=data, origin=origin)


#: The operators of a source by their roles.
OPERATORS = {
    shape.Role.WHOLE: Source,
    shape.Role.READ_MATERIALIZED: ReadMaterialized,
    shape.Role.BUILD: references_run.MaterializeReferenced,
}
