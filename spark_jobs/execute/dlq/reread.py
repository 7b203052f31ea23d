"""Reads records again for dead letters that have no record in memory, because they failed downstream of an exchange."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats import cell_text, format
from spark_jobs.formats.reading import SplitOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.cxl.failure_columns import Rows
    from spark_jobs.execute.inputs import Inputs
    from spark_jobs.nodes.source.split_origin import SplitInput
    from spark_jobs.nodes.source.step import SourceStep


class Rereader:
    """Reads records of a run's inputs again. Requests in record order read each split once."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self._split = -1
        self._blocks: Iterator[format.Block] = iter(())
        self._block: format.Block | None = None

    def texts(self, split: int, rows: Rows) -> tuple[Rows, pa.Table]:
        """The texts of the declared columns of some records of a split, ascending; those that there are."""
        name, place = self.inputs.by_number[split]
        step = self.inputs.steps[name]
        if split != self._split or (self._block is not None and len(rows) and rows[0] < self._block.first_row):
            self._split, self._block, self._blocks = split, None, _blocks(step, place)
        found = [(rows[:0], _no_texts(step))]
        while len(rows):
            if self._block is None:
                self._block = next(self._blocks, None)
            block = self._block
            if block is None:
                break
            end = block.first_row + block.count
            here = rows[(rows >= block.first_row) & (rows < end)]
            if len(here):
                found.append(_texts(block, here, step))
            if rows[-1] < end:
                break  # the next request may need records of this block as well
            self._block = None
        places = np.concatenate([rows for rows, _ in found])
        texts = pa.Table.from_batches([texts for _, texts in found]).combine_chunks()
        order = np.argsort(places)
        return places[order], texts.take(pa.array(order))


def _blocks(step: SourceStep, place: SplitInput) -> Iterator[format.Block]:
    """A split with declared columns alone."""
    wanted = format.Reading(
        columns=step.columns,
        failure_texts=True,
        date_formats=step.date_formats,
        null_values=step.options.spelling.null_values,
    )
    plan = replace(place.file_plan, columns=replace(place.file_plan.columns, undeclared=()))
    return step.reader.read(place.split, plan, wanted, SplitOutcome())


def _no_texts(step: Any) -> pa.RecordBatch:
    schema = pa.schema([(column.name, pa.string()) for column in step.columns])
    return pa.RecordBatch.from_arrays([pa.array([], pa.string()) for _ in step.columns], schema=schema)


def _texts(block: format.Block, rows: Rows, step: Any) -> tuple[Rows, pa.RecordBatch]:
    """The records of a block, those too that fail in it."""
    places = np.arange(block.first_row, block.first_row + block.batch.num_rows)
    if block.rows is not None:
        places = block.rows.to_numpy()
    good = np.flatnonzero(np.isin(places, rows))
    chosen = pa.array(good)
    columns = [cell_text.texts(block.batch.column(c.name).take(chosen), c.type) for c in step.columns]
    schema = pa.schema([(column.name, pa.string()) for column in step.columns])
    texts = pa.Table.from_arrays(columns, schema=schema)
    failed = np.flatnonzero(np.isin(block.failures.rows, rows))
    if block.failed_rows is not None and len(failed):
        bad = pa.Table.from_arrays(block.failed_rows.take(pa.array(failed)).columns, schema=schema)
        texts = pa.concat_tables([texts, bad])
        return np.concatenate([places[good], block.failures.rows[failed]]), _one(texts)
    return places[good], _one(texts)


def _one(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)
