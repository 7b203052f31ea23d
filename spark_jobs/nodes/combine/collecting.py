"""`match: collect`: builds an array of maps from the matches of each driver record, by columns.

Arrow has no column for arrays of maps: batches hold their tagged JSON. So matching
records become texts with the fields that something reads, and an array is its matches' texts between brackets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import values
from spark_jobs.formats.typed import records as typed_records

if TYPE_CHECKING:
    from spark_jobs.cxl.schema import Schema

#: The most matches of a driver record that an array takes.
LIMIT = 10_000
#: The most that a number or a day takes in a text.
_VALUE_BYTES = 32


def width(schema: Schema) -> int:
    """The bytes that the map of a record takes besides its values, including the texts of numbers and dates."""
    return sum(len(values.json_text(column.name)) + _VALUE_BYTES for column in schema.user_columns)


def texts(records: pa.RecordBatch, schema: Schema, rows: pa.Array) -> pa.Array:
    """Some records as the maps that stand for them, nulls included."""
    parts: list[pa.Array | str] = []
    before = "{"
    for column in schema.user_columns:
        found = records.column(column.name).take(rows)
        text = pc.fill_null(typed_records.tagged(found, column.type), "null")
        parts += [f"{before}{values.json_text(column.name)}:", text]
        before = ","
    if not parts:
        return pa.repeat("{}", len(rows))
    return pc.binary_join_element_wise(*parts, "}", "")


def first_matches(chosen: np.ndarray) -> tuple[np.ndarray, int]:
    """The indices of the pairs within the limit of each driver record, and the number of records over the limit.

    `chosen` are the drivers of the pairs, ascending.
    """
    if len(chosen) <= LIMIT:
        return np.arange(len(chosen)), 0
    taken = np.flatnonzero(np.arange(len(chosen)) - np.searchsorted(chosen, chosen) < LIMIT)
    return taken, int((np.bincount(chosen) > LIMIT).sum())


def arrays(drivers: int, chosen: np.ndarray, matches: pa.Array) -> pa.Array:
    """An array for each of some driver records: of the texts of its matches, which stand in their order."""
    ends = np.searchsorted(chosen, np.arange(drivers + 1))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), matches)
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
