"""The connection type `clinker`: what tasks take from it, and what its test button says."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from clinker_provider.get_provider_info import get_provider_info
from tests.lazily import LazyModule

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import Bucket

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes connections."""

    def make(name: str, **fields: Any) -> None:
        written = json.dumps({"conn_type": "clinker", **fields})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", written)

    return make


def option(spark: Any, name: str) -> str | None:
    argv = spark.notes["argv"]
    return argv[argv.index(name) + 1] if name in argv else None


def test_tasks_take_what_they_are_not_given(spark: Any, context: Any, connect: Any, tmp_path: Path) -> None:
    links = {"dlq_url": "http://d{dlq_path}", "metrics_url": "http://m{metrics_path}"}
    connect(
        "etl",
        host="local[2]",
        extra={
            "work_dir": str(tmp_path / "shared"), "metrics_spool_dir": "/spool", "memory_limit": "3G", "threads": "2",
            "conf": '{"spark.a": "1", "spark.b": "1"}', "store_conn_id": "bucket", **links,
        },
    )  # fmt: skip
    connect("bucket", conn_type="aws", login="KEY-ID-9", password="LEAK-store-key", extra={"region_name": "eu"})
    job = {"exit": 2, "record": {"dlq_count": 1, "dlq_path": "/d.csv"}}
    operator = spark.operator(
        job, master=None, conn_id="etl", work_dir=None, memory_limit="1G", conf={"spark.b": "2"},
        link_templates={"metrics_url": "http://own{metrics_path}"},
    )  # fmt: skip
    operator.execute(context)
    argv = spark.notes["argv"]
    assert option(spark, "--master") == "local[2]"
    assert (option(spark, "--metrics-spool-dir"), option(spark, "--threads")) == ("/spool", "2")
    assert option(spark, "--memory-limit") == "1G", "the operator's own"
    assert {"spark.a=1", "spark.b=2"} <= set(argv)
    assert str(option(spark, "--work-dir")).startswith(str(tmp_path / "shared"))
    environ = spark.notes["environ"]
    assert (environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"]) == ("KEY-ID-9", "LEAK-store-key")
    assert environ["AWS_REGION"] == "eu"
    assert operator.link_templates == {"dlq_url": "http://d{dlq_path}", "metrics_url": "http://own{metrics_path}"}


def test_connections_to_azure_hold_credentials(connect: Any) -> None:
    from airflow.providers.common.compat.sdk import BaseHook

    from clinker_provider.hooks import clinker_connection

    connect("lake", conn_type="wasb", login="acme", password="KEY", extra={"sas_token": "SAS", "tenant_id": "x"})
    assert clinker_connection.credentials_of(BaseHook.get_connection("lake")) == {
        "AZURE_STORAGE_ACCOUNT_NAME": "acme",
        "AZURE_STORAGE_ACCOUNT_KEY": "KEY",
        "AZURE_STORAGE_SAS_TOKEN": "SAS",
    }


def test_no_log_has_what_a_store_connection_has(
    spark: Any, context: Any, connect: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    connect("etl", extra={"store_conn_id": "bucket"})
    connect("bucket", conn_type="aws", login="KEY-ID-9", password="LEAK-store-key")
    operator = spark.operator(
        {"exit": 0, "record": {}, "print": ["it says LEAK-store-key"]}, master=None, conn_id="etl"
    )
    operator.execute(context)
    assert "LEAK" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"extra": {"conf": "spark.a=1"}}, "connection `etl`: `conf` is no JSON"),
        ({"extra": {"conf": "[1]"}}, "`conf` is an object of Spark settings, not list"),
        ({"extra": {"store_conn_id": "nowhere"}}, "nowhere"),
        (
            {"extra": {"store_conn_id": "etl"}},
            "connection of type 'clinker'; stores take aws, google_cloud_platform, wasb",
        ),
    ],
)
def test_what_a_connection_has_wrong_ends_the_task_without_retry(
    fields: dict[str, Any], message: str, spark: Any, context: Any, connect: Any
) -> None:
    connect("etl", **fields)
    with pytest.raises(exceptions.ClinkerConnectionError) as raised:
        spark.operator({"exit": 0}, master=None, conn_id="etl").execute(context)
    assert message in str(raised.value)
    assert isinstance(raised.value, exceptions.AirflowFailException)


