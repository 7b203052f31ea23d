"""States of assignments: the last assigned value in record order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import values
from spark_jobs.nodes import final_values
from spark_jobs.nodes.records import order
from spark_jobs.nodes.state import folds
from spark_jobs.nodes.state.folds import How

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spark_jobs.cxl import engine
    from spark_jobs.nodes import operator
    from spark_jobs.nodes.records.batches import Batch
    from spark_jobs.nodes.state.step import Assignment

#: The columns that distinguish files.
FILE = ("source", "file")
#: The column of evaluated values.
VALUE = "value"
#: The number of buffered tables that are merged into one.
_MOST_TABLES = 64
#: The place of values that are set after the last record.
END = 2**63 - 1


class AssignedValue(NamedTuple):
    """An assigned value, and the place of the record that set it."""

    file: final_values.File
    at: int
    value: Any


class AssignmentState(Protocol):
    """The state of an assignment, in tasks that read records and in the task that merges all states."""

    def failures(self, columns: Mapping[str, pa.Array]) -> Sequence[engine.RowFailure]:
        """The failures of records whose values cannot be added."""

    def refuse(self, columns: Mapping[str, Any]) -> None:
        """Check a single record. Raises `Failure`."""

    def add(self, batch: Batch, files: Mapping[str, pa.Array], columns: Mapping[str, pa.Array]) -> None:
        """Add records, with the file of each if values are per file, and the evaluated columns."""

    def tables(self) -> Iterable[pa.Table]:
        """The state as tables, which are sent to the operator that merges all states."""

    def merge(self, table: pa.Table) -> None:
        """Add the state of another task."""

    def values(self, given: operator.Operator) -> Iterator[AssignedValue]:
        """The values after all tasks have been merged. Failures become dead letters of the operator."""


class Tables:
    """Buffers tables and merges them before they become many."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def one(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge several tables into one."""
        raise NotImplementedError

    def tables(self) -> Sequence[pa.Table]:
        """At most one table with all buffered rows; no table if nothing is buffered."""
        if len(self._tables) > 1:
            self._tables = [self.one(self._tables)]
        return self._tables

    def merge(self, table: pa.Table) -> None:
        """Add the state of another task, or of a further batch."""
        self._tables.append(table)
        if len(self._tables) >= _MOST_TABLES:
            self.tables()


class Last(Tables):
    """The last value of the run, or of each file."""

    def __init__(self, assignment: Assignment, by: Sequence[str]) -> None:
        super().__init__()
        self._assignment = assignment
        self._by = list(by)

    def failures(self, columns: Mapping[str, pa.Array]) -> Sequence[engine.RowFailure]:
        """None: every value can be the last."""
        return ()

    def refuse(self, columns: Mapping[str, Any]) -> None:
        """Do nothing: every value can be the last."""

    def add(self, batch: Batch, files: Mapping[str, pa.Array], columns: Mapping[str, pa.Array]) -> None:
        """Keep the last values of the batch."""
        columns = {**files, order.AT: batch.places, VALUE: columns[VALUE]}
        self.merge(_latest(pa.table(columns), self._by))

    def one(self, tables: Sequence[pa.Table]) -> pa.Table:
        return _latest(pa.concat_tables(tables), self._by)

    def values(self, given: operator.Operator) -> Iterator[AssignedValue]:
        """The last value of the run or of each file."""
        for table in self.tables():
            places = table.column(order.AT).to_pylist()
            found = values.from_arrow(table.column(VALUE).combine_chunks(), self._assignment.type)
            yield from map(AssignedValue, files_of(table, self._by), places, found)


class Folded(Tables):
    """The state of a counter, a maximum or a minimum, for the run or for each file."""

    def __init__(self, assignment: Assignment, fold: folds.Fold, by: Sequence[str]) -> None:
        super().__init__()
        self._assignment = assignment
        self._fold = fold
        self._by = list(by)
        self._function = _FUNCTIONS[fold.how]

    def failures(self, columns: Mapping[str, pa.Array]) -> Sequence[engine.RowFailure]:
        """None: every value can be folded, or does not count."""
        return ()

    def refuse(self, columns: Mapping[str, Any]) -> None:
        """Do nothing: every value can be folded."""

    def add(self, batch: Batch, files: Mapping[str, pa.Array], columns: Mapping[str, pa.Array]) -> None:
        value = columns[VALUE]
        if self._fold.how is How.COUNTED:
            value = pa.array(np.ones(batch.count, dtype=np.int64))
        self.merge(self._reduced(pa.table({**files, VALUE: value})))

    def one(self, tables: Sequence[pa.Table]) -> pa.Table:
        return self._reduced(pa.concat_tables(tables))

    def _reduced(self, table: pa.Table) -> pa.Table:
        found = table.group_by(self._by, use_threads=False).aggregate([(VALUE, self._function)])
        reduced = found.column(f"{VALUE}_{self._function}")
        return pa.table({**{name: found.column(name) for name in self._by}, VALUE: reduced})

    def values(self, given: operator.Operator) -> Iterator[AssignedValue]:
        """The final values, computed from the values at the node's beginning."""
        for table in self.tables():
            found = values.from_arrow(table.column(VALUE).combine_chunks(), self._assignment.type)
            for file, each in zip(files_of(table, self._by), found, strict=True):
                before = given.final_values.before(self._assignment.path, file)
                start = self._fold.start
                assert start is None or isinstance(start, int)
                if self._fold.how is How.COUNTED and folds.may_overflow(each * abs(self._fold.step), before, start):
                    given.context.unfold(given.step.name)
                    continue
                value = folds.after(self._fold, before, each)
                if value is not None:
                    yield AssignedValue(file, 0, value)


_FUNCTIONS = {How.COUNTED: "sum", How.LARGEST: "max", How.SMALLEST: "min"}


def files_of(table: pa.Table, by: Sequence[str]) -> list[final_values.File]:
    """The file of each row; the pair that stands for the run if values are not per file."""
    if not by:
        return [final_values.RUN] * table.num_rows
    return list(zip(*(table.column(name).to_pylist() for name in by), strict=True))


def _latest(table: pa.Table, by: Sequence[str]) -> pa.Table:
    """The rows with the last places, one for each file."""
    places = table.column(order.AT).to_numpy()
    if not by:
        return table.slice(int(np.argmax(places)), 1)
    rows = pa.array(np.argsort(places, kind="stable"))
    table = table.take(rows)
    keyed = table.select(list(by)).append_column("row", pa.array(np.arange(table.num_rows)))
    found = keyed.group_by(list(by), use_threads=False).aggregate([("row", "max")])
    return table.take(found.column("row_max").combine_chunks())


class Values:
    """The values of a node's variables: the last of all values assigned to each variable."""

    def __init__(self) -> None:
        self._found: dict[tuple[final_values.File, str], tuple[tuple[int, int], Any]] = {}

    def add(self, number: int, path: str, given: AssignedValue) -> None:
        """Add the value of an assignment."""
        key, place = (given.file, path), (given.at, number)
        if key not in self._found or self._found[key][0] < place:
            self._found[key] = (place, given.value)

    def by_file(self) -> dict[final_values.File, dict[str, Any]]:
        """The values by file and path."""
        found: dict[final_values.File, dict[str, Any]] = {}
        for (file, path), (_, value) in self._found.items():
            found.setdefault(file, {})[path] = value
        return found
