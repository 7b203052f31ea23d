"""Scoped variables: forms of declarations, defaults, and what the graph allows."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import ORDERS, found, planned, problems

if TYPE_CHECKING:
    from pathlib import Path

NODES = """
nodes:
  - { type: source, name: s, config: { type: csv, path: a.csv, schema: { id: int } } }
  - { type: output, name: o, input: s, config: { type: csv, path: o.csv } }
"""


def with_vars(block: str) -> str:
    return f"pipeline:\n  name: p\n  vars: {block}\n" + NODES.lstrip("\n")


def test_every_form_of_declaration(tmp_path: Path) -> None:
    block = """{ limit: 5, rate: 0.5, on: yes, shown: true, fee: { type: float, default: 3 },
      day: { type: date, default: 2026-01-31 }, at: { type: date_time, default: "2026-01-31T10:00:00+02:00" },
      static: { shop: { type: string, default: Quay } }, pipeline: { cap: { type: int } },
      source: { label: till }, record: { grade: { type: string, default: new } } }"""
    assert planned(tmp_path, with_vars(block)).variables == {
        "vars.limit": 5,
        "vars.rate": 0.5,
        "vars.on": "yes",
        "vars.shown": True,
        "vars.fee": 3.0,
        "vars.day": date(2026, 1, 31),
        "vars.at": datetime(2026, 1, 31, 8),
        "vars.shop": "Quay",
        "pipeline.cap": None,
        "source.label": "till",
        "record.grade": "new",
    }


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("{ a: { type: int, default: 1.5 } }", "E015"),
        ("{ a: { type: int, default: '5' } }", "E015"),
        ("{ a: { type: int, default: true } }", "E015"),
        ("{ a: { type: date, default: soon } }", "E015"),
        ("{ a: { type: int, default: ~ } }", "E015"),
        ("{ a: ~ }", "E015"),
        ("{ a: [1] }", "E015"),
        ("{ a: { type: array } }", "E007"),
        ("{ a: { type: itn } }", "E007"),
        ("{ a: { default: 1 } }", "E006"),
        ("{ a: { type: int, defualt: 1 } }", "E005"),
        ("{ a b: 5 }", "E015"),
        ("{ pipeline: { name: x } }", "E015"),
        ("{ source: { row: { type: int } } }", "E015"),
    ],
)
def test_declarations_that_make_no_sense(block: str, code: str, tmp_path: Path) -> None:
    assert [item for item, _ in found(tmp_path, with_vars(block))] == [code]


def test_a_variable_may_be_called_like_a_namespace(tmp_path: Path) -> None:
    plan = planned(tmp_path, with_vars("{ source: { type: string, default: x } }"))
    assert plan.variables == {"vars.source": "x"}


def test_one_name_is_declared_once(tmp_path: Path) -> None:
    text = """
    pipeline: { name: p, vars: { record: { tier: a } } }
    nodes:
      - { type: source, name: s, config: { type: csv, path: a.csv, schema: { id: int } } }
      - type: transform
        name: t
        input: s
        config: { cxl: emit a = id, declares: [{ name: tier, scope: record, type: string }] }
      - { type: output, name: o, input: t, config: { type: csv, path: o.csv } }
    """
    assert found(tmp_path, text) == [("E015", 7)]


@pytest.mark.parametrize(
    ("written", "codes"),
    [
        ("99999999999999999999999999999999", ["E015"]),
        ("{ type: int, default: -9223372036854775809 }", ["E015"]),
        ("-9223372036854775808", []),
        ("9223372036854775807", []),
        ("{ type: float, default: 99999999999999999999999999999999 }", []),
        ("{ type: float, default: " + "9" * 390 + " }", ["E015"]),
    ],
)
def test_numbers_of_variables_fit_their_type(written: str, codes: list[str], tmp_path: Path) -> None:
    text = ORDERS.replace("name: shop", f"name: shop, vars: {{ x: {written} }}") + (
        "  - { type: transform, name: t, input: orders, config: { cxl: emit y = $vars.x } }\n"
        "  - { type: output, name: out, input: t, config: { type: csv, path: out.csv } }\n"
    )
    items = problems(tmp_path, text)
    assert [item.code.id for item in items] == codes
    assert all("is beyond what" in item.message and item.span for item in items)
