"""The correlation groups of combined rows: of what was joined, by its own key, and behind merges."""

from __future__ import annotations

from typing import Any

import pytest

from tests.execute.correlation.test_correlation import HEAD, dead, output, ran, rows

__all__ = ["ran"]

#: Orders of two shops, each with a price by its line. Both sources have a key of the same name.
SHOPS = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: KEY,
          schema: {ord: string, line: int, p: string}}}
      - {type: transform, name: u, input: w, config: {cxl: emit q = p.to_int()}}
      - type: combine
        name: c
        input: {a: s, b: u}
        config: {where: a.line == b.line, match: MATCH, propagate_ck: MODE, on_miss: skip BODY}
"""
ORDERS = "ord,line,v\nx,1,a\nx,2,b\ny,3,c\nz,4,d\n"
#: Price group y has a bad price, so the price of line 2 is not to be used; order y is joined to group x.
PRICES = "ord,line,p\nx,3,30\ny,2,20\ny,9,?\nz,1,10\n,4,40\n"


def shops(mode: str, match: str = "all", key: str = "ord") -> str:
    body = "" if match == "collect" else ', cxl: "emit ord = a.ord\\nemit line = a.line\\nemit v = a.v\\nemit q = b.q"'
    text = SHOPS.replace("MODE", mode).replace("MATCH", match).replace("KEY", key)
    return HEAD + text.replace(" BODY", body)


@pytest.mark.parametrize(("mode", "kept"), [
    ("driver", "1234"), ("all", "134"), ("{named: [ord]}", "134"), ("{named: [none]}", "1234"),
])  # fmt: skip
@pytest.mark.parametrize("match", ["first", "all", "collect"])
def test_a_row_is_of_the_group_of_what_was_joined_by_its_own_key(ran: Any, mode: str, kept: str, match: str) -> None:
    found = ran(shops(mode, match) + output("o", "c"), ORDERS, w=PRICES)
    assert [row["line"] for row in rows(found["o.csv"])] == list(kept)
    collateral = [("s", "2", "correlated", "correlation_commit", "" if "none" in mode else "x")]
    assert dead(found) == [
        *(collateral if "2" not in kept else []),
        ("w", "3", "type_coercion_failure", "transform:u", "y"),
    ]


def test_the_entry_of_a_row_says_of_which_source_the_record_is_that_failed(ran: Any) -> None:
    found = ran(shops("all") + output("o", "c"), ORDERS, w=PRICES)
    details = [row["_cxl_dlq_error_detail"] for row in rows(found["dead.csv"])]
    why = "row 3: field 'q': conversion failed: cannot convert '?' to Int"
    assert details == [f"correlated with failure in group: source 'w', {why}", why]


def test_a_group_that_is_too_large_is_called_by_its_key(ran: Any) -> None:
    """Record 2 leaves with group y, which its own key does not say."""
    text = shops("all").replace("dlq:", "max_group_buffer: 2, dlq:") + output("o", "c") + output("p", "w")
    found = ran(text, ORDERS, w="ord,line,p\ny,2,20\ny,8,1\ny,9,1\n")
    assert rows(found["o.csv"]) == rows(found["p.csv"]) == []
    why = "group ord=y of 3 records is larger than max_group_buffer 2"
    collateral = ("correlated", f"correlated with failure in group: {why}")
    told = [(row["_cxl_dlq_error_category"], row["_cxl_dlq_error_detail"]) for row in rows(found["dead.csv"])]
    assert told == [collateral, ("group_size_exceeded", f"row 1: {why}"), collateral, collateral]
    assert {row["_cxl_dlq_triggering_value"] for row in rows(found["dead.csv"])} == {""}


def test_the_first_record_of_a_group_tells_of_it_whatever_else_it_was_joined_to(ran: Any) -> None:
    """Records 1 and 2 are the first of their groups, and are joined to records of each other's."""
    met = """
      - type: combine
        name: c
        input: {a: s, b: s}
        config: {where: a.v == b.v, match: all, propagate_ck: all, cxl: "emit ord = a.ord\\nemit line = b.line"}
"""
    text = (HEAD + met).replace("dlq:", "max_group_buffer: 1, dlq:") + output("o", "c") + output("p", "s")
    found = ran(text, "ord,line,v\nx,1,m\ny,2,m\nx,3,m\ny,4,m\nz,5,m\n")
    assert [(row["ord"], row["line"]) for row in rows(found["o.csv"])] == [("z", "5")]
    assert [row["ord"] for row in rows(found["p.csv"])] == ["z"]
    large, collateral = "group_size_exceeded", "correlated"
    assert [entry[2] for entry in dead(found)] == [large, large, collateral, collateral, collateral]


def test_the_first_record_of_a_group_tells_of_it_at_whatever_output(ran: Any) -> None:
    """Behind the merge record 2 is one of three of group x; before it, it is the first of its own, line 2."""
    merged = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: [ord, line],
          schema: {ord: string, line: int, v: string}}}
      - {type: merge, name: m, inputs: [s, w]}
