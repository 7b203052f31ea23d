"""Combines before they run: whether a `where` finds candidates, and whether partitions are worth asking for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.formats.splits import LEAST_SHARE_BYTES
from spark_jobs.plan.plan import partition_bytes
from tests.plan.pipelines import CUSTOMERS, ORDERS, found, problems

if TYPE_CHECKING:
    from pathlib import Path


def combine(where: str, more: str = "", reads: str = "orders") -> str:
    return f"""
  - type: combine
    name: joined
    input: {{ o: {reads}, c: customers }}
    config:
      where: {where}
      cxl: emit name = c.name
      {more}
  - {{ type: output, name: result, input: joined, config: {{ type: csv, path: result.csv }} }}
"""


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("o.amount > 5.0", "E305"),
        ("o.amount > 5.0 and c.id == 1", "E305"),
        ("o.id == o.customer", "E305"),
        ("o.customer == c.id or o.id == c.id", "E313"),
        ("not (o.customer == c.id)", "E313"),
        ("o.customer != c.id", "E313"),
        ("o.note.contains(c.name)", "E313"),
        ("o.id + c.id == 7 and o.amount > 5.0", "E313"),
    ],
)
def test_a_where_that_finds_no_candidates_is_told_from_one_that_compares_nothing(
    tmp_path: Path, where: str, code: str
) -> None:
    (problem,) = problems(tmp_path, ORDERS + CUSTOMERS + combine(where))
    assert problem.code.id == code
    assert problem.span
    assert problem.span.file.line(problem.span.line).strip() == f"where: {where}"


@pytest.mark.parametrize("where", ["o.customer == c.id and (o.id == 1 or c.name == o.note)", "o.customer + 1 == c.id"])
def test_an_equality_beside_other_tests_finds_them(tmp_path: Path, where: str) -> None:
    assert found(tmp_path, ORDERS + CUSTOMERS + combine(where)) == []


GRACE = combine("o.customer == c.id", "strategy: grace_hash")


def fill(folder: Path, size: int = 1000) -> None:
    with (folder / "orders.csv").open("wb") as file:
        file.truncate(size - 8)
    (folder / "customers.csv").write_text("id,name\n")


@pytest.mark.parametrize(
    ("size", "is_small"), [(1000, True), (LEAST_SHARE_BYTES, True), (LEAST_SHARE_BYTES * 2, False)]
)
def test_partitions_of_inputs_that_fit_into_one_are_remarked_on(tmp_path: Path, size: int, is_small: bool) -> None:
    fill(tmp_path, size)
    text = (ORDERS + CUSTOMERS + GRACE).replace("name: shop", "name: shop, memory: { limit: 4G }")
    told = problems(tmp_path, text)
    assert [item.code.id for item in told] == ["W302"] * is_small
    assert not is_small or f"all inputs together have {size} bytes" in told[0].message


def test_what_fits_depends_on_the_memory_limit(tmp_path: Path) -> None:
    fill(tmp_path, 2 << 20)
    assert partition_bytes(16 << 20) == 2 << 20
    text = ORDERS + CUSTOMERS + GRACE
    assert [code for code, _ in found(tmp_path, text.replace("shop", "shop, memory: { limit: 16M }"))] == ["W302"]
    assert found(tmp_path, text.replace("shop", "shop, memory: { limit: 15M }")) == []


EXPLODED = """
  - { type: transform, name: many, input: orders, config: { cxl: 'emit each it in note.split(",") { emit x = it }' } }
"""


@pytest.mark.parametrize(
    "text",
    [
        ORDERS.replace("path: orders.csv", "glob: 'orders*.csv'") + CUSTOMERS + GRACE,
        ORDERS.replace("orders.csv", "gone.csv") + CUSTOMERS + GRACE,
        ORDERS + CUSTOMERS + EXPLODED + combine("o.customer == c.id", "strategy: grace_hash", "many"),
        ORDERS + CUSTOMERS + combine("o.customer == c.id", "strategy: auto"),
    ],
    ids=["a pattern", "a missing file", "records that become more", "nobody asks"],
)
def test_nothing_is_said_of_sizes_that_are_not_known_or_not_asked_for(tmp_path: Path, text: str) -> None:
    fill(tmp_path)
    assert found(tmp_path, text) == []
