"""The tables of docs/performance.md come from what was measured, and from one setup."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import page, shapes

PAGE = f"before\n{page._BEGIN}old figures\n{page._END}after\n"


def document(*results: dict[str, Any], warm: bool = False, cores: int = 2) -> dict[str, Any]:
    setup = {
        "warm": warm, "cluster": False, "rounds": 3, "cores": cores, "memory_gib": 24, "versions": {"pyspark": "4.2.0"},
    }  # fmt: skip
    return {"setup": setup, "results": list(results)}


def result(workload: str, rows: int, seed: int | None = None, **seconds: float) -> dict[str, Any]:
    runs = {
        program: [{"seconds": each, "cpu_seconds": 2 * each, "peak_bytes": int(each * 1000)}]
        for program, each in seconds.items()
    }
    return {"workload": workload, "rows": rows, "seed": seed, "runs": runs}


def test_tables_replace_those_between_the_marks():
    found = page.with_tables(PAGE, [document(result("join", 5_000_000, clinker=1.0, spark=4.0, duckdb=0.05))])
    assert found.startswith("before\n" + page._BEGIN)
    assert found.endswith(page._END + "after\n")
    assert "old figures" not in found
    assert "### Whole processes (2 cores, 24 GiB, medians of 3 rounds; pyspark 4.2.0)" in found
    assert "| `join` |  | 5,000,000 | ≤ 0.42 | 0.25 | 0.25 | 0.25 | 20 |" in found
    assert page.with_tables(found, [document()]).count(page._BEGIN) == 1


def test_growth_is_shown_where_there_are_two_sizes():
    sizes = [result("sort", 1000, clinker=1.0), result("sort", 4000, clinker=3.0), result("join", 1000, clinker=1.0)]
    found = page.with_tables(PAGE, [document(*sizes)])
    assert "| `sort` | 1,000 to 4,000 | 3.00 | 3.00 | 3.00 |" in found
    assert found.count("`join`") == 0


def test_shapes_are_shown_by_what_matters_to_the_workload():
    shape = shapes.Shape.of(1)
    found = page.with_tables(PAGE, [document(result("sort", 1000, 1, clinker=1.0, spark=2.0), warm=True)])
    assert f"| `sort` | seed 1: {shape.group:,} in a group, {shape.keys} keys, " in found
    assert "| 1,000 | 2000.0 | 4000.0 | 0.50 |" in found


def test_measurements_of_two_computers_do_not_meet():
    with pytest.raises(ValueError, match="different computers or versions"):
        page.with_tables(PAGE, [document(), document(cores=4)])


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="has no lines"):
        page.with_tables("text\n", [document()])
