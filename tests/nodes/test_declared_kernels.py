"""Every declared aggregate and window function: its kernel exists, and gives what the declared meaning gives."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import failure, typed, types, values
from spark_jobs.cxl.builtins import declare
from spark_jobs.nodes.aggregate import accumulators, groups
from spark_jobs.nodes.records.columns import ORIGIN_NAMES
from spark_jobs.nodes.records.order import AT
from spark_jobs.nodes.windows.call import Call
from spark_jobs.nodes.windows.kernels import choice
from spark_jobs.nodes.windows.kernels.by_row import ByRow
from spark_jobs.nodes.windows.kernels.function import Arguments, Function
from spark_jobs.nodes.windows.rows import SortedBatch
from tests.cxl.both_engines import same

#: Values of each type; sums of the Ints leave 64 bits now and then.
VALUES: dict[types.Type, st.SearchStrategy[Any]] = {
    types.INT: st.integers(-3, 3) | st.sampled_from([2**62, -(2**62)]),
    types.FLOAT: st.sampled_from([0.1, 0.2, 0.3, -0.5, 1e150, -1e150, 3.0, math.nan, math.inf]),
    types.STRING: st.sampled_from(["", "a", "b", "ab", "ß"]),
    types.BOOL: st.booleans(),
    types.DATE: st.dates(datetime.date(2020, 1, 1), datetime.date(2020, 1, 5)),
}


def accepted(parameters: tuple[declare.Parameter, ...]) -> list[types.Type]:
    """The types that may stand for all arguments of a function."""
    return [static for static in VALUES if all(parameter.accepts(static) for parameter in parameters)]


AGGREGATES = [
    pytest.param(function, static, id=f"{function.name} of {static.kind}")
    for function in declare.aggregates().values()
    for static in accepted(function.parameters)
]
WINDOWS = [
    pytest.param(function, static, id=f"{function.name} of {static.kind}")
    for function in declare.windows().values()
    for static in VALUES
    if function.takes is not declare.Takes.NUMBER or static.is_numeric
]


def aggregate_call(function: declare.Aggregate, static: types.Type) -> typed.AggregateCall:
    names = tuple(f"x{i}" for i in range(len(function.parameters)))
    argument_types = tuple(static.or_null() for _ in names)
    return typed.AggregateCall(function.name, names, argument_types, "$agg.0", function.result(argument_types))


def window_call(function: declare.Window, static: types.Type) -> Call:
    result = function.result((static.or_null(),))
    return Call(function.name, "c", "c.failure", result, None, "x", static.or_null(), 1, (), f"$window.{function.name}")


@pytest.mark.parametrize(("function", "static"), AGGREGATES)
def test_an_aggregate_has_a_kernel_for_every_type_that_it_takes(
    function: declare.Aggregate, static: types.Type
) -> None:
    kernel = accumulators.accumulator(aggregate_call(function, static))
    assert isinstance(kernel, accumulators.Accumulator)
    assert isinstance(kernel, accumulators.Folded) == (function.grouped is None or function.name == "collect")


@pytest.mark.parametrize(("function", "static"), WINDOWS)
def test_a_window_function_has_a_kernel_for_every_type_that_it_takes(
    function: declare.Window, static: types.Type
) -> None:
    kernel = choice.begin(window_call(function, static))
    assert isinstance(kernel, Function)
    assert isinstance(kernel, ByRow) == (function.running is None)


def grouped(call: typed.AggregateCall, groups_of: list[int], rows: list[list[Any]], cut: int) -> list[tuple[Any, bool]]:
    """What a kernel gives for groups of rows, which come in two parts; each with whether it is an error."""
    kernel = accumulators.accumulator(call)
    parts = []
    for start, end in ((0, cut), (cut, len(rows))):
        columns: dict[str, pa.Array] = {
            "key 0": pa.array(groups_of[start:end], pa.int64()),
            AT: pa.array(np.arange(start, end)),
            ORIGIN_NAMES[1]: pa.array(np.zeros(end - start, np.int64)),
        }
        arguments = [
            values.to_arrow([row[i] for row in rows[start:end]], static) for i, static in enumerate(call.argument_types)
        ]
        states = [state for part in kernel.parts() for state in part.first(arguments, end - start)]
        parts.append(groups.reduce(["key 0"], columns, [ORIGIN_NAMES[1]], states))
    table = pa.concat_tables(parts, promote_options="permissive").combine_chunks()
    columns = {name: table.column(name).combine_chunks() for name in table.schema.names}
    states = [state for part in kernel.parts() for state in part.merge_states(columns)]
    merged = groups.reduce(["key 0"], columns, [ORIGIN_NAMES[1]], states)
    found, bad = kernel.finish({name: merged.column(name).combine_chunks() for name in merged.schema.names})
    errors = [False] * len(found) if bad is None else bad.to_pylist()
    keys = merged.column("key 0").to_pylist()
    told = dict(zip(keys, zip(values.from_arrow(found, call.type), errors, strict=True), strict=True))
    return [told[key] for key in dict.fromkeys(groups_of)]


@pytest.mark.parametrize(("function", "static"), AGGREGATES)
@given(st.data())
def test_groups_are_what_the_meaning_makes_of_their_values(
    function: declare.Aggregate, static: types.Type, data: st.DataObject
) -> None:
    call = aggregate_call(function, static)
    row = st.lists(st.none() | VALUES[static], min_size=len(call.arguments), max_size=len(call.arguments))
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    groups_of = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    cut = data.draw(st.integers(0, len(rows)))
    wanted = [
        function.fold([row for row, each in zip(rows, groups_of, strict=True) if each == group])
        for group in dict.fromkeys(groups_of)
    ]
    found = grouped(call, groups_of, rows, cut)
    assert [failed for _, failed in found] == [failed for _, failed in wanted]
    assert all(same(one, other) for (one, _), (other, _) in zip(found, wanted, strict=True)), (found, wanted)


@pytest.mark.parametrize(
    ("function", "static"), [each for each in WINDOWS if getattr(each.values[0], "meaning", None) is not None]
)
@given(st.data())
def test_rows_get_what_the_meaning_makes_of_the_values_up_to_them(
    function: declare.Window, static: types.Type, data: st.DataObject
) -> None:
    assert function.meaning is not None
    items = data.draw(st.lists(st.none() | VALUES[static], min_size=1, max_size=12))
    starts = [True, *data.draw(st.lists(st.booleans(), min_size=len(items) - 1, max_size=len(items) - 1))]
    cut = data.draw(st.integers(1, len(items)))
    call = window_call(function, static)
    kernel = choice.begin(call)
    found: list[Any] = []
    failing: list[bool] = []
    for start, end in ((0, cut), (cut, len(items))):
        if start == end:
            continue
        column = values.to_arrow(items[start:end], call.argument_type)
        rows = pa.RecordBatch.from_arrays([column], names=["x"])
        begun = np.array(starts[start:end])
        result = kernel.results(SortedBatch(rows, begun, begun, end - start), Arguments(column))
        found += values.from_arrow(result.values, call.type)
        failing += [False] * (end - start) if result.failures is None else result.failures.is_valid().to_pylist()
    state: Any = None
    for item, starts_here, value, failed in zip(items, starts, found, failing, strict=True):
        if starts_here:
            state = function.meaning()
        state.step(item)
        try:
            expected = state.finish()
            assert not failed
            # Quotients of kernels are rounded twice where a sum needs more digits than a long double has.
            is_quotient = function.name in ("avg", "weighted_avg") and isinstance(value, float) and expected is not None
            assert same(value, expected) or (is_quotient and math.nextafter(value, expected) == expected)
        except failure.Failure:
            assert failed


def test_functions_are_declared_where_executors_look_for_them() -> None:
    known = set(declare.aggregates()), set(declare.windows())
    declare.registry()
    assert (set(declare.aggregates()), set(declare.windows())) == known