"""
    text = (HEAD + merged).replace("dlq:", "max_group_buffer: 1, dlq:") + output("o", "m") + output("p", "w")
    found = ran(text, "ord,line,v\n", w="ord,line,v\nx,1,a\nx,2,b\nx,2,c\ny,1,d\n")
    assert [row["v"] for row in rows(found["o.csv"])] == ["d"]
    assert [row["v"] for row in rows(found["p.csv"])] == ["a", "d"]
    told = [(row["_cxl_dlq_error_category"], row["$ck.ord"], row["$ck.line"]) for row in rows(found["dead.csv"])]
    assert told == [("group_size_exceeded", "x", ""), ("group_size_exceeded", "x", "2"), ("correlated", "x", "")]


def test_a_companion_shows_the_keys_that_a_merge_has_left(ran: Any) -> None:
    merged = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: line,
          schema: {ord: string, line: int, v: string}}}
      - {type: merge, name: m, inputs: [s, w]}
      - {type: combine, name: c, input: {a: s, b: m}, config: {where: a.ord == b.ord, match: all,
          cxl: "emit n = 1 / (b.line - 2)"}}
"""
    found = ran(HEAD + merged + output("o", "c"), "ord,line,v\nx,1,a\nx,2,b\ny,3,c\n", w="ord,line,v\n")
    told = [(entry[1], entry[2], entry[4]) for entry in dead(found)]
    fails = "combine_output_row"
    assert sorted(told) == [("1", fails, "x"), ("2", fails, ""), ("2", fails, ""), ("2", fails, "x")]


@pytest.mark.parametrize(("limit", "kept"), [(2, [1, 2, 3, 8, 9]), (1, [])])
def test_what_was_joined_makes_no_group_larger_behind_a_merge(ran: Any, limit: int, kept: list[int]) -> None:
    """Three lines meet prices of shop p, which is no group of theirs; two records of the merge are."""
    met = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: shop,
          schema: {shop: string, line: int}}}
      - {type: source, name: u, config: {type: csv, path: u.csv, correlation_key: shop,
          schema: {shop: string, line: int}}}
      - type: combine
        name: c
        input: {a: s, b: w}
        config: {where: a.line == b.line, propagate_ck: {named: [shop]}, cxl: "emit shop = b.shop\\nemit line = a.line"}
      - {type: merge, name: m, inputs: [c, u]}
"""
    prices, others = "shop,line\np,1\np,2\np,3\n", "shop,line\np,8\np,9\n"
    text = (HEAD + met).replace("dlq:", f"max_group_buffer: {limit}, dlq:") + output("o", "m")
    lines = "ord,line,v\nx,1,a\ny,2,a\nz,3,a\n"
    found = ran(text, lines, exit_code=0 if kept else 2, w=prices, u=others)
    assert [int(row["line"]) for row in rows(found["o.csv"])] == kept


@pytest.mark.parametrize(("merged", "kept"), [(False, 2), (True, 0)])
def test_a_failed_record_makes_those_groups_larger_that_its_source_has(ran: Any, merged: bool, kept: int) -> None:
    """A record of w fails, of ord x and line 7: of a group by ord alone only where rows of w are, behind a merge."""
    stages = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: [ord, line],
          schema: {ord: string, line: int, v: string}}}
      - {type: transform, name: t, input: w, config: {cxl: emit n = v.to_int()}}
"""
    merge = "      - {type: merge, name: m, inputs: [s, w]}\n" + output("p", "m")
    text = (HEAD + stages).replace("dlq:", "max_group_buffer: 2, dlq:") + output("o", "s") + output("q", "t")
    found = ran(text + (merge if merged else ""), "ord,line,v\nx,1,1\nx,2,2\n", w="ord,line,v\nx,7,?\n")
    assert len(rows(found["o.csv"])) == kept


def test_the_keys_that_are_written_are_the_drivers(ran: Any) -> None:
    found = ran(
        shops("all", "collect") + output("o", "c", ", include_correlation_keys: true, exclude: [b]"), ORDERS, w=PRICES
    )
    assert [row["$ck.ord"] for row in rows(found["o.csv"])] == ["x", "y", "z"]


@pytest.mark.parametrize("match", ["first", "all", "collect"])
def test_a_key_of_the_build_side_is_that_of_its_first_match(ran: Any, match: str) -> None:
    """Only `collect` has more than one match in a row, whose key is the first one's."""
    stages = shops("all", match, key="p").replace("p.to_int()", "p").replace("a.line == b.line", "a.ord == b.ord")
    found = ran(stages + output("o", "c", ", include_correlation_keys: true"), ORDERS, exit_code=0, w=PRICES)
    keys = [(row["line"], row["$ck.p"]) for row in rows(found["o.csv"])]
    twice = [("3", "20"), ("3", "?")]
    assert keys == [("1", "30"), ("2", "30"), *(twice if match == "all" else twice[:1]), ("4", "10")]


