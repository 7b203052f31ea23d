"""Checks that find the values MySQL and MariaDB would refuse, as far as possible before rows are inserted."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from spark_jobs.formats.database.mysql import columns
from spark_jobs.formats.database.mysql.queries import Queries
from spark_jobs.formats.database.options import WriteMode
from spark_jobs.formats.typed import record_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.database.options import DatabaseWrite
    from spark_jobs.formats.database.targets import Target, TargetColumn

#: The bytes of a statement beside its values, and of a value that is no text.
_STATEMENT_BYTES, _PLAIN_BYTES = 1 << 14, 40


class Checks:
    """See `write.py:Checks`."""

    def __init__(self, target: Target, options: DatabaseWrite) -> None:
        self._columns = {column.name: column for column in target.columns}
        self._most_bytes = (target.most_bytes or 1 << 40) - _STATEMENT_BYTES
        self._queries: Queries | None = None
        if target.place is not None:
            is_replaced = options.mode is WriteMode.REPLACE
            self._queries = Queries(target.place, target, options.key, replaces=is_replaced)

    def column(self, column: TargetColumn, array: pa.Array) -> Iterator[tuple[int, str]]:
        """See `write.py:Checks`."""
        yield from columns.refused(column, array)

    def comparable(self, column: TargetColumn, array: pa.Array, collation: str) -> pa.StringArray:
        """See `write.py:Checks`: texts with a collation of their own are compared as the database weighs them."""
        found = columns.comparable(column, array)
        if found is None:
            texts = cast("pa.StringArray", array)
            found = texts if self._queries is None else self._queries.weights(column, texts)
        return cast("pa.StringArray", found)

    def rows(self, found: pa.RecordBatch) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """See `write.py:Checks`."""
        large = {row: size for row, size in self._large(found) if size > self._most_bytes}
        for row, size in large.items():
            text = (
                f"the record needs a statement of {size} bytes, and {self._most_bytes} is the most that "
                "`max_allowed_packet` of the server leaves"
            )
            yield row, text, ()
        if self._queries is None:
            return
        if not large:
            yield from self._queries.rows(found)
            return
        good = pa.array([row for row in range(found.num_rows) if row not in large], pa.int64())
        for at, why, names in self._queries.rows(found.take(good)):
            yield good[at].as_py(), why, names

    def _large(self, found: pa.RecordBatch) -> Iterator[tuple[int, int]]:
        """The records that may be too large, each with the bytes of its literals."""
        # An escaped byte has two, and so has one in hexadecimals.
        sizes = 2 * record_sizes.of(found.columns, found.num_rows) + _PLAIN_BYTES * found.num_columns
        for row in np.flatnonzero(sizes > self._most_bytes).tolist():
            one = found.slice(row, 1)
            values = [
                columns.literals(self._columns[name], array)[0]
                for name, array in zip(one.schema.names, one.columns, strict=True)
            ]
            yield row, sum(len(each.encode()) + 1 for each in values)
