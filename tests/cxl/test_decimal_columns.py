"""Columns of Decimals beside the rules for single ones, from zero to 38 digits and around 64 bits."""

from __future__ import annotations

import operator as python
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs.cxl import decimal_columns, decimal_units, decimals
from spark_jobs.cxl.failure import Failure
from spark_jobs.cxl.typed import Operator

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

SCALES = (0, 1, 2, 4, 6, 9, 18, 19, 38)
ARITHMETIC: dict[Operator, Callable[[Decimal, Decimal], Decimal]] = {
    Operator.ADD: decimals.add,
    Operator.SUBTRACT: decimals.subtract,
    Operator.MULTIPLY: decimals.multiply,
    Operator.DIVIDE: decimals.divide,
    Operator.MODULO: decimals.modulo,
}
COMPARISONS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: python.eq,
    Operator.NOT_EQUAL: python.ne,
    Operator.LESS: python.lt,
    Operator.LESS_EQUAL: python.le,
    Operator.GREATER: python.gt,
    Operator.GREATER_EQUAL: python.ge,
}


def _number(chance: random.Random, scale: int) -> Decimal:
    power = 10 ** chance.choice([0, 1, 3, 8, 17, 18, 19, 20, 30, 37, 38])
    near = [0, 1, 5, power, power - 1, power // 2, chance.randrange(power + 1), 2**62, 2**63 - 1, 2**63]
    found = decimals.of_units(min(chance.choice(near), 10**38 - 1) * chance.choice([1, -1]), scale)
    assert found is not None
    return found


def _numbers(chance: random.Random, scale: int, count: int) -> list[Decimal | None]:
    if chance.random() < 0.4:
        return [decimals.of_units(chance.randrange(-(10**6), 10**6), scale) for _ in range(count)]
    return [None if chance.random() < 0.1 else _number(chance, scale) for _ in range(count)]


def _column(numbers: list[Decimal | None], scale: int) -> pa.Array:
    return pa.array([None, *numbers], decimal_units.kind(scale)).slice(1)


def _seen(found: pa.Array, failed: Any) -> list[Any]:
    bad = [False] * len(found) if failed is None else failed.tolist()
    return ["fails" if is_bad else _shown(each) for each, is_bad in zip(found.to_pylist(), bad, strict=True)]


def _shown(number: Decimal | None) -> Any:
    return None if number is None else (number, decimals.scale_of(number))


def _exact(rule: Callable[..., Decimal | None], *operands: Decimal | None) -> Any:
    if None in operands:
        return None
    try:
        found = rule(*operands)
    except Failure:
        return "fails"
    return "fails" if found is None else _shown(found)


@pytest.mark.parametrize("seed", range(12))
def test_columns_are_what_single_numbers_are(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice([1, 3, 17])
    scale, other = chance.choice(SCALES), chance.choice(SCALES[:-1])
    lefts, rights = _numbers(chance, scale, count), _numbers(chance, other, count)
    left, right = _column(lefts, scale), _column(rights, other)
    pairs = [(right, rights), (right[0], [rights[0]] * count)]
    for symbol, rule in ARITHMETIC.items():
        wanted = max(scale, other, 6 if symbol is Operator.DIVIDE else 0)
        wanted = scale + other if symbol is Operator.MULTIPLY else wanted
        for given, items in pairs if wanted <= decimals.MAX_DIGITS else ():
            found = _seen(*decimal_columns.calculated(symbol, left, given, count, wanted))
            assert found == [_exact(rule, *each) for each in zip(lefts, items, strict=True)], symbol
    ints = [chance.choice([0, 5, -7, 2**63 - 1, -(2**63)]) for _ in lefts]
    for symbol, compare in COMPARISONS.items():
        for given, items in [*pairs, (pa.array(ints, pa.int64()), ints)]:  # type: ignore[list-item]
            answers = decimal_columns.compared(symbol, left, given, count)
            assert answers.to_pylist() == [
                None if a is None or b is None else compare(a, b) for a, b in zip(lefts, items, strict=True)
            ], symbol
    assert decimal_units.floats(left).to_pylist() == [None if each is None else float(each) for each in lefts]
    assert decimal_columns.texts(left).to_pylist() == [None if each is None else f"{each:f}" for each in lefts]
    assert decimal_units.whole(left) == [decimals.units(each) for each in lefts if each is not None]


@pytest.mark.parametrize("seed", range(12))
def test_columns_are_rounded_as_single_numbers_are(seed: int) -> None:
    chance = random.Random(seed)
    scale = chance.choice(SCALES)
    numbers = _numbers(chance, scale, 17)
    column = _column(numbers, scale)
    for wanted in (-25, -20, -19, -18, -3, -1, 0, 1, 2, 5, scale, 20, 38):
        found = _seen(*decimal_columns.rescaled(column, wanted))
        assert found == [None if each is None else _rounded(each, wanted) for each in numbers]
        for precision in (None, 5, 18, 19, 20, 37, 38):
            if wanted < 0 or (precision or 38) < wanted:
                continue
            kept, failed = decimal_columns.lossless(column, precision, wanted)
            exact = [None if each is None else decimals.declared(each, precision, wanted) for each in numbers]
            assert kept.to_pylist() == exact
            assert bool(failed is not None and failed.any()) is (exact.count(None) > numbers.count(None))


def _rounded(number: Decimal, scale: int) -> Any:
    found = decimals.rounded(number, scale)
    return "fails" if found is None else _shown(found)


@pytest.mark.parametrize("scale", [0, 2, 7, 38])
@pytest.mark.parametrize(
    "text",
    ["1", "-0.00", ".5", "5.", "+7", "007", "1e3", "1E-2", "1e400", "1e-400", "0" * 60 + "1", "0." + "0" * 50, ".", "-",
     "", " 1", "9" * 38, "9" * 39, "1." + "0" * 37, "1." + "0" * 38, "0." + "0" * 36 + "1", "nan", "1_0", "0x1"],
)  # fmt: skip
def test_texts_are_read_as_the_rule_reads_them_or_left_to_it(text: str, scale: int) -> None:
    found = decimal_columns.of_texts(pa.array([text, None, "0"]), 38, scale)
    if found is not None:
        exact = decimals.of_declared(text, 38, scale)
        assert exact is not None
        assert _shown(found[0].as_py()) == _shown(exact)
