"""Decimals beside Python's `decimal`: operators, scales, signs, 38 digits, in both engines."""

from __future__ import annotations

import itertools
import random
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pytest

from spark_jobs.cxl import types, values
from spark_jobs.cxl.types import Kind
from tests.cxl.both_engines import by_interpreter, by_kernels, check_agreement, program_of
from tests.cxl.checking import compiled

#: Wide enough for every exact result.
_MODEL = Context(prec=400, rounding=ROUND_HALF_UP, Emax=10**6, Emin=-(10**6))
_OPERATORS = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">="]


def _is_held(number: Decimal) -> bool:
    _, digits, exponent = number.as_tuple()
    return len("".join(map(str, digits)).lstrip("0")) <= 38 and -38 <= int(exponent) <= 0


def _scale(number: Decimal) -> int:
    return -int(number.as_tuple().exponent)


def _model(operator: str, left: Decimal, right: Decimal) -> Any:
    """The result by Python's decimal with more than enough digits; None where it is an error."""
    scale = max(_scale(left), _scale(right))
    match operator:
        case "+":
            found = _MODEL.add(left, right)
        case "-":
            found = _MODEL.subtract(left, right)
        case "*":
            found = _MODEL.multiply(left, right)
        case "/" | "%" if right == 0:
            return None
        case "/":
            found = _MODEL.divide(left, right).quantize(Decimal(1).scaleb(-max(6, scale)), context=_MODEL)
        case "%":
            found = _MODEL.remainder(left, right)
        case _:
            compare = {"==": 0, "!=": 0}.get(operator)
            order = (left > right) - (left < right)
            if compare is not None:
                return (order == 0) is (operator == "==")
            return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator]
    return found.copy_abs() if found == 0 and _is_held(found) else found if _is_held(found) else None


def _numbers(seed: int) -> list[Decimal]:
    """Numbers of all sizes and scales, of both signs, zeros among them."""
    draw = random.Random(seed)
    found = [
        Decimal(text) for text in ("0", "0.00", "1", "-1", "0.5", "-0.5", "9" * 38, "-" + "9" * 38, "0." + "9" * 38)
    ]
    while len(found) < 60:
        digits, scale = draw.randrange(1, 39), draw.randrange(0, 39)
        units = draw.randrange(10**digits) * draw.choice((1, -1))
        number = Decimal(units).scaleb(-scale, _MODEL)
        found.append(number.copy_abs() if number == 0 else number)
    return found


@pytest.mark.parametrize("operator", _OPERATORS)
@pytest.mark.parametrize("seed", [1, 2])
def test_operators_are_those_of_the_model(operator: str, seed: int) -> None:
    numbers = _numbers(seed)
    draw = random.Random(seed)
    records = [{"a": draw.choice(numbers), "b": draw.choice(numbers)} for _ in range(400)]
    kinds = {"a": types.DECIMAL, "b": types.DECIMAL}
    program = program_of(f"emit r = a {operator} b", kinds)
    one, other = by_interpreter(program, records), by_kernels(program, kinds, records)
    for record, mine, theirs in zip(records, one, other, strict=True):
        wanted = _model(operator, record["a"], record["b"])
        assert (mine.failure, mine.outputs) == (theirs.failure, theirs.outputs)
        if wanted is None:
            assert mine.failure is not None, record
        else:
            (found, _), *_ = mine.outputs
            assert found["r"] == wanted, record
            assert str(found["r"]) == str(wanted) or f"{found['r']:f}" == f"{wanted:f}", record


