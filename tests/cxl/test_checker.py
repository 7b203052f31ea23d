"""Names and statements: what they mean, what is refused in which words, and what a program says of itself."""

from __future__ import annotations

import pytest

from spark_jobs.cxl import compile as front
from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking.scope import Mode, Scope
from spark_jobs.cxl.types import Kind
from spark_jobs.diagnostics.source import Text
from tests.cxl.checking import COLUMNS, compiled, program, refused, schema_of, warnings


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
        ("emit a = n\nx", "W207"),
        ("emit a = n (x)", "W207"),
        ("emit a = s (n / 0)", "W207"),
        ('emit a = s ("x".to_int())', "W207"),
        ("n == 1", "W207"),
        ('emit a = d.format_date("yyyy-MM-dd")', "W209"),
        ('emit a = d.format("yyyy-MM-dd")', "W209"),
        ('emit a = s.try_date("%d.%m.")', "W209"),
        ('emit a = s.to_datetime("HH:mm")', "W209"),
        ("s.upper()", "W207"),
        ("emit each w in xs { emit a = w }\nemit k = 1", "W206"),
        ("emit each w in xs { emit a = w }\nemit meta k = 1", "W206"),
        ("emit each w in xs { emit each z in xs { emit a = w }\nemit k = w }", "W206"),
    ],
)
def test_suspicious_things_are_warned_of(text: str, code: str) -> None:
    assert [found for found, _ in warnings(text)] == [code]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("emit a = n x", "`x`"),
        ("emit a = 'it''s'", "`'s'`"),
        ("emit a = n x.round()", "`x.round()`"),
        ("filter b not b", "`not b`"),
        ("emit each w in xs { emit a = w n }", "`n`"),
        ("emit a = n s.to_int() emit c = 1", "`s.to_int()`"),
    ],
)
def test_two_values_in_a_row_are_refused(text: str, value: str) -> None:
    found = refused(text)
    assert f"{value} follows a complete value" in found.message
    assert found.help


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("emit a = Order ID", "Order ID"),
        ("emit a = n\nemit b = 2 * Order ID + 1", "Order ID"),
        ("emit a = Größe + 1", "Größe"),
        ("emit a = Payer / Empfänger", "Payer / Empfänger"),
        ("filter Order ID > 3", "Order ID"),
        ("emit a = Preis €", "Preis €"),
    ],
)
def test_columns_that_need_backticks_are_proposed_in_them(text: str, column: str) -> None:
    columns = {
        "n": types.INT,
        "Order ID": types.INT,
        "ID": types.INT,
        "Größe": types.INT,
        "Payer / Empfänger": types.INT,
    }
    scope = Scope(row=schema_of({**columns, "Preis €": types.FLOAT}))
    found = front.compile_program(Text.whole(text), scope, "t").diagnostics
    assert found[0].help == f"write the name of the column in backticks: `{column}`"
    assert not front.compile_program(Text.whole(text.replace(column, f"`{column}`")), scope, "t").diagnostics


def test_columns_of_the_inputs_of_a_combine_are_proposed_in_backticks() -> None:
    inputs = {"o": schema_of({"Order ID": types.INT}), "p": schema_of({"id": types.INT})}
    found = front.compile_program(
        Text.whole("o.Order ID == p.id"), Scope(Mode.PREDICATE, inputs=inputs), "t"
    ).diagnostics
    assert found[0].help == "write the name of the column in backticks: `Order ID`"


@pytest.mark.parametrize("text", ["emit a = n n", 'emit a = "Order ID" n', "emit a = `Order ID` n", "emit a = n ~ 1"])
def test_other_mistakes_keep_their_help_beside_such_columns(text: str) -> None:
    scope = Scope(row=schema_of({"n": types.INT, "Order ID": types.INT}))
    (found, *_) = front.compile_program(Text.whole(text), scope, "t").diagnostics
    assert "backticks" not in (found.help or "")


def test_statements_on_one_line_are_fine() -> None:
    assert warnings("let k = n emit a = k emit c = x filter b") == []


@pytest.mark.parametrize(
    "text",
    [
        "emit a = n.is_null()",
        "s.to_int()",
        "n / 2",
        's.debug("s")',
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
        ("z.id == c.id", Mode.PREDICATE, "E307", 'combine "node" has no input `z`, which `z.id` names'),
        ("emit a = z.id", Mode.COMBINE, "E307", 'combine "node" has no input `z`, which `z.id` names'),
        ("o.amount", Mode.PREDICATE, "E303", 'combine "node" where-clause is not boolean: got Float'),
        ("id == 1", Mode.PREDICATE, "E304", 'combine "node" where-clause reads `id` without its input'),
        ("o.id == c.id and name.is_null()", Mode.PREDICATE, "E304", "where-clause reads `name` without its input"),
        ("emit a = if amount > 1.0 then 1", Mode.COMBINE, "E308", "cxl body reads `amount` without its input"),
        ("emit a = name\nemit name = c.name", Mode.COMBINE, "E308", "cxl body reads `name` without its input"),
        ("emit a = o", Mode.COMBINE, "E200", "`o` is an input, not a value"),
        ("o.id = c.id", Mode.PREDICATE, "E200", 'combine "node" where-clause parse error'),
        ("emit a = c.nam", Mode.COMBINE, "E308", 'combine "node" cxl body references unknown field `c.nam`'),
    ],
)
def test_a_combine_names_its_inputs(text: str, mode: Mode, code: str, message: str) -> None:
    found = refused(text, mode=mode, **COMBINE)
    assert found.code.id == code
    assert message in found.message


