"""The table of outcomes: what return code and record together mean."""

from __future__ import annotations

import pytest

from clinker_provider import outcome, xcoms
from clinker_provider.outcome import Verdict
from spark_jobs import contract, result


def record(exit_code: int, **values: object) -> result.RunResult:
    return result.RunResult("attempt", exit_code, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("return_code", "exit_code", "verdict", "reported", "status"),
    [
        (0, 0, Verdict.SUCCESS, 0, "success"),
        (2, 2, Verdict.PARTIAL_SUCCESS, 2, "partial_success"),
        (1, 1, Verdict.CONFIG, 1, "failed"),
        (3, 3, Verdict.EVALUATION, 3, "failed"),
        (4, 4, Verdict.IO, 4, "failed"),
        (130, 130, Verdict.INTERRUPTED, 130, "failed"),
        # no record: a failure whatever the number
        (0, None, Verdict.NO_RESULT, 4, "failed"),
        (1, None, Verdict.NO_RESULT, 4, "failed"),
        (2, None, Verdict.NO_RESULT, 4, "failed"),
        (137, None, Verdict.INTERRUPTED, 130, "failed"),
        (-15, None, Verdict.INTERRUPTED, 130, "failed"),
        # a record that the return code contradicts
        (1, 0, Verdict.NO_RESULT, 4, "failed"),
        (0, 2, Verdict.NO_RESULT, 4, "failed"),
        (137, 0, Verdict.INTERRUPTED, 130, "failed"),
        (-9, 2, Verdict.INTERRUPTED, 130, "failed"),
        # a record of failure needs no second witness
        (0, 3, Verdict.EVALUATION, 3, "failed"),
        (1, 4, Verdict.IO, 4, "failed"),
        # a record from nowhere
        (0, 7, Verdict.NO_RESULT, 4, "failed"),
    ],
)
def test_outcome_of_client_mode(
    return_code: int, exit_code: int | None, verdict: Verdict, reported: int, status: str
) -> None:
    ended = outcome.decide(return_code, None if exit_code is None else record(exit_code))
    assert (ended.verdict, ended.exit_code, ended.status) == (verdict, reported, status)
    assert bool(ended.reason) != verdict.is_success


@pytest.mark.parametrize(
    ("return_code", "exit_code", "verdict"),
    [
        (0, 2, Verdict.PARTIAL_SUCCESS),
        (1, 2, Verdict.PARTIAL_SUCCESS),
        (1, 3, Verdict.EVALUATION),
        (0, 4, Verdict.IO),
        (143, 0, Verdict.INTERRUPTED),
        (0, None, Verdict.NO_RESULT),
    ],
)
def test_record_alone_decides_where_codes_do_not_come_back(
    return_code: int, exit_code: int | None, verdict: Verdict
) -> None:
    found = None if exit_code is None else record(exit_code)
    assert outcome.decide(return_code, found, is_faithful=False).verdict is verdict


@pytest.mark.parametrize("return_code", [0, 1, 2, 143, -15])
def test_killed_run_was_interrupted_whatever_its_return_code(return_code: int) -> None:
    ended = outcome.decide(return_code, None, was_killed=True)
    assert (ended.verdict, ended.exit_code) == (Verdict.INTERRUPTED, 130)


def test_run_that_ended_before_the_kill_keeps_its_outcome() -> None:
    assert outcome.decide(2, record(2), was_killed=True).verdict is Verdict.PARTIAL_SUCCESS
    assert outcome.decide(3, record(3), was_killed=True).verdict is Verdict.EVALUATION


def test_only_what_may_pass_is_retried() -> None:
    assert {verdict for verdict in Verdict if verdict.may_retry} == {
        Verdict.IO,
        Verdict.INTERRUPTED,
        Verdict.NO_RESULT,
    }


def test_a_file_that_executors_do_not_see_is_not_tried_again() -> None:
    ended = outcome.decide(4, record(4, error=result.RunError("E909", "the driver sees /in.csv, and …")))
    assert (ended.verdict, ended.exit_code) == (Verdict.UNSHARED, 4)
    assert not ended.verdict.may_retry
    assert ended.reason.startswith("driver and executors do not see the same files (exit 4): E909 ")


def test_an_output_that_is_there_already_is_not_tried_again() -> None:
    ended = outcome.decide(4, record(4, error=result.RunError("E902", "out.csv exists already: use --force, or …")))
    assert not ended.verdict.may_retry
    assert ended.exit_code == 4
    assert ended.reason.startswith("an output is there already (exit 4): E902 out.csv exists already")
    assert "`force=True` of the operator" in ended.reason


@pytest.mark.parametrize(
    ("code", "headline"),
    [
        ("E900", "a file could not be read or written"),
        ("E901", "Spark could not be started or reached"),
        ("E904", "Spark ended the work"),
    ],
)
def test_what_is_about_spark_is_not_said_of_files(code: str, headline: str) -> None:
    ended = outcome.decide(4, record(4, error=result.RunError(code, "why")))
    assert ended.reason == f"{headline} (exit 4): {code} why"
    assert ended.verdict.may_retry


def test_a_spark_that_cannot_be_started_is_no_fault_of_the_pipeline() -> None:
    ended = outcome.decide(1, record(1, error=result.RunError("E901", "Spark needs Java 17, and no java was found")))
    assert (
        ended.reason
        == "Spark could not be started or reached (exit 1): E901 Spark needs Java 17, and no java was found"
    )
    assert not ended.verdict.may_retry


def test_reason_starts_with_the_cause_that_the_job_gave() -> None:
    error = result.RunError("E304", "`qty` is not a column", "p.yaml:3:7")
    ended = outcome.decide(1, record(1, error=error))
    assert ended.reason == "the pipeline is not valid (exit 1): p.yaml:3:7 E304 `qty` is not a column"


