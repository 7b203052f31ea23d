"""The operator against a `spark-submit` that plays every ending of a run."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from clinker_provider import validation, xcoms
from spark_jobs import result
from tests.lazily import LazyModule
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")

DEAD = {"records_total": 5, "records_ok": 3, "records_dlq": 2, "dlq_path": "/o/dead.csv", "dlq_count": 2}


def test_success_returns_the_summary_and_pushes_the_rest(spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 0, "record": {"records_total": 5, "metrics": {"duration_ms": 3}}})
    returned = operator.execute(context)
    assert returned["status"] == "success"
    assert returned["records"]["total"] == 5
    pushed = context["ti"].pushed
    assert pushed["exit_code"] == 0
    assert pushed["metrics"] == {"duration_ms": 3}
    assert xcoms.RETURN_VALUE not in pushed, "Airflow pushes what execute returns"


def test_dead_letters_are_a_partial_success(spark: Any, context: Any) -> None:
    returned = spark.operator({"exit": 2, "record": DEAD}).execute(context)
    assert returned["status"] == "partial_success"
    assert context["ti"].pushed["dlq_count"] == 2
    assert context["ti"].pushed["dlq_path"] == "/o/dead.csv"


@pytest.mark.parametrize(
    ("code", "expected", "is_retried"),
    [
        (1, "ClinkerConfigError", False),
        (3, "ClinkerEvaluationError", False),
        (4, "ClinkerIOError", True),
        (130, "ClinkerInterrupted", True),
    ],
)
def test_failures_by_exit_code(spark: Any, context: Any, code: int, expected: str, is_retried: bool) -> None:
    error = {"code": "E304", "message": "no column `qty`", "span": "p.yaml:3:7"}
    with pytest.raises(getattr(exceptions, expected), match=r"p\.yaml:3:7 E304 no column `qty`") as raised:
        spark.operator({"exit": code, "record": {"error": error}}).execute(context)
    assert raised.value.exit_code == code
    assert isinstance(raised.value, exceptions.AirflowFailException) != is_retried
    pushed = context["ti"].pushed
    assert (pushed["exit_code"], pushed["status"]) == (code, "failed")
    assert pushed["return_value"]["status"] == "failed"


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_without_a_record_every_return_code_is_a_failure(spark: Any, context: Any, code: int) -> None:
    operator = spark.operator({"exit": code, "record": None, "print": ["python3: can't open file 'x.py'"]})
    with pytest.raises(exceptions.ClinkerResultMissing, match=rf"(?s)returned {code}, .*can't open file"):
        operator.execute(context)
    assert context["ti"].pushed["status"] == "failed"
    assert context["ti"].pushed["exit_code"] == 4


def test_record_of_another_attempt_is_no_record(spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 0, "record": {"execution_id": "yesterday"}})
    with pytest.raises(exceptions.ClinkerResultMissing):
        operator.execute(context)


FORGED = result.RunResult("SELF", 0, records_total=99).to_dict()


@pytest.mark.parametrize(
    "data",
    [
        "CLINKER_RESULT {}",
        "CLINKER_RESULT,1",
        "CLINKER_RESULT " + "[" * 100_000,
        "CLINKER_RESULT " + json.dumps({**FORGED, "output_files": 5}),
        "CLINKER_RESULT " + json.dumps(FORGED),
    ],
    ids=["empty", "a cell", "deep", "wrong types", "forged"],
)
def test_data_that_a_preview_prints_is_never_the_record(data: str, spark: Any, context: Any) -> None:
    returned = spark.operator({"exit": 2, "record": DEAD, "by": "line", "print": [data]}).execute(context)
    assert returned["records"]["total"] == 5
    operator = spark.operator({"exit": 0, "record": None, "print": [data.replace("SELF", "other"), "CLINKER_RESULT x"]})
    with pytest.raises(exceptions.ClinkerResultMissing, match="CLINKER_RESULT x"):
        operator.execute(context)


def test_a_record_counts_only_as_the_last_of_its_kind(spark: Any, context: Any) -> None:
    """Data that has guessed the name of the execution is not the record, when the job died before it wrote one."""
    lines = ["CLINKER_RESULT " + json.dumps(FORGED), "CLINKER_RESULT {"]
    with pytest.raises(exceptions.ClinkerResultMissing):
        spark.operator({"exit": 0, "record": None, "print": lines}).execute(context)


def test_printed_record_is_enough_where_the_folder_is_not_shared(spark: Any, context: Any) -> None:
    returned = spark.operator({"exit": 2, "record": DEAD, "by": "line"}).execute(context)
    assert returned["status"] == "partial_success"


def test_application_id_is_read_from_the_log_of_a_run_that_left_none(spark: Any, context: Any) -> None:
    lines = ["caf\xe9 is no UTF-8", "INFO Executor: Connected as app-20261121210000-0007 ok"]
    with pytest.raises(exceptions.ClinkerResultMissing):
        spark.operator({"exit": 1, "record": None, "print": lines}).execute(context)
    assert context["ti"].pushed["application_id"] == "app-20261121210000-0007"


TEMPLATES = {
    "history_url": "http://h/{application_id}",
    "dlq_url": "http://d{dlq_path}",
    "metrics_url": "http://m{metrics_path}",
}
APPLICATION = "26/11/24 22:01:02 INFO StandaloneSchedulerBackend: Connected with app ID app-20261121210000-0007"


def test_what_is_known_of_a_run_is_there_while_it_runs(spark: Any, context: Any, tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []
    pushed, calls = context["ti"].pushed, spark.folder / "notes.json"

    def push(key: str, value: Any) -> None:
        pushed[key] = value
        seen.append((key, (tmp_path / "ended").exists()))

    context["ti"].xcom_push.side_effect = push
    pids = tmp_path / "pids"
    job = {"exit": 0, "hang": str(pids), "print": [APPLICATION]}
    operator = spark.operator(
        job, master="spark://u:PASSWORD9@h:7077", kill_grace_s=0.5, link_templates=TEMPLATES, env_vars={}
    )

    def execute() -> None:
        from tests.provider.airflow_of import allow_this_thread

        allow_this_thread()
        with contextlib.suppress(exceptions.ClinkerInterrupted):
            operator.execute(context)

    thread = threading.Thread(target=execute)
    thread.start()
    try:
        started(pids)
        assert until(lambda: "_link_SparkHistoryLink" in pushed)
        assert {key: pushed[key] for key in ("master", "pipeline_path", "application_id")} == {
            "master": "spark://***@h:7077",
            "pipeline_path": str(spark.pipeline),
            "application_id": "app-20261121210000-0007",
        }
        assert pushed["execution_id"] in spark.notes["argv"]
        assert pushed["_link_SparkHistoryLink"] == "http://h/app-20261121210000-0007"
        assert "status" not in pushed
        assert calls.exists()
    finally:
        operator.on_kill()
        thread.join(20)
    assert pushed["status"] == "failed"
    assert pushed["application_id"] == "app-20261121210000-0007"


def links_of(operator: Any) -> list[str]:
    """The links that Airflow stores at the end of a task, by their names."""
    return [link.name for link in operator.operator_extra_links]


def test_links_that_lead_nowhere_are_not_left(spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 3, "record": {}}, link_templates=TEMPLATES)
    assert links_of(operator) == ["Spark history", "Dead letters", "Metrics"], "which the page offers"
    with pytest.raises(exceptions.ClinkerEvaluationError):
        operator.execute(context)
    assert links_of(operator) == []
    operator = spark.operator({"exit": 2, "record": DEAD}, link_templates=TEMPLATES)
    operator.execute(context)
    assert links_of(operator) == ["Dead letters"]


def test_a_link_template_that_is_wrong_is_left_to_airflow_to_tell(spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 2, "record": DEAD}, link_templates={"dlq_url": "http://{nothing}"})
    assert operator.execute(context)["status"] == "partial_success"
    assert links_of(operator) == ["Dead letters"]


@pytest.mark.parametrize(
    ("master", "conf", "defaults", "expected"),
    [
        ("local[1]", {}, None, False),
        ("local[1]", {"spark.eventLog.enabled": "true"}, None, True),
        ("local[1]", {}, "spark.eventLog.enabled   true\n", True),
        ("local[1]", {"spark.eventLog.enabled": False}, "spark.eventLog.enabled true\n", False),
        ("local[1]", {}, "# spark.eventLog.enabled true\nspark.eventLog.enabledx=true\n", False),
        ("spark://h:7077", {}, None, True),
        ("spark://h:7077", {}, "spark.eventLog.enabled=false\n", False),
    ],
)
def test_the_history_is_linked_where_there_is_an_event_log(
    master: str, conf: dict[str, Any], defaults: str | None, expected: bool, spark: Any, context: Any
) -> None:
    folder = spark.folder / "conf"
    folder.mkdir()
    if defaults:
        (folder / "spark-defaults.conf").write_text(defaults)
    operator = spark.operator(
        {"exit": 0, "record": {"application_id": "app-1"}},
        master=master,
        conf=conf,
        link_templates=TEMPLATES,
        env_vars={"SPARK_CONF_DIR": str(folder)},
    )
    operator.execute(context)
    assert links_of(operator) == (["Spark history"] if expected else [])


def test_a_missing_connection_leaves_xcoms(spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 0}, conn_id="nowhere", master=None)
    with pytest.raises(exceptions.ClinkerConnectionError):
        operator.execute(context)
    pushed = context["ti"].pushed
    assert (pushed["status"], pushed["exit_code"], pushed["master"]) == ("failed", 1, None)
    assert pushed["pipeline_path"] == str(spark.pipeline)
    assert pushed["return_value"]["execution_id"] == pushed["execution_id"]


def test_xcoms_that_cannot_be_pushed_early_do_not_stop_the_run(spark: Any, context: Any) -> None:
    pushed = context["ti"].pushed
    answers = iter([RuntimeError("no API")])

    def push(key: str, value: Any) -> None:
        for error in answers:
            raise error
        pushed[key] = value

    context["ti"].xcom_push.side_effect = push
    assert spark.operator({"exit": 0, "record": {}}).execute(context)["status"] == "success"
    assert {"execution_id", "master", "status"} <= pushed.keys()


class Heard:
    """A log that keeps what it is told, with the level."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda text, *values, **more: self.lines.append((level, text % values if values else text))


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """What the hook logs."""
    from clinker_provider.hooks.clinker_spark import ClinkerSparkSubmitHook

    found = Heard()
    monkeypatch.setattr(ClinkerSparkSubmitHook, "log", found)
    return found


