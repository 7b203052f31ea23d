"""Processes of ours do without pandas, and what needs it gets it nevertheless."""

from __future__ import annotations

import os
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

ARRAYS = """
import sys
from spark_jobs.execute import without_pandas
without_pandas.hide_pandas()
import pyarrow as pa
table = pa.table({"a": [1, None]})
assert "pandas" not in sys.modules
assert table.to_pandas()["a"].isna().tolist() == [False, True]
import pandas
assert pa.array(pandas.Series([1.0, None])).null_count == 1
"""
KNOWN_ALREADY = """
import pandas
from spark_jobs.execute import without_pandas
without_pandas.hide_pandas()
import pyarrow as pa
assert pa.array(pandas.Series([1.0, None])).null_count == 1
"""
PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: rows, config: {type: csv, path: rows.csv, schema: {k: string, n: int}}}
  - {type: aggregate, name: sums, input: rows, config: {group_by: [k], cxl: "emit total = sum(n)"}}
  - {type: output, name: o, input: sums, config: {type: csv, path: o.csv}}
"""
#: Says of each process, workers included, when it imports pandas.
WATCH = """
import os, sys
class Watch:
    @staticmethod
    def find_spec(name, *_):
        if name == "pandas":
            open(os.path.join(os.environ["WATCH"], f"pandas-{os.getpid()}"), "w").close()
sys.meta_path.insert(0, Watch)
open(os.path.join(os.environ["WATCH"], f"python-{os.getpid()}"), "w").close()
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
    code = (
        "from spark_jobs.execute import without_pandas; without_pandas.hide_pandas()\n"
        "import pandas; print(pandas.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "pandas\n"


@pytest.mark.parametrize("program", [ARRAYS, KNOWN_ALREADY], ids=["later", "already"])
def test_what_needs_pandas_gets_it(program: str) -> None:
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.spark
def test_no_process_of_a_run_imports_pandas(tmp_path: Path) -> None:
    for name, text in {"p.yaml": PIPELINE, "rows.csv": "k,n\na,1\na,2\n", "sitecustomize.py": WATCH}.items():
        (tmp_path / name).write_text(text)
    seen = tmp_path / "seen"
    seen.mkdir()
    environment = {**os.environ, "WATCH": str(seen), "CLINKER_KEEP_WARM": "0"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "spark_jobs", "run", str(tmp_path / "p.yaml")]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert (tmp_path / "o.csv").read_text() == "k,total\na,3\n"
    kinds = [path.name.partition("-")[0] for path in seen.iterdir()]
    assert kinds.count("python") >= 2
    assert "pandas" not in kinds
