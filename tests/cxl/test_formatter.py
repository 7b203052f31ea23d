"""Formatting: the same tree, comments kept, and the same text the second time."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import tree_walk
from spark_jobs.cxl.syntax import formatter, parser


def formatted(text: str) -> str:
    parsed = parser.parse(text)
    assert not parsed.problems, (text, parsed.problems)
    return formatter.format_program(text, parsed.tree)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("emit   x  =   a+ 1*2", "emit x = a + 1 * 2"),
        ("emit x = (2+3)*4", "emit x = (2 + 3) * 4"),
        ("emit x = ((2*3))+4", "emit x = 2 * 3 + 4"),
        ("emit x = a-(b-c)", "emit x = a - (b - c)"),
        ("emit x = not(a==b)", "emit x = not a == b"),
        ("emit x = (not a)==b", "emit x = (not a) == b"),
        ("emit x = -(5).abs()", "emit x = -5.abs()"),
        ("emit x = (-5).abs()", "emit x = (-5).abs()"),
        ("emit x = (a??b)??c", "emit x = (a ?? b) ?? c"),
        ("emit x = 2.0", "emit x = 2.0"),
        ("emit x = #2024-01-15#", "emit x = #2024-01-15#"),
        ("emit x = 'it''s'", None),
        ("emit x = 'plain'", 'emit x = "plain"'),
        ("emit x = 'say \"hi\"'", "emit x = 'say \"hi\"'"),
        (r'emit x = "\d+\n"', r'emit x = "\d+\n"'),
        (r"emit x = 'a\d'", r'emit x = "a\\d"'),
        ("emit x = if a then (if b then c) else d", "emit x = if a then (if b then c) else d"),
        ("emit x = 1+(if a then b else c)", "emit x = 1 + (if a then b else c)"),
        ("emit x = match n{1=>2,_=>3,}", "emit x = match n { 1 => 2, _ => 3 }"),
        ("emit x = xs.map( it=>it*2 )[ 0 ].upper( )", "emit x = xs.map(it => it * 2)[0].upper()"),
        ("use a.b as d use c.e as e", "use a.b as d\nuse c.e"),
        ("emit x = d::f(1)+d::c", "emit x = d::f(1) + d::c"),
        ("trace   info  if a   'm'", 'trace info if a then "m"'),
        ("trace (info)", "trace (info)"),
        ("distinct   by a distinct", "distinct by a\ndistinct"),
        ("emit meta k=1 emit $pipeline.k = 2", "emit meta k = 1\nemit $pipeline.k = 2"),
        ("emit a = count( * )+sum(b)", "emit a = count(*) + sum(b)"),
        ("emit a = $window.lag(1).n", "emit a = $window.lag(1).n"),
        ("emit each v in xs outer{emit a=v}", "emit each v in xs outer {\n  emit a = v\n}"),
        ("emit x = {  }", "emit x = {}"),
        ("emit x = {a:1,'b c' :{`d`:2},\n\"e\": 3}", 'emit x = {a: 1, "b c": {d: 2}, e: 3}'),
        ("emit x = {a:1}.a+{}.set('b',2)[ 'b' ]", 'emit x = {a: 1}.a + {}.set("b", 2)["b"]'),
        ("emit `Order ID`=`plain`+this.`a``b`", "emit `Order ID` = plain + this.`a``b`"),
        (
            "let `let`=1 emit meta `a-b`=`let` distinct by `c#d`",
            "let `let` = 1\nemit meta `a-b` = `let`\ndistinct by `c#d`",
        ),
        ("emit it=it", "emit it = it"),
        ("", None),
    ],
)
def test_the_layout_is_canonical(text: str, expected: str | None) -> None:
    if expected is None:
        parsed = parser.parse(text)
        assert formatter.format_program(text, parsed.tree) == "" or parsed.problems or len(parsed.tree.statements) > 1
        return
    assert formatted(text) == expected + "\n"


def test_comments_and_single_blank_lines_stay() -> None:
    text = (
        "# head\n\n\n\nlet a=1 # one\n  # two\nemit b = match a { # start\n"
        " 1 => 2, # first\n # own\n _ => 3 # last\n # end\n}# after\n"
        "emit each v in xs { # body\n\n emit c = v # c\n # tail\n}\n#bottom"
    )
    assert formatted(text) == (
        "# head\n\nlet a = 1  # one\n# two\nemit b = match a {\n"
        "  # start\n  1 => 2,  # first\n  # own\n  _ => 3  # last\n"
        "  # end\n}  # after\nemit each v in xs {\n  # body\n\n  emit c = v  # c\n  # tail\n}\n#bottom\n"
    )


def test_a_comment_inside_an_expression_moves_in_front_of_it() -> None:
    assert formatted("emit a = 1 + # why\n  2") == "# why\nemit a = 1 + 2\n"


def test_long_expressions_are_broken() -> None:
    condition = 'amount > 1000 and status == "active" and region == "north"'
    assert formatted(f'emit tier = if {condition} then "platinum" else if {condition} then "gold" else "bronze"') == (
        f'emit tier = if {condition} then "platinum"\n  else if {condition} then "gold"\n  else "bronze"\n'
    )
    arms = ", ".join(f'"code-{i}" => "a rather long text for {i}"' for i in range(4))
    assert formatted(f"emit a = match s {{ {arms}, _ => null }}").splitlines()[0::5] == [
        "emit a = match s {",
        "  _ => null",
    ]
    assert (
        formatted(f"filter {' or '.join(['first_long_name == 1'] * 6)}").splitlines()[1] == "  or first_long_name == 1"
    )
    assert " -\n" in formatted("emit a = " + " - ".join(["a_long_column_name"] * 8))


_NAMES = st.sampled_from(
    ["a", "b_1", "outer", "info", "sum", "$pipeline.name", "rec.by", "xs", "it", "`a # b`", "r.`c d`", "`if`"]
)
_LITERALS = st.sampled_from(["0", "7", "2.50", "'q'", "'\"'", '"a\\n\\d"', "null", "true", "#2024-02-29#", "now"])
_COMMENTS = st.sampled_from(["", " # note\n", "\n# own line\n", "\n\n"])


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", "==", "<", "and", "or", "??"])
    return st.one_of(
        st.tuples(inner, operators, _COMMENTS, inner).map(lambda p: f"({p[0]}) {p[1]}{p[2]} ({p[3]})"),
        st.tuples(inner, operators, inner).map(lambda p: f"(({p[0]}) {p[1]} (({p[2]})))"),
        inner.map(lambda p: f"-({p})"),
        inner.map(lambda p: f"not ({p})"),
        inner.map(lambda p: f"({p}).trim()"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[{p[1]}].by.concat({p[1]}, {p[0]})"),
        st.tuples(inner, _COMMENTS, inner).map(lambda p: f"{{a:{p[1]} ({p[0]}), 'b c': {p[2]}}}"),
        st.tuples(inner, _COMMENTS).map(lambda p: f"xs.map(it =>{p[1]} ({p[0]}))"),
        st.tuples(inner, inner).map(lambda p: f"if ({p[0]}) then {p[1]}"),
        st.tuples(inner, _COMMENTS, inner, inner).map(lambda p: f"if ({p[0]}) then ({p[2]}){p[1]} else {p[3]}"),
        st.tuples(inner, _COMMENTS, inner).map(
            lambda p: f"match {p[0]} {{{p[1]} ({p[0]}) => {p[2]},{p[1]} _ => ({p[0]}){p[1]}\n}}"
        ),
        st.tuples(inner, inner).map(lambda p: f"match {{ ({p[0]}) => {p[1]}\n _ => null }}"),
    )


_EXPRESSIONS = st.recursive(_NAMES | _LITERALS, _grow, max_leaves=9)
_HEADS = st.sampled_from(
    [
        "emit a = ",
        "let k = ",
        "filter ",
        "emit meta k = ",
        "trace ",
        "trace warn ",
        "trace info if b_1 then ",
        "",
        "distinct\n",
    ]
)
_STATEMENTS = st.tuples(_HEADS, _EXPRESSIONS, _COMMENTS).map("".join)
_BLOCKS = st.tuples(_COMMENTS, _STATEMENTS).map(lambda p: f"emit each v in xs outer {{{p[0]}\n{p[1]}\n}}")


@example("emit a = (a) + # one\n (match a { # two\n (a) => a, # three\n _ => (a) # four\n\n})")
@example("emit a = a + -(match a { # one\n (a) => a, # two\n _ => (a) # three\n\n}).trim()[0]")
@given(st.lists(_STATEMENTS | _BLOCKS, max_size=4).map("\n".join))
def test_formatting_keeps_the_tree_and_the_comments(text: str) -> None:
    with tree_walk.room():
        parsed = parser.parse(text)
        assert not parsed.problems, (text, parsed.problems)
        once = formatter.format_program(text, parsed.tree)
        again = parser.parse(once)
        assert not again.problems, (once, again.problems)
        assert again.tree == parsed.tree
        assert sorted(one.text for one in formatter.comments(once)) == sorted(
            one.text for one in formatter.comments(text)
        )
        assert formatter.format_program(once, again.tree) == once
