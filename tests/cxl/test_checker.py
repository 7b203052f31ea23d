"""Names and types: what is accepted with which type, and what is refused in which words."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.cxl import compile as front
from spark_jobs.cxl import typed, types
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.cxl.scope import Mode, Scope
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics.source import Text

if TYPE_CHECKING:
    from spark_jobs.diagnostics.diagnostic import Diagnostic

STRUCTURE = types.Type(
    Kind.MAP, fields=(("id", types.INT), ("user", types.Type(Kind.MAP, fields=(("name", types.STRING),))))
)
COLUMNS = {
    "n": types.INT,
    "x": types.FLOAT,
    "num": types.NUMERIC,
    "s": types.STRING,
    "b": types.BOOL,
    "d": types.DATE,
    "t": types.DATETIME,
    "xs": types.ARRAY,
    "names": types.array_of(types.STRING),
    "m": types.MAP,
    "doc": STRUCTURE,
    "v": types.ANY,
}


def schema_of(columns: dict[str, types.Type]) -> Schema:
    return Schema(tuple(Column(name, static) for name, static in columns.items()))


def compiled(text: str, columns: dict[str, types.Type] | None = None, **scope: Any) -> front.Compiled:
    row = schema_of(COLUMNS if columns is None else columns)
    return front.compile_program(Text.whole(text), Scope(row=row, **scope), "node")


def program(text: str, **scope: Any) -> typed.Program:
    result = compiled(text, **scope)
    assert isinstance(result.program, typed.Program), result.diagnostics
    return result.program


def type_of(expression: str) -> str:
    ((_, static),) = program(f"emit r = {expression}").emits
    element = f" of {static.element}" if static.element else ""
    return f"{static}{element}"


def refused(text: str, **scope: Any) -> Diagnostic:
    result = compiled(text, **scope)
    assert result.program is None, f"accepted: {text}"
    (found,) = [one for one in result.diagnostics if one.is_error]
    return found


def warnings(text: str, **scope: Any) -> list[tuple[str, str]]:
    result = compiled(text, **scope)
    assert result.program is not None, result.diagnostics
    return [(one.code.id, one.message) for one in result.diagnostics]


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
        ("upper(s)", "unknown function 'upper'", "`s.upper(…)`"),
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


def test_messages_name_the_node_and_point_into_the_file() -> None:
    file_text = "cxl: |\n  emit a = n +\n    s\n"
    text = Text("emit a = n +\n  s\n", type(Text.whole("").file)("p.yaml", file_text), ((0, 9), (13, 24)))
    result = front.compile_program(text, Scope(row=schema_of(COLUMNS)), "classify")
    (found,) = result.diagnostics
    assert found.message == "CXL type error in node 'classify': cannot apply '+' to Int and String"
    assert str(found.span) == "p.yaml:2:12"
    assert [(label.span, label.text) for label in found.labels] == [(found.span, "cannot add Int and String")]


def test_a_bare_namespace_is_told_from_a_column() -> None:
    found = refused("emit r = source.row")
    assert found.code.id == "E301"
    assert "`$source.row`" in (found.help or "")
    assert not compiled("emit r = source.row", {"source": types.MAP}).diagnostics


def test_names_are_looked_up_as_lets_then_columns_then_emits() -> None:
    tree = program(
        'emit n = "text"\nemit a = n + 1\nemit fresh = 2\nemit c = fresh + 1\nlet n = b\nemit e = n and true'
    )
    assert {name: str(static.kind) for name, static in tree.emits} == {
        "n": "String",
        "a": "Int",
        "fresh": "Int",
        "c": "Int",
        "e": "Bool",
    }


def test_names_end_with_their_block() -> None:
    assert "unknown field 'w'" in refused("emit each w in xs { emit a = w }\nemit q = w").message
    assert "unknown field 'k'" in refused("emit each w in xs { let k = w }\nemit q = k").message
    assert "unknown field 'later'" in refused("emit q = later\nlet later = 1").message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("filter n", "filter predicate must be type Bool, got Int. Use an explicit comparison."),
        ("emit each w in n { emit a = w }", "emit_each requires an Array source, got Int"),
        (
            "emit each w in n outer { emit a = w }",
            "emit_each ... outer requires an Array, Null, or Any source, got Int",
        ),
        ("emit each w in xs { emit a = w }\nfilter b", "filter after an emit each block"),
        ("emit each w in xs { emit a = w }\ndistinct", "distinct after an emit each block"),
        ("distinct by nope", "unknown field 'nope'"),
        ("emit $meta.k = 1", "emit $meta.k is not valid"),
        ("emit $pipeline.k = 1", "emit $pipeline.k is not valid in this node"),
        ("emit $vars.k = 1", "$vars is read-only"),
        ("emit $ck.k = 1", "$ck is reserved"),
        ("fn twice(q) = q * 2", "function 'twice' is declared in a program"),
        ("emit a = 1\nuse shared.dates", "use must appear before let/emit/trace"),
        ("use no.such.module", "module 'no.such.module' not found"),
        ("emit a = sum(n)\nlet k = 1", "aggregate function 'sum'"),
        ("trace if n then 1", "trace guard must be type Bool, got Int"),
    ],
)
def test_wrong_statements_are_refused(text: str, message: str) -> None:
    assert message in refused(text).message


def test_all_mistakes_of_a_program_are_reported_once_each() -> None:
    result = compiled("emit a = nope + 1\nemit c = s.strip()\nlet k = n + s\nemit e = k + k.foo()\nfilter n")
    assert [one.span.line for one in result.diagnostics if one.is_error and one.span] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("emit a = n == null", "W200"),
        ("emit a = match n { 1 => 2, _ => 3, 4 => 5 }", "W201"),
        ("emit a = match n { 1 => 2, 1 => 3, _ => 4 }", "W201"),
        ("emit a = match s { 7 => 2, _ => 4 }", "W201"),
        ("let k = 1", "W202"),
        ("filter true", "W203"),
        ("emit a = if false then 1 else 2", "W203"),
        ("emit a = $meta.nope", "W204"),
        ("emit a = n[0]", "W205"),
        ("emit a = xs[s]", "W205"),
        ("emit a = m[0]", "W205"),
    ],
)
def test_suspicious_things_are_warned_of(text: str, code: str) -> None:
    assert [found for found, _ in warnings(text)] == [code]


@pytest.mark.parametrize(
    "text",
    [
        "emit a = n.is_null()",
        "emit a = match n { null => 1, 1 => 2, _ => 3 }",
        "let _k = 1",
        "let k = n\nemit a = k",
        "emit meta k = 1\nemit a = $meta.k + 1",
    ],
)
def test_ordinary_things_are_not(text: str) -> None:
    assert warnings(text) == []


def test_metadata_is_known_from_upstream() -> None:
    assert not warnings("emit a = $meta.k + 1", metas={"k": types.INT})


def test_distinct_keys_on_what_was_emitted_or_on_all_columns() -> None:
    bare, emitted, by = (
        program(text).statements[-1]
        for text in ("distinct", "emit a = 1\nemit a = 2\nemit c = 3\ndistinct", "distinct by n")
    )
    assert isinstance(bare, typed.Distinct)
    assert isinstance(emitted, typed.Distinct)
    assert isinstance(by, typed.Distinct)
    assert [key.name for key in bare.keys if isinstance(key, typed.Column)] == list(COLUMNS)
    assert [(key.name, key.slot) for key in emitted.keys if isinstance(key, typed.Local)] == [("a", 1), ("c", 2)]
    assert [key.name for key in by.keys if isinstance(key, typed.Column)] == ["n"]


def test_a_program_knows_what_it_reads_and_writes() -> None:
    tree = program("let k = n\nemit a = k + $source.row\nemit meta q = s\nfilter b\nemit a = x", metas={})
    assert tree.columns == {"n", "s", "b", "x"}
    assert tree.system == {"source.row"}
    assert [name for name, _ in tree.emits] == ["a"]
    assert [name for name, _ in tree.metas] == ["q"]


def test_a_predicate_is_a_filter_and_a_value_an_emit() -> None:
    predicate = compiled("n > 1\n and b", mode=Mode.PREDICATE).program
    value = compiled("n + 1", mode=Mode.VALUE).program
    assert isinstance(predicate, typed.Program)
    assert isinstance(value, typed.Program)
    assert [type(one) for one in predicate.statements] == [typed.Filter]
    assert [name for name, _ in value.emits] == ["value"]
    assert "must be type Bool, got Int" in refused("n", mode=Mode.PREDICATE).message
    assert "must be type Bool, got Int" in refused("n", mode=Mode.VALUE, expected=types.BOOL).message
    assert "expected expression" in refused("", mode=Mode.PREDICATE).message


ORDERS = {"id": types.INT, "amount": types.FLOAT}
CUSTOMERS = {"id": types.INT, "name": types.STRING}
COMBINE = {
    "columns": {**{f"o.{k}": v for k, v in ORDERS.items()}, **{f"c.{k}": v for k, v in CUSTOMERS.items()}},
    "inputs": {"o": schema_of(ORDERS), "c": schema_of(CUSTOMERS)},
}


@pytest.mark.parametrize(
    ("text", "mode", "code", "message"),
    [
        ("o.nope == c.id", Mode.PREDICATE, "E304", 'combine "node" where-clause references unknown field `o.nope`'),
        ("z.id == c.id", Mode.PREDICATE, "E304", "`z.id`"),
        ("o.amount", Mode.PREDICATE, "E303", 'combine "node" where-clause is not boolean: got Float'),
        ("id == 1", Mode.PREDICATE, "E200", "field 'id' is ambiguous — matches multiple inputs"),
        ("o.id = c.id", Mode.PREDICATE, "E200", 'combine "node" where-clause parse error'),
        ("emit a = c.nam", Mode.COMBINE, "E308", 'combine "node" cxl body references unknown field `c.nam`'),
    ],
)
def test_a_combine_names_its_inputs(text: str, mode: Mode, code: str, message: str) -> None:
    found = refused(text, mode=mode, **COMBINE)
    assert found.code.id == code
    assert message in found.message


def test_a_combine_reads_qualified_columns() -> None:
    result = compiled("emit a = o.amount\nemit c = name\nemit e = o.id", mode=Mode.COMBINE, **COMBINE).program
    assert isinstance(result, typed.Program)
    assert result.columns == {"o.amount", "c.name", "o.id"}


def test_dynamic_calls_leave_the_choice_to_the_engines() -> None:
    ((_, static),) = program("emit a = v.find(it => it > 1)").emits
    assert static.kind is Kind.ANY
    ((_, text),) = program('emit a = v.find("x")').emits
    assert text.kind is Kind.BOOL


def test_trees_are_pickled_however_deep() -> None:
    tree = program("emit a = n" + " + n" * 2500 + "\nemit c = " + "s.concat(" * 240 + "s" + ")" * 240)
    again = pickle.loads(pickle.dumps(tree))
    assert again.emits == tree.emits
    assert typed._flat(again.statements) == typed._flat(tree.statements)


def test_pickling_keeps_the_tree() -> None:
    tree = program(
        'let k = names.map(it => it.upper())\nemit each w in k outer { emit a = match w { "x" => 1, _ => n ?? 2 } }\n'
        "emit meta q = if b then d\ntrace warn if b then s"
    )
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_a_chain_without_end_is_refused() -> None:
    assert "chain of 4000 operations" in refused("emit a = n" + " + n" * 4000).message


_NAMES = ["n", "x", "s", "b", "d", "xs", "m", "doc", "v", "nope", "it", "k"]
_ATOMS = st.sampled_from([*_NAMES, "1", "2.5", '"t"', "null", "true", "now", "#2024-02-29#", "$source.row", "$meta.k"])
_METHODS = st.sampled_from(
    ["upper()", "left(1)", "abs()", "length()", "map(it => it)", "nope()", "catch(0)", "user.name", "year"]
)


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "/", "==", "<", "and", "or", "??"]), inner).map(
            lambda p: f"({p[0]}) {p[1]} ({p[2]})"
        ),
        st.tuples(inner, _METHODS).map(lambda p: f"({p[0]}).{p[1]}"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[{p[1]}]"),
        st.tuples(inner, inner, inner).map(lambda p: f"if ({p[0]}) then {p[1]} else {p[2]}"),
        st.tuples(inner, inner, inner).map(lambda p: f"match {p[0]} {{ {p[1]} => {p[2]}, _ => null }}"),
        inner.map(lambda p: f"not ({p})"),
        inner.map(lambda p: f"-({p})"),
    )


_EXPRESSIONS = st.recursive(_ATOMS, _combined, max_leaves=8)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "emit a = ",
                    "let k = ",
                    "filter ",
                    "emit meta k = ",
                    "trace ",
                    "",
                    "emit each k in xs { emit a = k }\nemit z = ",
                ]
            ),
            _EXPRESSIONS,
        ).map("".join),
        min_size=1,
        max_size=4,
    ).map("\n".join)
)
def test_no_program_makes_the_checker_raise(text: str) -> None:
    for mode in (Mode.TRANSFORM, Mode.AGGREGATE):
        result = compiled(text, mode=mode, group_by=("n",))
        assert result.program is not None or any(one.is_error for one in result.diagnostics)
        for found in result.diagnostics:
            assert found.message
            assert found.span is not None
        pickle.loads(pickle.dumps(result.program))
