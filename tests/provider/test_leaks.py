"""No secret that a task is given, or that Airflow keeps for it, is shown by anything that the task leaves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.lazily import LazyModule

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")
of_airflow = LazyModule("tests.provider.airflow_of")

PIPELINE = """
pipeline: { name: shop }
nodes:
  - type: source
    name: orders
    config:
      type: json
      schema: { id: int }
      transport:
        kind: rest
        url: "https://shop.example/orders?api_key=LEAK-url-01"
        max_pages: 1
        auth: { scheme: header, name: X-Header, value: "key ${HDR}" }
  - type: output
    name: out
    input: orders
    config: { type: csv, path: out.csv }
"""
CONF = {
    "spark.my.token": "LEAK-conf-02",
    "spark.hadoop.fs.azure.sas.box.store.blob.core.windows.net": "sv=1&sig=LEAK-sas-03",
    "spark.hadoop.fs.azure.account.key.store.blob.core.windows.net": "LEAK-azure-04==",
    "spark.hadoop.fs.s3a.access.key": "LEAK-s3a-05",
    "spark.driver.extraJavaOptions": "-Dmy.password=LEAK-java-06",
    "spark.x.url": "jdbc:postgresql://h/db?user=u&password=LEAK-jdbc-07",
}
ENV_VARS = {
    "HDR": "LEAK-header-08",
    "SIGNING_KEY": "LEAK-signing-09",
    "DATABASE_URL": "postgres://u:LEAK-user-10@db:5432/x",
    "FROM_CONN": "LEAK-conn-11",
    "FROM_VAR": "LEAK-variable-12",
}
ARGUMENTS = ["--remote", "sc://h/;token=LEAK-remote-13", "--conf", "spark.other.secret=LEAK-argument-14"]
MASTER = "spark://u:LEAK-master-15@h:7077"
KNOWN_TO_AIRFLOW = ("LEAK-conn-11", "LEAK-variable-12")
LOUD = "Bearer LEAK-bearer-16 refused by https://me:LEAK-library-17@h/a, -Dother.secret=LEAK-option-18"


def everything() -> list[str]:
    """All values, as a job might repeat them."""
    return [*CONF.values(), *ENV_VARS.values(), *ARGUMENTS, MASTER, LOUD, "LEAK-url-01"]


def stored_fields(task: Any) -> str:
    """What Airflow stores of a task's rendered fields."""
    return json.dumps(of_airflow.rendered_fields(task))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Airflow learns when it fetches a connection or a secret variable; nothing else is known to it."""
    of_airflow.forget_secrets()
    for secret in KNOWN_TO_AIRFLOW:
        of_airflow.mask_secret(secret)


def operator(spark: Any, job: dict[str, Any], **arguments: Any) -> Any:
    spark.pipeline.write_text(PIPELINE)
    return spark.operator(
        {"print": [f"the job says {each}" for each in everything()], **job},
        validate="execute",
        conf=CONF,
        env_vars=ENV_VARS,
        run_args=ARGUMENTS,
        **{"master": MASTER, **arguments},
    )


@pytest.mark.parametrize("mode", [{}, {"master": "yarn", "deploy_mode": "cluster"}])
@pytest.mark.parametrize(
    "job",
    [
        {"exit": 0, "record": {}},
        {"exit": 4, "record": {"error": {"code": "E900", "message": " ".join(everything())}}},
        {"exit": 1, "record": None},
    ],
    ids=["green", "failed", "died"],
)
@pytest.mark.usefixtures("known")
def test_nothing_that_a_task_leaves_shows_a_secret(
    job: dict[str, Any],
    mode: dict[str, str],
    spark: Any,
    context: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The log is looked at as Airflow gets it: what it hides by itself it hides in the task's own log alone."""
    task = operator(spark, job, verbose=True, metrics_spool_dir=str(tmp_path / "spool"), **mode)
    task.render_template_fields(context)
    shown = stored_fields(task)
    assert "FAKE_JOB" in shown
    raised = ""
    try:
        returned = task.execute(context)
    except exceptions.ClinkerError as error:
        returned, raised = None, f"{error!r} {error}"
    after = stored_fields(task)
    told = caplog.text + "".join(capfd.readouterr())
    # In cluster modes the command has them once more, and Airflow 2 prints its log as well.
    assert told.count("the job says") >= len(everything())
    assert "***" in told
    assert "Execution Plan: shop" in after
    pushed = json.dumps([returned, context["ti"].pushed])
    fields = {"fields": shown, "fields after": after} if of_airflow.HIDES_VALUES_IN_FIELDS else {}
    for place, text in {"log": told, "error": raised, "XComs": pushed, **fields}.items():
        assert "LEAK" not in text, (place, text[max(text.index("LEAK") - 200, 0) :][:300])
    notes = spark.notes
    given = json.dumps([notes["argv"], notes["properties"]])
    assert ARGUMENTS[1] in notes["argv"], "what is hidden is given all the same"
    assert not [value for value in CONF.values() if value not in given]
    assert notes["environ"]["HDR"] == ENV_VARS["HDR"]
    # Everyone on the machine may read command lines; what Spark and the run have no other place for stays there.
    shown = " ".join(each for each in notes["argv"] if each not in (MASTER, *ARGUMENTS))
    assert "LEAK" not in shown, shown
    assert notes["properties_mode"] == 0o600


