"""How an output treats batches: the wanted columns under their written names, as bytes of a part file per lane."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import engine, schema, types
from spark_jobs.formats import format, writing
from spark_jobs.nodes import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.nodes.output.step import OutputStep


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
                pairs.append((format.WIDENED + name, renamed.get(name, name)))
                written.append(schema.Column(renamed.get(name, name), kind))
    return pairs, schema.Schema(tuple(written))


def writer(step: OutputStep, widened: Sequence[str], kind: types.Type) -> format.Writer:
    """The writer of an output's files."""
    _, written = columns(step, widened, kind)
    return writing.open_writer(
        step.format, written, step.options, include_header=step.include_header, preserve_nulls=step.preserve_nulls
    )


@dataclass
class Output(operator.Operator):
    """Writes part files; the run puts them together when it has succeeded."""

    step: OutputStep
    #: The undeclared columns that reach this output, in first-seen order.
    widened: tuple[str, ...] = ()
    widened_type: types.Type = TEXT
    files: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def open(self) -> None:
        """Fix the columns."""
        self.pairs, written = columns(self.step, self.widened, self.widened_type)
        self.names = [name for _, name in self.pairs]
        self.kinds = {c.name: c.type for c in written}
        self.writer = writer(self.step, self.widened, self.widened_type)

    def process(self, batch: operator.Batch, port: int) -> None:
        """Encode a batch; records that cannot be written are dead letters of this output alone (decision 79)."""
        self.counters.records_in += batch.count
        present = set(batch.data.schema.names)
        arrays = [
            batch.data.column(source) if source in present else pa.nulls(batch.count, pa.string())
            for source, _ in self.pairs
        ]
        data = pa.RecordBatch.from_arrays(arrays, names=self.names) if arrays else batch.data.select([])
        encoded = self.writer.encode(data)
        self.fail(batch, [engine.RowFailure(item.row, item.failure) for item in encoded.failures])
        self.counters.records_out += encoded.rows
        if not encoded.rows:
            return
        part = self.files.get(batch.lane)
        if part is None:
            part = self.files[batch.lane] = self.context.part(self.step.name, batch.lane, _create)
        else:
            part.write(self.writer.separator)
        part.write(encoded.data)


def _create(path: str) -> IO[bytes]:
    return open(path, "wb")


def open_operator(step: OutputStep, **wiring: Any) -> Output:
    """The operator of an output."""
    return Output(step, **wiring)
