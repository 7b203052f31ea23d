"""From text to tree: precedence, newlines, literals, recovery, and the words for mistakes."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl.syntax import ast, formatter, parser

if TYPE_CHECKING:
    from lark import Token


def statements(text: str) -> tuple[ast.Statement, ...]:
    parsed = parser.parse(text)
    assert not parsed.problems, parsed.problems
    return parsed.tree.statements


def expression(text: str) -> ast.Expression:
    (statement,) = statements(f"emit r = {text}")
    assert isinstance(statement, ast.Emit)
    return statement.value


def problems(text: str) -> list[tuple[str, str | None]]:
    return [(one.message, one.help) for one in parser.parse(text).problems]


def message(text: str) -> str:
    (found,) = problems(text)
    return found[0]


def grouping(node: ast.Expression) -> str:
    """The expression with every operator in parentheses."""
    match node:
        case ast.Binary(operator=operator, left=left, right=right):
            return f"({grouping(left)} {operator} {grouping(right)})"
        case ast.Not(operand=operand):
            return f"(not {grouping(operand)})"
        case ast.Negate(operand=operand):
            return f"(-{grouping(operand)})"
        case ast.Method(base=base, name=name):
            return f"{grouping(base)}.{name}()"
        case ast.If(condition=condition, then=then, otherwise=otherwise):
            last = grouping(otherwise) if otherwise else ""
            return f"(if {grouping(condition)} {grouping(then)} {last})"
        case ast.Name(name=name):
            return name
        case ast.Literal(text=text):
            return text
        case _:
            raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a or b ?? c", "((a or b) ?? c)"),
        ("a ?? b ?? c", "(a ?? (b ?? c))"),
        ("a or b and c", "(a or (b and c))"),
        ("not a == b", "(not (a == b))"),
        ("not a and b", "((not a) and b)"),
        ("a == not b", "(a == (not b))"),
        ("a < b + c * d", "(a < (b + (c * d)))"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b * c % d", "(((a / b) * c) % d)"),
        ("-a.abs()", "(-a.abs())"),
        ("- -a", "(-(-a))"),
        ("2--3", "(2 - (-3))"),
        ("(a > b) == c", "((a > b) == c)"),
        ("1 + if a then b else c * d", "(1 + (if a b (c * d)))"),
        ("if a then if b then c else d", "(if a (if b c d) )"),
        ("if a then b else c ?? d", "(if a b (c ?? d))"),
    ],
)
def test_operators_bind_as_the_table_says(text: str, grouped: str) -> None:
    assert grouping(expression(text)) == grouped


@pytest.mark.parametrize(
    "text",
    [
        "emit r = 1\n  + 2",
        "emit r = 1 +\n 2",
        "emit r =\n 1 + 2",
        "emit r = (\n1\n+ 2\n)",
        "emit r = 1 + # why\n  # more\n 2",
        "emit r = 1\r\n + 2\r\n",
        "emit r = 1\n\n\n + 2",
    ],
)
def test_a_line_end_inside_an_expression_means_nothing(text: str) -> None:
    assert statements(text) == statements("emit r = 1 + 2")


def test_a_minus_or_parenthesis_on_a_new_line_starts_a_statement() -> None:
    assert len(statements("emit r = 5\n- 2")) == 2
    assert len(statements("emit r = n\n(2)")) == 2
    assert len(statements("emit r = 5 - 2")) == 1


def test_statements_need_no_separator() -> None:
    assert statements("let a = 1 emit b = a filter b > 0") == statements("let a = 1\nemit b = a\nfilter b > 0")


def test_match_arms_stand_on_lines_or_after_commas() -> None:
    one = expression("match n { 1 => 2, _ => 3 }")
    assert one == expression("match n\n{\n  1 => 2\n  _ => 3,\n}")


def test_literals_have_their_values_and_kinds() -> None:
    values = [
        (node.kind, node.value)
        for text in ("42", "007", "2.50", "true", "null", "#2024-02-29#", r"'it\'s'", r'"\d\n"')
        if isinstance(node := expression(text), ast.Literal)
    ]
    assert values == [
        ("int", 42),
        ("int", 7),
        ("float", 2.5),
        ("bool", True),
        ("null", None),
        ("date", datetime.date(2024, 2, 29)),
        ("string", "it's"),
        ("string", "\\d\n"),
    ]


def test_words_are_reserved_only_where_they_mean_something() -> None:
    assert (
        len(
            statements(
                "emit each v in outer outer # why\n {}\nemit a = outer::b + outer(1) + match outer { _ => outer }"
            )
        )
        == 2
    )
    text = "emit meta = each\nemit outer = in\nlet info = warn\nemit meta meta = 1\nemit by_name = rec.by.match"
    assert [type(one).__name__ for one in statements(text)] == ["Emit", "Emit", "Let", "EmitMeta", "Emit"]


def test_backticks_quote_names() -> None:
    let, emit, meta, distinct = statements(
        "let `a b` = `a b`.`c d`.e\nemit `filter` = it\nemit meta `m``n` = q.`x#y`\ndistinct by `k.l`"
    )
    assert isinstance(let, ast.Let)
    assert isinstance(let.value, ast.Member)
    assert isinstance(let.value.base, ast.Member)
    assert (let.name, let.value.base.name, let.value.name) == ("a b", "c d", "e")
    assert isinstance(emit, ast.Emit)
    assert emit.name == "filter"
    assert isinstance(meta, ast.EmitMeta)
    assert meta.key == "m`n"
    assert isinstance(distinct, ast.Distinct)
    assert distinct.key == "k.l"


def test_it_is_a_name_like_others_outside_of_closures() -> None:
    assert len(statements("let it = it\nemit it = it + 1\nemit meta it = 2\ndistinct by it\nfilter it > 2")) == 5


def test_a_brace_begins_a_map_where_a_value_is_due_and_a_block_elsewhere() -> None:
    node = expression('{ a : 1, # one\n \'b c\': {}, `d`: {filter: {e: 2}.e},\n "\\"": null }')
    assert isinstance(node, ast.MapLiteral)
    assert [entry.key for entry in node.entries] == ["a", "b c", "d", '"']
    block, empty = statements("emit each v in {a: xs}.a outer {\n}\nemit each v in m\n{}")
    assert isinstance(block, ast.EmitEach)
    assert isinstance(block.source, ast.Member)
    assert isinstance(empty, ast.EmitEach)
    match = expression("match {a: 1}.a { {} => {b: 2}, _ => {} }")
    assert isinstance(match, ast.Match)


def test_comments_before_a_brace_are_read_in_one_way() -> None:
    started = time.process_time()
    for text in ("emit r = outer" + " #" * 500, "emit r = {" + " #" * 500, "emit r = {a" + " #" * 500 + "\n"):
        parser.parse(text)
    assert time.process_time() - started < 2


def test_a_trace_has_its_guard_with_and_without_then() -> None:
    with_then, without = statements('trace info if n > 1 then "big"\ntrace info if n > 1 "big"')
    assert with_then == without
    (plain,) = statements('trace if n > 1 then "a" else "b"')
    assert isinstance(plain, ast.Trace)
    assert plain.guard is None


def test_several_mistakes_are_reported_together() -> None:
    parsed = parser.parse("emit a = )\nemit b = 1\nemit = 2\nemit c = b &&\nlet d = 4")
    assert [one.place[0] for one in parsed.problems] == [9, 27, 42]
    assert [type(one).__name__ for one in parsed.tree.statements] == ["Emit", "Let"]


def test_recovery_goes_on_inside_the_block_it_failed_in() -> None:
    parsed = parser.parse("emit each v in xs {\n  emit a = )\n  emit b = v\n}\nemit c = 1")
    assert len(parsed.problems) == 1
    each, last = parsed.tree.statements
    assert isinstance(each, ast.EmitEach)
    assert isinstance(last, ast.Emit)
    assert [one.name for one in each.body if isinstance(one, ast.Emit)] == ["b"]


def test_an_unfinished_statement_does_not_take_the_next_one() -> None:
    parsed = parser.parse("emit a =\nemit b = f(1\nemit c = 3")
    assert [(one.message, one.place[0]) for one in parsed.problems] == [
        ("expected expression, found the end of the line", 8),
        ("expected ',' or ')', found the end of the line", 21),
    ]
    assert [one.name for one in parsed.tree.statements if isinstance(one, ast.Emit)] == ["c"]


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        ("filter n = 1", "unexpected '='", "compare with `==`"),
        ("filter n ==== 1", "expected expression, found '=='", "write `==` for equal"),
        ("filter n <> 1", "`<>` is no operator", "`!=`"),
        ("a = 1", "unexpected '='", "let a"),
        ("emit r = a && b", "unexpected character '&&'", "`and`"),
        ("emit r = a || b", "unexpected character '||'", "`or`"),
        ("emit r = !a", "unexpected character '!'", "`not`"),
        ("emit r = `unit price", "unterminated quoted name", "close the name with `"),
        ("emit r = ``", "unterminated quoted name", "close the name with `"),
        ("emit r = 1;", "unexpected character ';'", "no separator"),
        ("emit r = if a 1 else 2", "expected 'then', found '1'", None),
        ("emit r = if a then 1 elif b then 2", "unexpected reserved word 'then'", "`else if`"),
        ('emit r = f"x {n}"', "unexpected string after 'f'", "no interpolation"),
        ("emit r = [1, 2]", "expected expression, found '['", "no array literals"),
        ("emit r = {1: 2}", "expected expression, found '{'", "`{name: value}`"),
        ("emit r = {a: 1, b}", "unexpected '}'", None),
        ("emit r = {a: 1 b: 2}", "expected '}', found 'b'", None),
        ("emit r = xs.map(x => x)", "expected ',' or ')', found '=>'", "always `it`"),
        ("emit r = a < b < c", "comparisons are not chainable", "`and`"),
        ("emit match = 1", "expected output field name (identifier), found reserved word 'match'", "another name"),
        ("distinct n", "distinct requires 'by' before the field name", "distinct by n"),
        ("distinct by", "distinct by requires a field name", None),
        ("filter", "filter requires a predicate expression", None),
        ("emit r = 1e5", "invalid number `1e5`", "no exponent"),
        ("emit r = #2024-1-5#", "invalid date literal #2024-1-5#", "#YYYY-MM-DD#"),
        ('emit r = "abc', "unterminated string", "same line"),
        ("emit r = now()", "expected expression, found ')'", "leave the parentheses out"),
        ("use shared::dates", "use paths use '.' separator, not '::'", None),
        ("use shared.*", "wildcard imports not supported", None),
        ("emit each v xs { }", "expected 'in' between binding and source, found 'xs'", None),
        ("emit r = s.upper(", "expected expression, found the end of the program", None),
        ("emit r = 1 +", "expected expression, found the end of the program", "right side"),
        ("emit r = a ? b : c", "unexpected character '?'", "if … then"),
        ("emit r = Größe", "unexpected character 'ö'", "A to Z"),
        ("emit r = a <> b", "`<>` is no operator", "`!=`"),
        ("emit r == 1", "expected expression, found '='", "one `=`"),
        ("emit r := 1", "unexpected character ':'", "write `=`"),
        ("emit r = s[0:2]", "unexpected character ':'", ".substring(start, length)"),
        ('emit r = match n { 1: "a" }', "unexpected character ':'", "`pattern => value`"),
        ('emit r = match n { 1 -> "a" }', "expected expression, found '>'", "`pattern => value`"),
        ('emit r = s.replace("a" "b")', "expected ',' or ')', found '\"b\"'", "separated by commas"),
        ("emit r = xs.filter(lambda x: x)", "expected ',' or ')', found 'x'", "`it => …`"),
        ("emit r = case when a then 1 end", "`case` is a word of SQL", "`if … then"),
        ("emit r = if a { 1 }", "expected 'then', found '{'", "`if … then"),
        ("emit r = n in (1, 2)", "`in` is no operator", "n == 1 or n == 2"),
        ("if a then emit r = 1", "a statement cannot stand inside `if`", "emit r = if condition"),
        ("emit order-id = 1", "expected '=', found '-'", "letters, digits and `_`"),
        ("emit order id = 1", "expected '=', found 'id'", "with blanks in backticks"),
        ("emit r = 1,5", "unexpected ','", "dot"),
        ("distinct by a, b", "unexpected ','", "one field"),
        ("// note", "`//` begins no comment", "`#`"),
        ("emit r = ${n}", "expected system namespace (identifier), found '{'", "name alone"),
    ],
)
def test_usual_mistakes_are_named_with_a_hint(text: str, expected: str, hint: str | None) -> None:
    found, help_text = problems(text)[0]
    assert found == expected
    if hint:
        assert hint in (help_text or "")


def test_nesting_is_limited_with_a_message() -> None:
    def nested(levels: int) -> list[tuple[str, str | None]]:
        return problems(f"emit r = {'(' * levels}1{')' * levels}")

    assert not nested(200)
    assert nested(300)[0][0] == "expression nesting too deep (max 256 levels)"
    assert nested(4_000)[0][0] == "expression nesting too deep (max 256 levels)"
    blocks = "emit each v in xs {" * 33 + "}" * 33
    assert message(blocks) == "emit each nesting too deep (max 32 levels)"


#: Ways to nest: what opens levels, what stands inside of all, what closes them, and how many levels that is.
NESTINGS = [
    ("(", "1", ")", 1),
    ("-", "1", "", 1),
    ("not ", "a", "", 1),
    ("a ?? ", "1", "", 1),
    ("a + (", "1", ")", 2),
    ("a * (-", "1", ")", 3),
    ("a == not ", "b", "", 2),
    ("if a then ", "1", " else 1", 1),
    ("if a then 1 else ", "1", "", 1),
    ("if (", "a", ") then 1 else 2", 2),
    ("match a { 1 => 1, 2 => ", "1", " }", 1),
    ("a.map(it => ", "it", ")", 1),
    ("a.f(1, 2, ", "3", ")", 1),
    ("m::f(1, 2, ", "3", ")", 1),
    ("sum(", "a", ")", 1),
    ("a[", "1", "]", 1),
    ("{a: 1, b: ", "1", "}", 1),
    ("a ?? b or c and d == e + f * - g.f(1, ", "1", ")", 8),
]


@pytest.mark.parametrize("nesting", NESTINGS, ids=str)
@pytest.mark.parametrize("head", ["emit each v in xs { " * 32 + "emit r = ", "let r = ", "filter ", "trace debug if "])
def test_nesting_far_too_deep_is_told_without_reading_on(
    head: str, nesting: tuple[str, str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, inside, closing, depth = nesting
    if head.startswith("trace") and "??" in opening:
        head = "trace info "
    levels = 255 // depth
    tail = (" a" if head.startswith("trace") else "") + " }" * head.count("{")
    right = f"{head}{opening * levels}{inside}{closing * levels}{tail}"
    assert not [each for each in parser.parse(right).problems if "too deep" in each.message]
    taken = 0
    take = parser._Driver._take

    def counted(driver: parser._Driver, token: Token) -> None:
        nonlocal taken
        taken += 1
        take(driver, token)

    monkeypatch.setattr(parser._Driver, "_take", counted)
    (problem,) = parser.parse(f"{head}{opening * 200_000}{inside}{closing * 200_000}{tail}").problems
    assert problem.message == "expression nesting too deep (max 256 levels)"
    assert problem.place[0] == len(head)
    assert taken < 40_000
    (whole,) = parser.parse(f"{head}{opening * 300}{inside}{closing * 300}{tail}").problems
    assert (whole.message, whole.place[0]) == (problem.message, problem.place[0])


@pytest.mark.parametrize("levels", [34, 1_000, 100_000])
def test_of_blocks_in_one_another_the_first_level_too_many_is_told(levels: int) -> None:
    block = "emit each v in xs {"
    (problem,) = parser.parse(block * levels + "}" * levels).problems
    assert problem.message == "emit each nesting too deep (max 32 levels)"
    assert problem.place[0] == len(block) * 32


@pytest.mark.slow
def test_a_long_chain_is_not_nesting() -> None:
    assert not problems("emit r = n" + " + n" * 2000)
    assert not problems("emit r = s" + ".trim()" * 2000)


def test_a_text_full_of_mistakes_is_given_up() -> None:
    assert len(problems("emit = )\n" * 1000)) == parser.MAX_PROBLEMS


_WORDS = """
    let emit each meta in outer if then else and or not match use as fn trace info null true now it filter distinct by
    _ x n_1 sum( upper( 1 2.5 1e5 .5 'open #2024-01-01# #9 # + - * / % == != < >= ?? => = ( ) [ ] { } , . : :: $ ! & |
    $source ; ? ~ ` ö "s" " \\ """
_PIECES = st.sampled_from([*_WORDS.split(), "\N{NO-BREAK SPACE}", "\n", "\r\n", "\t"])


@given(
    st.lists(_PIECES, max_size=40).map(" ".join) | st.lists(_PIECES, max_size=25).map("".join) | st.text(max_size=60)
)
def test_no_text_makes_the_parser_raise(text: str) -> None:
    for parsed in (parser.parse(text), parser.parse_expression(text)):
        for problem in parsed.problems:
            assert 0 <= problem.place[0] <= problem.place[1] <= len(text)
            assert problem.message
        if not parsed.problems:
            formatter.format_program(text, parsed.tree)


def test_an_expression_may_stand_on_several_lines_of_its_own() -> None:
    parsed = parser.parse_expression("\n a.x == b.x\n - 1\n and (c)\n")
    (statement,) = parsed.tree.statements
    assert isinstance(statement, ast.Evaluate)
    assert grouping_of_predicate(statement.value) == "and"


def grouping_of_predicate(node: ast.Expression) -> str:
    assert isinstance(node, ast.Binary)
    return node.operator


@pytest.mark.slow
def test_the_grammar_works_without_a_writable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    monkeypatch.setattr(parser, "_lark", parser._lark.__wrapped__)
    assert parser._cache_file("grammar") is False
    assert parser._lark().parse_interactive("emit a = 1", start="program")


@pytest.mark.slow
def test_a_broken_cache_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    parser._lark.__wrapped__()
    (file,) = list((tmp_path / "clinker").iterdir())
    file.write_bytes(file.read_bytes()[:200])
    assert parser._lark.__wrapped__().parse_interactive("emit a = 1", start="program")


@pytest.mark.parametrize("of", ["folder", "file"])
def test_a_cache_that_others_may_have_written_is_not_unpickled(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = parser._cache_file("grammar")
    assert isinstance(kept, str)
    assert parser._cache_file("grammar") == kept
    planted = Path(kept) if of == "file" else Path(kept).parent
    planted.chmod(0o777)
    assert parser._cache_file("grammar") is False


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_passed_over_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(parser, "_cache_file", lambda grammar: str(tmp_path / "folder"))
    assert parser._lark.__wrapped__().parse_interactive("emit a = 1", start="program")
    assert not caplog.records
