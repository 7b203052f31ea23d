"""The private parts of PySpark that start-up depends on are as they were; and runs go without, where that is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.spark import internals, session, shipping
from spark_jobs.execute.spark.embedded import class_archive
from spark_jobs.plan.options import RunOptions
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: rows, config: {name: rows, type: csv, path: rows.csv, schema: {k: string, n: int}}}
  - {type: aggregate, name: sums, input: rows, config: {group_by: [k], cxl: "emit total = sum(n)"}}
  - {type: output, name: o, input: sums, config: {name: o, type: csv, path: out/o.csv}}
"""


def test_pyspark_has_not_changed() -> None:
    """Where it has: `internals.py` is the one place to mend, and CLINKER_FAST_START=off is for the time until then."""
    assert internals.changes() == []


def test_what_pyspark_changes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext, daemon, java_gateway

    monkeypatch.delattr(SparkContext, "_gateway")
    monkeypatch.setattr(daemon, "worker", lambda sock: 0)
    monkeypatch.delattr(daemon, "manager")
    monkeypatch.setattr(java_gateway, "launch_gateway", connection)
    assert internals.changes() == [
        "SparkContext has no _gateway",
        "java_gateway.launch_gateway does not take conf",
        "daemon.worker does not take authenticated",
        "daemon.manager is gone",
        "java_gateway.launch_gateway does without `PYSPARK_GATEWAY_SECRET`",
        "java_gateway.launch_gateway does without `_PYSPARK_DRIVER_CONN_INFO_PATH`",
        "java_gateway.launch_gateway does without `read_int(info)`",
        "java_gateway.launch_gateway does without `UTF8Deserializer().loads(info)`",
        "java_gateway.launch_gateway does without `.proc = `",
    ]


def test_values_of_numpy_are_known_as_such_without_pandas() -> None:
    import numpy as np
    from pyspark.sql import types

    internals.preload()
    kinds = (np.int64(1), np.ones(2), np.ones((2, 2)), 1, [1], "a")
    assert [types.NumpyScalarConverter().can_convert(value) for value in kinds] == [True] + 5 * [False]
    assert [types.NumpyArrayConverter().can_convert(value) for value in kinds] == [False, True] + 4 * [False]


def connection() -> str:
    """Stands in for another way to connect."""
    return os.environ["PYSPARK_GATEWAY_PORT"]


def test_a_jvm_says_where_it_listens() -> None:
    assert internals.where((25333).to_bytes(4) + (6).to_bytes(4) + "söcr€".encode()) == ("25333", "söcr€")


def test_without_quick_starts_spark_forks_its_own_workers_and_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipping.DAEMON_SETTING in shipping.settings("local[2]", {})
    monkeypatch.setenv(internals.SWITCH_VARIABLE, "off")
    assert shipping.DAEMON_SETTING not in shipping.settings("local[2]", {})
    assert class_archive.path("/no/java") is None
    monkeypatch.setattr(session.launch.EARLY, "begin", lambda make: pytest.fail("a JVM is launched"))
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    session.begin(RunOptions())


def test_without_quick_starts_secrets_do_not_get_onto_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(session.SessionError, match=r"spark\.my\.password would stand on a command line"):
        session._check_no_secrets({"spark.master": "local[2]", "spark.my.password": "x"})


@pytest.mark.spark
def test_a_run_without_quick_starts_writes_the_same(tmp_path: Path) -> None:
    written = []
    for number, switch in enumerate(("on", "off")):
        folder = tmp_path / str(number)
        pipelines.write(folder, {"pipeline.yaml": PIPELINE, "rows.csv": "k,n\na,1\nb,2\na,3\n"})
        done = subprocess.run(
            [sys.executable, "-m", "spark_jobs", "run", str(folder / "pipeline.yaml"), "--quiet"],
            env={**os.environ, internals.SWITCH_VARIABLE: switch},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        written.append(pipelines.outputs(folder))
    assert written[0] == written[1] == {"o.csv": b"k,total\na,4\nb,2\n"}
