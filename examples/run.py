"""Runs an example through Airflow on embedded Spark, then shows its XComs and files. `make run` calls this.

    python examples/run.py [EXAMPLE [PARAMETER=VALUE …]]

The example is `orders` by default; parameters are the parameters of its DAG. Airflow works in a home of its own
(`.tools/airflow`), so it does not touch another Airflow on this computer. Exit status 0: the DAG's run succeeded.
"""

# ruff: noqa: T201  # this program prints

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import warnings
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
# Both can be elsewhere, as in the tests.
EXAMPLES = Path(os.environ.setdefault("CLINKER_EXAMPLES", str(REPOSITORY / "examples")))
HOME = Path(os.environ.get("CLINKER_DEMO_HOME", str(REPOSITORY / ".tools" / "airflow")))
ROWS_SHOWN = 5
CELL_WIDTH = 34
VALUE_WIDTH = 500


def main(arguments: list[str]) -> int:
    """Run and show; the exit status is 0 when the DAG's run succeeded."""
    example, *given = arguments or ["orders"]
    dag, parameters = f"clinker_{example}", dict(each.split("=", 1) for each in given)
    prepare_airflow()
    # Only now: Airflow reads its settings when it is imported.
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(REPOSITORY / "dags" / f"{dag}.py"))
    for file, error in bag.import_errors.items():
        print(f"{file} cannot be read by Airflow:\n{error}", file=sys.stderr)
    if bag.import_errors:
        return 1
    print(
        f"Running the DAG {dag} on embedded Spark (CLINKER_DEMO_LOG_LEVEL=INFO shows every line of the log) …",
        flush=True,
    )
    run = bag.dags[dag].test(run_conf=parameters)

    show_outputs(EXAMPLES / example / "output")
    show_xcoms(dag, run.run_id)
    title("Tasks")
    for task in sorted(run.get_task_instances(), key=lambda item: item.start_date or run.start_date):
        print(f"  {task.task_id:14} {task.state}")
    return 0 if run.state == "success" else 1


def prepare_airflow() -> None:
    """Point Airflow to its own home, with embedded Spark as the connection, and make its database once."""
    HOME.mkdir(parents=True, exist_ok=True)
    os.environ.update(
        {
            "AIRFLOW_HOME": str(HOME),
            "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(HOME / "logs"),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": os.environ.get("CLINKER_DEMO_LOG_LEVEL", "WARNING"),
        }
    )
    # Airflow's test mode talks to itself through a library that announces its successor.
    warnings.filterwarnings("ignore", message="Using `httpx`")
    os.environ.setdefault("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[*]"}))
    migrated = HOME / "migrated-to"
    if migrated.is_file() and migrated.read_text() == version("apache-airflow"):
        return
    print("Preparing Airflow's database …", flush=True)
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        raise SystemExit("Airflow's database cannot be made")
    migrated.write_text(version("apache-airflow"))


def title(text: str) -> None:
    """A heading between the parts of the report."""
    print(f"\n── {text} {'─' * max(0, 96 - len(text))}")


def show_outputs(outputs: Path) -> None:
    """The first rows of every output in a folder, and the dead letters as one block each."""
    for path in sorted(outputs.glob("*.csv")) + sorted(outputs.glob("*_orders.ndjson")):
        title(os.path.relpath(path))
        if path.name.startswith("rejected"):
            show_dead_letters(path)
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                show_table(list(islice(csv.reader(file), ROWS_SHOWN + 1)))
        else:
            with path.open(encoding="utf-8") as file:
                print(*(f"  {line.rstrip()}" for line in islice(file, ROWS_SHOWN)), sep="\n")


def show_table(rows: list[list[str]]) -> None:
    """Rows in columns that are as wide as their cells."""
    widths = [min(max(map(len, column)), CELL_WIDTH) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(cell[:width].ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show_dead_letters(path: Path) -> None:
    """Each dead letter: what went wrong and where, then the record."""
    with path.open(encoding="utf-8", newline="") as file:
        for entry in islice(csv.DictReader(file), ROWS_SHOWN):
            about = {
                key.removeprefix("_cxl_dlq_"): value for key, value in entry.items() if key.startswith("_cxl_dlq_")
            }
            record = {key: value for key, value in entry.items() if not key.startswith("_cxl_dlq_")}
            print(f"  {about['source_file']} row {about['source_row']}: {about.get('error_category', '')}", end="")
            print(f" in {about['stage']} ({about['triggering_field']}): {about.get('error_detail', '')}")
            print(f"    {json.dumps(record, ensure_ascii=False)}")


def show_xcoms(dag: str, run_id: str) -> None:
    """Print the XComs that the run's task pushed, by key."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    title("XComs of the task `run`")
    with create_session() as session:
        found = session.scalars(XComModel.get_many(run_id=run_id, dag_ids=[dag], task_ids=["run"])).all()
        for item in sorted(found, key=lambda entry: entry.key):
            if item.key.startswith("_link_"):
                continue  # Airflow's own, for the buttons of its pages
            value = XComModel.deserialize_value(item)
            if isinstance(value, dict) and value:
                print(f"  {item.key}")
                for key, inner in value.items():
                    print(f"    {key:18} {shortened(inner)}")
            else:
                print(f"  {item.key:14} {shortened(value)}")


def shortened(value: Any) -> str:
    """A value as JSON; of a long one, such as a picture, only how much it is."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= VALUE_WIDTH:
        return text
    return f'"… {len(value)} {"characters" if isinstance(value, str) else "entries"}"'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