@pytest.mark.parametrize(
    ("left", "right", "operator", "scale"),
    [(2, 4, "+", 4), (2, 4, "-", 4), (2, 4, "*", 6), (2, 4, "/", 6), (2, 9, "/", 9), (2, 4, "%", 4)],
)
def test_the_checker_knows_the_scale_of_every_result(left: int, right: int, operator: str, scale: int) -> None:
    kinds = {"a": types.decimal_of(12, left), "b": types.decimal_of(20, right)}
    program = program_of(f"emit r = a {operator} b", kinds)
    assert (program.emits[0][1].kind, program.emits[0][1].scale) == (Kind.DECIMAL, scale)
    record = {"a": Decimal(7).scaleb(-left), "b": Decimal(-3).scaleb(-right)}
    (found, _), *_ = by_interpreter(program, [record])[0].outputs
    assert _scale(found["r"]) == scale


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("12.50d + 1", "13.50"),
        ("1 - 12.50d", "-11.50"),
        ("1.10d * 3", "3.30"),
        ("if 1.5d > 1 then 0 else 2.50d", "0.00"),
        ("null ?? 0.10d", "0.10"),
        ("1.5d.max(2)", "2.0"),
        ("7.clamp(1.25d, 3.5d)", "3.50"),
        ("-(1.50d)", "-1.50"),
        ("(-0.00d).abs()", "0.00"),
        ("0.125d.round(2)", "0.13"),
        ("(-0.125d).round(2)", "-0.13"),
        ("1250d.round(-2)", "1300"),
        ("1.5d.round(3)", "1.500"),
        ('"1e3".to_decimal()', "1000"),
        ('"1.50".to_decimal()', "1.50"),
        ("2.675.to_decimal(2)", "2.68"),
    ],
)
def test_values_keep_their_digits(expression: str, wanted: str) -> None:
    program = program_of(f"emit r = {expression}")
    (found, _), *_ = by_interpreter(program, [{}])[0].outputs
    assert found["r"].__class__ is Decimal
    assert values.text_of(found["r"]) == values.json_text(found["r"]) == wanted
    static = program.emits[0][1]
    assert static.scale in (None, _scale(found["r"]))
    assert by_kernels(program, {}, [{}])[0].outputs[0][0] == found


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("0.1d + 0.2", 0.1 + 0.2),
        ("0.1d == 0.1", True),
        ("1.50d == 1.5d", True),
        ("2d == 2", True),
        ("12345678901234567890.5d > 1", True),
        ("if true then 1.5d else 2.5", 1.5),
        ("match 1.50d { 1.5 => 1, _ => 2 }", 1),
        ("9.99d.to_int()", 9),
        ("(-9.99d).floor()", -10),
        ("9.01d.ceil()", 10),
        ("9.5d.to_float()", 9.5),
        ('1234.5d.format("#,##0.00")', "1,234.50"),
        ('12345678901234567890123456789012345.678d.format("0.000")', "12345678901234567890123456789012345.678"),
        (
            '(-1234567890123456789012345678901234567.5d).format("#,##0")',
            "-1,234,567,890,123,456,789,012,345,678,901,234,568",
        ),
        ("2.25d.square_root()", 1.5),
        ("1.5d.type_of()", "Decimal"),
    ],
)
def test_other_kinds_come_out_of_decimals(expression: str, wanted: Any) -> None:
    program = program_of(f"emit r = {expression}")
    (found, _), *_ = by_interpreter(program, [{}])[0].outputs
    assert (found["r"], type(found["r"])) == (wanted, type(wanted))
    assert by_kernels(program, {}, [{}])[0].outputs[0][0] == found


@pytest.mark.parametrize(
    "expression",
    [
        "99999999999999999999999999999999999999d + 1",
        "99999999999999999999d * 99999999999999999999d",
        "99999999999999999999999999999999999999d / 0.1d",
        "99999999999999999999999999999999999999d.round(1)",
        "99999999999999999999999999999999999999d.to_int()",
        "1d / 0d",
        "1.5d % 0",
        '"123456789012345678901234567890123456789".to_decimal()',
        "true.to_decimal()",
        '"nan".to_decimal()',
    ],
)
def test_what_no_decimal_holds_is_an_error_of_the_record(expression: str) -> None:
    program = program_of(f"emit r = {expression}")
    assert by_interpreter(program, [{}])[0].failure is not None
    assert by_kernels(program, {}, [{}])[0].failure == by_interpreter(program, [{}])[0].failure


def test_literals_and_products_with_too_many_digits_are_found_when_checked() -> None:
    (found,) = compiled("emit r = 123456789012345678901234567890123456789d").diagnostics
    assert "too many digits" in found.message
    row = {"a": types.decimal_of(30, 20), "b": types.decimal_of(30, 20)}
    (found,) = compiled("emit r = a * b", row).diagnostics
    assert "40 digits after the point" in found.message
    for expression in ("1.5d.round(40)", '"1".to_decimal(40)', '"1".try_decimal(40)'):
        (found,) = compiled(f"emit r = {expression}").diagnostics
        assert "40 digits after the point" in found.message
    assert not compiled("emit r = 1.5.round(40)").diagnostics


@pytest.mark.parametrize("seed", range(5))
def test_keys_of_equal_numbers_are_one_key_and_sort_exactly(seed: int) -> None:
    from spark_jobs.nodes import keys, sorting

    numbers: list[Any] = [*_numbers(seed), 1, 1.0, 2**63 - 1, -(2**63), 0.1, Decimal("0.1"), Decimal("1.00"), 1e22]
    random.Random(seed).shuffle(numbers)
    array = values.to_arrow(numbers, types.ANY)
    comparable, bad = keys.column(array, types.ANY)
    assert not bad.any()
    texts = comparable.to_pylist()
    for one, mine in zip(numbers, texts, strict=True):
        for other, theirs in zip(numbers, texts, strict=True):
            assert (mine == theirs) is (values.key_of(one) == values.key_of(other)), (one, other)
    fields = sorting.field(array, types.ANY).to_pylist()
    order = sorted(range(len(numbers)), key=lambda place: fields[place])
    for place, following in itertools.pairwise(order):
        assert numbers[place] <= numbers[following]
        assert (fields[place] == fields[following]) is (numbers[place] == numbers[following])


