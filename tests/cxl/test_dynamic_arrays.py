"""Kernels on tagged texts agree with the values that these stand for."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.cxl import dynamic_arrays, types, values
from spark_jobs.cxl.kernels import kernels
from tests.cxl.both_engines import check_agreement, program_of

SCALARS = [1, None, 2.5, True, "", "a,b", "x[", "]}", 'q"', "é\\", "\\\\", '",', date(2024, 1, 2), float("inf")]
ARRAYS = types.array_of(types.MAP).or_null()


def _value(random_: random.Random, depth: int, scalars: list[Any]) -> Any:
    kind = random_.random()
    if depth > 3 or kind < 0.4:
        return random_.choice(scalars)
    inside = (_value(random_, depth + 1, scalars) for _ in range(random_.randrange(4)))
    return list(inside) if kind < 0.7 else {random_.choice(["a", ",", "[", "b{"]): each for each in inside}


@pytest.mark.parametrize("stretch", [7, 100, 1 << 16])
@pytest.mark.parametrize("scalars", [SCALARS, [1, None, 2.5, "a,b", "x[", "]}", ""], [1, None]])
def test_lengths_are_those_of_the_arrays(stretch: int, scalars: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_arrays, "_STRETCH", stretch)
    random_ = random.Random(5)
    for _ in range(50):
        arrays = [
            None if random_.random() < 0.1 else [_value(random_, 0, scalars) for _ in range(random_.randrange(5))]
            for _ in range(random_.randrange(30))
        ]
        wanted = [None if each is None else len(each) for each in arrays]
        column = pa.array([values.encode(each) for each in arrays], pa.string())
        assert dynamic_arrays.lengths(column).to_pylist() == wanted
        assert dynamic_arrays.lengths(column.slice(2, 9)).to_pylist() == wanted[2:11]


def test_the_length_of_an_array_of_maps_has_a_kernel() -> None:
    text = "emit n = a.length()\nemit m = (a ?? a).length() + 1"
    assert kernels.compile(program_of(text, {"a": ARRAYS})).interpreted == ()
    records: list[dict[str, Any]] = [{"a": a} for a in ([], [{}], None, [{"x": [1, 2]}, {"y": ',"'}, {}])]
    check_agreement(text, {"a": ARRAYS}, records)
