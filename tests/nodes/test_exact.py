"""Float sums: exact until they are rounded once, and so the same from any cut of the rows."""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.nodes.aggregate import exact

ANY_FINITE = st.floats(allow_nan=False, allow_infinity=False)
NEAR_EACH_OTHER = st.floats(min_value=-1e17, max_value=1e17).map(lambda value: round(value, 2))
HALVES = st.integers(-(2**60), 2**60).map(float)
FLOATS = st.one_of(ANY_FINITE, NEAR_EACH_OTHER, HALVES)


def digits(terms: list[float | None], size: int, merged: int = 2) -> exact.Digits:
    """The sum in pieces of at most `size` terms, their digits merged as states of partial groups are."""
    pieces = [
        summed([exact.digits_of(pa.array(terms[start : start + size], pa.float64()))])
        for start in range(0, len(terms), size)
    ]
    while len(pieces) > 1:
        pieces = [
            summed([exact.carried(piece) for piece in pieces[i : i + merged]]) for i in range(0, len(pieces), merged)
        ]
    return pieces[0]


def summed(parts: list[exact.Digits]) -> exact.Digits:
    """Sums by Arrow of each place that some part has; null without terms."""
    places = sorted({place for part in parts for place in part})
    found = {}
    for place in places:
        columns = [part[place] for part in parts if place in part]
        total = pc.sum(pa.chunked_array(columns), min_count=1)
        found[place] = pa.array([total.as_py()], columns[0].type)
    return found


def total(terms: list[float | None], size: int) -> float | None:
    value: float | None = exact.Totals.of_digits(digits(terms, size)).nearest()[0].as_py()
    return value


def nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@given(st.lists(FLOATS, min_size=1, max_size=60), st.integers(1, 60))
def test_the_sum_is_the_nearest_double_whatever_the_cut(terms: list[float], size: int) -> None:
    assert total([*terms], size) == nearest(sum(map(Fraction, terms), Fraction(0)))


@given(st.lists(FLOATS, min_size=1, max_size=20), st.integers(1, 20))
def test_the_mean_is_the_nearest_double(terms: list[float], size: int) -> None:
    sums, counts = exact.Totals.of_digits(digits([*terms], size)), exact.Totals.of_counts(pa.array([len(terms)]))
    expected = nearest(sum(map(Fraction, terms), Fraction(0)) / len(terms))
    found = sums.divided(counts)[0].as_py()
    assert found == expected


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=20))
def test_a_quotient_of_sums_is_the_nearest_double(terms: list[tuple[float, float]]) -> None:
    above, below = (exact.Totals.of_digits(digits([pair[i] for pair in terms], 3)) for i in range(2))
    over, under = (sum((Fraction(pair[i]) for pair in terms), Fraction(0)) for i in range(2))
    found = above.divided(below)[0].as_py()
    assert found == (nearest(over / under) if under else None)


@given(st.lists(st.tuples(st.integers(2**52, 2**53 - 1), st.integers(1, 2**53), st.integers(-60, 60)), min_size=1))
def test_a_mean_close_to_the_middle_of_two_doubles_is_the_nearer_one(cases: list[tuple[int, int, int]]) -> None:
    """A middle by a count, and a little more or less that is beyond the digits of long doubles."""
    for low, count, more in cases:
        terms = [float(low) * count, float(count) / 2, math.ldexp(more, -70)]
        exactly = Fraction(2 * low + 1, 2) * count
        # What is missing of the product, which is no double.
        terms += [float(exactly - Fraction(terms[0]) - Fraction(terms[1]))]
        sums, counts = exact.Totals.of_digits(digits([*terms], 2)), exact.Totals.of_counts(pa.array([count]))
        assert sums.divided(counts)[0].as_py() == nearest(sum(map(Fraction, terms), Fraction(0)) / count)


