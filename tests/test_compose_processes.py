"""The compose stack at work, as processes of this machine: Airflow on Postgres, a cluster, its history, a store.

No container engine is needed: the commands, environments, scripts and health checks are those of the compose file.
"""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests import postgres
from tests.compose_stack import SERVICES, Stack
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

PATIENCE_S = 900.0
#: Seconds between two questions: the server that is asked is the one that its tasks need.
_PAUSE_S = 1.0
#: In the order in which the compose file lets them start.
LASTING = (
    "object-store", "spark-master", "spark-worker-1", "spark-worker-2", "spark-history", "airflow-api-server",
    "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer",
)  # fmt: skip
OBJECTS = """
pipeline: {name: objects}
nodes:
  - {type: source, name: rows, config: {type: csv, path: "s3://clinker/in.csv", schema: {n: int}}}
  - {type: transform, name: twice, input: rows, config: {cxl: "emit n = n * 2"}}
  - {type: output, name: out, input: twice, config: {type: csv, path: "s3://clinker/out.csv"}}
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The whole stack, healthy."""
    for driver in ("psycopg2", "asyncpg", "moto"):
        pytest.importorskip(driver)
    folder = tmp_path_factory.mktemp("stack")
    alone = Stack(folder / "secrets-only", {})
    alone.run("secrets")
    password = (alone.folder / "secrets" / "database_password").read_text()
    with postgres.server("airflow", password) as port:
        postgres.Database(f"postgresql://airflow:{password}@127.0.0.1:{port}/postgres", "").run(
            "CREATE DATABASE airflow"
        )
        found = Stack(folder / "all", {("postgres", 5432): port})
        (found.folder / "secrets" / "database_password").write_text(password)
        try:
            found.run("secrets")
            found.start("object-store")
            assert until(lambda: found.is_healthy("object-store"), PATIENCE_S, every=_PAUSE_S), found.last_words(
                "object-store"
            )
            found.run("airflow-init")
            for service in LASTING[1:]:
                found.start(service)
            for service in ("postgres", *LASTING):
                assert until(lambda service=service: found.is_healthy(service), PATIENCE_S, every=_PAUSE_S), service
            yield found
        finally:
            found.stop()


