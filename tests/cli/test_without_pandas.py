"""Commands that look at data in their own process start without pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ORDERS = Path(__file__).parent.parent.parent / "examples" / "orders"
_ENDS = """
import os, sys
from spark_jobs.cli import clinker, process_exit
process_exit.os._exit = lambda status: print("status", status, "pandas", "pandas" in sys.modules)
clinker.end_with(sys.argv[1:])
"""


@pytest.mark.parametrize(
    "argv",
    [
        ("guess", "input/orders.csv"),
        ("profile", "input/orders.csv"),
        ("preview", "pipeline.yaml", "sales_by_region"),
        ("diff-data", "input/orders.csv", "input/orders.csv"),
    ],
    ids=lambda argv: argv[0],
)
def test_the_process_of_a_command_imports_no_pandas(argv: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDS, *argv], cwd=_ORDERS, capture_output=True, text=True, check=False
    )
    assert "status 0 pandas False" in done.stdout, done.stdout + done.stderr


def test_pandas_can_be_imported_where_arrow_has_been_told_of_none() -> None:
    code = "from spark_jobs.cli import without_pandas; without_pandas.settle(); import pandas; print(pandas.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "pandas\n"
