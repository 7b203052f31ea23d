"""Modules: imports, inlined functions and constants, and what is wrong with them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import limits
from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking import modules
from spark_jobs.cxl.engine import EvaluationContext
from spark_jobs.cxl.interpreter import interpreter
from tests.cxl.checking import compiled

if TYPE_CHECKING:
    from pathlib import Path

DATES = """
fn fiscal_year(d) = if d.month() < fiscal_start then d.year() - 1 else d.year()
fn quarter(d) = match {
  d.month() <= 3 => 1,
  d.month() <= 6 => 2,
  _ => 3
}
fn fiscal_quarter(d) = quarter(d.add_months(-3))
let fiscal_start = half * 2  # April
let half = 2
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "dates.cxl").write_text(DATES)
    (tmp_path / "clean.cxl").write_text(
        "\N{ZERO WIDTH NO-BREAK SPACE}fn safe(raw) = raw.try_float() ?? 0.0\n"
        "fn both(a, b) = a.trim() + b.trim()\nlet rate = 0.5\n"
    )
    return tmp_path


def run(text: str, rules: Path, record: dict[str, Any], **columns: types.Type) -> dict[str, Any]:
    result = compiled(text, columns, library=modules.Library(rules))
    assert isinstance(result.program, typed.Program), result.diagnostics
    (output,) = interpreter.compile(result.program)(record, EvaluationContext()).outputs
    return output


def mistakes(text: str, rules: Path) -> list[str]:
    result = compiled(text, library=modules.Library(rules))
    assert result.program is None
    return [one.message for one in result.diagnostics]


def test_functions_and_constants_are_inlined(rules: Path) -> None:
    text = (
        "use shared.dates as d\nuse clean\nemit fy = d::fiscal_year(day)\nemit q = d.fiscal_quarter(day)\n"
        "emit amount = clean::safe(raw) * clean::rate\nemit name = clean.both(raw, raw)\nemit start = d.fiscal_start"
    )
    record = {"day": datetime.date(2024, 3, 9), "raw": " 4 "}
    assert run(text, rules, record, day=types.DATE, raw=types.STRING) == {
        "fy": 2023,
        "q": 3,
        "amount": 0.0,
        "name": "44",
        "start": 4,
    }


def test_modules_import_modules_from_the_rules_path(rules: Path) -> None:
    (rules / "shop").mkdir()
    (rules / "shop" / "price.cxl").write_text(
        "use shared.dates as t\nuse clean\nfn gross(net) = net * (1 + clean::rate)\nfn start(d) = t::fiscal_year(d)\n"
    )
    text = "use shop.price as p\nemit a = p::gross(x)\nemit b = p::start(d)"
    record = {"x": 2.0, "d": datetime.date(2024, 5, 1)}
    assert run(text, rules, record, x=types.FLOAT, d=types.DATE) == {"a": 3.0, "b": 2024}
    (found,) = mistakes("use shop.price as p\nemit a = clean::rate", rules)
    assert "unresolved identifier 'clean'" in found


def test_a_module_that_changes_is_read_again(rules: Path) -> None:
    for rate in (2, 3):
        (rules / "clean.cxl").write_text(f"let rate = {rate}")
        (rules / "outer.cxl").write_text("use clean\nlet twice = clean::rate * 2")
        assert run("use outer\nemit a = outer::twice", rules, {}) == {"a": rate * 2}


def test_arguments_decide_the_types(rules: Path) -> None:
    program = compiled("use shared.dates\nemit a = dates::fiscal_year(d)", library=modules.Library(rules)).program
    assert isinstance(program, typed.Program)
    assert str(program.emits[0][1]) == "Nullable(Int)"
    (message,) = mistakes("use shared.dates\nemit a = dates::fiscal_year(s)", rules)[:1]
    assert "in shared.dates::fiscal_year: `month` is a method of Date or DateTime, not of String" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("use shared.nope", "module 'shared.nope' not found at"),
        ("use clean\nemit a = clean::nope(1)", "module 'clean' has no function 'nope'"),
        ("use clean\nemit a = clean::rat", "module 'clean' has no member 'rat'"),
        ("use clean\nemit a = clean::rate(1)", "'rate' is a constant in module 'clean', not a function"),
        ("use clean\nemit a = clean::safe", "'safe' is a function in module 'clean', not a constant"),
        ("use clean\nemit a = clean::safe(s, s)", "'safe' takes 1 argument, got 2"),
        ("use clean\nemit a = clean", "`clean` is a module, not a value"),
        ("use clean\nuse shared.dates as clean", "two modules are imported as 'clean'"),
    ],
)
def test_wrong_uses_are_refused(text: str, message: str, rules: Path) -> None:
    (found,) = mistakes(text, rules)
    assert message in found


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("fn f(a) = f(a)", "recursive calls are not supported: function 'f' calls itself"),
        ("fn f(a) = g(a)\nfn g(a) = f(a)", "recursive calls are not supported"),
        ("let a = b\nlet b = a", "cyclic dependency detected involving constant"),
        ("let a = amount", "unresolved identifier 'amount'"),
        ("fn f(a) = a + amount", "unresolved identifier 'amount'"),
        ("fn f(a) = 1\nfn f(b) = 2", "duplicate function 'f' in module 'm'"),
        ("let a = 1\nlet a = 2", "duplicate constant 'a' in module 'm'"),
        ("emit a = 1", "emit is not allowed in module files"),
        ("filter true", "filter is not allowed in module files"),
        ("use other", "module 'other' not found at"),
        ("use m", "modules import each other: m → m"),
        ("use broken", "expected expression"),
        ("let a = 1\nuse broken", "use must appear before let and fn"),
        ("fn f(a) = sum(a)", "aggregate function 'sum' is not allowed in module files"),
        ("fn f(a) = a +", "expected expression"),
        ("fn f(a) = a.strip()", "unknown method 'strip'"),
    ],
)
def test_what_is_wrong_with_a_module_is_said_in_its_file(module: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.cxl").write_text(module)
    (tmp_path / "broken.cxl").write_text("fn f(a) = )")
    result = compiled("use m\nemit a = 1", library=modules.Library(tmp_path))
    assert result.program is None
    found = next(one for one in result.diagnostics if message in one.message)
    assert found.span is not None
    assert found.span.file.name.endswith(("m.cxl", "broken.cxl"))


def test_calls_that_double_without_end_are_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INLINED_EXPRESSIONS", 300)
    levels = "\n".join(f"fn f{i}(a) = f{i + 1}(a) + f{i + 1}(a)" for i in range(40))
    (tmp_path / "m.cxl").write_text(f"{levels}\nfn f40(a) = a")
    result = compiled("use m\nemit a = m::f0(n)", library=modules.Library(tmp_path))
    assert result.program is None
    assert any("expressions into programs" in one.message for one in result.diagnostics)


def test_a_module_needs_a_rules_path() -> None:
    result = compiled("use clean\nemit a = 1")
    assert "there is no rules path" in result.diagnostics[0].message
