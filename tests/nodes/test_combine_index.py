"""The index of a build side finds what a loop over all pairs finds, in build order, however the pairs are cut."""

from __future__ import annotations

import itertools
import operator
import random
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.nodes import packed_sort
from spark_jobs.nodes.combine import index
from spark_jobs.nodes.combine.index import BuildTable, Compared
from spark_jobs.nodes.combine.step import Range

KINDS: dict[str, Any] = {
    "ints": lambda numbers: numbers.randrange(-20, 20),
    "floats": lambda numbers: numbers.choice([-0.0, 0.0, 0.5, -3.25, float("nan"), numbers.uniform(-5, 5)]),
    "texts": lambda numbers: "".join(numbers.choices("aé𝄞b ", k=numbers.randrange(4))),
    "dates": lambda numbers: date(2024, 1, 1) + timedelta(days=numbers.randrange(-400, 30)),
    "times": lambda numbers: datetime(1969, 12, 31, 23) + timedelta(microseconds=numbers.randrange(10**10)),
}
#: build value, driver value: by `is_upper` and `is_strict`.
HOLDS = {(False, False): operator.le, (False, True): operator.lt, (True, False): operator.ge, (True, True): operator.gt}


def column(kind: str, count: int, numbers: random.Random) -> list[Any]:
    return [None if numbers.random() < 0.1 else KINDS[kind](numbers) for _ in range(count)]


def compared(count: int, values: list[pa.Array]) -> Compared:
    return Compared.of([(each, None) for each in values], count)


def ranges(*shapes: tuple[bool, bool]) -> list[Range]:
    nothing: Any = None
    return [Range(nothing, "b", nothing, is_upper, is_strict) for is_upper, is_strict in shapes]


def expected(build: list[list[Any]], driver: list[list[Any]], keys: int, shapes: list[tuple[bool, bool]]) -> list[Any]:
    """Pairs of rows, by comparing all."""

    def matches(row: int, other: int) -> bool:
        values = [(b[other], d[row]) for b, d in zip(build, driver, strict=True)]
        if any(left is None or right is None for left, right in values):
            return False
        is_equal = all(left == right for left, right in values[:keys])
        return is_equal and all(
            HOLDS[shape](left, right) for shape, (left, right) in zip(shapes, values[keys:], strict=True)
        )

    return [pair for pair in itertools.product(range(len(driver[0])), range(len(build[0]))) if matches(*pair)]


SHAPES = [
    [(False, False)],
    [(True, True)],
    [(False, False), (True, True)],
    [(True, False), (False, True)],
    [(False, True), (False, False)],
    [(False, False), (True, True), (True, False), (False, True)],
    [(True, True), (True, False), (True, True)],
]


@pytest.mark.parametrize("long", [1, 10**9], ids=["by blocks", "row by row"])
@pytest.mark.parametrize("most", [1, 7, 300, 10**6])
@pytest.mark.parametrize("keys", [0, 1, 2])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_the_index_finds_what_comparing_all_pairs_finds(
    shapes: list[tuple[bool, bool]], keys: int, most: int, long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_LONG", long)
    if most < 10:
        monkeypatch.setattr(packed_sort, "_FEW", 0)  # as if there were many
    numbers = random.Random(repr((shapes, keys, most, long)))
    kinds = ["ints"] * keys + [numbers.choice(list(KINDS)) for _ in shapes]
    size = numbers.choice([0, 1, 8, 9, 130])
    build, driver = ([column(kind, count, numbers) for kind in kinds] for count in (size, 40))
    for number in range(keys):
        build[number] = [value and value % 3 for value in build[number]]
    names = [f"c{i}" for i in range(len(kinds))]
    typed = {name: pa.array(values) for name, values in zip(names, driver, strict=True)}
    table = pa.table({name: pa.array(v, typed[name].type) for name, v in zip(names, build, strict=True)})
    built = BuildTable.index(table, names[:keys], ranges(*shapes), names[keys:])
    columns = list(typed.values())
    located = built.find(40, columns[:keys], compared(40, columns[keys:]))
    found: list[Any] = []
    done = 0
    for start, end, chosen, rows in built.candidates(located, most):
        assert start == done
        done = end
        assert len(rows) <= most or end - start == 1
        found += zip((chosen + start).tolist(), rows.tolist(), strict=True)
    assert done == 40
    assert found == expected(build, driver, keys, shapes)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_groups_of_which_no_row_has_a_value_find_nothing(shapes: list[tuple[bool, bool]]) -> None:
    numbers = random.Random(str(shapes))
    for _ in range(200):
        build, driver = (
            [
                [numbers.randrange(3) for _ in range(count)],
                *([numbers.choice([None, None, 0, 1]) for _ in range(count)] for _ in shapes),
            ]
            for count in (numbers.randrange(1, 5), 4)
        )
        arrays = [pa.array(each, pa.int64()) for each in build]
        names = ["key", *(str(i) for i in range(len(shapes)))]
        table = BuildTable.index(pa.table(arrays, names=names), ["key"], ranges(*shapes), names[1:])
        given = [pa.array(each, pa.int64()) for each in driver]
        located = table.find(4, given[:1], compared(4, given[1:]))
        found = [
            (start + int(row), int(other))
            for start, _, rows, others in table.candidates(located, 100)
            for row, other in zip(rows, others, strict=True)
        ]
        assert sorted(found) == expected(build, driver, 1, shapes)


def test_one_interval_over_everything_does_not_make_all_pairs_candidates() -> None:
    """A hundred thousand intervals of length one, and one that covers all of them."""
    size, probes = 100_000, 2_000
    starts = np.arange(size + 1)
    ends = starts + 1
    starts[0], ends[0] = -1, size + 1
    table = pa.table({"start": starts, "end": ends})
    built = BuildTable.index(table, [], ranges((False, False), (True, True)), ["start", "end"])
    times = pa.array(np.arange(probes) * 49 + 2)
    located = built.find(probes, [], compared(probes, [times, times]))
    assert located.counts.sum() > 10 * index._LONG * probes
    pieces = list(built.candidates(located, 1 << 20))
    assert len(pieces) < 8
    assert sum(len(rows) for _, _, _, rows in pieces) == 2 * probes
