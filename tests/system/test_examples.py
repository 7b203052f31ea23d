"""The examples of the provider: each runs through Airflow and real Spark, and `docs/airflow.md` quotes them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted((REPOSITORY / "tests" / "system" / "clinker").glob("example_*.py"))
QUOTED = re.compile(r"^ *# \[START (\w+)\]\n(.*?)^ *# \[END (\w+)\]", re.MULTILINE | re.DOTALL)
RUN = "import runpy, sys; runpy.run_path(sys.argv[1])['test_run']()"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an Airflow of their own."""
    home = tmp_path_factory.mktemp("home")
    found = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "PYTHONPATH": str(REPOSITORY),
    }
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=found, check=True, capture_output=True)
    return found


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tasks", "files"),
    [
        (
            "example_clinker",
            {"cases", "check", "run", "dead_letters", "metrics"},
            ["examples/orders/output/regular_orders.csv", "tests/system/clinker/metrics.ndjson"],
        ),
        (
            "example_clinker_mapped",
            {"regions", "load"},
            ["tests/system/clinker/regions/out/north.csv", "tests/system/clinker/regions/out/south.csv"],
        ),
        (
            "example_clinker_taskflow",
            {"orders", "pipelines.cheap", "pipelines.counted"},
            ["examples/orders/output/regular_orders.csv", "tests/system/clinker/pipelines/out/counted.csv"],
        ),
    ],
)
def test_an_example_runs(
    name: str, tasks: set[str], files: list[str], settings: dict[str, str], tmp_path: Path
) -> None:
    # Beside the checkout, which stays as it is.
    shutil.copytree(REPOSITORY / "tests" / "system" / "clinker", tmp_path / "tests" / "system" / "clinker")
    orders = Path("examples", "orders")
    shutil.copytree(REPOSITORY / orders, tmp_path / orders, ignore=shutil.ignore_patterns("output"))
    example = tmp_path / "tests" / "system" / "clinker" / f"{name}.py"
    # Airflow runs those alone that it finds in its folder.
    environment = {**settings, "AIRFLOW__CORE__DAGS_FOLDER": str(example.parent)}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(example)], env=environment, cwd=tmp_path, capture_output=True, text=True,
        check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    states: Any = re.search(r"^STATES (.*)$", done.stdout, re.MULTILINE)
    assert json.loads(states[1].replace("'", '"')) == dict.fromkeys(tasks, "success")
    for file in files:
        assert (tmp_path / file).stat().st_size > 0


def test_every_example_is_run() -> None:
    marks: Any = test_an_example_runs.pytestmark  # type: ignore[attr-defined]
    (cases,) = [mark.args[1] for mark in marks if mark.name == "parametrize"]
    assert [each[0] for each in cases] == [path.stem for path in EXAMPLES]


def test_the_documentation_quotes_the_examples() -> None:
    page = (REPOSITORY / "docs" / "airflow.md").read_text()
    quotes = [found for path in EXAMPLES for found in QUOTED.findall(path.read_text())]
    assert len(quotes) >= 7
    for start, text, end in quotes:
        assert start == end
        assert textwrap.dedent(text).strip() in page, f"docs/airflow.md has not the text of {start}"
