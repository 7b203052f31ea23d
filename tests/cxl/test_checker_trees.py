"""Trees of any program: they travel, have a bound, and no program makes the checker raise."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import tree_pickling, typed
from spark_jobs.cxl.checking.scope import Mode
from tests.cxl.checking import compiled, program, refused


@pytest.mark.slow
def test_trees_are_pickled_however_deep() -> None:
    tree = program("emit a = n" + " + n" * 2500 + "\nemit c = " + "s.concat(" * 240 + "s" + ")" * 240)
    again = pickle.loads(pickle.dumps(tree))
    assert again.emits == tree.emits
    assert tree_pickling.rows(again.statements, typed.NODES) == tree_pickling.rows(tree.statements, typed.NODES)


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
