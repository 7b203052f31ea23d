"""The measurements of the workbench run, and their table comes between the marks of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import workbench

if TYPE_CHECKING:
    from pathlib import Path


def test_everything_that_is_measured_works(tmp_path: Path) -> None:
    found = workbench.measured(tmp_path, rounds=1, nodes=5, cases=2)
    assert [*found] == [
        workbench.YARDSTICK,
        "`clinker validate`, 3 nodes",
        "`clinker validate`, 5 nodes",
        "`clinker preview`, 1,000 records",
        "`clinker test`, 2 cases",
        "language server, completion, 5 nodes",
        "language server, hover, 5 nodes",
    ]
    assert all(seconds > 0 for name, seconds in found.items() if not name.startswith("language server"))


def test_the_table_has_ratios_to_the_yardstick_and_replaces_the_one_before() -> None:
    lines = [*workbench.table({workbench.YARDSTICK: 0.5, "a": 1.0})]
    assert lines[2:] == ["| python -c 'import pyspark' | 0.50 s | 1.00 |", "| a | 1.00 s | 2.00 |"]
    begin, end = (f"<!-- measured by `benchmarks/workbench.py`: {mark} -->\n" for mark in ("begin", "end"))
    page = f"before\n{begin}old\n{end}after\n"
    assert workbench.with_table(page, "new") == f"before\n{begin}\nnew\n\n{end}after\n"
    with pytest.raises(ValueError, match="the page has no lines"):
        workbench.with_table("before\n", "new")
