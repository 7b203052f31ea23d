"""The example through Airflow and real Spark, as `make run` does it: from the checkout, and from a wheel outside it."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from clinker_provider import process_tree
from tests.waiting import until

if TYPE_CHECKING:
    from tests.cluster import Cluster

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parent.parent.parent
EXACT = ("large_orders.ndjson", "regular_orders.csv", "sales_by_region.csv")


class Ran:
    """A finished demonstration: its report, and the folder that the example wrote to."""

    def __init__(
        self, done: subprocess.CompletedProcess[str], folder: Path, temporary: Path, example: str = "orders"
    ) -> None:
        self.done = done
        self.example = folder / "examples" / example
        self.home = folder / "airflow"
        self.temporary = temporary

    @property
    def xcoms(self) -> dict[str, Any]:
        """What the report shows under XComs, read back."""
        part = self.done.stdout.partition("XComs of the task `run`")[2].partition("── Tasks")[0]
        found: dict[str, Any] = {}
        name = ""
        for indent, key, value in re.findall(r"^( +)(\w+) *(.*)$", part, re.MULTILINE):
            if len(indent) > 2:
                found[name][key] = json.loads(value)
            else:
                name = key
                found[name] = json.loads(value) if value else {}
        return found


def demonstrate(
    python: Path,
    repository: Path,
    folder: Path,
    arguments: tuple[str, ...] = (),
    example: tuple[str, ...] = ("orders",),
) -> Ran:
    """Run `examples/run.py` of a repository with an interpreter, on a copy of the examples in `folder`."""
    temporary = folder / "temporary"
    if not temporary.exists():
        shutil.copytree(REPOSITORY / "examples", folder / "examples", ignore=shutil.ignore_patterns("output"))
        temporary.mkdir()
    # Neither an active environment, nor settings of another Airflow, nor the paths of this checkout may help.
    foreign = ("AIRFLOW", "VIRTUAL_ENV", "SPARK", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environ = {
        **kept,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "CLINKER_EXAMPLES": str(folder / "examples"),
        "CLINKER_DEMO_HOME": str(folder / "airflow"),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "TMPDIR": str(temporary),
    }
    done = subprocess.run(
        [str(python), *arguments, str(repository / "examples" / "run.py"), *example],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return Ran(done, folder, temporary, example[0])


def rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def compare(example: Path) -> None:
    """The files are the expected ones; `*` in an expected dead letter stands for anything."""
    output, expected = example / "output", example / "expected"
    for name in EXACT:
        assert (output / name).read_bytes() == (expected / name).read_bytes(), name
    found, wanted = rows(output / "rejected_orders.csv"), rows(expected / "rejected_orders.csv")
    assert [[*map(len, (found, found[0]))]] == [[*map(len, (wanted, wanted[0]))]]
    for row, pattern in zip(found, wanted, strict=True):
        assert [cell if want != "*" else "*" for cell, want in zip(row, pattern, strict=True)] == pattern


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return demonstrate(Path(sys.executable), REPOSITORY, tmp_path_factory.mktemp("demo"))


def test_every_task_succeeds(ran: Ran) -> None:
    assert ran.done.returncode == 0, ran.done.stdout[-4000:] + ran.done.stderr[-4000:]
    tasks = ran.done.stdout.partition("── Tasks")[2]
    assert dict(re.findall(r"^  (\w+) +(\w+)$", tasks, re.MULTILINE)) == dict.fromkeys(
        ("run", "dead_letters", "metrics", "report"), "success"
    )


def test_plan_is_among_the_rendered_fields(ran: Ran) -> None:
    with contextlib.closing(sqlite3.connect(ran.home / "airflow.db")) as database:
        (text,) = database.execute(
            "select rendered_fields from rendered_task_instance_fields where task_id = 'run'"
        ).fetchone()
    rendered = json.loads(text)
    assert rendered["pipeline"] == str(ran.example / "pipeline.yaml")
    assert "Execution Plan: orders" in rendered["plan_text"]
    assert "Truncated" not in rendered["plan_text"]


def test_outputs_are_the_expected_ones(ran: Ran) -> None:
    compare(ran.example)


def test_xcoms_tell_what_the_run_did(ran: Ran) -> None:
    xcoms = ran.xcoms
    assert xcoms["exit_code"] == 2
    assert xcoms["status"] == "partial_success"
    assert xcoms["dlq_count"] == 2
    assert Path(xcoms["dlq_path"]) == ran.example / "output" / "rejected_orders.csv"
    assert re.fullmatch(r"local-\d+", xcoms["application_id"])
    assert xcoms["execution_id"] in xcoms["metrics_path"]
    # Twelve orders and five customers; one order was cancelled, two died.
    assert xcoms["metrics"]["records_total"] == 17
    assert xcoms["metrics"]["records_dlq"] == 2
    assert xcoms["return_value"]["records"]["filtered"] == 1
    assert {Path(path).name for path in xcoms["return_value"]["output_files"]} >= set(EXACT)


def test_metrics_were_collected(ran: Ran) -> None:
    (line,) = (ran.example / "output" / "metrics.ndjson").read_text().splitlines()
    assert json.loads(line)["execution_id"] == ran.xcoms["execution_id"]
    assert list((ran.example / "output" / "spool").iterdir()) == []


def test_nothing_is_left_behind(ran: Ran) -> None:
    found = {path.name for path in (ran.example / "output").iterdir()}
    records = {name for name in found if name.startswith(".clinker-once-")}
    assert len(records) == 1, "a retry knows by it what was published"
    assert found - records == {*EXACT, *("rejected_orders.csv", "metrics.ndjson", "spool")}
    left = [path.name for path in ran.temporary.iterdir() if "hsperfdata" not in path.name]
    assert [name for name in left if "clinker" in name or "spark" in name] == []


def test_invoices_are_posted_rejected_mended_and_posted_by_their_dag(tmp_path: Path) -> None:
    """The second run has the mended dead letters of the first as its lines, and rejects none."""

    def ran_with(*example: str) -> tuple[Ran, dict[str, str]]:
        found = demonstrate(Path(sys.executable), REPOSITORY, tmp_path, example=("invoices", *example))
        assert found.done.returncode == 0, found.done.stdout[-4000:] + found.done.stderr[-4000:]
        tasks = found.done.stdout.partition("── Tasks")[2]
        return found, dict(re.findall(r"^  (\w+) +(\w+)$", tasks, re.MULTILINE))

    first, states = ran_with()
    assert states == dict.fromkeys(("run", "rejected", "report"), "success")
    output, expected = first.example / "output", first.example / "expected"
    for name in ("postings.csv", "invoice_totals.csv", "account_totals.csv"):
        assert (output / name).read_bytes() == (expected / name).read_bytes(), name
    assert (first.xcoms["exit_code"], first.xcoms["dlq_count"]) == (2, len(rows(output / "rejected_lines.csv")) - 1 + 2)
    rejected = output / "rejected_lines.csv"
    header, *lines = rows(rejected)
    mended = [dict(zip(header, line, strict=True)) for line in lines]
    for line in mended:
        line["amount"] = line["amount"] if line["amount"].isdigit() else "25"
        line["invoice"] = line["invoice"].replace("I5", "I4")
    with (first.example / "input" / "mended.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(mended)
    second, states = ran_with("lines=input/mended.csv")
    assert states["run"] == "success"
    assert (second.xcoms["exit_code"], second.xcoms["dlq_count"]) == (0, 0)
    posted = [row[:2] for row in rows(output / "postings.csv")[1:]]
    assert posted == [[line["invoice"], line["line"]] for line in mended]
    assert not rejected.exists()
    assert states["report"] == "skipped"


def test_missing_application_is_red_though_its_return_code_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Any
) -> None:
    from clinker_provider.exceptions import ClinkerResultMissing
    from clinker_provider.operators.spark import ClinkerSparkOperator
    from spark_jobs import bundle

    monkeypatch.setattr(bundle, "application", lambda: tmp_path / "nowhere.py")
    operator = ClinkerSparkOperator(
        task_id="run", pipeline=str(REPOSITORY / "examples/orders/pipeline.yaml"), master="local[1]", validate="off"
    )
    with pytest.raises(ClinkerResultMissing, match=r"(?s)returned 2, .*nowhere\.py") as raised:
        operator.execute(context)
    assert raised.value.exit_code == 4
    assert context["ti"].pushed["status"] == "failed"


def test_operator_runs_the_example_on_a_standalone_cluster(
    tmp_path: Path, context: Any, spark_cluster: Cluster
) -> None:
    from clinker_provider.operators.spark import ClinkerSparkOperator

    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("output"))
    before = len(spark_cluster.state()["completedapps"])
    operator = ClinkerSparkOperator(
        task_id="run",
        pipeline=str(tmp_path / "examples" / "orders" / "pipeline.yaml"),
        master=spark_cluster.master,
        name="orders on a cluster",
        env_vars={"SPARK_LOCAL_IP": "127.0.0.1"},
        total_executor_cores=2,
        executor_memory="512m",
    )
    returned = operator.execute(context)
    assert returned["status"] == "partial_success"
    compare(tmp_path / "examples" / "orders")
    application = context["ti"].pushed["application_id"]
    done = until(lambda: spark_cluster.state()["completedapps"][before:])
    assert application in [app["id"] for app in done]


def test_kill_of_a_real_run_leaves_no_process_and_no_file(tmp_path: Path, context: Any) -> None:
    from clinker_provider.exceptions import ClinkerInterrupted
    from clinker_provider.operators.spark import ClinkerSparkOperator

    shutil.copytree(REPOSITORY / "examples" / "orders", tmp_path / "orders", ignore=shutil.ignore_patterns("output"))
    work = tmp_path / "work"
    pipeline = str(tmp_path / "orders" / "pipeline.yaml")
    operator = ClinkerSparkOperator(
        task_id="run", pipeline=pipeline, master="local[1]", validate="off", work_dir=str(work)
    )
    failures: list[BaseException] = []

    def execute() -> None:
        try:
            operator.execute(context)
        except ClinkerInterrupted as error:
            failures.append(error)

    thread = threading.Thread(target=execute)
    thread.start()
    try:
        (execution_id,) = until(lambda: {name for name in marks() if "run" in name})
        # The JVM, and the Python driver that it started.
        until(lambda: len(process_tree.marked(execution_id)) >= 2)
    finally:
        operator.on_kill()
        thread.join(60)
    assert not thread.is_alive()
    assert process_tree.marked(execution_id) == set()
    assert len(failures) == 1
    assert context["ti"].pushed["exit_code"] == 130
    assert list(work.iterdir()) == []
    assert not (tmp_path / "orders" / "output").exists()


def marks() -> set[str]:
    """The execution ids of the runs whose processes are on this machine now, children of this process only."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found.add(process.environ().get(process_tree.MARK, ""))
    return found - {""}


