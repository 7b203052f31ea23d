"""Reads records again for dead letters whose record was not at hand: those that failed behind an exchange."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.formats import cell_text, format
from spark_jobs.scan import scanning
from spark_jobs.scan.reading import SplitOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.execute.inputs import Inputs


@dataclass(frozen=True)
class Rereader:
    """Reads records of a run's inputs again."""

    inputs: Inputs

    def texts(self, split: int, rows: Sequence[int]) -> dict[int, list[str | None]]:
        """The texts of the declared columns of some records of a split, by row."""
        name, place = self.inputs.by_number[split]
        step = self.inputs.steps[name]
        wanted = format.Reading(
            columns=tuple(format.SourceColumn(c.name, c.type, c.required, c.format) for c in step.columns),
            failure_texts=True,
            date_formats=step.date_formats,
        )
        plan = _without_widened(place.file_plan)
        found: dict[int, list[str | None]] = {}
        for block in scanning.read(
            step.format, place.split, plan, step.options, wanted, SplitOutcome(), step.array_paths
        ):
            here = [row for row in rows if block.first_row <= row < block.first_row + block.count]
            if here:
                found |= _texts(block, here, step)
            if rows and rows[-1] < block.first_row + block.count:
                break
        return found


def _without_widened(plan: Any) -> Any:
    """A file plan that carries declared columns alone."""
    return replace(plan, columns=replace(plan.columns, widened=()))


def _texts(block: format.Block, rows: Sequence[int], step: Any) -> dict[int, list[str | None]]:
    places = (
        np.arange(block.first_row, block.first_row + block.batch.num_rows)
        if block.rows is None
        else block.rows.to_numpy()
    )
    position = np.searchsorted(places, rows)
    good = [(row, int(at)) for row, at in zip(rows, position, strict=True) if at < len(places) and places[at] == row]
    chosen = pa.array([at for _, at in good], pa.int64())
    columns = [cell_text.texts(block.batch.column(c.name).take(chosen), c.type).to_pylist() for c in step.columns]
    return {row: [column[i] for column in columns] for i, (row, _) in enumerate(good)}
