"""The provider in a real Airflow: its example through scheduler and workers, the task's tab, rights, figures."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

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
    """What Airflow has sent to collectors: lines of StatsD, and the names of Clinker's spans."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.spans: list[str] = []


@contextmanager
def collectors() -> Iterator[tuple[Collected, dict[str, str]]]:
    """A StatsD server and one for traces, with the settings of an Airflow that sends to them."""
    found = Collected()

    class Traces(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
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


@pytest.fixture(scope="module")
def airflow(collected: tuple[Collected, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """An Airflow that has run the example `orders`, and sends figures and traces to collectors."""
    folder = tmp_path_factory.mktemp("airflow")
    examples, dags = folder / "examples", folder / "dags"
    shutil.copytree(REPOSITORY / "examples" / "orders", examples / "orders", ignore=shutil.ignore_patterns("output"))
    dags.mkdir()
    shutil.copy(REPOSITORY / "dags" / "clinker_orders.py", dags)
    with running(folder, dags, {"CLINKER_EXAMPLES": str(examples), **collected[1]}) as found:
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
