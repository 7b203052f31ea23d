"""Records that an exchange brought, but that are still records of a file: their file and row are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.contract import MERGED
from spark_jobs.nodes import operator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.nodes.source.split_origin import SplitInput


@dataclass(frozen=True)
class Places:
    """What is known of each split, by its number: the file and its path, the source, the rows before it."""

    files: pa.Array
    paths: pa.Array
    sources: pa.Array
    rows: pa.Array | None
    totals: pa.Array | None

    @classmethod
    def of(cls, splits: Iterable[tuple[str, SplitInput]]) -> Places:
        """The places of a job's splits."""
        known = {place.number: (name, place) for name, place in splits}
        entries = [known.get(number) for number in range(max(known, default=-1) + 1)]
        files = [entry[1].file_plan.file if entry else None for entry in entries]
        rows = [entry[1].first_row if entry else None for entry in entries]
        totals = [entry[1].first_of_source if entry else None for entry in entries]
        return cls(
            pa.array([file and (file.source_file or file.name) for file in files], pa.string()),
            pa.array([file and file.name for file in files], pa.string()),
            pa.array([entry[0] if entry else None for entry in entries], pa.string()),
            pa.array(rows, pa.int64()) if any(row is not None for row in rows) else None,
            pa.array(totals, pa.int64()) if any(total is not None for total in totals) else None,
        )


@dataclass(frozen=True)
class RecordOrigin(operator.GroupOrigin):
    """The origin of records by their `$origin.*` columns."""

    places: Places

    def surroundings(self, batch: operator.Batch) -> dict[str, Any]:
        """Each record's own file, source and row; groups have none."""
        _, split, row = (batch.data.column(name) for name in operator.ORIGIN_COLUMNS)
        if operator.IS_GROUP in batch.data.schema.names:
            is_group = batch.data.column(operator.IS_GROUP).fill_null(False)
            split = pc.if_else(is_group, pa.scalar(None, split.type), split)
        places = {"file": self.places.files, "path": self.places.paths, "name": self.places.sources}
        known: dict[str, Any] = {
            f"source.{key}": pc.fill_null(column.take(split), MERGED) for key, column in places.items()
        }
        if self.places.rows is not None:
            known["source.row"] = pc.add(pc.add(self.places.rows.take(split), row), 1)
        if self.places.totals is not None:
            known["pipeline.total_count"] = pc.add(pc.add(self.places.totals.take(split), row), 1)
        return known