def test_the_log_is_ours_and_its_carets_stay_in_their_columns(spark: Any, context: Any, heard: Heard) -> None:
    noise = [
        "WARNING: Using incubator modules: jdk.incubator.vector",
        "26/11/24 22:01:02 INFO MemoryStore: Block broadcast_0 stored as values in memory",
    ]
    kept = ["26/11/24 22:01:02 WARN TaskSetManager: Lost task 0.0", "  3 | let a = b", "    |         ^ no column"]
    job = {"exit": 0, "record": {}, "print": [*noise, *kept]}

    def told(level: str) -> list[str]:
        return [line for at, line in heard.lines if at == level and line in (*noise, *kept)]

    spark.operator(job, master="spark://h:7077").execute(context)
    assert (told("info"), told("debug")) == (kept, noise)
    heard.lines.clear()
    spark.operator(job, conf={"spark.log.level": "INFO"}).execute(context)
    assert told("info") == [*noise, *kept], "it was asked for"


REASONS = [
    {
        "stage": "transform:t", "field": "qty", "category": "type_coercion_failure", "count": 901,
        "example": {
            "file": "in.csv", "source": "rows", "row": 6, "is_aggregated": False, "value": "LEAK-sent-back",
            "detail": "cannot convert 'LEAK-sent-back' to Int",
        },
    },
    {"stage": "source:rows", "count": 1},
]  # fmt: skip


