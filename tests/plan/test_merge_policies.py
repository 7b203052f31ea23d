"""Sources of one merge have one policy for undeclared columns (E315)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import ORDERS, found, output

if TYPE_CHECKING:
    from pathlib import Path

POLICIES = ("auto_widen", "drop", "reject")
BETWEEN = """
  - { type: transform, name: priced, input: orders, config: { cxl: emit amount = amount * 2 } }
  - { type: route, name: sizes, input: more, config: { conditions: { big: amount > 1 }, default: small } }
"""


@pytest.mark.parametrize("inputs", ["orders, more", "more, orders", "priced, sizes.big"])
@pytest.mark.parametrize("first", POLICIES)
@pytest.mark.parametrize("second", POLICIES)
def test_any_difference_is_an_error(first: str, second: str, inputs: str, tmp_path: Path) -> None:
    head, source = ORDERS.split("nodes:\n")
    sources = source.replace("type: csv\n", f"type: csv\n      on_unmapped: {first}\n")
    sources += source.replace("orders", "more").replace("type: csv\n", f"type: csv\n      on_unmapped: {second}\n")
    merge = f"  - {{ type: merge, name: both, inputs: [{inputs}] }}\n"
    codes = [code for code, _ in found(tmp_path, head + "nodes:\n" + sources + BETWEEN + merge + output("both"))]
    assert ("E315" in codes) == (first != second)
