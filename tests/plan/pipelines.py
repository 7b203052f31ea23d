"""Pipelines for the planner's tests: written down, planned, and asked for what was found."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from spark_jobs import plan
from spark_jobs.plan.options import PlanOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.plan.plan import Plan

ORDERS = """
pipeline: { name: shop }
nodes:
  - type: source
    name: orders
    config:
      type: csv
      path: orders.csv
      schema:
        - { name: id, type: int }
        - { name: customer, type: int }
        - { name: amount, type: float }
        - { name: note, type: string }
"""
CUSTOMERS = """
  - type: source
    name: customers
    config:
      type: csv
      path: customers.csv
      schema: { id: int, name: string }
"""


#: A combine, an aggregate and a route behind them, and an output.
NAMED = (
    ORDERS
    + CUSTOMERS
    + """
  - type: combine
    name: named
    input: { o: orders, c: customers }
    config:
      where: o.customer == c.id
      cxl: |
        emit name = c.name
        emit net = o.amount / 1.2
  - type: aggregate
    name: sums
    input: named
    config:
      group_by: [name]
      cxl: |
        let half = net / 2.0
        emit total = sum(half) + sum(net)
  - type: route
    name: size
    input: sums
    config: { conditions: { big: total > 10.0 }, default: small }
  - { type: output, name: large, input: size.big, config: { type: csv, path: big.csv, mapping: { Sum: total } } }
"""
)


def write(folder: Path, text: str, name: str = "pipeline.yaml") -> Path:
    """The text as a file."""
    path = folder / name
    path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return path


def options(variables: Mapping[str, str] | None = None, **others: object) -> PlanOptions:
    """Options that do not look at the process environment."""
    return PlanOptions(variables=variables or {}, **others)  # type: ignore[arg-type]


def problems(folder: Path, text: str, **others: object) -> list[Diagnostic]:
    """What is found in a pipeline."""
    return plan.validate(write(folder, text), options=options(**others))  # type: ignore[arg-type]


def found(folder: Path, text: str, **others: object) -> list[tuple[str, int]]:
    """The codes that are found, with their lines."""
    return [(item.code.id, item.span.line if item.span else 0) for item in problems(folder, text, **others)]


def planned(folder: Path, text: str, **others: object) -> Plan:
    """The plan of a pipeline."""
    return plan.load(write(folder, text), options(**others))  # type: ignore[arg-type]


def output(of: str, config: str = "", name: str = "out") -> str:
    """An output node."""
    return f"  - {{ type: output, name: {name}, input: {of}, config: {{ type: csv, path: {name}.csv{config} }} }}\n"