def asked(url: str, body: dict[str, Any] | None = None, **head: str) -> Any:
    """The JSON document at an address; None where there is none."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **head})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)
    except OSError:
        return None


@pytest.fixture(scope="module")
def airflow(stack: Stack) -> str:
    """The address of the API, with a run of the example DAG that has succeeded."""
    url = f"http://127.0.0.1:{stack.ports['airflow-api-server', 8080]}"
    runs = f"{url}/api/v2/dags/clinker_orders/dagRuns"
    head = authorized(url)
    assert until(lambda: asked(f"{url}/api/v2/dags/clinker_orders", **head), PATIENCE_S, every=_PAUSE_S), (
        "the DAG is unknown"
    )
    with_id = {"dag_run_id": "first", "logical_date": None}
    pause = urllib.request.Request(
        f"{url}/api/v2/dags/clinker_orders", b'{"is_paused": false}', {"Content-Type": "application/json", **head},
        method="PATCH",
    )  # fmt: skip
    urllib.request.urlopen(pause, timeout=PATIENCE_S).close()
    assert asked(runs, with_id, **head) is not None
    until(
        lambda: (asked(f"{runs}/first", **head) or {}).get("state") in ("success", "failed"), PATIENCE_S, every=_PAUSE_S
    )
    ended = asked(f"{runs}/first", **head)
    assert (ended or {}).get("state") == "success", stack.last_words("airflow-scheduler")
    return url


def authorized(url: str) -> dict[str, str]:
    """The header of a user; the stack lets everyone be an administrator."""
    return {"Authorization": f"Bearer {asked(f'{url}/auth/token')['access_token']}"}


def test_every_service_is_started(stack: Stack) -> None:
    assert {"secrets", "postgres", "airflow-init", *LASTING} == set(SERVICES)
    assert all(stack.is_healthy(service) for service in LASTING)


def test_the_example_runs_on_the_cluster(stack: Stack, airflow: str) -> None:
    at = f"{airflow}/api/v2/dags/clinker_orders/dagRuns/first/taskInstances"
    head = authorized(airflow)
    states = {each["task_id"]: each["state"] for each in asked(at, **head)["task_instances"]}
    assert states == dict.fromkeys(("run", "dead_letters", "metrics", "report"), "success")
    written = {path.name for path in (stack.folder / "data" / "examples" / "orders" / "output").iterdir()}
    assert {"large_orders.ndjson", "regular_orders.csv", "sales_by_region.csv", "rejected_orders.csv"} <= written
    master = asked(f"http://127.0.0.1:{stack.ports['spark-master', 8080]}/json/")
    assert [each["state"] for each in master["completedapps"]] == ["FINISHED"]


def test_the_link_to_the_history_leads_somewhere(stack: Stack, airflow: str) -> None:
    head = authorized(airflow)
    links = asked(f"{airflow}/api/v2/dags/clinker_orders/dagRuns/first/taskInstances/run/links", **head)
    link = links["extra_links"]["Spark history"]
    assert link.startswith(f"http://127.0.0.1:{stack.ports['spark-history', 18080]}/history/app-"), link

    def page() -> str:
        try:
            with urllib.request.urlopen(f"{link}jobs/", timeout=PATIENCE_S) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    # The server looks for new logs every now and then.
    assert "clinker.pipeline" in until(page, PATIENCE_S, every=_PAUSE_S)


def test_runs_on_the_cluster_read_and_write_the_object_store(stack: Stack) -> None:
    from botocore import session

    given = stack.environment("spark-worker-1")
    keys = {"aws_access_key_id": given["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": given["AWS_SECRET_ACCESS_KEY"]}
    store = session.get_session().create_client(
        "s3", region_name=given["AWS_REGION"], endpoint_url=given["AWS_ENDPOINT_URL_S3"], **keys
    )
    store.put_object(Bucket="clinker", Key="in.csv", Body=b"n\n1\n2\n")
    pipeline = stack.folder / "data" / "objects.yaml"
    pipeline.write_text(OBJECTS)
    master = stack.here("airflow-scheduler", "spark://spark-master:7077")
    stack.run("airflow-scheduler", "clinker", "run", str(pipeline), "--master", master, "--allow-absolute-paths")
    assert store.get_object(Bucket="clinker", Key="out.csv")["Body"].read().split() == [b"n", b"2", b"4"]


def test_secrets_are_drawn_once_and_nobody_else_reads_what_the_stack_writes(stack: Stack, airflow: str) -> None:
    secrets = {path.name: path.read_text() for path in (stack.folder / "secrets").iterdir()}
    assert set(secrets) == {"fernet_key", "jwt_secret", "api_secret_key", "database_password", "database_url"}
    assert len({*secrets.values()}) == 5
    assert min(map(len, secrets.values())) >= 30
    stack.run("secrets")
    assert {path.name: path.read_text() for path in (stack.folder / "secrets").iterdir()} == secrets
    folders = [stack.folder / name for name in ("secrets", "data/examples/orders/output", "airflow/logs")]
    written = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" for path in written)
    assert not [path for path in written if path.stat().st_mode & 0o077 and path.name != "database_password"]
    told = "".join(path.read_text(errors="replace") for path in stack.folder.glob("*.log"))
    for name, secret in secrets.items():
        assert secret not in told, f"{name} is in the output of the stack"


def test_passwords_of_connections_are_encrypted(stack: Stack, airflow: str) -> None:
    add = ["connections", "add", "kept", "--conn-type", "generic", "--conn-password", "KEPT-connection-01"]
    stack.run("airflow-scheduler", "airflow", *add)
    uri = (stack.folder / "secrets" / "database_url").read_text().replace("+psycopg2", "")
    ((kept,),) = postgres.Database(uri, "").run("SELECT password FROM connection WHERE conn_id = 'kept'")
    assert kept.startswith("gAAAA"), "as Fernet encrypts"