@pytest.mark.parametrize("code", [2, 3])
def test_dead_letters_are_told_by_reason(
    code: int, spark: Any, context: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"exit": code, "record": {**DEAD, "dlq_count": 902, "dlq_reasons": REASONS, "dlq_reasons_more": 2}}
    operator = spark.operator(job, env_vars={"MY_TOKEN": "LEAK-sent-back"})
    if code == 2:
        operator.execute(context)
    else:
        with pytest.raises(exceptions.ClinkerEvaluationError):
            operator.execute(context)
    told = capsys.readouterr().out
    assert told.count("records died") == 1
    lines = told[told.index("902 records") :].splitlines()
    assert lines[:4] == [
        "902 records died, see /o/dead.csv",
        "  reasons:",
        "    901  transform:t, field 'qty', type_coercion_failure",
        "         in.csv, row 6: cannot convert '***' to Int",
    ]
    pushed = context["ti"].pushed["dlq_reasons"]
    assert [each["count"] for each in pushed] == [901, 1]
    assert pushed[0]["example"]["row"] == 6
    assert "LEAK" not in json.dumps(pushed)


def test_nothing_is_left_in_the_work_folder(spark: Any, context: Any) -> None:
    spark.operator({"exit": 0, "record": {}}).execute(context)
    with pytest.raises(exceptions.ClinkerIOError):
        spark.operator({"exit": 4, "record": {}}).execute(context)
    assert list(spark.work.iterdir()) == []


