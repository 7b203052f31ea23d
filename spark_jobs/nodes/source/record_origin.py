"""The origin of records that an exchange brought and whose file and row are still known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.contract import MERGED
from spark_jobs.formats import cell_text
from spark_jobs.nodes.records import batches, columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.nodes.source.split_origin import SplitInput
    from spark_jobs.nodes.source.step import SourceStep


@dataclass(frozen=True)
class Places:
    """The files and rows of splits, by their numbers. Splits of one file are neighbors and share its names.

    Args:
        firsts: the number of the first split of each file, ascending; a gap in the numbers stands for no file.
        files: the value of `$source.file` for each file.
        paths: the value of `$source.path` for each file.
        sources: the source of each file.
        rows: for each split the number of rows of its file before it, if known.
        totals: for each split the number of rows of its source before it, if known.
    """

    firsts: np.ndarray
    files: pa.Array
    paths: pa.Array
    sources: pa.Array
    rows: pa.Array | None
    totals: pa.Array | None

    @classmethod
    def of(cls, splits: Iterable[tuple[str, SplitInput]]) -> Places:
        """The places of a job's splits, which are given in the order of their numbers."""
        firsts: list[int] = [0]
        entries: list[tuple[str, SplitInput] | None] = [None]
        rows: list[int | None] = []
        totals: list[int | None] = []
        for name, place in splits:
            if place.number > len(rows):
                gap = [None] * (place.number - len(rows))
                firsts.append(len(rows))
                entries.append(None)
                rows += gap
                totals += gap
            last = entries[-1]
            if last is None or last[1].file_plan is not place.file_plan or last[0] != name:
                firsts.append(place.number)
                entries.append((name, place))
            rows.append(place.first_row)
            totals.append(place.first_of_source)
        files = [entry and entry[1].file_plan.file for entry in entries]
        return cls(
            np.array(firsts, dtype=np.int64),
            pa.array([file and (file.source_file or file.name) for file in files], pa.string()),
            pa.array([file and file.name for file in files], pa.string()),
            pa.array([entry and entry[0] for entry in entries], pa.string()),
            pa.array(rows, pa.int64()) if any(row is not None for row in rows) else None,
            pa.array(totals, pa.int64()) if any(total is not None for total in totals) else None,
        )

    def file_of(self, split: pa.Array) -> pa.Array:
        """The index in `files` for each split; null if it has no file."""
        numbers = pc.fill_null(split, 0).to_numpy(zero_copy_only=False)
        found = np.searchsorted(self.firsts, numbers, side="right") - 1
        return pc.if_else(split.is_valid(), pa.array(found), None)

    def only_file_of(self, split: pa.Array) -> int | None:
        """The index in `files` that all splits share; None if they differ or one has no file. There must be splits."""
        if split.null_count or not len(split):
            return None
        ends = pc.min_max(split)
        first, last = np.searchsorted(self.firsts, [ends["min"].as_py(), ends["max"].as_py()], side="right") - 1
        return int(first) if first == last else None


@dataclass(frozen=True)
class RecordOrigin(batches.GroupOrigin):
    """The origin of records, read from their `$origin.*` columns."""

    places: Places

    def source_values(self, batch: batches.Batch) -> dict[str, Any]:
        """Each record's own file, source and row. Groups have none."""
        _, split, row = (batch.data.column(name) for name in columns.ORIGIN_NAMES)
        if columns.IS_GROUP.name in batch.data.schema.names:
            is_group = batch.data.column(columns.IS_GROUP.name).fill_null(False)
            split = pc.if_else(is_group, pa.scalar(None, split.type), split)
        places = {"file": self.places.files, "path": self.places.paths, "name": self.places.sources}
        known: dict[str, Any]
        only = self.places.only_file_of(split)
        if only is None:
            file = self.places.file_of(split)
            known = {f"source.{key}": pc.fill_null(column.take(file), MERGED) for key, column in places.items()}
        else:
            known = {f"source.{key}": column[only].as_py() or MERGED for key, column in places.items()}
        if self.places.rows is not None:
            known["source.row"] = pc.add(pc.add(self.places.rows.take(split), row), 1)
        if self.places.totals is not None:
            known["pipeline.total_count"] = pc.add(pc.add(self.places.totals.take(split), row), 1)
        return known


@dataclass(frozen=True)
class MaterializedOrigin(RecordOrigin):
    """The origin of records that were materialized as they were read.

    Args:
        step: the source.
        data: all columns of the records.
        first: the row of the first record.
    """

    step: SourceStep
    data: pa.RecordBatch
    first: int

    def texts(self, batch: batches.Batch, indices: pa.Array) -> pa.RecordBatch:
        """The declared columns, as texts."""
        rows = pc.subtract(batch.rows.take(indices), self.first)
        columns = [
            cell_text.texts(self.data.column(column.name).take(rows), column.type) for column in self.step.columns
        ]
        return pa.RecordBatch.from_arrays(columns, names=[*self.step.column_names])