def test_connections_of_the_type_spark_go_on_to_work(spark: Any, context: Any, connect: Any) -> None:
    connect("other", conn_type="spark", host="spark://h", port=7077, extra={"work_dir": "/nowhere"})
    spark.operator({"exit": 0, "record": {}}, master=None, conn_id="other").execute(context)
    assert option(spark, "--master") == "spark://h:7077"
    assert "/nowhere" not in str(option(spark, "--work-dir"))


def button(connect: Any, **fields: Any) -> tuple[bool, str]:
    from clinker_provider.hooks.clinker_connection import ClinkerHook

    connect("etl", **fields)
    return ClinkerHook("etl").test_connection()


def test_the_test_button_says_what_is_wrong(connect: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        good = {"host": f"spark://127.0.0.1:{port}", "extra": {"work_dir": str(tmp_path)}}
        assert button(connect, **good) == (True, f"Spark is at spark://127.0.0.1:{port}, and folders can be used")
        assert button(connect, host=f"spark://127.0.0.1:1,127.0.0.1:{port}")[0], "one of two masters answers"
    file = tmp_path / "file"
    file.write_text("")
    is_fine, text = button(
        connect,
        host=f"spark://127.0.0.1:{port}",
        extra={"spark-binary": "/nowhere/spark-submit", "work_dir": str(file), "store_conn_id": "none"},
    )
    assert not is_fine
    for part in (
        "`/nowhere/spark-submit` is not there",
        f"nobody answers at 127.0.0.1:{port}",
        f"`work_dir`: {file} is no folder",
        "there is no connection `none`",
    ):  # fmt: skip
        assert part in text
    assert button(connect, host="mesos://h:1") == (
        False, "'mesos://h:1' is no Spark master such as local[*], spark://host:7077, yarn, k8s://https://host:443"
    )  # fmt: skip
    assert button(connect)[0], "embedded Spark"
    connect("store", conn_type="aws")
    assert button(connect, extra={"store_conn_id": "store"}) == (False, "the connection `store` has no credentials")


def test_the_test_button_looks_into_a_store(connect: Any, s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"login": os.environ["AWS_ACCESS_KEY_ID"], "password": os.environ["AWS_SECRET_ACCESS_KEY"]}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    is_fine, text = button(connect, extra={"work_dir": s3.uri("work")})
    assert (is_fine, "`work_dir`: " in text, "no credentials are found" in text) == (False, True, True)
    connect("bucket", conn_type="aws", **keys)
    assert button(connect, extra={"work_dir": s3.uri("work"), "store_conn_id": "bucket"})[0]
    is_fine, text = button(connect, extra={"work_dir": "s3://no-such-bucket-1/work", "store_conn_id": "bucket"})
    assert (is_fine, "`work_dir`: " in text, "no bucket is named" in text) == (False, True, True), text


def test_the_form_has_every_field_that_is_read() -> None:
    from airflow.providers_manager import ProvidersManager

    from clinker_provider.hooks import clinker_connection as connections

    (form,) = get_provider_info()["connection-types"]
    read = {*connections._DEFAULTS, *connections._LINKS, "conf", "store_conn_id", "deploy-mode", "spark-binary"}
    assert read <= set(form["conn-fields"])
    manager = ProvidersManager()
    hook = manager.hooks["clinker"]
    assert hook is not None
    assert (hook.hook_name, hook.connection_id_attribute_name) == ("Clinker", "clinker_conn_id")