def test_a_combine_reads_qualified_columns() -> None:
    text = "let id = o.id\nemit a = o.amount + id\nemit name = c.name\nemit again = name.length() + id"
    result = compiled(text, mode=Mode.COMBINE, **COMBINE).program
    assert isinstance(result, typed.Program)
    assert result.columns == {"o.amount", "c.name", "o.id"}


def test_bare_names_in_a_combine_are_proposed_with_every_input_that_has_them() -> None:
    assert refused("id == 1", mode=Mode.PREDICATE, **COMBINE).help == "write `o.id` or `c.id`"
    assert refused("zs.id == c.id", mode=Mode.PREDICATE, **COMBINE).help == "the inputs are `o`, `c`"


DOTTED = {
    "id": types.INT,
    "m": types.MAP,
    "m.a": types.INT,
    "p.q.r": types.STRING,
    "p.q.s": types.DATE,
    "doc.tenant": types.STRING,
}


@pytest.mark.parametrize(
    ("expression", "reads", "kind"),
    [
        ("m.a + 1", {"m.a"}, "Nullable(Int)"),
        ("m.b", {"m"}, "Any"),
        ("m.keys().length()", {"m"}, "Nullable(Int)"),
        ("p.q.r.upper()", {"p.q.r"}, "Nullable(String)"),
        ("p.q.s.year()", {"p.q.s"}, "Nullable(Int)"),
        ("doc.tenant", {"doc.tenant"}, "Nullable(String)"),
        ('p.q.r.split(",")[0]', {"p.q.r"}, "Nullable(String)"),
    ],
)
def test_a_declared_dotted_column_is_read_by_its_path(expression: str, reads: set[str], kind: str) -> None:
    found = compiled(f"emit x = {expression}", DOTTED).program
    assert isinstance(found, typed.Program)
    assert found.columns == reads
    assert str(found.emits[0][1]) == kind


@pytest.mark.parametrize(
    ("text", "message", "help_text"),
    [
        ("emit x = p.q.z", "field 'z' is not in the declared structure of 'p.q'", "did you mean 'p.q.r'?"),
        ("emit x = p.z", "field 'z' is not in the declared structure of 'p'", "declared are `p.q.r`, `p.q.s`"),
        ("emit x = doc.tenat", "field 'tenat' is not in the declared structure", "did you mean 'doc.tenant'?"),
        ("emit x = p", "`p` is no column by itself", "declared are `p.q.r`, `p.q.s`"),
        ("emit x = p.q.length()", "`p.q` is no column by itself", "declared are `p.q.r`, `p.q.s`"),
    ],
)
def test_the_beginning_of_a_dotted_column_is_no_value(text: str, message: str, help_text: str) -> None:
    found = compiled(text, DOTTED)
    (problem,) = [one for one in found.diagnostics if one.is_error]
    assert message in problem.message
    assert problem.help == help_text


def test_names_that_the_program_makes_hide_dotted_columns_as_lookup_says() -> None:
    let = compiled("let p = m\nemit x = p.q", DOTTED).program
    emitted = compiled("emit p = m\nemit x = p.q.r\nemit y = p.z", DOTTED).program
    assert let is not None
    assert emitted is not None
    assert let.columns == {"m"}  # type: ignore[union-attr]
    assert emitted.columns == {"m", "p.q.r"}  # type: ignore[union-attr]


def test_a_combine_reads_dotted_columns_behind_the_input() -> None:
    scope = {"columns": {f"o.{k}": v for k, v in DOTTED.items()}, "inputs": {"o": schema_of(DOTTED)}}
    found = compiled("emit x = o.m.a\nemit y = o.p.q.r\nemit z = o.m.b", mode=Mode.COMBINE, **scope).program
    assert isinstance(found, typed.Program)
    assert found.columns == {"o.m.a", "o.p.q.r", "o.m"}
    assert "structure of 'p.q'" in refused("emit x = o.p.q.z", mode=Mode.COMBINE, **scope).message


def test_dynamic_calls_leave_the_choice_to_the_engines() -> None:
    ((_, static),) = program("emit a = v.find(it => it > 1)").emits
    assert static.kind is Kind.ANY
    ((_, text),) = program('emit a = v.find("x")').emits
    assert text.kind is Kind.BOOL
