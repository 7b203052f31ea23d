"""The operator of an output: it encodes the wanted columns under their written names, a part file per merge path."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs import credentials
from spark_jobs.cxl import types
from spark_jobs.formats import format, registry
from spark_jobs.formats.options import OnUnwritable
from spark_jobs.nodes import operator
from spark_jobs.nodes.output import shape, shaping
from spark_jobs.nodes.records import batches, guarded
from spark_jobs.nodes.rules import measure_run, references_run
from spark_jobs.nodes.rules import step as rules
from spark_jobs.nodes.terms.shape import Role
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_jobs.cxl.engine import RowFailure
    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.nodes.records import order


#: The type of undeclared columns if all sources are text formats.
TEXT = types.STRING.or_null()


def writer(step: OutputStep, undeclared: Sequence[str], kind: types.Type) -> format.Writer:
    """The writer of an output's files."""
    written = shape.file_schema(shape.written_columns(step, undeclared, kind))
    found: format.Writer = registry.named(step.format).writer(
        written,
        step.options,
        include_header=step.include_header,
        preserve_nulls=step.preserve_nulls,
        layout=step.layout,
    )
    return found


@dataclass
class Output(operator.Operator):
    """Writes part files. The run assembles them when it has succeeded."""

    step: OutputStep
    #: The undeclared columns that reach this output, in first-seen order.
    undeclared: tuple[str, ...] = ()
    undeclared_type: types.Type = TEXT
    #: The exchange for the values that rules count; None if no rule counts any.
    exchange: int | None = None
    #: The part file of each merge path, and its input file if each input file has an output of its own.
    parts: dict[order.MergePath, tuple[str | None, Any]] = field(default_factory=dict)

    def open(self) -> None:
        self.columns = shape.written_columns(self.step, self.undeclared, self.undeclared_type)
        self.names = [one.name for one in self.columns]
        self.is_shaped = any(one.shape for one in self.columns)
        self.writer = writer(self.step, self.undeclared, self.undeclared_type)
        self.meters = measure_run.Meters(self, rules.measured(self.step.rules), self.exchange)

    def process(self, batch: batches.Batch, port: int) -> None:
        """Encode a batch. Records that cannot be written are dead letters of this output alone."""
        for file, piece in self._by_file(self._accepted(self.wanted(self.take(batch)))):
            self.write(piece, file)

    def _accepted(self, batch: batches.Batch) -> batches.Batch:
        """The records without those that failed elsewhere, or whose correlation group is rejected."""
        withheld = self.context.correlation.withheld(self, batch)
        if withheld is None:
            return batch
        dead = self.counters.dead + len(withheld)
        self._try(batch.take(pa.array(withheld)))
        self.counters.dead = dead
        return batch.take(batches.indices_except(batch.count, withheld.tolist()))

    def _try(self, batch: batches.Batch) -> None:
        """Encode records that will not be written, so that they fail if they could not have been written."""
        rows = self.context.correlation.rechecked(self.step.name, batch)
        if rows is not None and len(rows):
            with contextlib.suppress(format.UnwritableFile):  # ends only runs that write the record
                self._encoded(writer(self.step, self.undeclared, self.undeclared_type), batch.take(pa.array(rows)))

    def wanted(self, batch: batches.Batch) -> batches.Batch:
        """The records that are written: all, unless a subclass overrides this."""
        return batch

    def _by_file(self, batch: batches.Batch) -> Iterator[tuple[str | None, batches.Batch]]:
        """The batch, or its records by their input file."""
        if not self.step.by_file:
            yield None, batch
            return
        files = batch.origin.source_values(batch)["source.file"]
        if isinstance(files, str):
            yield files, batch
            return
        for file in pc.unique(files).to_pylist():
            yield file, batch.take(pc.indices_nonzero(pc.equal(files, file)))

    def write(self, batch: batches.Batch, file: str | None) -> None:
        """Write a batch's records to the part file of their merge path."""
        encoded, _ = self.encode(batch)
        if encoded.rows:
            part = self.part(batch.merge_path, file, _opened)
            if part.records:
                part.write(self.writer.separator)
            elif self.step.begins_parts:
                part.write(self.writer.start)
            part.write(encoded.data)
            part.records += encoded.rows

    def part(self, merge_path: order.MergePath, file: str | None, opener: Callable[[operator.Create, str], Any]) -> Any:
        """The part file for the records of an input file in a merge path. Records of one file usually come together."""
        known, part = self.parts.get(merge_path, (None, None))
        if part is None or known != file:
            if part is not None:
                part.close()
            part = self.context.files.part(self.step.name, merge_path, opener, file)
            self.parts[merge_path] = (file, part)
        return part

    def encode(self, batch: batches.Batch, *, ends: bool = False) -> tuple[format.Encoded, batches.Batch]:
        """The bytes of the records that can be written, and these records."""
        try:
            encoded, written = self._encoded(self.writer, batch, ends=ends)
        except format.UnwritableFile as problem:
            raise FormatError(str(problem), self.step.place, node=self.step.name) from problem
        self.leave(encoded.rows)
        self.context.note_written(written)
        self.meters.add(written)
        return encoded, written

    def finish(self) -> None:
        self.meters.finish()

    def _encoded(
        self, by: format.Writer, batch: batches.Batch, *, ends: bool = False
    ) -> tuple[format.Encoded, batches.Batch]:
        """The writer's bytes for the records that can be written, and these records. The others fail."""
        known = dict(zip(batch.data.schema.names, batch.data.columns, strict=True))
        arrays = [column(known, one.source, batch.count) for one in self.columns]
        if self.is_shaped:
            arrays, failing = shaping.shaped(self.columns, arrays, batch.count)
            if len(failing):
                self.fail(batch, failing)
                rest = batches.indices_except(batch.count, failing.rows.tolist())
                batch = batch.take(rest)
                arrays = [array.take(rest) for array in arrays]
        data = pa.RecordBatch.from_arrays(arrays, names=self.names) if arrays else batch.data.select([])
        encoded = by.encode(data, ends=ends)
        for cut in encoded.cuts if by is self.writer else ():
            shown = dict.fromkeys(cut.values, credentials.HIDDEN) if self.guard.hides(cut.field) else cut.values
            self.context.notice(self, f"output '{self.step.label or self.step.name}': {cut.text}", batch, shown)
        unwritten = [_with_column(each, data) for each in encoded.failures]
        if encoded.unfit and self.step.options.on_unwritable is OnUnwritable.DLQ:
            unwritten = sorted([*unwritten, *map(_without_name, encoded.unfit)], key=lambda each: each.row)
        elif encoded.unfit and by is self.writer:
            self._end(batch, encoded.unfit)
        if not unwritten and not encoded.unfit:
            return encoded, batch
        self.fail(batch, unwritten)
        gone = {item.row for item in (*unwritten, *encoded.unfit)}
        return encoded, batch.take(batches.indices_except(batch.count, sorted(gone)))

    def _end(self, batch: batches.Batch, unfit: Sequence[RowFailure]) -> None:
        """End the run because of the earliest of some records that the file cannot hold."""
        rows = pa.array([each.row for each in unfit], pa.int64())
        places = [column.to_numpy() for column in batch.origin.identify(batch, rows)]
        first = unfit[int(np.lexsort(places[::-1])[0])]
        failure = first.failure
        is_hidden = self.guard.hides(failure.field)
        detail = guarded.detail(failure.detail, failure.value) if is_hidden else failure.detail
        message = f"{self.step.place}: {detail}"
        self.context.abort(self, "E900", message, batch, np.array([first.row], dtype=np.int64))


def column(known: Mapping[str, pa.Array], name: str | None, count: int) -> pa.Array:
    """A column of `count` values; nulls if no file of the batch has it."""
    found = None if name is None else known.get(name)
    return pa.nulls(count, pa.string()) if found is None else found


def _with_column(failing: RowFailure, data: pa.RecordBatch) -> RowFailure:
    """A failing record with the column in which a character cannot be written. Encoders only see whole lines."""
    character = failing.failure.value
    if failing.failure.field is None and isinstance(character, str):
        for name, column in zip(data.schema.names, data.columns, strict=True):
            if column.type == pa.string() and character in (column[failing.row].as_py() or ""):
                failing.failure.field = name
                break
    return failing


def _without_name(failing: RowFailure) -> RowFailure:
    """A failing record whose message does not name its field, because the dead letter does."""
    failure = failing.failure
    failure.detail = failure.detail.removeprefix(f"field '{failure.field}': ")
    return failing


def _opened(create: operator.Create, path: str) -> IO[bytes]:
    return create(path)


#: The operators of an output by their roles.
OPERATORS = {Role.WHOLE: Output, Role.BUILD: references_run.MaterializeReferenced}
