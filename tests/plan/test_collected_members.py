"""Arrays of matches: sources carry, and arrays hold, what anything reads of the records in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.nodes.terms.required_columns import RequiredColumns
from tests.plan.pipelines import CUSTOMERS, ORDERS, output, planned

if TYPE_CHECKING:
    from pathlib import Path

COLLECT = """
  - type: combine
    name: c
    input: { who: customers, orders: orders }
    config: { where: who.id == orders.customer, match: collect }
"""
EVERYTHING = {"id", "customer", "amount", "note"}


def transform(cxl: str, name: str = "t", of: str = "c", more: str = "") -> str:
    """A transform of some lines."""
    lines = cxl.replace("\n", "\n        ")
    return f"  - type: transform\n    name: {name}\n    input: {of}\n    config:\n      cxl: |\n        {lines}\n{more}"


def members(folder: Path, nodes: str) -> tuple[set[str] | None, set[str]]:
    """The members of arrays, and the columns that the orders carry."""
    plan = planned(folder, ORDERS + CUSTOMERS + COLLECT + nodes)
    ((_, found),) = plan.by_name["c"].step.members  # type: ignore[union-attr]
    return None if found is None else set(found), set(plan.by_name["orders"].step.live)  # type: ignore[union-attr]


READ = {
    "emit n = name": set(),
    "emit n = orders.length()": set(),
    "emit n = orders.is_empty()": set(),
    "emit n = orders.is_null()": set(),
    "emit n = orders.map(it => it.amount)": {"amount"},
    "emit n = orders.map(it => it.amount * it.id)": {"amount", "id"},
    "emit n = orders.any(it => it.note == name)": {"note"},
    "emit n = orders.flat_map(it => it.note.split(name))": {"note"},
    "emit n = orders.filter(it => it.amount > 1.0).length()": {"amount"},
    "emit n = orders.filter(it => it.amount > 1.0).map(it => it.note)": {"amount", "note"},
    "emit n = orders.find(it => it.amount > 1.0).note": {"amount", "note"},
    "emit n = orders.map(it => orders.length() + it.id)": {"id"},
    "emit n = orders[0].note": {"note"},
    'emit n = orders[0]["note"]': {"note"},
    "let o = orders\nemit n = o.length()\nemit m = o[0].id": {"id"},
    "emit n = (if name == null then orders else orders).length()": set(),
    "emit n = (orders ?? orders)[0].note": {"note"},
    "filter orders.length() > 0\nemit n = name": set(),
    "emit each o in orders {\n  emit n = o.amount\n}": {"amount"},
    "emit n = orders.length()\nemit orders = orders": set(),
}
READ_WHOLE = [
    "let o = orders\nemit n = o",
    "emit each o in orders {\n  emit n = o\n}",
    "emit n = orders",
    "emit n = orders.map(it => it)",
    "emit n = orders.filter(it => it.amount > 1.0)",
    "emit n = orders[0]",
    "emit n = orders[0][name]",
    "emit n = orders.remove(0).length()",
    "emit n = orders.to_string()",
    "emit n = orders == orders",
    "emit meta kept = orders\nemit n = 1",
]


@pytest.mark.parametrize("cxl", [*READ, *READ_WHOLE])
def test_arrays_hold_what_a_program_reads_of_them(cxl: str, tmp_path: Path) -> None:
    found = members(tmp_path, transform(cxl) + output("t", ", include_unmapped: false, exclude: [orders]"))
    read = READ.get(cxl)
    assert found == (read, {"customer"} | (EVERYTHING if read is None else read))


FIRST = transform("emit mine = orders")
BEHIND = {
    "a transform that gives it on": (FIRST + transform("emit n = mine[0].id", "u", "t"), {"id"}),
    "a route": (
        "  - type: route\n    name: r\n    input: c\n"
        "    config: { conditions: { many: 'orders[0].amount > 1.0' }, default: few }\n"
        + transform("emit n = orders[0].id", "u", "r.many"),
        {"amount", "id"},
    ),
    "an aggregate": (
        "  - type: aggregate\n    name: u\n    input: c\n"
        "    config: { group_by: [name], cxl: 'emit n = sum(orders.length())' }\n",
        set(),
    ),
    "an aggregate of whole arrays": (
        "  - type: aggregate\n    name: u\n    input: c\n"
        "    config: { group_by: [name], cxl: 'emit n = first(orders)' }\n",
        None,
    ),
    "a validation": (
        transform("emit mine = orders", "u", more="      validations: [{ check: 'mine[0].id > 1' }]\n"),
        {"id"},
    ),
    "a validation of what is laid over": (
        transform("emit orders = orders.length()", "u", more="      validations: [{ check: 'orders > 1' }]\n"),
        set(),
    ),
    "a line in the log": (
        transform("emit n = 1", "u", more="      log: [{ level: info, when: per_record, message: '{orders}' }]\n"),
        None,
    ),
    "another combine": (
        "  - type: combine\n    name: u\n    input: { a: c, b: customers }\n    config:\n"
        "      where: a.id == b.id and a.orders.length() > 1\n      match: first\n"
        "      cxl: emit n = a.orders[0].note\n",
        {"note"},
    ),
    "a combine that gives it on": (
        "  - type: combine\n    name: b\n    input: { a: c, b: customers }\n    config:\n"
        "      where: a.id == b.id\n      match: first\n      cxl: emit its = a.orders\n"
        + transform("emit n = its[0].amount", "u", "b"),
        {"amount"},
    ),
    "a combine that collects it": (
        "  - type: combine\n    name: b\n    input: { b: customers, a: c }\n    config:\n"
        "      where: a.id == b.id\n      match: collect\n" + transform("emit n = a[0].orders[0].amount", "u", "b"),
        None,
    ),
}


@pytest.mark.parametrize("name", BEHIND)
def test_it_is_known_through_the_nodes_behind(name: str, tmp_path: Path) -> None:
    nodes, read = BEHIND[name]
    text = nodes + output("u", ", include_unmapped: false, exclude: [mine, orders]")
    assert members(tmp_path, text)[0] == read


def test_a_reader_of_the_whole_decides(tmp_path: Path) -> None:
    text = transform("emit n = orders.length()") + output("t", ", include_unmapped: false")
    assert members(tmp_path, text)[0] == set()
    assert members(tmp_path, text + output("c", name="all"))[0] is None


def test_what_is_read_is_joined() -> None:
    some = RequiredColumns(frozenset("ab"), {"a": frozenset("x"), "b": frozenset()})
    other = RequiredColumns(frozenset("ac"), {"a": frozenset("y")})
    both = some | other
    assert both.names == set("abc")
    assert both.members("a") == set("xy")
    assert (both.members("b"), both.members("c"), both.members("d")) == (set(), None, set())
    assert (some | RequiredColumns(frozenset("a"))).members("a") is None
    assert both.without("a").members("a") == set()
    assert "a" not in both.without("a")
