"""A `split:` that starts no second file is told of (W003), and runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import ORDERS, output, problems

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("split", "codes"),
    [
        ("{}", ["W003"]),
        ("{ group_key: customer }", ["W003"]),
        ("{ max_records: 2 }", []),
        ("{ max_bytes: 2, group_key: customer }", []),
    ],
)
def test_only_limits_start_files(split: str, codes: list[str], tmp_path: Path) -> None:
    found = problems(tmp_path, ORDERS + output("orders", f", split: {split}"))
    assert [item.code.id for item in found] == codes
