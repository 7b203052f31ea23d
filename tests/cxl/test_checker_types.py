"""Types of expressions: which one each has, and which combinations are refused in which words."""

from __future__ import annotations

import pytest

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.types import Kind
from tests.cxl.checking import program, refused, type_of


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2", "Int"),
        ("n + 1", "Nullable(Int)"),
        ("n + 1.5", "Nullable(Float)"),
        ("1 + 2.5", "Float"),
        ("num + n", "Nullable(Numeric)"),
        ('s + "x"', "Nullable(String)"),
        ("n + null", "Nullable(Int)"),
        ("d + null", "Null"),
        ("v + 1", "Any"),
        ("-x", "Nullable(Float)"),
        ("1 < 2", "Bool"),
        ("n < 2.5", "Nullable(Bool)"),
        ("b and true", "Nullable(Bool)"),
        ("not b", "Nullable(Bool)"),
        ("n ?? 0", "Int"),
        ("n ?? x", "Nullable(Float)"),
        ("n ?? 0.5", "Float"),
        ('n ?? "none"', "Any"),
        ("v ?? 0.5", "Any"),
        ("if b then 1 else 2.5", "Float"),
        ("if b then 1", "Nullable(Int)"),
        ('if b then 1 else "x"', "Any"),
        ("if b then null else n", "Nullable(Int)"),
        ('match n { 1 => "a", _ => null }', "Nullable(String)"),
        ("match n { 1 => 1, 2 => 2.5, _ => 0 }", "Float"),
        ("s.length()", "Nullable(Int)"),
        ("s.is_null()", "Bool"),
        ("names[0]", "Nullable(String)"),
        ("xs[0]", "Any"),
        ("m.key", "Any"),
        ("doc.id", "Nullable(Int)"),
        ("doc.user.name.upper()", "Nullable(String)"),
        ('doc["id"]', "Nullable(Int)"),
        ("names.map(it => it.length())", "Nullable(Array) of Nullable(Int)"),
        ("names.filter(it => it > s)", "Nullable(Array) of String"),
        ("v.upper()", "Nullable(String)"),
        ("v.length()", "Nullable(Int)"),
        ("null.upper()", "Nullable(String)"),
        ("n.catch(1.5)", "Float"),
        ("now", "DateTime"),
        ("d.add_days(1)", "Nullable(Date)"),
        ("t.add_days(1)", "Nullable(DateTime)"),
        ("$pipeline.start_time", "DateTime"),
        ("$source.row", "Nullable(Int)"),
        ("$source.file.file_stem()", "Nullable(String)"),
        ("-9223372036854775808", "Int"),
        ('"abc".upper', "String"),
    ],
)
def test_every_expression_has_its_type(expression: str, expected: str) -> None:
    assert type_of(expression) == expected


def floats_have_float_operands(node: object) -> None:
    if isinstance(node, typed.Binary) and Kind.FLOAT in (node.left.type.kind, node.right.type.kind):
        assert Kind.INT not in (node.left.type.kind, node.right.type.kind)
    if isinstance(node, tuple):
        for item in node:
            floats_have_float_operands(item)
    elif hasattr(node, "__dataclass_fields__") and not isinstance(node, types.Type):
        for name in node.__dataclass_fields__:
            floats_have_float_operands(getattr(node, name))


def test_ints_are_widened_where_they_meet_floats() -> None:
    tree = program(
        "emit a = n + x\nemit c = n < 2.5\nemit e = if b then n else x\nemit f = n ?? 1.5\nemit g = n.clamp(0, 2.5)"
    )
    floats_have_float_operands(tree.statements)
    emit = tree.statements[2]
    assert isinstance(emit, typed.Emit)
    assert isinstance(emit.value, typed.If)
    assert isinstance(emit.value.then, typed.Widen)


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ('xs.contains("a")', "`contains` is a method of String, not of Array", "`.any(it => it == …)`"),
        ("s + n", "cannot apply '+' to String and Int", "convert one operand — use .to_int() or .to_string()"),
        ("n + s", "cannot apply '+' to Int and String", ".to_string()"),
        ("s == 1", "cannot apply '==' to String and Int", None),
        ('d > "2024-01-01"', "cannot apply '>' to Date and String", "#YYYY-MM-DD#"),
        ("d == t", "cannot apply '==' to Date and DateTime", ".to_datetime()"),
        ("d - d", "cannot apply '-' to Date and Date", ".diff_days(date)"),
        ("n and b", "cannot apply 'and' to Int and Bool", "comparison"),
        ("not n", "cannot apply 'not' to Int", "comparison"),
        ("-s", "cannot apply unary '-' to String", None),
        ("if n then 1 else 2", "if condition must be type Bool, got Int", "comparison"),
        ("match { n => 1, _ => 2 }", "match condition must be type Bool, got Int", None),
        ("match n { 1 => 2 }", "match expression must have a '_' (wildcard) catch-all arm", "_ =>"),
        ("s.strip()", "unknown method 'strip'", "`.trim()`"),
        ("s.len()", "unknown method 'len'", "`.length()`"),
        ("s.to_upper()", "unknown method 'to_upper'", "`.upper()`"),
        ("s.uper()", "unknown method 'uper'", "did you mean 'upper'?"),
        ("n.coalesce(1)", "unknown method 'coalesce'", "`value ?? default`"),
        ("upper(s)", "unknown function 'upper'", "`s.upper()`"),
        ("n.upper()", "`upper` is a method of String, not of Int", ".to_string()"),
        ("s.left()", "`left` takes 1 argument, got 0", "left(count: Int)"),
        ("s.upper(1)", "`upper` takes no arguments, got 1", None),
        ("s.substring(1, 2, 3)", "`substring` takes 1 to 2 arguments, got 3", None),
        ('s.left("x")', "`left` takes Int for `count`, got String", None),
        ("s.left(2.0)", "`left` takes Int for `count`, got Float", None),
        ("xs.map(1)", "`map` takes a closure", None),
        ("s.upper().concat(it => it)", "closures only valid as arguments", None),
        ('s.find("a(?=b)")', "invalid regex pattern: ", None),
        ("amoutn", "unknown field 'amoutn'", None),
        ("nmes", "unknown field 'nmes'", "did you mean 'names'?"),
        ("it", "'it' is only valid inside a closure", None),
        ("9223372036854775808", "integer literal 9223372036854775808 is out of range", None),
        ("doc.ids", "field 'ids' is not in the declared structure", "did you mean 'id'?"),
        ("s.upper", "String has no field 'upper'", "`.upper()`"),
        ("names.length", "Array has no field 'length'", None),
        ("sum(n)", "aggregate function 'sum' is not allowed in a row-level transform", None),
        ("$pipeline.nam", "unknown pipeline member '$pipeline.nam'", "'$pipeline.name'"),
        ("$pipline.name", "unknown system namespace '$pipline'", "'$pipeline'"),
        ("$vars.rate", "unknown vars key '$vars.rate'", "`vars`"),
        ("$pipeline", "`$pipeline` is no value by itself", None),
        ("$window.sum(n)", "uses window.* functions but declares no analytic_window", None),
        ("NULL", "unknown field 'NULL'", "`null`"),
        ("d::year(n)", "unresolved identifier 'd'", "use path.to.d"),
    ],
)
def test_wrong_expressions_are_refused_in_words(expression: str, message: str, hint: str | None) -> None:
    found = refused(f"emit r = {expression}")
    assert message in found.message
    if hint:
        assert hint in (found.help or "")
