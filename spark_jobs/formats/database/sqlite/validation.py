"""Checks that find the values SQLite would refuse, as far as possible before rows are inserted."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from spark_jobs.formats.database.options import WriteMode
from spark_jobs.formats.database.sqlite import columns
from spark_jobs.formats.database.sqlite.queries import Queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.formats.database.options import DatabaseWrite
    from spark_jobs.formats.database.targets import Constraint, Target, TargetColumn


class Checks:
    """See `write.py:Checks`."""

    def __init__(self, target: Target, options: DatabaseWrite) -> None:
        self._queries: Queries | None = None
        if target.place is not None:
            is_replaced = options.mode is WriteMode.REPLACE
            self._queries = Queries(target.place, target, options.key, replaces=is_replaced)

    def column(self, column: TargetColumn, array: pa.Array) -> Iterator[tuple[int, str]]:
        """See `write.py:Checks`."""
        yield from columns.refused(column, array)

    def comparable(self, column: TargetColumn, array: pa.Array, collation: str) -> pa.StringArray:
        """See `write.py:Checks`."""
        return cast("pa.StringArray", columns.comparable(column, array, collation))

    def computed(self, constraint: Constraint, found: pa.RecordBatch) -> pa.StringArray:
        """See `write.py:Checks`."""
        known = None if self._queries is None else self._queries.computed(constraint, found)
        return pa.nulls(found.num_rows, pa.string()) if known is None else pa.array(known, pa.string())

    def rows(self, found: pa.RecordBatch) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """See `write.py:Checks`."""
        if self._queries is not None:
            yield from self._queries.rows(found)