def test_reason_without_record_names_the_return_code() -> None:
    assert "returned 2" in outcome.decide(2, None).reason
    assert "signal 9" in outcome.decide(137, None).reason
    assert "signal 15" in outcome.decide(-15, None).reason


def test_every_exit_code_of_the_contract_has_a_verdict() -> None:
    for code in contract.ExitCode:
        assert outcome.decide(code, record(code)).exit_code == code


def test_xcoms_of_a_run_with_dead_letters() -> None:
    found = record(
        2,
        pipeline_name="orders",
        records_total=12,
        records_ok=9,
        records_dlq=2,
        dlq_path="/o/dead.csv",
        dlq_count=2,
        output_files=("/o/a.csv",),
        metrics={"duration_ms": 12},
        application_id="local-1",
        dlq_reasons=({"stage": "transform:t", "count": 2},),
    )
    names = {"execution_id": "attempt", "master": "local[2]", "pipeline_path": "/p.yaml"}
    pushed = xcoms.payload(outcome.decide(2, found), found, application_id=None, **names)
    assert {key: value for key, value in pushed.items() if key != xcoms.RETURN_VALUE} == {
        "exit_code": 2,
        "status": "partial_success",
        "dlq_path": "/o/dead.csv",
        "dlq_count": 2,
        "metrics": {"duration_ms": 12},
        "metrics_path": None,
        "execution_id": "attempt",
        "application_id": "local-1",
        "dlq_paths": ["/o/dead.csv"],
        "dlq_reasons": [{"stage": "transform:t", "count": 2}],
        "master": "local[2]",
        "pipeline_path": "/p.yaml",
        "reason": None,
        "taken_from": None,
    }
    assert pushed[xcoms.RETURN_VALUE]["records"] == {
        "total": 12,
        "ok": 9,
        "written": 0,
        "filtered": 0,
        "deduplicated": 0,
        "dlq": 2,
    }


def test_xcoms_without_a_record_keep_every_key() -> None:
    with_record = xcoms.payload(outcome.decide(0, record(0)), record(0), execution_id="a", application_id=None)
    without = xcoms.payload(outcome.decide(2, None), None, execution_id="a", application_id="local-2")
    assert without.keys() == with_record.keys()
    assert without[xcoms.EXIT_CODE] == 4
    assert without[xcoms.APPLICATION_ID] == "local-2"
    assert (with_record[xcoms.REASON], "left no result record" in without[xcoms.REASON]) == (None, True)


def test_an_error_without_a_code_leaves_no_gap() -> None:
    ended = outcome.decide(1, record(1, error=result.RunError("", "p.yaml:1:1 E304 no column")))
    assert ended.reason == "the pipeline is not valid (exit 1): p.yaml:1:1 E304 no column"


@pytest.mark.parametrize(
    ("code", "message", "headline", "parameters"),
    [
        ("E902", "/o/a.csv exists already: use --force", "an output is there already", "`--force` is `force=True`"),
        (
            "E-SEC-001",
            "URI not allowed: use --allow-absolute-paths to override",
            "the pipeline is not valid",
            "`--allow-absolute-paths` is `allow_absolute_paths=True`",
        ),
        (
            "E901",
            "the master does not answer; --conf spark.x=… waits longer",
            "Spark could not be started",
            "an entry of `conf`",
        ),
        (
            "E901",
            "Spark needs a heap of 450 MiB, so give more: --conf spark.driver.memory=1g",
            "Spark could not be started",
            "`spark.driver.memory` is `driver_memory`",
        ),
        ("E221", "http://h/rows: HTTP 401", "a service could not be read", ""),
        ("E222", "the header has none of the columns", "a file does not have the declared columns", ""),
        ("E310", "raise memory.limit", "the run needs more memory than it has", "`memory.limit` is `memory_limit`"),
        ("E312", "raise --memory-limit", "the run needs more memory than it has", "`memory_limit`"),
        ("E910", "s3://b/k: refused", "an object store refused", ""),
        ("E911", "connection refused", "a database refused", ""),
    ],
)
def test_a_failure_has_its_own_headline_and_the_parameters_of_the_operator(
    code: str, message: str, headline: str, parameters: str
) -> None:
    exit_code = contract.ExitCode.CONFIG if code == "E-SEC-001" else contract.ExitCode.IO
    reason = outcome.decide(exit_code, record(exit_code, error=result.RunError(code, message))).reason
    assert reason.startswith(headline)
    assert f"{code} {message}" in reason
    assert parameters in reason
    assert ("In Airflow" in reason) == bool(parameters)


def test_words_that_are_no_options_of_a_run_are_not_explained() -> None:
    assert outcome.with_parameters("a--force b --forced my.memory.limit") == "a--force b --forced my.memory.limit"


@pytest.mark.parametrize("code", [-9, 137])
def test_a_job_that_the_kernel_may_have_ended_says_so(code: int) -> None:
    assert "memory was short" in outcome.decide(code, None).reason
    assert "memory was short" not in outcome.decide(-15, None).reason


@pytest.mark.parametrize(
    ("lines", "remedy"),
    [
        ("JAVA_HOME is not set", "install Java 17 or newer"),
        ("spark-class: line 71: /opt/no-java/bin/java: No such file or directory", "install Java 17 or newer"),
        ("java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main", "Java is too old"),
        ("There is insufficient memory for the Java Runtime Environment to continue.", "`driver_memory`"),
        ("Exception in thread main", ""),
    ],
)
def test_the_output_of_a_job_that_never_started_tells_the_remedy(lines: str, remedy: str) -> None:
    found = outcome.remedy_of(f"Last spark-submit output:\n{lines}")
    assert remedy in found
    assert bool(found) == bool(remedy)
