"""How the operator submits a job: the command line, the environment, connections, and what a cluster needs."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

import pytest

from clinker_provider import launcher
from spark_jobs.execute.spark.embedded import class_archive
from tests.lazily import LazyModule

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")


def test_command_line_ships_the_engine_and_names_the_attempt(spark: Any, context: Any) -> None:
    spark.operator(
        {"exit": 0, "record": {}},
        force=True,
        metrics_spool_dir="/spool",
        batch_id="b1",
        conf={"spark.x": "1"},
        py_files="/more.zip",
        executor_memory="2g",
    ).execute(context)
    argv = spark.notes["argv"]
    run = argv[argv.index(str(spark.pipeline)) :]
    execution_id = run[run.index("--execution-id") + 1]
    work_dir = run[run.index("--work-dir") + 1]
    run_id = context["ti"].run_id
    assert run == [
        str(spark.pipeline),
        *("--batch-id", "b1", "--metrics-spool-dir", "/spool", "--force"),
        *("--once", "airflow.d.run", f"run.{run_id}.2026-01-01 00:00:01+00:00.0.2"),
        *("--execution-id", execution_id, "--work-dir", work_dir),
    ]
    assert execution_id.startswith(f"d.run.{run_id}.1-")
    assert argv[argv.index("--py-files") + 1] == f"{work_dir}/spark_jobs.zip,/more.zip"
    assert argv[argv.index("--master") + 1] == "local[1]"
    assert argv[argv.index("--executor-memory") + 1] == "2g"
    assert argv[argv.index("--name") + 1] == "clinker.p"
    assert {"spark.x=1", f"spark.clinker.executionId={execution_id}"} <= set(argv)
    assert spark.notes["work_dir_files"] == ["spark_jobs.zip"]
    assert context["ti"].pushed["execution_id"] == execution_id


def once_of(spark: Any, context: Any) -> list[str]:
    spark.operator({"exit": 0, "record": {}}).execute(context)
    argv = spark.notes["argv"]
    return list(argv[argv.index("--once") : argv.index("--execution-id")])


def test_only_a_retry_may_take_what_an_attempt_before_has_published(spark: Any, context: Any) -> None:
    first = once_of(spark, context)
    assert "--retry" not in first
    context["ti"].try_number = 2
    assert once_of(spark, context) == [*first, "--retry"]


@pytest.mark.parametrize(
    "change",
    [
        {"start_date": "2026-01-02 00:00:00+00:00"},  # deleted and made again, a new database, another Airflow
        {"clear_number": 1},  # cleared while it ran
        {"max_tries": 5},  # cleared when it had ended
        {"run_id": "backfill__2026-01-01T00:00:00+00:00"},
    ],
)
def test_a_run_that_is_asked_for_anew_has_another_name(change: dict[str, Any], spark: Any, context: Any) -> None:
    context["ti"].try_number = 2
    before = once_of(spark, context)
    for name, value in change.items():
        setattr(context["ti" if name in ("max_tries", "run_id") else "dag_run"], name, value)
    assert once_of(spark, context) != before


def test_a_taken_run_is_told(
    spark: Any, context: Any, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"taken_from": "d.run.1-abc", "metrics_path": "/spool/1.json"}
    spark.operator({"exit": 0, "record": record}).execute(context)
    pushed = context["ti"].pushed
    assert (pushed["taken_from"], pushed["metrics_path"]) == ("d.run.1-abc", "/spool/1.json")
    assert "the attempt d.run.1-abc had published all files" in caplog.text + "".join(capsys.readouterr())
    spark.operator({"exit": 0, "record": {}}).execute(context)
    assert context["ti"].pushed["taken_from"] is None


def test_all_dead_letter_files_are_told(spark: Any, context: Any) -> None:
    record = {"dlq_path": "/o/a.csv", "dlq_paths": ("/o/a.csv", "/o/b.csv"), "dlq_count": 2}
    spark.operator({"exit": 2, "record": record}).execute(context)
    assert context["ti"].pushed["dlq_paths"] == ["/o/a.csv", "/o/b.csv"]


def test_spark_submit_finds_its_python_without_an_active_environment(
    spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    spark.operator({"exit": 0, "record": {}}, env_vars={"PYSPARK_PYTHON": "/my/python"}).execute(context)
    environ = spark.notes["environ"]
    assert Path(environ["SPARK_HOME"], "jars").is_dir()
    assert environ["PYSPARK_PYTHON"] == environ["PYSPARK_DRIVER_PYTHON"] == "/my/python"
    assert environ["PYTHONUNBUFFERED"] == "1"


def test_missing_connection_is_an_error_and_not_yarn(spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 0, "record": {}}, master=None, conn_id="nowhere")
    with pytest.raises(exceptions.ClinkerConnectionError, match="no Spark connection `nowhere`"):
        operator.execute(context)
    assert list(spark.work.iterdir()) == []


@pytest.mark.parametrize(
    ("connection", "told"),
    [
        (
            {"conn_type": "http", "host": "example.com"},
            r"the connection `web` \(type `http`\): 'http://example.com' is no",
        ),
        (
            {"conn_type": "spark", "host": "mesos://h", "port": 5050},
            r"\(type `spark`\): 'mesos://h:5050' is no Spark master",
        ),
        (
            {"conn_type": "clinker", "host": "spark-master", "port": 7077},
            r"\(type `clinker`\): 'spark-master:7077' is no",
        ),
    ],
)
def test_a_connection_that_leads_to_no_spark_starts_none(
    connection: dict[str, Any], told: str, spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WEB", json.dumps(connection))
    with pytest.raises(exceptions.ClinkerConnectionError, match=told):
        spark.operator({"exit": 0, "record": {}}, master=None, conn_id="web").execute(context)
    assert list(spark.work.iterdir()) == []


@pytest.mark.parametrize("master", ["localhost", "spark:7077", "mesos://h:5050", "http://h:8080", "spark://"])
def test_a_master_that_spark_knows_nothing_of_starts_none(master: str, spark: Any, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerConnectionError, match=f"master: '{master}' is no Spark master such as"):
        spark.operator({"exit": 0, "record": {}}, master=master).execute(context)


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local-cluster[1,1,1024]", "yarn", "spark://h:7077", "k8s://h"]
)
def test_masters_of_spark_are_taken(master: str) -> None:
    from clinker_provider.hooks import clinker_connection

    assert clinker_connection.not_a_master(master) is None


def test_connection_gives_the_master(spark: Any, context: Any) -> None:
    spark.operator({"exit": 0, "record": {}}, master=None).execute(context)
    argv = spark.notes["argv"]
    assert argv[argv.index("--master") + 1] == "local[2]"


def test_embedded_spark_starts_lean_unless_told_otherwise(spark: Any, context: Any) -> None:
    spark.operator({"exit": 0, "record": {}}, conf={"spark.log.level": "INFO"}).execute(context)
    properties = set(spark.notes["argv"])
    assert {"spark.ui.enabled=false", "spark.log.level=INFO"} <= properties
    assert "spark.log.level=WARN" not in properties
    spark.operator({"exit": 0, "record": {}}, master="spark://h:7077").execute(context)
    driver = [argument for argument in spark.notes["argv"] if argument.startswith(("spark.ui.", "spark.driver."))]
    assert driver == ["spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 -Xshare:auto"]


@pytest.mark.parametrize("master", ["local[*]", "spark://h:7077"])
def test_embedded_spark_maps_the_archive_that_an_earlier_run_had_made(
    master: str, spark: Any, context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    (home / "bin/java").chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(class_archive.SWITCH_VARIABLE, raising=False)
    variables = {"JAVA_HOME": str(home), "SPARK_HOME": str(launcher.pyspark_home())}
    archive = class_archive.path(str(home / "bin/java"), {**os.environ, **variables})
    assert archive is not None
    job = {"exit": 0, "record": {}}

    def mapped(**options: Any) -> bool:
        spark.operator(job, master=master, env_vars=dict(variables), **options).execute(context)
        return any(f"-XX:SharedArchiveFile={archive} -Xlog:disable" in argument for argument in spark.notes["argv"])

    assert not mapped(), "there is none yet"
    archive.touch(mode=0o600)
    assert mapped() == master.startswith("local")
    assert not mapped(conf={"spark.driver.extraJavaOptions": "-Xss4m"}), "options of users stand"
    archive.chmod(0o666)
    assert not mapped(), "others could have written it"


def test_standalone_cluster_mode_is_refused(spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 0, "record": {}}, master="spark://h:7077", deploy_mode="cluster", env_vars={})
    with pytest.raises(exceptions.ClinkerConnectionError, match="use `client`"):
        operator.execute(context)


def test_cluster_mode_needs_a_shared_work_folder(spark: Any, context: Any) -> None:
    on_yarn = {"master": "yarn", "deploy_mode": "cluster"}
    with pytest.raises(exceptions.ClinkerConfigError, match="`work_dir`"):
        spark.operator({"exit": 0, "record": {}}, **on_yarn, work_dir=None).execute(context)
    # There the return code says nothing: the record alone decides.
    returned = spark.operator(
        {"exits": [1], "calls": f"{spark.work}.calls", "record": {"records_dlq": 2, "exit_code": 2}}, **on_yarn
    )
    assert returned.execute(context)["status"] == "partial_success"


def test_missing_spark_submit_is_named(spark: Any, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerConnectionError, match="/no/spark-submit"):
        spark.operator({"exit": 0}, spark_binary="/no/spark-submit").execute(context)


def test_hook_parameters_are_those_of_the_spark_provider() -> None:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from clinker_provider.operators.submit import PASSED_ON, SubmittingOperator

    known = set(inspect.signature(SparkSubmitHook.__init__).parameters)
    taken = set(inspect.signature(SubmittingOperator.__init__).parameters)
    assert set(PASSED_ON) <= known & taken
    own = {"conn_id", "name", "conf", "env_vars", "spark_binary", "py_files", "application_args"}
    # What is left out: Python has no class, and waiting for cluster drivers is left to `spark-submit`.
    left_out = {
        *("self", "java_class", "status_poll_interval"),
        *("track_driver_via_k8s_api", "yarn_track_via_rm_api", "yarn_rm_auth"),
    }
    assert known == set(PASSED_ON) | own | left_out