def test_means_of_few_amounts_need_no_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of two doubles are often just between two others, and so are their means: many are ties."""
    amounts = [pow(3, k, 1_000_003) / 100 for k in range(3000)]
    for size in (2, 3, 5, 6):
        terms = [amounts[start : start + size] for start in range(0, len(amounts), size)]
        found = exact.digits_of(*(pa.array([each[i] for each in terms]) for i in range(size)))
        sums, counts = exact.Totals.of_digits(found), exact.Totals.of_counts(pa.array([size] * len(terms)))
        with monkeypatch.context() as patched:
            patched.setattr(exact.Totals, "_exactly", None)
            means = sums.divided(counts).to_pylist()
        assert means == [nearest(sum(map(Fraction, each), Fraction(0)) / size) for each in terms]


@given(st.lists(st.tuples(st.integers(2**52, 2**53 - 1), st.integers(1, 2**40), st.sampled_from([-1, 1])), min_size=1))
def test_a_tie_is_the_even_double(cases: list[tuple[int, int, int]]) -> None:
    for low, count, sign in cases:
        exactly = Fraction(2 * low + 1, 2) * count * sign
        terms = [float(exactly), float(exactly - Fraction(float(exactly)))]
        sums, counts = exact.Totals.of_digits(digits([*terms], 2)), exact.Totals.of_counts(pa.array([count]))
        assert sums.divided(counts)[0].as_py() == nearest(exactly / count)


@pytest.mark.parametrize("exponent", [1, 30, 33, 62, 65, 95, 100, 130])
def test_little_that_follows_the_third_digit_decides_between_two_doubles(exponent: int) -> None:
    """The digit of the head is the least there is, so that its tail ends 64 bits below."""
    for low in (2**52 + 1, 2**53 - 2, 2**52 + 12345):
        for count in (3, 2**20 + 1):
            for sign in (-1, 0, 1):
                exactly = Fraction(2 * low + 1, 2) * count
                terms = [float(exactly), float(exactly - Fraction(float(exactly)))]
                terms += [sign * math.ldexp(1.0, exactly.numerator.bit_length() - 53 - exponent)]
                sums = exact.Totals.of_digits(digits([*terms], 2))
                found = sums.divided(exact.Totals.of_counts(pa.array([count])))[0].as_py()
                assert found == nearest((exactly + Fraction(terms[2])) / count)


@pytest.mark.parametrize("count", [3, 7, 2**40 + 1])
def test_means_of_the_least_doubles_are_rounded_once(count: int) -> None:
    terms = [5e-324 * k for k in (1, 4, 5, 9)]
    for k in range(1, 200):
        sums = exact.Totals.of_digits(digits([*terms, 5e-324 * k], 2))
        found = sums.divided(exact.Totals.of_counts(pa.array([count])))[0].as_py()
        assert found == nearest(sum(map(Fraction, [*terms, 5e-324 * k]), Fraction(0)) / count)


@given(st.lists(FLOATS, min_size=1, max_size=20))
def test_a_sum_has_one_form(terms: list[float]) -> None:
    def form(given: list[float]) -> dict[int, int]:
        carried = exact.carried(digits([*given], 3))
        return {place: column[0].as_py() for place, column in carried.items() if column[0].as_py()}

    assert form(terms) == form(terms[::-1])


def test_rows_are_worked_on_in_blocks() -> None:
    terms = [float(pow(2, k, 1_000_003)) * 2.0 ** (k % 90) for k in range(70_000)]
    cut = exact.digits_of(pa.array(terms))
    assert exact.Totals.of_digits(cut).nearest().to_pylist() == terms


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_what_cancels_leaves_no_trace(size: int) -> None:
    assert total([0.1, 0.7, -1e16, 1e16, -1.0], size) == nearest(Fraction(0.1) + Fraction(0.7) - 1)
    assert total([1e308, 1e308, -1e308, -1e308], size) == 0.0
    assert total([5e-324, 1e308, -1e308], size) == 5e-324


def test_ten_times_a_tenth_is_one() -> None:
    assert [total([0.1] * 10, size) for size in (1, 3, 10)] == [1.0, 1.0, 1.0]


def test_a_sum_beyond_all_doubles_is_infinite_but_its_mean_is_not() -> None:
    sums = exact.Totals.of_digits(digits([1.5e308, 1.5e308], 1))
    assert sums.nearest()[0].as_py() == math.inf
    assert sums.divided(exact.Totals.of_counts(pa.array([2])))[0].as_py() == 1.5e308


def test_nulls_are_no_terms() -> None:
    assert total([None, 2.5, None], 2) == 2.5
    assert total([None], 1) is None


def test_a_quotient_by_zero_is_null() -> None:
    sums, nothing = (exact.Totals.of_digits(digits([term], 1)) for term in (2.5, 0.0))
    assert sums.divided(nothing)[0].as_py() is None


def test_few_digits_do_for_usual_amounts() -> None:
    assert len(exact.digits_of(pa.array([0.01, 19.99, 123456.78]))) == 3


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_special_values_go_through(special: float, size: int) -> None:
    found = total([1.0, special, 2.0], size)
    assert found is not None
    assert math.isnan(found) if math.isnan(special) else found == special


def test_infinities_of_both_signs_are_not_a_number() -> None:
    found = [total([math.inf, 1.0, -math.inf], size) for size in (1, 2, 3)]
    assert all(value is not None and math.isnan(value) for value in found)