@pytest.mark.usefixtures("known")
def test_a_plain_variable_is_a_secret_where_the_pipeline_sends_it_as_one(spark: Any, context: Any) -> None:
    task = operator(spark, {"exit": 0, "record": {}})
    assert "LEAK-header-08" in task.secrets()
    spark.pipeline.write_text(PIPELINE.replace("key ${HDR}", "key"))
    assert "LEAK-header-08" not in task.secrets()


def test_the_file_of_settings_is_gone_as_soon_as_spark_has_read_it(
    spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = operator(spark, {"exit": 0, "record": {}, "print": ["it is app-20260101000000-0001"]})
    left: list[list[str]] = []

    def push(task: Any, context: Any, values: dict[str, Any]) -> None:
        if "application_id" in values:
            left.append([path.name for path in task._hook._private.iterdir()])

    monkeypatch.setattr(type(task), "_push_early", push)
    task.execute(context)
    assert left == [[]]
    assert "LEAK" in spark.notes["properties"]


def test_a_secret_of_several_lines_is_hidden_in_the_logged_command(
    spark: Any, context: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    spark.operator({"exit": 0, "record": {}}, conf={"spark.my.password": "first\nLEAK=#!\\ x ü"}).execute(context)
    log = "".join(capfd.readouterr())
    assert "Spark-Submit cmd" in log
    assert "LEAK" not in log
    assert "spark.my.password = first\\nLEAK=\\#\\!\\\\ x ü\n" in spark.notes["properties"]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(b"spark.a = b\\", id="line that goes on"),
        pytest.param(b"spark.a = \xff", id="bytes that are no UTF-8"),
    ],
)
def test_the_users_file_of_settings_stays_as_it_is(spark: Any, context: Any, tmp_path: Path, last: bytes) -> None:
    own = tmp_path / "own.conf"
    own.write_bytes(last)
    kept = tmp_path / "kept.conf"
    # The fake decodes what it notes, so here the file is kept as it was given.
    spark.binary.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != --properties-file ]; do shift; done\n'
        f'cp "$2" {kept}\n'
    )  # fmt: skip
    task = spark.operator({}, properties_file=str(own), conf={"spark.my.password": "LEAK-1"})
    with pytest.raises(exceptions.ClinkerResultMissing):
        task.execute(context)
    assert kept.read_bytes() == last + b"\n\nspark.my.password = LEAK-1\n"


def test_a_setting_that_is_given_twice_does_not_win_from_the_command_line(spark: Any, context: Any) -> None:
    name = "spark.yarn.appMasterEnv.PLACE"
    task = spark.operator(
        {"exit": 0, "record": {}},
        master="yarn",
        deploy_mode="cluster",
        conf={name: "plain"},
        env_vars={"PLACE": "https://me:LEAK-2@h/"},
    )
    task.execute(context)
    assert not [each for each in spark.notes["argv"] if each.startswith(name)]
    assert f"{name} = https://me:LEAK-2@h/\n" in spark.notes["properties"]
