"""Arguments of window calls: a value for each row, or for each pair of a record and a row of its frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import engine, failure, failure_columns, values
from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes import operator
from spark_jobs.nodes.aggregate import numbers
from spark_jobs.nodes.windows.kernels.function import Arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl import typed
    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.tuning import Tuning


class Evaluator:
    """Evaluates the programs of calls.

    Args:
        run: runs a program on rows.
        tuning: the number of rows and pairs of rows that are evaluated at once.
    """

    def __init__(
        self, run: Callable[[engine.BatchProgram, pa.RecordBatch], engine.BatchResult], tuning: Tuning
    ) -> None:
        self._run = run
        self.tuning = tuning

    def given(self, call: Call, rows: pa.RecordBatch) -> Arguments:
        """The arguments of a call, row by row. Functions of numbers get only numbers."""
        found = self._given(call, rows)
        takes_numbers = declare.windows()[call.function].takes is declare.Takes.NUMBER
        return _numbers(call, found) if takes_numbers and call.argument_type.is_dynamic else found

    def _given(self, call: Call, rows: pa.RecordBatch) -> Arguments:
        if call.argument is not None:
            return self.value(call.argument, rows)
        if call.field is not None:
            return Arguments(column(rows, call.field, values.arrow_type(call.argument_type)))
        return Arguments(pa.nulls(rows.num_rows, pa.string()))

    def value(self, program: typed.Program, rows: pa.RecordBatch) -> Arguments:
        """The value of a program's single emit for each row, null where it fails, and the failures."""
        result = self._run(operator.compiled(program), rows)
        found = result.emits[program.emits[0][0]]
        if result.rows is None:
            return Arguments(found)
        places = np.full(rows.num_rows, -1, dtype=np.int64)
        places[result.rows.to_numpy()] = np.arange(len(found))
        texts: list[Any] = [None] * rows.num_rows
        for item in failure_columns.of(result.failures):
            texts[item.row] = failure.encode(item.failure)
        return Arguments(found.take(pa.array(places, mask=places < 0)), pa.array(texts, pa.string()))


def _numbers(call: Call, given: Arguments) -> Arguments:
    """Replace values that are no numbers by failures of their rows."""
    rows = numbers.others(given.values)
    if not len(rows):
        return given
    count = len(given.values)
    others = given.values.take(pa.array(rows)).dictionary_encode()
    problems = [numbers.problem(f"$window.{call.function}", values.decode(each.as_py())) for each in others.dictionary]
    places = np.full(count, -1, dtype=np.int64)
    places[rows] = others.indices.to_numpy()
    packed = pa.array([failure.encode(each) for each in problems], pa.string())
    found = packed.take(pa.array(places, mask=places < 0))
    kept = pc.if_else(pa.array(places < 0), given.values, pa.scalar(None, given.values.type))
    return Arguments(kept, found if given.failures is None else pc.coalesce(given.failures, found))


def column(rows: pa.RecordBatch, name: str, wanted: pa.DataType) -> pa.Array:
    """A column in the type that functions take; null if the rows do not have it."""
    position = rows.schema.get_field_index(name)
    if position < 0:
        return pa.nulls(rows.num_rows, wanted)
    found = rows.column(position)
    return found if found.type == wanted else found.cast(wanted)
