"""Runs of cluster deploy modes whose driver shares nothing with the worker but a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import result
from tests.lazily import LazyModule

if TYPE_CHECKING:
    from tests.object_store import Bucket

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")

PIPELINE = """
pipeline: {name: orders}
nodes:
  - {type: source, name: orders, config: {type: csv, path: "s3://acme/in.csv", schema: {qty: int}}}
  - {type: transform, name: twice, input: orders, config: {cxl: "use prices\\nemit twice = prices.twice(qty)"}}
  - {type: output, name: all, input: twice, config: {type: csv, path: "s3://acme/all.csv"}}
"""


@pytest.fixture
def orders(spark: Any, s3: Bucket) -> Any:
    """Makes the operator, whose work folder is in a store."""
    (spark.folder / "rules").mkdir()
    (spark.folder / "rules/prices.cxl").write_text("fn twice(n) = n * 2\n")
    spark.pipeline.write_text(PIPELINE)

    def make(**given: Any) -> Any:
        # What a driver on YARN ends with, `spark-submit` does not: every failure is 1.
        job = {"exit": 0, "record": {"records_total": 3}}
        usual = {"master": "yarn", "deploy_mode": "cluster", "work_dir": s3.uri("work"), "allow_absolute_paths": True}
        return spark.operator(job, **{**usual, **given})

    return make


def test_the_pipeline_travels_and_the_record_comes_back(orders: Any, spark: Any, context: Any, s3: Bucket) -> None:
    returned = orders().execute(context)
    assert (returned["status"], returned["records"]["total"]) == ("success", 3)
    assert s3.keys() == [], "what was read is removed"
    assert sorted(spark.notes["archives"]["clinker-definitions"]) == ["p.yaml", "rules/prices.cxl"]
    argv = spark.notes["argv"]
    at = argv.index("clinker-definitions/p.yaml")
    assert argv[argv.index("--base-dir", at) + 1] == "clinker-definitions"
    assert argv[argv.index("--work-dir", at) + 1] == s3.uri("work")
    assert {"spark.yarn.maxAppAttempts=1", "spark.yarn.am.waitTime=1h"} <= set(argv)


def test_a_user_who_wants_drivers_started_again_gets_that(orders: Any, spark: Any, context: Any) -> None:
    orders(conf={"spark.yarn.maxAppAttempts": "3"}).execute(context)
    assert "spark.yarn.maxAppAttempts=3" in spark.notes["argv"]


def test_archives_of_the_user_travel_too(orders: Any, spark: Any, context: Any) -> None:
    import zipfile

    with zipfile.ZipFile(spark.folder / "env.zip", "w") as archive:
        archive.writestr("a", "b")
    orders(archives=f"{spark.folder}/env.zip#env").execute(context)
    assert spark.notes["archives"]["env"] == ["a"]
    assert "p.yaml" in spark.notes["archives"]["clinker-definitions"]


def test_a_driver_here_reads_the_files_where_they_are(orders: Any, spark: Any, context: Any, s3: Bucket) -> None:
    orders(master="local[1]", deploy_mode=None).execute(context)
    assert spark.notes["archives"] == {}
    assert str(spark.pipeline) in spark.notes["argv"]
    assert s3.keys() == []


def test_relative_paths_end_the_task_before_anything_is_submitted(orders: Any, spark: Any, context: Any) -> None:
    spark.pipeline.write_text(PIPELINE.replace("s3://acme/all.csv", "all.csv"))
    with pytest.raises(
        exceptions.ClinkerConfigError, match=r"relative paths lead nowhere: `all\.csv` \(output 'all'\)"
    ):
        orders().execute(context)
    assert not (spark.folder / "notes.json").exists()


def test_a_store_that_refuses_the_record_is_told(orders: Any, context: Any) -> None:
    task = orders(work_dir="s3://no-such-bucket-1/work")
    with pytest.raises(exceptions.ClinkerError):
        task.execute(context)


def test_a_standalone_master_needs_a_folder(orders: Any, context: Any) -> None:
    task = orders(master="spark://127.0.0.1:7077", deferrable=True)
    with pytest.raises(
        exceptions.ClinkerConfigError, match="a standalone master starts drivers from files that its workers"
    ):
        task.execute(context)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (
            "viewfs://nn/work",
            r"work_dir 'viewfs://nn/work': no client is known for viewfs://: name a local path or one of",
        ),
        ("s3://", "it names no bucket: write s3://bucket/key"),
        ("s3://me:LEAK-1@acme/work", r"work_dir 's3://…@acme/work': a URI has no place for credentials"),
        ("abfss://acme/work", "it names no container and account: write abfss://container@account"),
        ("file://elsewhere/work", "a file: URI names no machine"),
    ],
)
def test_a_work_folder_that_leads_nowhere_is_refused(
    orders: Any, spark: Any, context: Any, place: str, reason: str
) -> None:
    with pytest.raises(exceptions.ClinkerConfigError, match=reason) as refused:
        orders(work_dir=place).execute(context)
    assert "LEAK" not in str(refused.value)
    assert not (spark.folder / "notes.json").exists()
    if "abfss" not in place:
        with pytest.raises(exceptions.ClinkerPipelineInvalid, match=reason):
            orders(work_dir=place, validate="parse")


def test_blanks_around_a_work_folder_are_no_part_of_it(orders: Any, spark: Any, context: Any, s3: Bucket) -> None:
    assert orders(work_dir=f" {s3.uri('work/')}\n").execute(context)["status"] == "success"
    assert s3.uri("work/") in spark.notes["argv"]


def test_a_file_uri_is_a_folder_of_a_mount(orders: Any, spark: Any, context: Any) -> None:
    assert orders(work_dir=f"file://{spark.work}").execute(context)["status"] == "success"
    assert str(spark.pipeline) in spark.notes["argv"], "both sides see the files"


def test_a_record_of_a_deleted_run_of_the_same_name_is_not_taken(
    orders: Any, spark: Any, context: Any, s3: Bucket
) -> None:
    orders(env_vars={"FAKE_JOB": spark.job({"exit": 0, "record": {}})}).execute(context)
    argv = spark.notes["argv"]
    name = argv[argv.index("--execution-id") + 1]
    s3.put(f"work/{name}/result.json", '{"is": "not read"}')
    with pytest.raises(exceptions.ClinkerResultMissing):
        orders(env_vars={"FAKE_JOB": spark.job({"exit": 1})}).execute(context)
    assert s3.keys() == []


def test_a_store_that_refuses_is_told_before_anything_is_submitted(orders: Any, spark: Any, context: Any) -> None:
    with pytest.raises(
        exceptions.ClinkerIOError, match=r"nothing was submitted.*no bucket is named `no-such-bucket-1`"
    ):
        orders(work_dir="s3://no-such-bucket-1/work").execute(context)
    assert not (spark.folder / "notes.json").exists()


def test_a_pipeline_that_a_function_gives_travels_too(orders: Any, spark: Any, context: Any) -> None:
    from clinker_provider.decorators.clinker import ClinkerDecoratedOperator

    usual = orders()
    given = {"master": "yarn", "deploy_mode": "cluster", "allow_absolute_paths": True, "task_id": "run"}
    task = ClinkerDecoratedOperator(
        python_callable=lambda: PIPELINE,
        work_dir=usual.work_dir,
        base_dir=str(spark.folder),
        env_vars=usual.env_vars,
        spark_binary=usual.spark_binary,
        **given,
    )
    assert task.execute(context)["status"] == "success"
    files = spark.notes["archives"]["clinker-definitions"]
    assert sorted(files) == [".clinker-pipeline/run.yaml", "rules/prices.cxl"]
    assert "clinker-definitions/.clinker-pipeline/run.yaml" in spark.notes["argv"]


def test_a_relative_folder_for_metrics_is_refused(orders: Any, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerConfigError, match=r"relative paths lead nowhere: `spool` \(the metrics\)"):
        orders(metrics_spool_dir="spool").execute(context)


def test_a_pipeline_that_is_gone_fails_without_retry(orders: Any, spark: Any, context: Any) -> None:
    task = orders(validate="off")
    spark.pipeline.unlink()
    with pytest.raises(exceptions.ClinkerConfigError, match=r"E000 cannot read `.*p\.yaml`: no such file"):
        task.execute(context)


def test_variables_that_only_the_worker_has_are_told(
    orders: Any, spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_DAY", "monday")
    monkeypatch.setenv("MY_HOUR", "1")
    spark.pipeline.write_text(PIPELINE.replace("all.csv", "${MY_DAY:-x}${MY_HOUR}${OTHER:-}.csv"))
    orders(env_vars={"MY_HOUR": "2"}).execute(context)
    log = "".join(capfd.readouterr())
    assert "from which the pipeline would take MY_DAY here: name them in `env_vars`" in log


@pytest.mark.parametrize("given", [["--channel", "eu"], ["--rules-path=rules"]])
def test_files_that_only_arguments_name_are_refused(orders: Any, spark: Any, context: Any, given: list[str]) -> None:
    parameter = given[0].removeprefix("--").partition("=")[0].replace("-", "_")
    with pytest.raises(exceptions.ClinkerConfigError, match=f"give the parameter `{parameter}` instead"):
        orders(run_args=given).execute(context)
    assert not (spark.folder / "notes.json").exists()


def test_a_record_that_cannot_be_read_after_the_run_stays_for_the_next_attempt(
    orders: Any, context: Any, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = result.RunResult("run-1", 0, "orders")
    s3.put("work/run-1/result.json", result.encoded(record))
    waiting = {
        "execution_id": "run-1", "folder": s3.uri("work"), "master": "yarn", "kind": "YARN", "urls": ["http://rm"],
        "mark": "m", "job": None,
    }  # fmt: skip
    event = {"status": "ended", "state": "FINISHED"}
    with monkeypatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
        patched.setattr("spark_jobs.stores.s3.ATTEMPTS", 1)
        with pytest.raises(exceptions.ClinkerIOError, match="run-1 has ended, and what became of it is not known"):
            orders().execute_complete(context, event=event, waiting=waiting)
    assert s3.keys() == ["work/run-1/result.json"]
    assert orders().execute_complete(context, event=event, waiting=waiting)["status"] == "success"
    assert s3.keys() == []
