"""How an output treats batches: the wanted columns under their written names, as bytes of a part file per lane."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import schema, types
from spark_jobs.formats import format, registry
from spark_jobs.nodes import operator
from spark_jobs.nodes.records.columns import WIDENED
from spark_jobs.nodes.terms import shape
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.nodes.records import order


#: What undeclared columns hold when all sources are text formats.
TEXT = types.STRING.or_null()


def columns(step: OutputStep, widened: Sequence[str], kind: types.Type) -> tuple[list[tuple[str, str]], schema.Schema]:
    """What is written: pairs of a record's column and its written name, and the file's columns.

    Undeclared columns, all of type `kind`, follow the others unless the name is there already; `exclude` and
    `mapping` apply to them too.
    """
    pairs = [(column.source, column.name) for column in step.columns]
    written = [schema.Column(column.name, column.type) for column in step.columns]
    if step.widened:
        renamed = {source: name for name, source in step.mapping}
        present = {column.source for column in step.columns}
        for name in widened:
            if name not in present and name not in step.exclude:
                pairs.append((WIDENED.of(name), renamed.get(name, name)))
                written.append(schema.Column(renamed.get(name, name), kind))
    return pairs, schema.Schema(tuple(written))


def writer(step: OutputStep, widened: Sequence[str], kind: types.Type) -> format.Writer:
    """The writer of an output's files."""
    _, written = columns(step, widened, kind)
    return registry.named(step.format).writer(
        written,
        step.options,
        include_header=step.include_header,
        preserve_nulls=step.preserve_nulls,
        layout=step.layout,
    )


@dataclass
class Output(operator.Operator):
    """Writes part files; the run puts them together when it has succeeded."""

    step: OutputStep
    #: The undeclared columns that reach this output, in first-seen order.
    widened: tuple[str, ...] = ()
    widened_type: types.Type = TEXT
    #: The part that a lane's records go to, and the input file that it is about where each has an output of its own.
    parts: dict[order.Lane, tuple[str | None, Any]] = field(default_factory=dict)

    def open(self) -> None:
        """Fix the columns."""
        self.pairs, written = columns(self.step, self.widened, self.widened_type)
        self.names = [name for _, name in self.pairs]
        self.kinds = {c.name: c.type for c in written}
        self.writer = writer(self.step, self.widened, self.widened_type)

    def process(self, batch: operator.Batch, port: int) -> None:
        """Encode a batch; records that cannot be written are dead letters of this output alone (decision 79)."""
        for file, piece in self._by_file(self.wanted(self.take(batch))):
            self.write(piece, file)

    def wanted(self, batch: operator.Batch) -> operator.Batch:
        """The records that are written: all, unless a subclass knows better."""
        return batch

    def _by_file(self, batch: operator.Batch) -> Iterator[tuple[str | None, operator.Batch]]:
        """The batch, or its records by the input file that they are from."""
        if not self.step.by_file:
            yield None, batch
            return
        files = batch.origin.surroundings(batch)["source.file"]
        if isinstance(files, str):
            yield files, batch
            return
        for file in pc.unique(files).to_pylist():
            yield file, batch.take(pc.indices_nonzero(pc.equal(files, file)))

    def write(self, batch: operator.Batch, file: str | None) -> None:
        """Write a batch's records to the part of their lane."""
        encoded, _ = self.encode(batch)
        if encoded.rows:
            part = self.part(batch.lane, file, _opened)
            if part.records:
                part.write(self.writer.separator)
            part.write(encoded.data)
            part.records += encoded.rows

    def part(self, lane: order.Lane, file: str | None, opener: Callable[[operator.Create, str], Any]) -> Any:
        """The part that takes a lane's records about an input file. Those of a file are together, as a rule."""
        known, part = self.parts.get(lane, (None, None))
        if part is None or known != file:
            if part is not None:
                part.close()
            part = self.context.part(self.step.name, lane, opener, file)
            self.parts[lane] = (file, part)
        return part

    def encode(self, batch: operator.Batch, *, ends: bool = False) -> tuple[format.Encoded, operator.Batch]:
        """The bytes of the records that can be written, and those records."""
        arrays = [self.column(batch, source) for source, _ in self.pairs]
        data = pa.RecordBatch.from_arrays(arrays, names=self.names) if arrays else batch.data.select([])
        try:
            encoded = self.writer.encode(data, ends=ends)
        except format.Unfit as problem:
            raise FormatError(str(problem), self.step.path) from problem
        self.leave(encoded.rows)
        if not encoded.failures:
            return encoded, batch
        self.fail(batch, encoded.failures)
        return encoded, batch.take(operator.indices_except(batch.count, [item.row for item in encoded.failures]))

    def column(self, batch: operator.Batch, name: str) -> pa.Array:
        """A column of the records; nulls where no file of the batch has it."""
        if name in batch.data.schema.names:
            return batch.data.column(name)
        return pa.nulls(batch.count, pa.string())


def _opened(create: operator.Create, path: str) -> IO[bytes]:
    return create(path)


#: The operators of an output by their roles.
OPERATORS = {shape.Role.WHOLE: Output}
