"""Which lines of `spark-submit` are noise: without Airflow."""

from __future__ import annotations

import logging

import pytest

from clinker_provider import output

INFO = "26/11/24 22:01:02 INFO TaskSetManager: Starting task 0.0 in stage 0.0 (TID 0) (10.0.0.1, executor 0)"


@pytest.mark.parametrize(
    "line",
    [
        INFO,
        "26/11/24 22:01:02 DEBUG BlockManager: Getting local block broadcast_0",
        "2026-11-24 22:01:02,123 INFO Client: Submitting application",
        "26/11/24 22:01:02 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform... using",
        "WARNING: Using incubator modules: jdk.incubator.vector",
        "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
        'Setting default log level to "WARN".',
        "To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).",
    ],
)
def test_what_spark_reports_of_a_healthy_run_is_noise(line: str) -> None:
    assert output.Noise().has(f"{line}\n")
    assert not output.Noise(is_hidden=False).has(f"{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "26/11/24 22:01:02 WARN TaskSchedulerImpl: Initial job has not accepted any resources",
        "26/11/24 22:01:02 ERROR StandaloneSchedulerBackend: Application has been killed.",
        'Exception in thread "main" java.io.IOException: No space left on device',
        "\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)",
        "WARNING: Using incubator modules: jdk.incubator.foreign",
        "WARNING: a line of the job",
        "2026-11-24 22:01:02 [info] clinker: reading",
        "Pipeline complete: 20 total, 20 ok, 20 written, 0 dlq",
        "  | qty: two, said INFO TaskSetManager: x",
        "",
    ],
)
def test_warnings_errors_and_what_the_job_says_are_kept(line: str) -> None:
    assert not output.Noise().has(f"{line}\n")


def test_a_report_may_have_more_lines_and_a_stack_behind_a_warning_is_kept() -> None:
    noise = output.Noise()
    lines = [
        "26/11/24 22:01:02 INFO Client: Application report",
        "\t client token: N/A",
        "\t user: me",
        "26/11/24 22:01:02 WARN TaskSetManager: Lost task",
        "\tat org.apache.Spark",
        "the job's own",
        "\tindented by a tab",
    ]
    assert [noise.has(line) for line in lines] == [True, True, True, False, False, False, False]


def test_blanks_in_front_stay() -> None:
    assert output.Indented("   ^ here  \n").strip() == "   ^ here"


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("WARNING W210: no file has the declared column 'qty'\n", logging.WARNING),
        ("warning[W210]: no file has the declared column\n", logging.WARNING),
        ("error[E216]: source 'rows': in.csv: file not found\n", logging.ERROR),
        ("INFO reading rows\n", None),
        ("WARNING: Using incubator modules\n", None),
        ("  5 | WARNING and error[E1] inside\n", None),
    ],
)
def test_warnings_and_errors_of_the_job_have_a_level(line: str, level: int | None) -> None:
    assert output.level_of(line) == level
