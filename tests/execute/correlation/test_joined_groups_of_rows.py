"""A row of an aggregate belongs to the build group that its records were joined to, if they all agree."""

from __future__ import annotations

from typing import Any

import pytest

from tests.execute.correlation.test_correlation import HEAD, output, ran, rows

__all__ = ["ran"]

WINDOWS = {
    "": "",
    "tumbling": ", time_window: {tumbling: {size: 1h}}",
    "hopping": ", time_window: {hopping: {size: 2h, slide: 1h}}",
    "session": ", time_window: {session: {gap: 1h}}",
}
STAGES = """
      - type: source
        name: w
        config: {type: csv, path: w.csv, correlation_key: KEY, watermark: {column: at},
          schema: {ord: string, shop: int, line: int, p: string, at: date_time}}
      - {type: transform, name: u, input: w, config: {cxl: emit q = p.to_int()}}
      - type: combine
        name: c
        input: {a: s, b: u}
        config: {where: a.line == b.line, match: first, propagate_ck: all, on_miss: null_fields,
          cxl: "emit ord = a.ord\\nemit shop = b.shop\\nemit line = a.line"}
      - type: aggregate
        name: g
        input: c
        config: {group_by: BY, cxl: "emit n = count(*)\\nemit line = min(line)" WINDOW}
"""
ORDERS = (
    ("x", 1), ("x", 2),  # both are joined to prices of y
    ("y", 3), ("y", 4),  # to one of y, and to one of z
    ("z", 5), ("z", 6),  # to one of y, and to none
    ("v", 7), ("v", 8),  # both to x
    ("t", 9),  # to t
)  # fmt: skip
PRICES = (("y", 1), ("y", 2), ("y", 3), ("z", 4), ("y", 5), ("x", 7), ("x", 8), ("t", 9))


def joined(window: str = "", key: str = "ord", by: str = "[ord]") -> str:
    """Orders and their prices, both of groups by a key of the same name, and a row for each order."""
    head = HEAD.replace("v: string}", "at: date_time}, watermark: {column: at}")
    return head + STAGES.replace("KEY", key).replace("BY", by).replace(" WINDOW", WINDOWS[window])


def orders() -> str:
    return "ord,line,at\n" + "".join(f"{name},{line},2026-01-01T00:00:00\n" for name, line in ORDERS)


def prices(*more: str) -> str:
    lines = [f"{name},{line % 3},{line},1," for name, line in PRICES]
    return "\n".join(["ord,shop,line,p,at", *lines, *more]) + "\n"


def kept(found: Any, window: str = "") -> set[str]:
    counts = [row["ord"] for row in rows(found["o.csv"])]
    assert len(counts) == len(set(counts)) * (2 if window == "hopping" else 1)
    return set(counts)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("bad", "left"), [("y", "yvt"), ("x", "xyzt"), ("t", "xyzv"), ("z", "xyzvt")])
def test_a_row_is_of_the_group_that_all_was_of_what_was_joined_to_its_records(
    ran: Any, window: str, bad: str, left: str
) -> None:
    """Whatever the key of the orders is; where they were joined to several groups it mixes these, and is of none."""
    found = ran(joined(window) + output("o", "g"), orders(), w=prices(f"{bad},0,99,?,"))
    assert kept(found, window) == set(left)
    failed = [row for row in rows(found["dead.csv"]) if row["_cxl_dlq_error_category"] == "type_coercion_failure"]
    assert [row["$ck.ord"] for row in failed] == [bad]


@pytest.mark.parametrize("window", ["", "session"])
def test_a_row_that_fails_rejects_the_group_of_what_was_joined_to_its_records(ran: Any, window: str) -> None:
    """The row of orders v was joined to prices of x: these leave, and those of v do not."""
    stages = '      - {type: transform, name: k, input: g, config: {cxl: "emit r = 1 / (line - 7)"}}\n'
    text = joined(window) + stages + output("o", "k") + output("prices", "u")
    found = ran(text, orders(), w=prices("v,0,98,1,"))
    assert kept(found, window) == set("xyzt")
    assert [row["line"] for row in rows(found["prices.csv"]) if row["ord"] in "xv"] == ["98"]


@pytest.mark.parametrize(
    ("bad", "left"), [("1,0,99", {"12", "2"}), ("1,1,99", {"11", "12", "2"}), (",2,99", {"11", "12"})]
)
def test_all_fields_of_a_key_have_to_agree(ran: Any, bad: str, left: set[str]) -> None:
    """The row of orders 1 and shop 0 is of the group of prices (1, 0); one of two such groups is of neither."""
    given = "ord,line,at\n" + "".join(f"{name},{line},\n" for name, line in [(1, 1), (1, 2), (1, 3), (2, 4), (1, 5)])
    table = "ord,shop,line,p,at\n1,0,1,1,\n1,0,2,1,\n1,1,3,1,\n,2,4,1,\n2,1,5,1,\n"
    text = joined(key="[ord, shop]", by="[ord, shop]") + output("o", "g")
    found = ran(text, given, w=table + f"{bad},?,\n")
    names = {("1", "0"): "11", ("1", "1"): "12", ("2", "2"): "2"}
    assert {names[row["ord"], row["shop"]] for row in rows(found["o.csv"])} == left


def test_a_second_aggregate_asks_the_rows_of_the_first(ran: Any) -> None:
    again = '      - {type: aggregate, name: h, input: g, config: {group_by: [ord], cxl: "emit n = sum(n)"}}\n'
    found = ran(joined() + again + output("o", "h"), orders(), w=prices("y,0,99,?,"))
    assert kept(found) == set("yvt")


@pytest.mark.parametrize("nothing", ['""', "null"])
def test_a_key_that_is_empty_is_of_no_group_and_agrees_with_any(ran: Any, nothing: str) -> None:
    text = joined().replace("type: csv, path: w.csv", "type: json, path: w.csv")
    lines = [f'{{"ord":{key},"shop":0,"line":{line},"p":"{p}"}}' for key, line, p in [
        ('"y"', 1, "1"), (nothing, 2, "1"), ('"z"', 3, "1"), ('"y"', 99, "?"),
    ]]  # fmt: skip
    found = ran(text + output("o", "g"), "ord,line,at\nx,1,\nx,2,\nv,3,\n", w="\n".join(lines))
    assert kept(found) == {"v"}
