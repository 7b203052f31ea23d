"""Correlation keys that combines joined to the records of a group, and the groups that the aggregated row inherits.

A row has one value in each column. Where several groups were joined to its records, the row belongs to none of them, as
if the aggregate left out the key (`docs/semantics/correlation.md`, "Joined groups of an aggregated row").
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import typed, types
from spark_jobs.formats import cell_text
from spark_jobs.nodes import partition
from spark_jobs.nodes.aggregate.accumulators import Accumulator, Max, Min

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.cxl.schema import Schema
    from spark_jobs.nodes.records.columns import InheritedKeys


class AgreedKeys:
    """The correlation keys that all records of a group share. Records without a key are ignored.

    Args:
        keys: the columns of each key that records may have inherited.
        row: the columns of records.
    """

    def __init__(self, keys: InheritedKeys, row: Schema) -> None:
        self.columns = tuple(name for key in keys for name in key)
        self._types = {name: column.type for name in self.columns if (column := row.get(name))}
        #: The columns of each key, by a name for the key.
        self._keys = {f"inherited {number}": key for number, key in enumerate(keys)}

    @property
    def state_accumulators(self) -> list[Accumulator]:
        """Accumulators of the keys. If the smallest and the largest key number are equal, so are all keys."""
        found: list[Accumulator] = []
        for number, columns in self._keys.items():
            found.append(Min(_call(number, types.INT), f"{number} min"))
            found.append(Max(_call(number, types.INT), f"{number} max"))
            found += [Max(_call(name, self._types[name]), f"kept {name}") for name in columns]
        return found

    def prepared(self, data: pa.RecordBatch) -> dict[str, pa.Array]:
        """The keys of records, with numbers that distinguish them; null where the key belongs to no group."""
        found = {name: data.column(name) for name in self.columns}
        for number, columns in self._keys.items():
            texts = [pc.fill_null(cell_text.texts(found[name], self._types[name]), "") for name in columns]
            is_there = reduce(pc.or_, (pc.not_equal(text, "") for text in texts))
            found[number] = pc.if_else(is_there, pa.array(partition.hashes(texts).view(np.int64)), None)
        return found

    def finish(self, states: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The key of each group; null if its records have several."""
        found: dict[str, pa.Array] = {}
        for number, columns in self._keys.items():
            is_one = pc.fill_null(pc.equal(states[f"{number} min"], states[f"{number} max"]), False)
            found |= {name: pc.if_else(is_one, states[f"kept {name}"], None) for name in columns}
        return found


def _call(column: str, static: types.Type) -> typed.AggregateCall:
    """A call that no program contains, so that an accumulator aggregates a column."""
    return typed.AggregateCall("", (column,), (static,), "", static)
