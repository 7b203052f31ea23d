"""Encodes the places of records that may be late, in a few bits each.

Partial groups count their records without listing them. If a group is late, its records become dead letters, and these
need row numbers. So tasks send the places of all records that may be late along with the groups. In record order most
places differ little from the one before, so they are sent as differences, in as few bytes as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.nodes.records.columns import WINDOW, family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.nodes.aggregate.timed.watermarks import Numbers

#: The numbers of the first and the last window of a record.
FIRST, LAST = WINDOW.of("first"), WINDOW.of("last")
_WIDTHS = (np.int8, np.int16, np.int32)


def encode_places(columns: Mapping[str, Numbers]) -> pa.Table:
    """Whole numbers as differences from row to row. If all differences are equal, only the first row is kept."""
    found, first = {}, {}
    for name, values in columns.items():
        first[name] = str(int(values[0]))
        differences = np.diff(values, prepend=values[:1])
        least, most = int(differences.min()), int(differences.max())
        width = next((w for w in _WIDTHS if np.iinfo(w).min <= least and most <= np.iinfo(w).max), np.int64)
        found[name] = pa.array(differences.astype(width))
    return pa.table(found).replace_schema_metadata(first)


def decode_places(table: pa.Table) -> pa.Table:
    """Decode the table of `packed`."""
    firsts = {name.decode(): int(value) for name, value in (table.schema.metadata or {}).items()}
    columns = {
        name: np.cumsum(table.column(name).to_numpy().astype(np.int64)) + first for name, first in firsts.items()
    }
    return pa.table({name: pa.array(column).cast(_type_of(name)) for name, column in columns.items()})


def _type_of(name: str) -> pa.DataType:
    known = family(name)
    return known.type if known.arrow else pa.int64()
