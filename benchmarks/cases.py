"""Two hundred cases of `clinker test` beside a single one: processor time of whole processes, children included.

    python benchmarks/cases.py --runs 3

A case should cost little beside a start: cases of one pipeline share its plan and the plan of its jobs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parent.parent
_ORDERS = _REPOSITORY / "examples" / "orders"
_CASE = """
  - name: case {number}
    given:
      orders:
        - {{order_id: {number}, customer_id: C1, quantity: 10, unit_price: 20.0, weight_kg: 50.0, status: paid}}
    expect:
      priced:
        partial: true
        rows:
          - {{order_id: {number}, amount: 180.0, unit_weight: 5.0}}
"""


def seconds(folder: Path, count: int) -> float:
    """The processor time of so many cases, in seconds; they pass, or nothing is measured."""
    text = "pipeline: pipeline.yaml\ncases:\n" + "".join(_CASE.format(number=number) for number in range(count))
    (folder / "many.test.yaml").write_text(text, encoding="utf-8")
    before = os.times()
    command = [sys.executable, "-m", "spark_jobs", "test", str(folder)]
    told = subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert f"{count} passed, 0 failed" in told, told
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many cases (200)")
    parser.add_argument("--runs", type=int, default=3, help="how often each is measured (3)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clinker-benchmark-") as name:
        folder = Path(name)
        shutil.copy(_ORDERS / "pipeline.yaml", folder)
        seconds(folder, 1)  # the first start is slower
        pairs = [(seconds(folder, 1), seconds(folder, asked.count)) for _ in range(asked.runs)]
    one, many = (statistics.median(each) for each in zip(*pairs, strict=True))
    each = (many - one) / max(asked.count - 1, 1)
    print(f"1 case {one:.2f} s, {asked.count} cases {many:.2f} s: {many / one:.1f} starts, {each * 1000:.1f} ms a case")
    return 0


if __name__ == "__main__":
    sys.exit(main())
