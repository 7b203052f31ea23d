"""Number patterns: what they write, what they round, and which texts are none."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from babel.numbers import parse_pattern

from spark_jobs.cxl import number_pattern, types
from tests.cxl.both_engines import by_interpreter, by_kernels, check_agreement, program_of
from tests.cxl.checking import refused

WRITTEN = [
    (1234.5, "0.00", "1234.50"),
    (1234.5, "#,##0.00", "1,234.50"),
    (1234567.891, "#,##0.##", "1,234,567.89"),
    (123456789, "#,##,##0", "12,34,56,789"),
    (7, "000", "007"),
    (0.5, "#.##", ".5"),
    (0, "#.##", "0"),
    (0, "#", "0"),
    (2.50, "0.0##", "2.5"),
    (2, "0.##", "2"),
    (0.256, "0%", "26%"),
    (0.0256, "0.0‰", "25.6‰"),
    (-5, "0.0", "-5.0"),
    (-5, "0.0;(0.0)", "(5.0)"),
    (-5, "0.00 'CR';0 'DB'", "5.00 DB"),
    (5, "+0;-0", "+5"),
    (5, "'#'0", "#5"),
    (5, "'it''s' 0", "it's 5"),
    (5, "0''", "5'"),
    (5, "€ 0.00", "€ 5.00"),
    (1.005, "0.00", "1.01"),
    (2.5, "0", "3"),
    (-2.5, "0", "-3"),
    (0.125, "0.00", "0.13"),
    (-0.001, "0.00", "0.00"),
    (-0.0, "0.0", "0.0"),
    (999.995, "#,##0.00", "1,000.00"),
    (1e300, "#,##0", "1" + ",000" * 100),
    (5e-324, "0.0", "0.0"),
    (9223372036854775807, "#,##0", "9,223,372,036,854,775,807"),
    (-9223372036854775808, "0.0", "-9223372036854775808.0"),
    (float("nan"), "0.00", "NaN"),
    (float("inf"), "0.00", "inf"),
    (float("-inf"), "0.00", "-inf"),
    (12, "", "12"),
    (1e-7, "", "0.0000001"),
]


@pytest.mark.parametrize(("number", "pattern", "text"), WRITTEN)
def test_pattern_writes_number(number: Any, pattern: str, text: str) -> None:
    assert number_pattern.write(number, pattern) == text


@pytest.mark.parametrize(("number", "pattern", "text"), WRITTEN)
def test_format_writes_the_same_in_both_engines(number: Any, pattern: str, text: str) -> None:
    static = types.INT if isinstance(number, int) else types.FLOAT
    literal = program_of(f'emit t = x.format("{pattern}")', {"x": static})
    computed = program_of("emit t = x.format(p)", {"x": static, "p": types.STRING})
    records = [{"x": number, "p": pattern}, {"x": None, "p": pattern}]
    for program, columns in ((literal, {"x": static}), (computed, {"x": static, "p": types.STRING})):
        for outcomes in (by_interpreter(program, records), by_kernels(program, columns, records)):
            assert [outcome.outputs[0][0]["t"] for outcome in outcomes] == [text, None]


@pytest.mark.parametrize(
    "pattern",
    [
        "abc",
        "0.0.0",
        "0,",
        ",0",
        "#,,0",
        "0#",
        "0.#0",
        "0.",
        "0.0,0",
        "0;0;0",
        "'0",
        "0 0",
        "@@",
        "0E0",
        "¤0",
        "*x0",
        "5",
        "0%%",
        "%0‰",
        "%Y-%m",
        "0" * 401,
        ";0",
        "0;",
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    assert number_pattern.complaint(pattern)
    assert "invalid number pattern" in refused(f'emit t = 1.5.format("{pattern}")').message
    (outcome,) = by_interpreter(program_of("emit t = 1.5.format(p)", {"p": types.STRING}), [{"p": pattern}])
    assert outcome.failure is not None
    assert "cannot convert" in outcome.failure[1]
    check_agreement("emit t = 1.5.format(p)", {"p": types.STRING}, [{"p": pattern}, {"p": "0.0"}], None)


@pytest.mark.parametrize("pattern", ["0.00", "#,##0.00", "#,##0.###", "00.0#", "#,##,##0.0", "0.#####", "0%", "#,##0"])
def test_patterns_mean_what_the_cldr_says(pattern: str) -> None:
    chance = random.Random(pattern)
    theirs = parse_pattern(pattern)
    for _ in range(500):
        number = round(chance.uniform(-10, 10) * 10 ** chance.randint(-3, 8), chance.randint(0, 5))
        places = theirs.frac_prec[1] + (2 if "%" in pattern else 0)
        exact = Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
        # Babel writes the sign of what is rounded to 0, and rounds a half to even: it gets what is rounded.
        assert number_pattern.write(number, pattern) == theirs.apply(exact or abs(exact), "en")


def test_values_without_a_format_are_refused() -> None:
    for value in ('"abc"', "true", '"a".split(",")'):
        assert "only numbers, Dates and DateTimes" in refused(f'emit t = {value}.format("0.00")').message
    program = program_of("emit t = s.format(f)", {"s": types.STRING, "f": types.STRING})
    records = [{"s": "abc", "f": "0.00"}, {"s": "abc", "f": ""}]
    failed, plain = by_interpreter(program, records)
    assert failed.failure is not None
    assert "no format but the empty one" in failed.failure[1]
    assert plain.outputs[0][0]["t"] == "abc"
    check_agreement("emit t = s.format(f)", {"s": types.STRING, "f": types.STRING}, records, None)


def test_kind_at_run_time_decides_what_a_format_is() -> None:
    program = program_of('emit t = a.format("0.0")', {"a": types.ANY})
    records = [{"a": 1.25}, {"a": 3}, {"a": "x"}, {"a": None}]
    for outcomes in (by_interpreter(program, records), by_kernels(program, {"a": types.ANY}, records)):
        assert [one.outputs[0][0]["t"] if one.outputs else "failed" for one in outcomes] == [
            "1.3",
            "3.0",
            "failed",
            None,
        ]


def test_format_of_a_date_is_a_date_format() -> None:
    text = 'emit t = d.format("%Y-%m")\nemit u = w.format("%H:%M")\nemit v = w.format("")'
    columns = {"d": types.DATE, "w": types.DATETIME}
    records = [{"d": date(2026, 3, 5), "w": datetime(2026, 3, 5, 14, 30)}]
    for outcomes in (
        by_interpreter(program_of(text, columns), records),
        by_kernels(program_of(text, columns), columns, records),
    ):
        assert outcomes[0].outputs[0][0] == {"t": "2026-03", "u": "14:30", "v": "2026-03-05T14:30:00"}


def test_a_number_for_a_format_gets_told_what_to_write() -> None:
    found = refused("emit t = x.format(2)")
    assert "takes String" in found.message
    assert '.format("0.00")' in (found.help or "")