def test_fail_on_dlq_fails_without_retry_after_the_callback(spark: Any, context: Any) -> None:
    called = []
    operator = spark.operator(
        {"exit": 2, "record": DEAD}, fail_on_dlq=True, on_dlq=lambda seen, record: called.append(record.dlq_count)
    )
    with pytest.raises(exceptions.ClinkerDeadLettersError, match=r"2 records died in /o/dead\.csv") as raised:
        operator.execute(context)
    assert isinstance(raised.value, exceptions.AirflowFailException)
    assert called == [2]
    assert context["ti"].pushed["status"] == "partial_success"


def test_callback_is_not_called_for_a_clean_run(spark: Any, context: Any) -> None:
    spark.operator({"exit": 0, "record": {}}, on_dlq="json.dumps").execute(context)


def test_what_fails_behind_a_published_run_is_not_retried(spark: Any, context: Any) -> None:
    def broken(seen: Any, record: Any) -> None:
        raise RuntimeError("the mail server is away")

    with pytest.raises(exceptions.ClinkerPublishedError, match="on_dlq failed: RuntimeError: the mail server is away"):
        spark.operator({"exit": 2, "record": DEAD}, on_dlq=broken).execute(context)
    assert context["ti"].pushed["status"] == "partial_success"
    assert issubclass(exceptions.ClinkerPublishedError, exceptions.AirflowFailException)


def test_a_callback_may_fail_the_task_in_words_of_its_own(spark: Any, context: Any) -> None:
    def strict(seen: Any, record: Any) -> None:
        raise exceptions.ClinkerIOError("try again", exit_code=4)

    with pytest.raises(exceptions.ClinkerIOError, match="try again"):
        spark.operator({"exit": 2, "record": DEAD}, on_dlq=strict).execute(context)


SECRETS = {
    "spark.my.token": "TOKENVALUE42",
    "spark.hadoop.fs.s3a.access.key": "ACCESSVALUE7",
    "spark.x.secret": "SECRET-9",
}
HARMLESS = {"spark.authenticate": "true", "spark.executor.memory": "1234m"}