def test_wheel_in_a_fresh_environment_runs_the_example(tmp_path: Path) -> None:
    uv = shutil.which("uv") or str(REPOSITORY / ".tools" / "uv" / "bin" / "uv")
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"

    def call(*command: str, cwd: Path = REPOSITORY) -> None:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"

    for project in (REPOSITORY, REPOSITORY / "clinker_provider"):
        call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist"), cwd=project)
    wheels = [str(wheel) for wheel in (tmp_path / "dist").glob("*.whl")]
    call(uv, "venv", "-q", "--python", sys.executable, str(environment))
    call(uv, "pip", "sync", "-q", "--python", str(python), "--require-hashes", "requirements.lock")
    call(uv, "pip", "install", "-q", "--python", str(python), "--no-deps", *wheels)
    # A place with the DAG and the example, and nothing else of the checkout.
    shutil.copytree(REPOSITORY / "dags", tmp_path / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    ran = demonstrate(python, tmp_path, tmp_path, ("-P",))
    assert ran.done.returncode == 0, ran.done.stdout[-4000:] + ran.done.stderr[-4000:]
    compare(ran.example)
    assert ran.xcoms["status"] == "partial_success"
    where = subprocess.run(
        [str(python), "-I", "-c", "import spark_jobs; print(spark_jobs.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(environment))
    # A gigabyte that pytest would keep for three runs.
    shutil.rmtree(environment)