def test_a_decimal_travels_as_a_value_of_any_kind() -> None:
    for value in (Decimal("1.50"), [Decimal("0.10"), None], {"a": Decimal(-3), "$b": 1}):
        assert values.decode(values.encode(value)) == value
    assert values.from_arrow(values.to_arrow([1, None], types.DECIMAL), types.DECIMAL) == [Decimal(1), None]
    found = values.retyped(values.to_arrow([Decimal("0.5")], types.DECIMAL), types.DECIMAL, types.FLOAT)
    assert found.to_pylist() == [0.5]


def test_a_float_is_one_key_with_the_decimal_that_its_text_spells() -> None:
    alike = [
        (Decimal("0.10"), Decimal("0.1"), 0.1),
        (Decimal("2.00"), 2, 2.0),
        (Decimal("-19.99"), -19.99),
        (Decimal("0.0000000009313225746154785"), 2.0**-30),
        (Decimal("0.000000000931322574615478515625"),),
        (Decimal("0.1000000000000000000001"),),
        (Decimal("12345678901234567890123.5"),),
    ]
    keys = [{values.key_of(value) for value in group} for group in alike]
    assert [len(each) for each in keys] == [1] * len(alike)
    assert len(set().union(*keys)) == len(alike)


@pytest.mark.parametrize(
    ("expression", "places", "wanted"),
    [
        ("3.14159.round(d)", 2.9, 3.14),
        ("3.14159.round_to(d)", 2.9, 3.14),
        ("1.505d.round(d)", 2.9, Decimal("1.51")),
        ("1.505d.to_decimal(d)", 2.9, Decimal("1.51")),
    ],
)
def test_places_of_a_dynamic_type_are_cut_to_an_int(expression: str, places: float, wanted: Any) -> None:
    columns = {"d": types.ANY}
    program = program_of(f"emit r = {expression}", columns)
    for outcomes in (by_interpreter(program, [{"d": places}]), by_kernels(program, columns, [{"d": places}])):
        assert outcomes[0].outputs[0][0] == {"r": wanted}


@pytest.mark.parametrize("call", ["to_decimal(-2)", "try_decimal(-2)"])
def test_a_scale_that_no_decimal_has_is_refused_when_it_is_checked(call: str) -> None:
    (problem,) = compiled(f'emit r = "1.25".{call}').diagnostics
    assert "no Decimal has -2 digits after the point; `.round(-2)` rounds before it" in problem.message
    assert by_interpreter(program_of('emit r = "1.25".to_decimal(37).to_decimal(0)'), [{}])[0].failure is None
    assert by_interpreter(program_of("emit r = 1250.5d.round(-2)"), [{}])[0].failure is None


@pytest.mark.parametrize(
    "text",
    [
        "emit c = n % p\nemit d = (if b then 1.5d else n) == 0d",
        "emit c = (3d).clamp(n, n) * 0.00d <= -(n ?? p)",
        "emit c = (n ?? p) + (n ?? q)\nemit d = n ?? q\nemit e = n ?? p",
        "emit c = (if b then n else p) < (if b then n else q)",
        "emit c = (n + m) ?? p\nemit d = (n + m) ?? q\nfilter (n + m) ?? q > -3.5d",
    ],
)
def test_an_int_beside_decimals_of_several_scales_has_each_of_them(text: str) -> None:
    """What stands in several places is computed once, but a number of another scale is another one."""
    columns = {"p": types.decimal_of(None, 2), "q": types.decimal_of(None, 4), "n": types.INT, "m": types.INT,
               "b": types.BOOL}  # fmt: skip
    records = [
        {"p": p, "q": q, "n": n, "m": m, "b": b}
        for p, q in [(Decimal("1.50"), Decimal("-2.2500")), (Decimal("-0.01"), None), (None, Decimal("0.0001"))]
        for n, m, b in [(-(2**63), 1, False), (0, 0, True), (7, -10, None), (None, 2, True), (324, None, False)]
    ]
    for batch_rows in (None, 2):
        check_agreement(text, columns, records, batch_rows)


@pytest.mark.parametrize(
    ("static", "shown"),
    [
        (types.decimal_of(12, 2), "Decimal(12,2)"),
        (types.decimal_of(12, 2).or_null(), "Nullable(Decimal(12,2))"),
        (types.decimal_of(None, 3), "Decimal(38,3)"),
        (types.DECIMAL, "Decimal"),
        (types.DECIMAL.or_null(), "Nullable(Decimal)"),
    ],
)
def test_a_type_shows_its_digits_where_they_are_known(static: types.Type, shown: str) -> None:
    assert str(static) == shown
