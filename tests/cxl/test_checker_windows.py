"""`$window`: functions, fields, predicates."""

from __future__ import annotations

import pytest

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking.scope import WindowScope
from tests.cxl.test_checker import compiled, refused, schema_of

COLUMNS = {"n": types.INT, "x": types.FLOAT, "s": types.STRING}
SCOPE = {"columns": COLUMNS, "window": WindowScope(schema_of(COLUMNS))}


def emitted(text: str) -> dict[str, tuple[str, object]]:
    result = compiled(text, **SCOPE)
    assert isinstance(result.program, typed.Program), result.diagnostics
    return {
        one.name: (str(one.value.type), one.value) for one in result.program.statements if isinstance(one, typed.Emit)
    }


def test_functions_have_the_types_of_their_fields() -> None:
    found = emitted(
        "emit a = $window.sum(n)\nemit b = $window.avg(n)\nemit c = $window.count()\nemit d = $window.max(s)\n"
        "emit e = $window.collect(s)\nemit f = $window.any(n > 1)\nemit g = $window.distinct(n)\n"
        "emit h = $window.sum(x * 2)"
    )
    assert {name: static for name, (static, _) in found.items()} == {
        "a": "Nullable(Int)",
        "b": "Nullable(Float)",
        "c": "Int",
        "d": "Nullable(String)",
        "e": "Array",
        "f": "Nullable(Bool)",
        "g": "Array",
        "h": "Nullable(Float)",
    }


@pytest.mark.parametrize(
    "text",
    [
        "emit n = $window.lag(1)",
        "emit a = $window.lag(1).n",
        "emit a = $window.lag(1, n)",
        "emit a = $window.lag(n)",
        "emit a = $window.lag().n",
    ],
)
def test_a_row_is_reached_by_any_spelling(text: str) -> None:
    ((static, value),) = emitted(text).values()
    assert static == "Nullable(Int)"
    assert isinstance(value, typed.WindowCall)
    assert (value.function, value.field) == ("lag", "n")
    (offset,) = value.arguments
    assert isinstance(offset, typed.Literal)
    assert offset.value == 1


def test_the_bare_form_means_the_target_wherever_it_stands() -> None:
    ((static, _),) = emitted("emit n = n - ($window.lag(1) ?? n)").values()
    assert static == "Nullable(Int)"


def test_lets_are_visible_in_predicates() -> None:
    emitted("let limit = 5\nemit a = $window.any(n > limit)")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("emit a = $window.lag(1)", "E200", "does not say which field it reads"),
        ("emit a = $window.nope(n)", "E200", "unknown window function $window.nope()"),
        ("emit a = $window.sum(s)", "E200", "window.sum() requires a Numeric argument, got String"),
        ("emit a = $window.any(n)", "E200", "window.any() requires a Bool argument, got Int"),
        ("emit a = $window.any(n > 1, n > 2)", "E200", "window.any() takes exactly 1 argument, got 2"),
        ("emit a = $window.rank(n)", "E200", "window.rank() takes exactly 0 arguments, got 1"),
        ("emit a = $window.sum(nope)", "E150b", "references field 'nope'"),
        ("emit a = $window.lag(1).nope", "E150b", "field 'nope' is not in the upstream row schema"),
        ("emit a = $window.any($window.count() > 1)", "E200", "cannot be called inside"),
        ('emit a = $window.lag("1", n)', "E200", "requires an Int offset, got String"),
    ],
)
def test_wrong_windows_are_refused(text: str, code: str, message: str) -> None:
    found = refused(text, **SCOPE)
    assert found.code.id == code
    assert message in found.message


def test_a_window_needs_its_configuration() -> None:
    found = refused("emit a = $window.count()", columns=COLUMNS)
    assert found.code.id == "E003"
    assert found.message == "transform 'node' uses window.* functions but declares no analytic_window"
