"""Rows of aggregates that fail count as never made; what failed because of the dead is good without them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.execute.correlation.test_correlation import HEAD, dead, output, ran, rows

__all__ = ["ran"]

#: A total for each order, which fails where it is 10; another order's is 7.
TOTALS = """
      - {type: transform, name: n, input: s, config: {cxl: emit n = v.to_int()}}
      - {type: aggregate, name: x, input: n, config: {group_by: [ord], cxl: emit t = sum(n)}}
      - {type: transform, name: c, input: x, config: {cxl: emit ok = 1 / (t - 10)}}
"""
LINES = "ord,line,v\nx,1,4\nx,2,6\ny,3,7\n"
OF_ALL = "      - {type: aggregate, name: y, input: x, config: {group_by: [], cxl: emit all = sum(t)}}\n"


def test_a_failed_row_is_in_no_aggregate_of_rows(ran: Any) -> None:
    found = ran(HEAD + TOTALS + OF_ALL + output("o", "c") + output("p", "y"), LINES)
    assert [(row["ord"], row["t"]) for row in rows(found["o.csv"])] == [("y", "7")]
    assert [row["all"] for row in rows(found["p.csv"])] == ["7"]
    assert [entry[:4] for entry in dead(found)] == [("<merged>", "1", "type_coercion_failure", "transform:c")]


@pytest.mark.parametrize(("stage", "kept"), [
    ('{type: transform, name: y, input: x, config: {cxl: "emit r = $window.sum(t)", analytic_window: {group_by: []}}}',
     [("y", "7")]),
    ('{type: transform, name: y, input: x, config: {cxl: "emit r = t % 3\\ndistinct by r"}}', [("y", "1")]),
    ('{type: combine, name: y, input: {a: n, b: x}, config: {where: a.line + 4 > b.t, on_miss: skip, match: first, '
     'cxl: "emit ord = a.ord\\nemit r = b.t"}}', []),
])  # fmt: skip
def test_a_failed_row_is_in_no_frame_match_or_set_of_different_ones(
    ran: Any, stage: str, kept: list[tuple[str, str]]
) -> None:
    """10 and 7 leave the same remainder by 3; without the row of x there is one of 7 alone, which matches no line."""
    found = ran(HEAD + TOTALS + f"      - {stage}\n" + output("o", "c") + output("p", "y"), LINES)
    assert [(row["ord"], row["r"]) for row in rows(found["p.csv"])] == kept


def test_a_failed_row_is_made_again_when_records_of_it_die(ran: Any) -> None:
    """The total of x is 10 until its last line, which fails behind a match, counts as never read."""
    met = """
      - {type: combine, name: j, input: {a: n, b: y}, config: {where: a.line < b.all, on_miss: skip,
          cxl: "emit ord = a.ord\\nemit r = 1 / (a.line - 4 + b.all - 7)"}}
"""
    data = "ord,line,v\nx,1,4\ny,3,7\nx,4,6\n"
    found = ran(HEAD + TOTALS + OF_ALL + met + output("o", "c") + output("p", "y") + output("q", "j"), data)
    # Without line 4 the total of x is 4, the rows add up to 11, and the row is good: but its group is rejected.
    assert [row["all"] for row in rows(found["p.csv"])] == ["11"]
    assert [row["ord"] for row in rows(found["o.csv"])] == ["y"]
    assert [entry[:4] for entry in dead(found)] == [
        ("<merged>", "1", "correlated", "correlation_commit"),
        ("s", "1", "correlated", "correlation_commit"),
        ("<merged>", "2", "combine_output_row", "combine:j"),
        ("s", "3", "combine_output_row", "combine:j"),
    ]


def test_what_fails_because_of_a_dead_record_is_good_without_it(ran: Any) -> None:
    """Line 1 fails in another branch; with it the total is 3, which the line of w cannot be divided by."""
    stages = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: ord,
          schema: {ord: string, line: int}}}
      - {type: transform, name: n, input: s, config: {cxl: emit n = v.to_int()}}
      - {type: aggregate, name: x, input: n, config: {group_by: [ord], cxl: emit t = sum(n)}}
      - {type: transform, name: c, input: n, config: {cxl: emit q = 1 / (n - 1)}}
      - {type: combine, name: j, input: {a: w, b: x}, config: {where: a.line < b.t, cxl: "emit r = 1 / (b.t - 3)"}}
"""
    found = ran(HEAD + stages + output("o", "c") + output("p", "j"), "ord,line,v\nx,1,1\nx,2,2\n", w="ord,line\nz,1\n")
    assert [row["r"] for row in rows(found["p.csv"])] == ["-1"]
    assert [entry[:3] for entry in dead(found)] == [
        ("s", "1", "type_coercion_failure"), ("s", "2", "correlated"),
    ]  # fmt: skip


@pytest.mark.parametrize("failing", ["c", "m"])
def test_a_row_rejects_its_group_where_a_merge_has_cut_its_key(ran: Any, failing: str) -> None:
    """Rows of w have another key, so behind the merge rows have none."""
    stages = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: p, schema: {ord: string, p: int}}}
      - {type: aggregate, name: z, input: w, config: {group_by: [ord], cxl: emit t = count(*)}}
      - {type: merge, name: m, inputs: [x, z]}
      - {type: transform, name: d, input: m, config: {cxl: emit ok = 1 / (t - 10)}}
"""
    text = (HEAD + TOTALS.rpartition("      - ")[0] + stages) if failing == "m" else HEAD + TOTALS
    more = output("o", "d") if failing == "m" else output("o", "c")
    found = ran(text + more + output("p", "n"), LINES, **({"w": "ord,p\nx,5\n"} if failing == "m" else {}))
    assert [row["line"] for row in rows(found["p.csv"])] == ["3"]
    assert [row["t"] for row in rows(found["o.csv"])] == (["7", "1"] if failing == "m" else ["7"])
    assert [entry[2] for entry in dead(found)].count("correlated") == 2


def test_a_row_rejects_the_groups_of_its_own_sources_behind_a_merge(ran: Any) -> None:
    """Rows of s and w have one key; the row of x that fails is made of records of s."""
    stages = """
      - {type: source, name: w, config: {type: csv, path: w.csv, correlation_key: ord, schema: {ord: string, v: int}}}
      - {type: aggregate, name: z, input: w, config: {group_by: [ord], cxl: emit t = sum(v)}}
      - {type: merge, name: m, inputs: [x, z]}
      - {type: transform, name: d, input: m, config: {cxl: emit ok = 1 / (t - 10)}}
"""
    text = HEAD + TOTALS.rpartition("      - ")[0] + stages
    found = ran(text + output("o", "d") + output("p", "w"), LINES, w="ord,v\nx,5\n")
    assert [row["v"] for row in rows(found["p.csv"])] == ["5"]
    assert [row["t"] for row in rows(found["o.csv"])] == ["7"]
