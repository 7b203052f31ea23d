"""The values of records as texts, for dead letters and warnings of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats import cell_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cxl import types
    from spark_jobs.nodes.records import guarded


def of(rows: pa.RecordBatch, columns: Sequence[tuple[str, types.Type]], guard: guarded.Guard) -> pa.StringArray:
    """The values of some columns as one text per row. If one of several columns is secret, all are hidden."""
    found = [cell_text.texts(rows.column(name), static) for name, static in columns]
    if len(found) == 1:
        return found[0]
    if any(guard.hides(name) for name, _ in columns):
        return pa.nulls(rows.num_rows, pa.string())
    joined: pa.StringArray = pc.binary_join_element_wise(*found, ", ")
    return joined
