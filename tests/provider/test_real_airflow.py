"""The provider in a real Airflow: its example through scheduler and workers, tab, rights, figures, secrets."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

pytest.importorskip("airflow.api_fastapi", reason="Airflow 3 has these processes")

from tests.provider.real_airflow import Airflow, running
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parent.parent.parent
RUN = "first+run"
TASK = {"DAG_ID": "clinker_orders", "RUN_ID": "first%2Brun", "TASK_ID": "run"}


class Collected:
    """What Airflow has sent to collectors: lines of StatsD, traces, and the names of Clinker's spans in them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.traces: list[bytes] = []
        self.spans: list[str] = []


@contextmanager
def collectors() -> Iterator[tuple[Collected, dict[str, str]]]:
    """A StatsD server and one for traces, with the settings of an Airflow that sends to them."""
    found = Collected()

    class Traces(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.traces.append(body)
            # Names are plain text between the numbers of the protocol.
            found.spans.extend(
                each.decode() for each in re.findall(rb"clinker\.(?:run|job \d|[a-z]+)(?=[0-9\x00-\x20])", body)
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    def listen(at: socket.socket) -> None:
        while text := at.recv(65_536).decode():
            found.lines.extend(text.splitlines())

    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd,
        ThreadingHTTPServer(("127.0.0.1", 0), Traces) as traces,
    ):
        statsd.bind(("127.0.0.1", 0))
        threads = [threading.Thread(target=listen, args=[statsd]), threading.Thread(target=traces.serve_forever)]
        for thread in threads:
            thread.start()
        settings = {
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(statsd.getsockname()[1]),
            "AIRFLOW__TRACES__OTEL_ON": "True",
            "OTEL_TRACES_EXPORTER": "otlp_proto_http",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{traces.server_port}/v1/traces",
        }
        try:
            yield found, settings
        finally:
            statsd.sendto(b"", statsd.getsockname())  # an end that the listener sees
            traces.shutdown()
            for thread in threads:
                thread.join()


@pytest.fixture(scope="module")
def collected() -> Iterator[tuple[Collected, dict[str, str]]]:
    """The collectors of this Airflow."""
    with collectors() as found:
        yield found


#: Where Airflow finds each secret, and what it is called there.
SECRETS = {
    "AIRFLOW_VAR_CONF_TOKEN": "LEAK-conf-01",
    "AIRFLOW_VAR_SAS_TOKEN": "sv=1&sig=LEAK-sas-02",
    "AIRFLOW_VAR_PLAIN": "LEAK-header-03",
    "AIRFLOW_VAR_API_KEY": "LEAK-uri-04",
    "AIRFLOW_CONN_DB": json.dumps({"conn_type": "postgres", "host": "db", "login": "u", "password": "LEAK-conn-05"}),
    "AIRFLOW_CONN_BUCKET": json.dumps({"conn_type": "aws", "login": "AKIA", "password": "LEAK-store-06"}),
    "AIRFLOW_CONN_LEAKS": json.dumps(
        {"conn_type": "clinker", "host": "local[1]", "password": "LEAK-own-07", "extra": {"store_conn_id": "bucket"}}
    ),
    # What only the environment of the worker has: a credential of the pipeline, and the connection of a database.
    "SHOP_ENVIRONMENT": "LEAK-environment-08",
    "CLINKER_CONNECTION_STOCK": "postgresql://u:LEAK-database-09@127.0.0.1:1/stock",
}
LEAKS_DAG = """
from datetime import datetime

from airflow.sdk import dag

from clinker_provider.operators.spark import ClinkerSparkOperator
from clinker_provider.operators.validate import ClinkerValidateOperator
from clinker_provider.sensors.dead_letters import ClinkerDeadLettersSensor

GIVEN = {
    "KEY": "{{ var.value.api_key }}", "HDR": "{{ var.value.plain }}",
    "FROM_CONN": "{{ conn.db.password }}", "DATABASE_URL": "{{ conn.db.get_uri() }}",
}
# A variable with a plain name is a secret where the pipeline sends it as a credential, and nowhere else.
SENT = {name: value for name, value in GIVEN.items() if name != "HDR"}


@dag(dag_id="leaks", schedule=None, start_date=datetime(2026, 1, 1), catchup=False)
def leaks():
    check = ClinkerValidateOperator(task_id="check", pipeline="FOLDER/p.yaml", env_vars=GIVEN, preview="rows")
    run = ClinkerSparkOperator(
        task_id="run", pipeline="FOLDER/p.yaml", conn_id="leaks", env_vars=GIVEN, emit_assets=True, verbose=True,
        conf={
            "spark.my.token": "{{ var.value.conf_token }}",
            "spark.hadoop.fs.azure.sas.box.store.blob.core.windows.net": "{{ var.value.sas_token }}",
        },
        metrics_spool_dir="FOLDER/spool", work_dir="FOLDER/work",
    )
    letters = ClinkerDeadLettersSensor(task_id="letters", path="FOLDER/dead.csv", deferrable=True, poke_interval=1)
    refused = [
        ClinkerSparkOperator(
            task_id=name, pipeline=f"FOLDER/{name}.yaml", conn_id="leaks", env_vars=SENT, exit_codes={4: "skip"},
            validate="execute", metrics_spool_dir="FOLDER/spool", work_dir="FOLDER/work",
        )
        for name in ("refused_rest", "refused_database")
    ]
    check >> [run, letters, *refused]


leaks()
"""
LEAKS_PIPELINE = """
pipeline: { name: leaks }
error_handling: { strategy: continue, dlq: { path: dead.csv } }
nodes:
  - type: source
    name: rows
    config:
      type: json
      schema: { id: int }
      transport:
        kind: rest
        url: "http://127.0.0.1:PORT/rows?api_key=${KEY}"
        max_pages: 1
        auth: { scheme: header, name: X-Header, value: "key ${HDR}" }
  - { type: output, name: out, input: rows, config: { type: csv, path: out.csv } }
"""
#: Pipelines whose services refuse, so that errors tell what was asked.
REFUSED = {
    "refused_rest": (
        "transport: {kind: rest, url: 'http://127.0.0.1:PORT/refused?api_key=${KEY}', max_pages: 1, "
        "auth: {scheme: bearer, token: '${SHOP_ENVIRONMENT}'}}",
        "json",
    ),
    "refused_database": ("options: {connection: stock, table: t}", "database"),
}
REFUSED_PIPELINE = """
pipeline: { name: NAME }
nodes:
  - { type: source, name: rows, config: { type: KIND, schema: { id: int }, WHERE } }
  - { type: output, name: out, input: rows, config: { type: csv, path: NAME.csv } }
"""


class Watched:
    """A REST service that wants a credential, and what has been seen on command lines meanwhile."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.command_lines: set[str] = set()
        self.looks = 0


@contextmanager
def watching() -> Iterator[tuple[Watched, int]]:
    """A REST service on loopback, and somebody who reads the process list as long as it is there."""
    found, over = Watched(), threading.Event()

    class Rows(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            credential = self.headers.get("X-Header") or self.headers.get("Authorization") or ""
            found.asked.append((self.path, credential))
            if self.path.startswith("/refused"):
                self.send_error(403)
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'[{"id": 1}, {"id": "two"}]')

        def log_message(self, *arguments: object) -> None:
            pass

    def watch() -> None:
        while not over.wait(0.05):
            found.looks += 1
            for each in psutil.process_iter():
                try:
                    words = " ".join(each.cmdline())
                except psutil.Error:
                    continue
                if "LEAK-" in words:
                    found.command_lines.add(words)

    with ThreadingHTTPServer(("127.0.0.1", 0), Rows) as server:
        threads = [threading.Thread(target=server.serve_forever), threading.Thread(target=watch)]
        for thread in threads:
            thread.start()
        try:
            yield found, server.server_port
        finally:
            over.set()
            server.shutdown()
            for thread in threads:
                thread.join()


@pytest.fixture(scope="module")
def airflow(collected: tuple[Collected, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """An Airflow that has run the example `orders`, and sends figures, traces and lineage to collectors."""
    folder = tmp_path_factory.mktemp("airflow")
    examples, dags = folder / "examples", folder / "dags"
    shutil.copytree(REPOSITORY / "examples" / "orders", examples / "orders", ignore=shutil.ignore_patterns("output"))
    dags.mkdir()
    shutil.copy(REPOSITORY / "dags" / "clinker_orders.py", dags)
    lineage = {"type": "file", "log_file_path": str(folder / "lineage.ndjson"), "append": True}
    settings = {"CLINKER_EXAMPLES": str(examples), "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage)}
    with running(folder, dags, {**settings, **SECRETS, **collected[1]}) as found:
        found.trigger("clinker_orders", RUN, "2026-01-01T00:00:00Z")
        assert found.ended("clinker_orders", RUN) == "success", found.task_states("clinker_orders", RUN)
        yield found


def test_the_example_runs_through_scheduler_and_workers(airflow: Airflow) -> None:
    states = airflow.task_states("clinker_orders", RUN)
    assert states == dict.fromkeys(("run", "dead_letters", "metrics", "report"), ("success", 1))
    assert airflow.xcom("clinker_orders", RUN, "run", "status") == "partial_success"
    written = {path.name for path in (airflow.folder / "examples" / "orders" / "output").iterdir()}
    assert {"large_orders.ndjson", "regular_orders.csv", "sales_by_region.csv", "rejected_orders.csv"} <= written


def test_the_tab_of_a_task_leads_to_its_page(airflow: Airflow) -> None:
    status, text = airflow.get("/api/v2/plugins")
    (plugin,) = [each for each in json.loads(text)["plugins"] if each["name"] == "clinker"]
    (view,) = plugin["external_views"]
    assert (status, view["destination"]) == (200, "task_instance")
    # As Airflow's pages do: what they do not know, the number of a task that is not mapped, they leave.
    href = view["href"]
    for name, value in TASK.items():
        href = href.replace(f"{{{name}}}", value)
    status, text = airflow.get(f"/{href}".replace("{", "%7B").replace("}", "%7D"))
    assert status == 200
    assert "<h1>clinker_orders: run</h1>" in text
    assert "<td>priced</td><td>transform</td>" in text
    assert "Dead letters: 2" in text
    assert 'src="data:image/svg+xml,' in text


def test_a_page_is_for_those_who_may_read_the_dag(airflow: Airflow) -> None:
    page = "/clinker/dags/{DAG_ID}/runs/{RUN_ID}/tasks/{TASK_ID}/-1".format(**TASK)
    statuses = {user: airflow.get(page, user=user) for user in ("ann", "vic", "nora", None)}
    assert {user: status for user, (status, _) in statuses.items()} == {"ann": 200, "vic": 200, "nora": 403, None: 401}
    for user in ("nora", None):
        assert "priced" not in statuses[user][1]


def test_airflow_has_nothing_to_say_against_the_plugin(airflow: Airflow) -> None:
    assert json.loads(airflow.get("/api/v2/plugins/importErrors")[1])["import_errors"] == []
    assert json.loads(airflow.get("/api/v2/importErrors")[1])["import_errors"] == []


def test_figures_and_spans_arrive_at_collectors(airflow: Airflow, collected: tuple[Collected, dict[str, str]]) -> None:
    found = collected[0]
    for line in (
        "airflow.clinker.task.clinker_orders.run.runs.partial_success:1|c",
        "airflow.clinker.task.clinker_orders.run.records_read:17|c",
        "airflow.clinker.pipeline.orders.dead_letters:2|c",
        "airflow.clinker.node.orders.priced.dead:2|c",
        "airflow.clinker.category.orders.type_coercion_failure.dead_letters:2|c",
    ):
        assert found.lines.count(line) == 1, [each for each in found.lines if "clinker" in each]
    assert [each for each in found.lines if re.match(r"airflow\.clinker\.phase\.orders\.session\.duration:\d", each)]
    assert until(lambda: {"clinker.run", "clinker.session", "clinker.publish"} <= set(found.spans), 60), found.spans


@pytest.fixture(scope="module")
def leaking(airflow: Airflow) -> Watched:
    """A run of a DAG that is given secrets in every way, to its end."""
    folder = airflow.folder / "leaks"
    (folder / "work").mkdir(parents=True)
    with watching() as (watched, port):
        (folder / "p.yaml").write_text(LEAKS_PIPELINE.replace("PORT", str(port)))
        for name, (where, kind) in REFUSED.items():
            text = REFUSED_PIPELINE.replace("NAME", name).replace("KIND", kind).replace("WHERE", where)
            (folder / f"{name}.yaml").write_text(text.replace("PORT", str(port)))
        (airflow.folder / "dags" / "leaks.py").write_text(LEAKS_DAG.replace("FOLDER", str(folder)))
        airflow.trigger("leaks", "r")
        assert airflow.ended("leaks", "r") == "success", airflow.task_states("leaks", "r")
    return watched


def test_secrets_reach_the_run_and_nothing_else(
    airflow: Airflow, leaking: Watched, collected: tuple[Collected, dict[str, str]]
) -> None:
    assert ("/rows?api_key=LEAK-uri-04", "key LEAK-header-03") in leaking.asked
    assert ("/refused?api_key=LEAK-uri-04", "Bearer LEAK-environment-08") in leaking.asked
    assert airflow.xcom("leaks", "r", "run", "status") == "partial_success"
    assert {airflow.xcom("leaks", "r", name, "exit_code") for name in REFUSED} == {4}
    assert airflow.xcom("leaks", "r", "check", "preview") == {"rows": [{"id": 1}]}
    # Logs of tasks and of all processes, metrics files, dead letters, lineage, and the database with its XComs,
    # rendered fields, asset events and trigger rows.
    files = [path for path in airflow.folder.rglob("*") if path.is_file()]
    kinds = {"attempt=1.log", "scheduler.log", "airflow.db", "dead.csv", "out.csv"}
    assert kinds <= {path.name for path in files}
    assert list((airflow.folder / "leaks" / "spool").iterdir())
    assert not [str(path) for path in files if b"LEAK-" in path.read_bytes()]
    for task in ("run", *REFUSED):
        status, page = airflow.get(f"/clinker/dags/leaks/runs/r/tasks/{task}/-1")
        assert (status, "LEAK-" in page) == (200, False)
    events = airflow.get("/api/v2/assets/events")[1]
    assert '"dlq_count": 1' in events.replace('":1', '": 1')
    assert "LEAK-" not in events
    sent: Any = [*collected[0].lines, *map(str, collected[0].traces)]
    assert [each for each in sent if "leaks" in each]
    assert not [each for each in sent if "LEAK-" in each]
    assert leaking.looks > 10
    assert leaking.command_lines == set()


def test_lineage_is_among_what_has_been_looked_through(airflow: Airflow, leaking: Watched) -> None:
    pytest.importorskip("airflow.providers.openlineage", reason="the lineage package is optional")
    assert leaking.asked
    text = (airflow.folder / "lineage.ndjson").read_text()
    assert '"leaks.run"' in text
    assert "127.0.0.1" in text
