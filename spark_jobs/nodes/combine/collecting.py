"""`match: collect`: builds an array of maps from the matches of each driver record, by columns.

Arrow has no column for arrays of maps, so batches hold their tagged JSON. Each matching record becomes a text with the
fields that are read downstream, and an array is the texts of its matches between brackets.
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
#: The largest size of a number or a date as text.
_VALUE_BYTES = 32


def width(schema: Schema) -> int:
    """The bytes of a record's map besides its text values, including numbers and dates as text."""
    return sum(len(values.json_text(column.name)) + _VALUE_BYTES for column in schema.user_columns)


def texts(records: pa.RecordBatch, schema: Schema, rows: pa.Array) -> pa.Array:
    """Some records as texts of maps, nulls included."""
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

    `chosen` has the driver record of each pair, ascending.
    """
    if len(chosen) <= LIMIT:
        return np.arange(len(chosen)), 0
    taken = np.flatnonzero(np.arange(len(chosen)) - np.searchsorted(chosen, chosen) < LIMIT)
    return taken, int((np.bincount(chosen) > LIMIT).sum())


def arrays(drivers: int, chosen: np.ndarray, matches: pa.Array) -> pa.Array:
    """For each driver record, an array of the texts of its matches, in order."""
    ends = np.searchsorted(chosen, np.arange(drivers + 1))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), matches)
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
