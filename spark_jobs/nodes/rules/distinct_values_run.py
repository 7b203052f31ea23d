"""The final operator of `distinct_count`: one task receives the values of all tasks, sorts them and counts them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import types
from spark_jobs.nodes import operator
from spark_jobs.nodes.records import order
from spark_jobs.nodes.rules.measurement import Measurement
from spark_jobs.nodes.terms import shape
from spark_jobs.nodes.windows.rows import Order, Rows

if TYPE_CHECKING:
    from spark_jobs.nodes.rules.step import DistinctValuesStep, Measured

#: The column with the values.
VALUE = "value"
#: The key in a table's schema metadata for the number of its rule.
ABOUT = b"rule"


@dataclass
class DistinctValues(operator.Operator):
    """Sorts the values of all tasks, and counts the distinct ones. Their number is not limited."""

    step: DistinctValuesStep
    _rows: dict[int, Rows] = field(default_factory=dict)
    _added: int = 0

    def receive(self, table: pa.Table) -> None:
        """Add the values of a task."""
        number = int((table.schema.metadata or {})[ABOUT])
        if number not in self._rows:
            self._rows[number] = self._sorting(self.step.rules[number])
        places = pa.array(np.arange(self._added, self._added + table.num_rows))
        self._added += table.num_rows
        self._rows[number].add(pa.table({VALUE: table.column(VALUE), order.AT: places}))

    def _sorting(self, rule: Measured) -> Rows:
        static = types.STRING if rule.type.is_dynamic else rule.type
        by_value = Order(((VALUE, static),), ())
        return Rows(self.context, self.step.name, by_value, 0, False, self.context.tuning.strip_rows)

    def finish(self) -> None:
        """Report the number of distinct values for each rule."""
        for number, rows in self._rows.items():
            count = sum(int(batch.starts[: batch.count].sum()) for batch in rows.sorted_batches())
            self.context.observe(self, self.step.rules[number].name, Measurement(distinct=count))


#: The operator by its role.
OPERATORS = {shape.Role.FINAL: DistinctValues}
