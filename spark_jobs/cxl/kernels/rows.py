"""Expressions without a kernel: the interpreter's closures on the rows of a frame, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import engine, tree_walk, typed, values
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.interpreter import expressions
from spark_jobs.cxl.interpreter.expressions import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.cxl.kernels.frames import Evaluate, Frame


def compile(node: typed.Expression, adapt: Callable[[Any], Any] | None = None, slots: int = 0) -> Evaluate:
    """An evaluation row by row; `adapt` changes each result, `slots` is the size of the program's slot list."""
    columns = tree_walk.columns_of(node)
    systems = tree_walk.systems_of(node)
    locals_ = tree_walk.slots_of(node)
    run = expressions.compile(node)
    static = node.type
    reads_clock = tree_walk.reads_clock(node)

    def evaluate(frame: Frame) -> pa.Array:
        record: dict[str, Any] = {}
        context: dict[str, Any] = {}
        row = Row(record.get, engine.EvaluationContext(context), slots)
        feeds = [
            *(
                (record, name, frame.python(("column", name), frame.column(name, kind), kind))
                for name, kind in columns.items()
            ),
            *(
                (context, path, frame.python(("$", path), frame.system(path, kind), kind))
                for path, kind in systems.items()
            ),
            *((row.slots, number, frame.python_slot(number, kind)) for number, kind in locals_.items()),
        ]
        row.moment = frame.clock() if reads_clock else None
        results: list[Any] = []
        failing: list[int] = []
        for position in range(frame.count):
            for target, key, items in feeds:
                target[key] = items[position]  # type: ignore[index]
            try:
                results.append(run(row))
            except Failure:
                failing.append(position)
                results.append(None)
        if failing:
            mask = [False] * frame.count
            for position in failing:
                mask[position] = True
            frame.mark(pa.array(mask, pa.bool_()))
        return values.to_arrow(map(adapt, results) if adapt else results, static)

    return evaluate
