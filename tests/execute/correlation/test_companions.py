"""Build records are refused with the failing rows of aggregates that they were joined to, once for each row.

Several rows of aggregates may begin with one record, and some with none.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.execute.correlation.test_correlation import output, rows
from tests.execute.correlation.test_failed_rows import BARE, POLICIES, letters, ran, under
from tests.execute.correlation.test_retraction import HEAD, refusing, summed

__all__ = ["ran"]

TIMED = HEAD.replace("v: int}", "v: int, at: date_time}, watermark: {column: at}")
#: Fails with what it was joined to where that has the value 0.
MEETS = """
      - type: combine
        name: met
        input: {d: DRIVER, b: BUILD}
        config: {where: ON, match: all, on_miss: skip, propagate_ck: all, cxl: emit n = 12 / b.v}
"""
FAILS = ("combine_output_row", "combine:met")


def meeting(driver: str, build: str = "t", on: str = "d.t > b.v") -> str:
    return MEETS.replace("DRIVER", driver).replace("BUILD", build).replace("ON", on)


def failed(found: dict[str, bytes]) -> list[tuple[str, ...]]:
    return [each for each in letters(found) if each[2] != "correlated"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("keys", ["k", "a", ""])
def test_a_record_is_refused_with_each_window_that_begins_with_one_record(ran: Any, policy: str, keys: str) -> None:
    """The record is in two windows; the later has another one as well."""
    window = "time_window: {hopping: {size: 20m, slide: 10m}}, allowed_lateness: 9h"
    timed = f"{{group_by: [{keys}], {window}, cxl: emit t = sum(v)}}"
    aggregate = f"      - {{type: aggregate, name: x, input: s, config: {timed}}}\n"
    data = "k,a,b,v,at\nk1,a1,b,1,2026-01-01T00:11:00\nk1,a1,b,2,2026-01-01T00:21:00\n"
    head, outputs = TIMED.replace("strategy: continue", f"strategy: continue{under(policy)}"), output("o", "met")
    found = ran(head + BARE + aggregate + meeting("x") + outputs, data, bare="k,a,b,v\nq,a,b,0\nq,a,b,90\n")
    assert failed(found) == [
        *[("<merged>", "1", *FAILS)] * 2,
        ("<merged>", "2", *FAILS),
        *[("t", "1", *FAILS)] * 3,
    ]  # fmt: skip


@pytest.mark.parametrize("keys", ["k, a", "a"], ids=["strict", "mixed"])
def test_a_record_is_refused_with_the_rows_of_two_aggregates(ran: Any, keys: str) -> None:
    merge = "      - {type: merge, name: m, inputs: [x, y]}\n"
    text = HEAD + BARE + summed("x", "s", keys) + summed("y", "s", keys, "max(v)") + merge
    found = ran(text + meeting("m") + output("o", "met"), "k,a,b,v\nk1,a1,b1,5\n", bare="k,a,b,v\nq,a,b,0\n")
    assert failed(found) == [*[("<merged>", "1", *FAILS)] * 2, *[("t", "1", *FAILS)] * 2]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bare", ["", "q,a,b,1\n"])
def test_a_record_is_refused_with_a_row_of_no_records(ran: Any, policy: str, bare: str) -> None:
    """It was to be written by another output, and its group is rejected: that is an entry of its own."""
    head = HEAD.replace("strategy: continue", f"strategy: continue{under(policy)}")
    text = head + BARE + summed("x", "t", "", "count(*)") + meeting("x", "s", "d.t >= b.v")
    parsed = "      - {type: transform, name: c, input: s, config: {cxl: emit ok = 1 / (v - 7)}}\n"
    data = "k,a,b,v\nk1,a,b,7\nk1,a,b,0\nk2,a,b,5\n"
    found = ran(text + parsed + output("o", "met") + output("p", "c"), data, bare=f"k,a,b,v\n{bare}")
    strict = [("s", "2", "correlated", "correlation_commit")] if policy != "all" else []
    row = [("<merged>", "1" if bare else "", *FAILS)]
    others = [("s", "1", "type_coercion_failure", "transform:c"), ("s", "2", *FAILS), *strict]
    assert sorted(letters(found)) == sorted(row + others)
    assert [each["k"] for each in rows(found["p.csv"])] == (["k1"] if policy == "all" else []) + ["k2"]


def test_a_record_is_not_refused_with_a_row_of_no_records_that_is_good_in_the_end(ran: Any) -> None:
    """Record 1 is taken back with the total that it is in; without it the count of no records meets nothing."""
    none = "      - {type: transform, name: f, input: s, config: {cxl: filter v > 99}}\n"
    counted = summed("x", "f", "", "count(*)") + meeting("x", "s", "d.t >= b.v")
    text = HEAD + none + counted + summed("y", "s", "a") + refusing("c", "y", 9)
    data = "k,a,b,v\nk1,a1,b,0\nk2,a1,b,5\nk3,a2,b,9\n"
    found = ran(text + output("o", "met") + output("p", "c") + output("q", "x"), data)
    assert letters(found) == [("<merged>", "1", "type_coercion_failure", "transform:c")]
    assert [row["t"] for row in rows(found["q.csv"])] == ["0"]


def test_a_record_is_refused_again_with_what_is_left_of_a_row(ran: Any) -> None:
    """The row of all records takes them back; that of none is another row, with entries of its own."""
    text = HEAD + BARE + summed("x", "s", "", "count(*)") + meeting("x", on="d.t >= b.v")
    found = ran(text + output("o", "met"), "k,a,b,v\nk1,a,b,5\nk2,a,b,5\n", bare="k,a,b,v\nq,a,b,0\n")
    assert sorted(letters(found)) == [
        ("<merged>", "", *FAILS),
        ("<merged>", "1", *FAILS),
        *[("t", "1", *FAILS)] * 2,
    ]  # fmt: skip
