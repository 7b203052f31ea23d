"""Computes a running sum without evaluating records one by one, from the sums of runs of records.

Adding a null makes the variable null, so earlier terms do not count. A run is therefore summarized by three facts:
whether it contains a null, the sum after the last null, and the number of terms in that sum. A sum might exceed 64
bits, or the declared digits of a Decimal, at some record in between. So a run also reports the sum of absolute values.
If that does not rule out an overflow, the node is evaluated in order after all.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import decimal_units, decimals
from spark_jobs.nodes import packed_sort
from spark_jobs.nodes.records import order
from spark_jobs.nodes.state import folds
from spark_jobs.nodes.state.assignments import VALUE, AssignedValue, Tables, files_of
from spark_jobs.nodes.windows import codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.cxl import engine
    from spark_jobs.nodes import operator
    from spark_jobs.nodes.records.batches import Batch
    from spark_jobs.nodes.state.step import Assignment

#: The columns of a run of records: a null was added, the sum and the number of terms after the last null, and the sum
#: of all absolute values as a Float.
_NULLED, _TOTAL, _ADDED, _SIZE = "nulled", "total", "added", "size"
#: The merge path and split of a run of records. Records of other keys may stand between two runs.
_RANK = "rank"
#: Floats hold whole numbers with this many digits exactly.
_EXACT_DIGITS = 15


class Summed(Tables):
    """The state of a running sum, for the run or for each file."""

    def __init__(self, assignment: Assignment, fold: folds.Fold, by: Sequence[str]) -> None:
        super().__init__()
        self._assignment = assignment
        self._fold = fold
        self._by = list(by)
        self._scale = assignment.type.scale
        digits = assignment.type.precision or decimals.MAX_DIGITS
        #: The largest number of units that certainly fits the variable. Large sums of absolute values are rounded.
        self._most = 10**digits - 1 if digits <= _EXACT_DIGITS else 10**digits // 2

    def failures(self, columns: Mapping[str, pa.Array]) -> Sequence[engine.RowFailure]:
        """None: all values are numbers."""
        return ()

    def refuse(self, columns: Mapping[str, Any]) -> None:
        """Do nothing: all values are numbers."""

    def add(self, batch: Batch, files: Mapping[str, pa.Array], columns: Mapping[str, pa.Array]) -> None:
        """Add the terms of records that count."""
        value, places = columns[VALUE], batch.places.to_numpy()
        numbers, wide = decimal_units.units(value)
        size = np.abs(numbers.astype(np.float64))
        if wide is not None:
            size[wide] = np.inf
        added = value.is_valid().to_numpy(zero_copy_only=False)
        runs = {
            **files,
            order.AT: places,
            _RANK: places >> order.ROW_BITS,
            _NULLED: ~added,
            _TOTAL: numbers,
            _ADDED: added.astype(np.int64),
            _SIZE: size,
        }
        self.merge(self._joined(pa.table(runs), [*self._by, _RANK]))

    def one(self, tables: Sequence[pa.Table]) -> pa.Table:
        return self._joined(pa.concat_tables(tables), [*self._by, _RANK])

    def values(self, given: operator.Operator) -> Iterator[AssignedValue]:
        """The final values, computed from the values at the node's beginning."""
        for table in self.tables():
            whole = self._joined(table, self._by)
            rows = whole.select([_NULLED, _TOTAL, _ADDED, _SIZE]).to_pylist()
            for file, row in zip(files_of(whole, self._by), rows, strict=True):
                before = self._units(given.final_values.before(self._assignment.path, file))
                start = self._units(self._fold.start)
                if folds.may_overflow(row[_SIZE], before, start, most=self._most):
                    given.context.unfold(given.step.name)
                    continue
                base = start if row[_NULLED] or before is None else before
                if row[_NULLED] and not row[_ADDED]:
                    yield AssignedValue(file, 0, None)
                elif row[_ADDED]:
                    yield AssignedValue(file, 0, None if base is None else self._number(base + row[_TOTAL]))

    def _units(self, number: int | Decimal | None) -> int | None:
        """A number in units of the variable's scale. Whole numbers stay as they are."""
        if self._scale is None or number is None:
            return number  # type: ignore[return-value]
        found = decimals.rounded(Decimal(number), self._scale)
        assert found is not None
        return decimals.units(found)

    def _number(self, units: int) -> int | Decimal | None:
        return units if self._scale is None else decimals.of_units(units, self._scale)

    @staticmethod
    def _joined(table: pa.Table, by: Sequence[str]) -> pa.Table:
        """Merge adjacent runs, in the order of their first records."""
        table = table.take(pa.array(packed_sort.order(table.column(order.AT).to_numpy()))).combine_chunks()
        count = table.num_rows
        keys = codes.joined([codes.of_keys(table.column(name).combine_chunks()) for name in by], count).numbers
        rows = packed_sort.order(keys)
        table, keys = table.take(pa.array(rows)), keys[rows]
        begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        ends = np.append(begins[1:], count)
        nulled, total, added, size = (table.column(name).to_numpy() for name in (_NULLED, _TOTAL, _ADDED, _SIZE))
        # Only terms after the last run with a null count.
        last = np.maximum.reduceat(np.where(nulled, np.arange(count), -1), begins)
        starts = np.where(last >= 0, last, begins)
        totals, counts = (np.concatenate([[0], np.cumsum(each)]) for each in (total, added))
        kept = {
            **{name: table.column(name).take(pa.array(begins)) for name in (*by, order.AT)},
            _NULLED: last >= 0,
            # Sums that exceed 64 bits wrap around, and their difference is right if it fits.
            _TOTAL: totals[ends] - totals[starts],
            _ADDED: counts[ends] - counts[starts],
            _SIZE: np.add.reduceat(size, begins),
        }
        return pa.table(kept)