@pytest.mark.parametrize("match", ["first", "collect"])
def test_a_build_side_without_records_has_the_key_that_the_driver_has_too(ran: Any, match: str) -> None:
    stages = shops("all", match).replace("on_miss: skip", "on_miss: null_fields")
    more = (
        ", include_correlation_keys: true, exclude: [b]" if match == "collect" else ", include_correlation_keys: true"
    )
    found = ran(stages + output("o", "c", more), ORDERS, exit_code=0, w="ord,line,p\n")
    assert [row["$ck.ord"] for row in rows(found["o.csv"])] == ["x", "x", "y", "z"]


def test_what_a_joined_row_is_joined_to_counts_as_well(ran: Any) -> None:
    """The keys of two build sides one after the other, and of a build side that is itself joined."""
    chain = """
      - type: combine
        name: c2
        input: {a: s, b: c}
        config: {where: a.line == b.line, match: first, propagate_ck: all, on_miss: skip, cxl: "emit line = a.line"}
"""
    found = ran(shops("all") + chain + output("o", "c2"), ORDERS, w=PRICES)
    assert [row["line"] for row in rows(found["o.csv"])] == ["1", "3", "4"]


def test_rows_of_other_inputs_of_a_merge_are_of_no_group_that_they_were_not_joined_to(ran: Any) -> None:
    """Order y fails as a price, behind the merge as in front of it; as an order it was joined to nothing of y."""
    merged = """
      - {type: transform, name: plain, input: s, config: {cxl: emit q = 0}}
      - {type: merge, name: m, inputs: [c, plain], config: {mode: concat}}
"""
    found = ran(shops("all") + merged + output("o", "m"), ORDERS, w=PRICES)
    assert [row["line"] for row in rows(found["o.csv"])] == ["1", "3", "4", "1", "2", "3", "4"]


def test_behind_a_merge_a_combined_row_leaves_with_the_group_of_any_source(ran: Any) -> None:
    """It has no single source, so nothing spares it; a record of the other source is spared."""
    merged = """
      - {type: source, name: r, config: {type: csv, path: r.csv, correlation_key: ord,
          schema: {ord: string, line: int, v: string, q: int}}}
      - {type: transform, name: plain, input: s, config: {cxl: emit q = 0}}
      - {type: merge, name: m, inputs: [c, plain, r], config: {mode: concat}}
      - {type: transform, name: t, input: m, config: {cxl: 'emit n = if v == "bad" then 1 / 0 else 1'}}
"""
    prices = PRICES.replace("?", "90")
    found = ran(shops("driver") + merged + output("o", "t"), ORDERS, w=prices, r="ord,line,v,q\nx,7,bad,0\nz,8,e,0\n")
    assert [row["line"] for row in rows(found["o.csv"])] == ["3", "4", "1", "2", "3", "4", "8"]
    assert [entry[:3] for entry in dead(found)] == [
        ("s", "1", "correlated"), ("s", "2", "correlated"), ("r", "1", "type_coercion_failure"),
    ]  # fmt: skip


def test_entries_are_not_lost_when_sizes_of_groups_are_looked_at(ran: Any) -> None:
    """The last pass has them; one that counts follows it, as a group might be too large."""
    strict = """
      - {type: aggregate, name: g, input: s, config: {group_by: [ord, v], cxl: emit top = max(line)}}
      - {type: transform, name: k, input: g, config: {cxl: emit x = 1 / (top - 2)}}
"""
    text = (HEAD + strict).replace("dlq:", "max_group_buffer: 2, dlq:")
    found = ran(text + output("o", "k"), ORDERS.replace("x,2", "x,5,f\nx,6,g\nx,2"))
    assert [row["ord"] for row in rows(found["o.csv"])] == ["y", "z"]
    assert [entry[2] for entry in dead(found)].count("type_coercion_failure") == 1
    assert len(dead(found)) == 4


@pytest.mark.parametrize(("mode", "kept"), [("driver", "1234"), ("all", "14"), ("{named: [shop]}", "124")])
def test_a_row_of_several_build_sides_is_of_the_groups_of_each(ran: Any, mode: str, kept: str) -> None:
    """Line 2 meets a price of group y, line 3 a tax of shop q, which both fail; line 4 has no tax."""
    more = """
      - {type: source, name: r, config: {type: csv, path: r.csv, correlation_key: shop,
          schema: {shop: string, line: int, tax: string}}}
      - {type: transform, name: taxed, input: r, config: {cxl: emit pct = tax.to_int()}}
      - type: combine
        name: c
        input: {a: s, b: u, t: taxed}
        config: {where: a.line == b.line and a.line == t.line, match: first, propagate_ck: MODE, on_miss: null_fields,
          cxl: "emit line = a.line\\nemit q = b.q\\nemit pct = t.pct"}
"""
    head, _, _ = shops(mode).partition("      - type: combine")
    taxes = "shop,line,tax\np,1,7\np,2,7\nq,3,19\nq,9,?\n"
    found = ran(head + more.replace("MODE", mode) + output("o", "c"), ORDERS, w=PRICES, r=taxes)
    assert [row["line"] for row in rows(found["o.csv"])] == list(kept)
    assert len(dead(found)) == 2 + 4 - len(kept)