def test_no_log_line_has_a_token(
    spark: Any, context: Any, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    remote = "sc://host/;user_id=me;token=ARGTOKEN55"
    spark.operator(
        {"exit": 0, "record": {}, "print": ["a library says TOKENVALUE42 and ENVTOKEN77"]},
        conf={**SECRETS, **HARMLESS},
        env_vars={"MY_TOKEN": "ENVTOKEN77", "MY_PLACE": "shown-place"},
        run_args=["--remote", remote],
    ).execute(context)
    told = caplog.text + "".join(capsys.readouterr())
    assert "spark.my.token=***" in told
    assert "1234m" in told
    assert "a library says *** and ***" in told
    for secret in (*SECRETS.values(), "ARGTOKEN55", "ENVTOKEN77"):
        assert secret not in told
    assert remote in spark.notes["argv"], "what is hidden is given all the same"


def test_lineage_settings_of_the_spark_operator_count(
    spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clinker_provider.operators import submit

    monkeypatch.setattr(
        submit.spark, "inject_parent_job_information_into_spark_properties", lambda conf, seen: {**conf, "spark.p": "1"}
    )
    monkeypatch.setattr(
        submit.spark, "inject_transport_information_into_spark_properties", lambda conf, seen: {**conf, "spark.t": "2"}
    )
    spark.operator({"exit": 0, "record": {}}).execute(context)
    assert "spark.p=1" not in spark.notes["argv"]
    wanted = {"openlineage_inject_parent_job_info": True, "openlineage_inject_transport_info": True}
    spark.operator({"exit": 0, "record": {}}, **wanted).execute(context)
    assert {"spark.p=1", "spark.t=2"} <= set(spark.notes["argv"])


def test_texts_and_numbers_are_templates(spark: Any, context: Any) -> None:
    operator = spark.operator(
        {"exit": 0, "record": {}}, threads="{{ 1 + 1 }}", executor_memory="{{ 'two' }}g", log_level="{{ 'debug' }}"
    )
    operator.render_template_fields(context)
    operator.execute(context)
    argv = spark.notes["argv"]
    assert argv[argv.index("--threads") + 1] == "2"
    assert argv[argv.index("--executor-memory") + 1] == "twog"
    assert argv[argv.index("--log-level") + 1] == "debug"


def test_the_work_folder_of_a_cluster_run_is_open_to_those_who_share_its_parent(spark: Any, context: Any) -> None:
    spark.work.chmod(0o2770)
    spark.operator({"exit": 0, "record": {}}, master="yarn", deploy_mode="cluster").execute(context)
    assert spark.notes["work_mode"] & 0o777 == 0o770
    spark.operator({"exit": 0, "record": {}}).execute(context)
    assert spark.notes["work_mode"] & 0o777 == 0o700


@pytest.mark.parametrize(
    ("callback", "reason"),
    [
        ("nothing", "no import path"),
        ("nomodule.f", "there is no module 'nomodule'"),
        ("no.module.f", "there is no module 'no.module'"),
        ("json.nothing", "no attribute 'nothing'"),
    ],
)
def test_a_callback_that_is_not_there_is_found_before_the_run(
    callback: str, reason: str, spark: Any, context: Any
) -> None:
    with pytest.raises(exceptions.ClinkerConfigError, match=f"on_dlq: .*{reason}"):
        spark.operator({"exit": 2, "record": DEAD}, on_dlq=callback).execute(context)
    assert not (spark.folder / "notes.json").exists()


def test_rendered_options_are_checked_before_the_run(spark: Any, context: Any, diagnosed: Any) -> None:
    operator = spark.operator({"exit": 0, "record": {}}, validate="execute", memory_limit="{{ limit }}")
    operator.memory_limit = "lots"
    with pytest.raises(exceptions.ClinkerConfigError, match="--memory-limit: expected an amount of memory"):
        operator.execute(context)
    operator.memory_limit, operator.run_args = "1G", "--quiet --force"
    with pytest.raises(exceptions.ClinkerConfigError, match="run_args is a list"):
        operator.execute(context)
    assert not (spark.folder / "notes.json").exists()


@pytest.mark.parametrize("code", [0, 3])
def test_do_xcom_push_false_pushes_nothing(spark: Any, context: Any, code: int) -> None:
    operator = spark.operator({"exit": code, "record": {}}, do_xcom_push=False)
    if code:
        with pytest.raises(exceptions.ClinkerEvaluationError):
            operator.execute(context)
    else:
        assert operator.execute(context) is None
    assert context["ti"].pushed == {}


def test_broken_xcom_never_hides_the_failure_of_the_run(spark: Any, context: Any) -> None:
    context["ti"].xcom_push.side_effect = RuntimeError("no API")
    with pytest.raises(exceptions.ClinkerEvaluationError):
        spark.operator({"exit": 3, "record": {}}).execute(context)
    with pytest.raises(exceptions.ClinkerPublishedError, match="no API"):
        spark.operator({"exit": 0, "record": {}}).execute(context)


def test_invalid_pipeline_fails_before_spark_is_called(spark: Any, context: Any, diagnosed: Any) -> None:
    operator = spark.operator({"exit": 0, "record": {}}, validate="execute")
    diagnosed.report("p.yaml:3:7 E304 no column")
    diagnosed.report("p.yaml:1:1 W1 odd", is_error=False)
    with pytest.raises(exceptions.ClinkerConfigError, match=r"p\.yaml:3:7 E304 no column") as raised:
        operator.execute(context)
    assert "W1" not in str(raised.value)
    assert context["ti"].pushed["exit_code"] == 1
    assert not (spark.folder / "notes.json").exists()


def test_plan_is_shown_among_the_rendered_fields(spark: Any, context: Any, diagnosed: Any) -> None:
    operator = spark.operator({"exit": 0, "record": {}}, validate="parse")
    operator.execute(context)
    assert operator.plan_text == "plan of p.yaml"
    assert "plan_text" in operator.template_fields
    assert operator.overwrite_rtif_after_execution


def test_the_shown_plan_has_the_memory_and_the_threads_of_the_task(spark: Any, context: Any) -> None:
    (spark.folder / "in.csv").write_text("a\n1\n")
    (spark.folder / "plan.yaml").write_text(
        "pipeline: {name: t}\nnodes:\n"
        "  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {a: int}}}\n"
        "  - {type: output, name: o, input: s, config: {type: csv, path: out.csv}}\n"
    )
    arguments = {"memory_limit": "256M", "threads": 2, "batch_id": "b", "force": True}
    pipeline = str(spark.folder / "plan.yaml")
    operator = spark.operator({"exit": 0, "record": {}}, validate="execute", pipeline=pipeline, **arguments)
    operator.execute(context)
    assert operator.plan_text is not None
    assert "Memory limit: 256 MiB" in operator.plan_text
    assert "Worker threads: 2" in operator.plan_text


def test_plan_that_cannot_be_shown_does_not_stop_the_run(
    spark: Any, context: Any, diagnosed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(subject: validation.Subject, arguments: list[str]) -> str:
        raise RuntimeError("no plan")

    monkeypatch.setattr(validation, "explain", refuse)
    assert spark.operator({"exit": 0, "record": {}}, validate="execute").execute(context)["status"] == "success"


def started(pids: Path) -> list[int]:
    assert until(pids.exists), "the fake job did not start"
    return [int(pid) for pid in json.loads(pids.read_text())]


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def test_kill_ends_every_process_of_the_run(spark: Any, context: Any, tmp_path: Path) -> None:
    operator = spark.operator({"exit": 0, "hang": str(tmp_path / "pids")}, kill_grace_s=0.5)
    failures: list[BaseException] = []

    def execute() -> None:
        from tests.provider.airflow_of import allow_this_thread

        allow_this_thread()
        try:
            operator.execute(context)
        except exceptions.ClinkerError as error:
            failures.append(error)

    thread = threading.Thread(target=execute)
    thread.start()
    try:
        pids = started(tmp_path / "pids")
        assert len(alive(pids)) >= 4, "all but the one that only started the stray"
    finally:
        operator.on_kill()
        thread.join(20)
    assert not thread.is_alive()
    assert alive(pids) == []
    assert isinstance(failures[0], exceptions.ClinkerInterrupted)
    assert context["ti"].pushed["exit_code"] == 130
    assert list(spark.work.iterdir()) == []


def test_timeout_ends_every_process_of_the_run(
    spark: Any, context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    operator = spark.operator(
        {"exit": 0, "hang": str(tmp_path / "pids"), "print": ["ready"]},
        kill_grace_s=0.5,
        execution_timeout=timedelta(seconds=1),
    )
    from airflow.providers.common.compat.sdk import AirflowTaskTimeout

    from clinker_provider.hooks.clinker_spark import ClinkerSparkSubmitHook

    pids: list[int] = []

    def time_out(hook: Any, lines: Any) -> None:
        # Airflow raises this from a timer in the middle of whatever the task is doing: reading the log.
        pids.extend(started(tmp_path / "pids"))
        raise AirflowTaskTimeout

    monkeypatch.setattr(ClinkerSparkSubmitHook, "_process_spark_submit_log", time_out)
    with pytest.raises(AirflowTaskTimeout):
        operator.execute(context)
    operator.on_kill()  # as Airflow does
    assert len(pids) == 5
    assert alive(pids) == []
    assert list(spark.work.iterdir()) == []
    pushed = context["ti"].pushed
    assert (pushed["exit_code"], pushed["status"], pushed["master"]) == (130, "failed", "local[1]")
    assert pushed["return_value"]["exit_code"] == 130
    assert pushed["reason"] == "the task took longer than its execution_timeout (0:00:01), and its run was ended"
    assert [line for _, line in heard.lines if line.startswith("Ended ")] == [
        f"Ended 5 processes of {pushed['execution_id']}"
    ]


def test_a_timeout_tells_how_far_the_job_had_come(
    spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from airflow.providers.common.compat.sdk import AirflowTaskTimeout

    from clinker_provider.hooks.clinker_spark import ClinkerSparkSubmitHook

    read = ClinkerSparkSubmitHook._process_spark_submit_log

    def time_out(hook: Any, lines: Any) -> None:
        read(hook, lines)
        raise AirflowTaskTimeout("Timeout, PID: 7")

    monkeypatch.setattr(ClinkerSparkSubmitHook, "_process_spark_submit_log", time_out)
    printed = ["INFO starting Spark [15 s]", "INFO reading rows: token=LEAK [45 s]"]
    operator = spark.operator(
        {"exit": 0, "print": printed}, execution_timeout=timedelta(minutes=1), env_vars={"API_TOKEN": "LEAK"}
    )
    with pytest.raises(AirflowTaskTimeout):
        operator.execute(context)
    assert context["ti"].pushed["reason"] == (
        "the task took longer than its execution_timeout (0:01:00), and its run was ended; "
        "the last line of the job: INFO reading rows: token=*** [45 s]"
    )
    assert context["ti"].pushed["reason"] in capsys.readouterr().out


def test_the_cause_is_not_lost_below_a_long_stack(spark: Any, context: Any) -> None:
    frames = [f"\tat org.apache.spark.A$.b{number}(A.scala:{number})" for number in range(60)]
    printed = ['Exception in thread "main" java.io.IOException: Cannot run program "/opt/python3.9": error=2', *frames]
    operator = spark.operator({"exit": 1, "record": None, "print": [*printed, "Caused by: error=2", "\t... 15 more"]})
    with pytest.raises(exceptions.ClinkerResultMissing) as raised:
        operator.execute(context)
    told = str(raised.value).splitlines()
    assert told[0].startswith("spark-submit returned 1")
    assert told[1].startswith("the Python that Spark is to start is not there")
    assert told[2:] == ["Last spark-submit output:", printed[0], "Caused by: error=2"]


def _kind(name: str) -> type[BaseException]:
    from airflow.providers.common.compat import sdk as of_airflow

    found: type[BaseException] = getattr(of_airflow if name.startswith("Airflow") else exceptions, name)
    return found


@pytest.mark.parametrize(("word", "expected"), [("skip", "AirflowSkipException"), ("fail", "ClinkerDeadLettersError")])
def test_dead_letters_mean_what_the_user_chose(word: str, expected: str, spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 2, "record": DEAD}, on_partial=word)
    with pytest.raises(_kind(expected), match=r"2 records died in /o/dead\.csv"):
        operator.execute(context)
    assert context["ti"].pushed["return_value"]["status"] == "partial_success", "pushed where Airflow does not"


def test_more_dead_letters_than_are_accepted_fail_the_task(spark: Any, context: Any) -> None:
    operator = spark.operator({"exit": 2, "record": DEAD}, dlq_threshold="{{ 10 * 4 }}%")
    operator.render_template_fields(context)
    operator.execute(context)
    with pytest.raises(exceptions.ClinkerDeadLettersError, match="more than the 1 that dlq_threshold accepts"):
        spark.operator({"exit": 2, "record": DEAD}, dlq_threshold=1).execute(context)


def test_a_run_without_data_is_skipped(spark: Any, context: Any) -> None:
    with pytest.raises(_kind("AirflowSkipException"), match="the run read no record"):
        spark.operator({"exit": 0, "record": {}}, skip_on_no_data=True).execute(context)
    assert context["ti"].pushed["status"] == "success"


@pytest.mark.parametrize(
    ("code", "word", "expected", "is_retried"),
    [
        (3, "retry", "ClinkerRetriedError", True),
        (4, "fail", "ClinkerFinalError", False),
        (0, "fail", "ClinkerFinalError", False),
        (1, "skip", "AirflowSkipException", None),
    ],
)
def test_exit_codes_mean_what_the_user_chose(
    code: int, word: str, expected: str, is_retried: bool | None, spark: Any, context: Any
) -> None:
    operator = spark.operator({"exit": code, "record": {"records_total": 1}}, exit_codes={code: word})
    with pytest.raises(_kind(expected)) as raised:
        operator.execute(context)
    if is_retried is not None:
        assert isinstance(raised.value, exceptions.AirflowFailException) != is_retried
        assert raised.value.exit_code == code


def test_a_choice_that_makes_no_sense_ends_before_the_run(spark: Any, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerConfigError, match="dlq_threshold: 'many' is neither"):
        spark.operator({"exit": 0, "record": {}}, dlq_threshold="many").execute(context)
    assert not (spark.folder / "notes.json").exists()
    with pytest.raises(exceptions.ClinkerPipelineInvalid, match=r"(?s)task 'run'.*dlq_threshold: 'many'"):
        spark.operator({"exit": 0}, dlq_threshold="many", validate="parse", pipeline="{{ ds }}.yaml")


def test_a_pipeline_in_a_store_is_given_by_its_uri_and_not_read_when_it_is_parsed(
    spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.plan.planner.plan", lambda *arguments: pytest.fail("a store is asked"))
    uri = "s3://acme-data/pipelines/orders.yaml"
    job: dict[str, Any] = {"exit": 0, "record": {}}
    spark.operator(job, pipeline=uri, validate="parse")
    spark.operator(job, pipeline=uri, validate="off", base_dir="s3://acme-data/base").execute(context)
    arguments = spark.notes["argv"]
    assert uri in arguments
    assert arguments[arguments.index("--base-dir") + 1] == "s3://acme-data/base"


def test_a_store_that_refuses_the_worker_leaves_the_check_to_the_run(
    spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.diagnostics import codes

    asked: list[str | None] = []

    def refused(subject: Any) -> list[Any]:
        asked.append(os.environ.get("AWS_ACCESS_KEY_ID"))
        return [codes.E910.at(None, "s3://acme-data/p.yaml: access is denied")]

    monkeypatch.setattr("clinker_provider.validation.problems_of", refused)
    monkeypatch.setattr("clinker_provider.validation.credentials_of", lambda subject: pytest.fail("it is asked again"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    operator = spark.operator(
        {"exit": 0, "record": {}},
        pipeline="s3://acme-data/p.yaml",
        validate="execute",
        env_vars={"AWS_ACCESS_KEY_ID": "K"},
    )
    operator.execute(context)
    assert asked == ["K"]
    assert "AWS_ACCESS_KEY_ID" not in os.environ


@pytest.mark.parametrize("pipeline", ["ftp://acme/p.yaml", "s3://key:secret@acme/p.yaml"])
def test_a_uri_that_leads_nowhere_is_not_submitted(pipeline: str, spark: Any, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerConfigError, match=r"no client is known|no place for credentials"):
        spark.operator({"exit": 0, "record": {}}, pipeline=pipeline).execute(context)


def test_warnings_and_errors_of_the_job_are_such_in_the_log(
    spark: Any, context: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clinker_provider.hooks.clinker_spark import ClinkerSparkSubmitHook

    logger = logging.getLogger("test.job")
    logger.setLevel(logging.INFO)
    monkeypatch.setattr(ClinkerSparkSubmitHook, "log", logger)
    lines = ["WARNING W210: no file has the column", "error[E216]: in.csv: file not found", "plain"]
    spark.operator({"exit": 0, "record": {}, "print": lines}).execute(context)
    levels = {each.getMessage(): each.levelname for each in caplog.records}
    assert [levels.get(line) for line in lines] == ["WARNING", "ERROR", "INFO"]


def test_errors_of_a_job_that_died_are_in_the_reason(spark: Any, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerResultMissing) as raised:
        spark.operator({"exit": 1, "print": ["error[E905]: it broke", "JAVA_HOME is not set"]}).execute(context)
    text = str(raised.value)
    assert "error[E905]: it broke" in text
    assert text.index("install Java 17") < text.index("Last spark-submit output")
    assert context["ti"].pushed["reason"] == text


def test_the_reason_of_a_task_is_an_xcom(spark: Any, context: Any) -> None:
    pushed = context["ti"].pushed
    error = {"code": "E900", "message": "no such file", "span": "p.yaml:3:7"}
    with pytest.raises(exceptions.ClinkerIOError) as raised:
        spark.operator({"exit": 4, "record": {"error": error}}).execute(context)
    assert pushed["reason"] == str(raised.value)
    assert "p.yaml:3:7 E900 no such file" in pushed["reason"]
    with pytest.raises(exceptions.ClinkerDeadLettersError):
        spark.operator({"exit": 2, "record": DEAD}, dlq_threshold=1).execute(context)
    assert pushed["reason"] == "2 of 5 records died in /o/dead.csv, more than the 1 that dlq_threshold accepts"
    with pytest.raises(exceptions.ClinkerConnectionError):
        spark.operator({"exit": 0}, spark_binary="/no/such").execute(context)
    assert pushed["reason"].startswith("`/no/such` is not there")
    spark.operator({"exit": 2, "record": DEAD}).execute(context)
    assert pushed["reason"] is None


def test_a_long_reason_is_cut(spark: Any, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerIOError):
        spark.operator({"exit": 4, "record": {"error": {"code": "E900", "message": "x" * 9000}}}).execute(context)
    assert len(context["ti"].pushed["reason"]) == 4000


@pytest.mark.parametrize("count", [0, 7])
def test_a_table_of_nothing_is_not_logged(
    count: int, spark: Any, context: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    job = {"exit": 4, "record": {"records_total": count, "nodes": {"rows": {"kind": "source", "records_in": count}}}}
    with pytest.raises(exceptions.ClinkerIOError):
        spark.operator(job).execute(context)
    assert ("What the nodes did" in caplog.text + "".join(capfd.readouterr())) == bool(count)
