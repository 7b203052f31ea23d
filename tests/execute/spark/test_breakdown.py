"""What Spark's troubles and the engine's own bugs look like to whoever started the run."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract import ExitCode
from spark_jobs.execute import logs
from spark_jobs.execute.delivery.destination import Content
from spark_jobs.execute.delivery.local import joining
from spark_jobs.execute.run import breakdown
from spark_jobs.execute.spark import session
from spark_jobs.execute.tasks import spill
from spark_jobs.plan.options import RunOptions
from tests.execute import pipelines
from tests.waiting import until

if TYPE_CHECKING:
    from spark_jobs import result

ROOT = Path(__file__).resolve().parents[3]


class FromSpark(Exception):
    __module__ = "pyspark.errors.exceptions.captured"


class FromJvm(Exception):
    __module__ = "py4j.protocol"


def explained(error: Exception) -> result.RunError:
    exit_code, told = breakdown.explain(error, "/spill")
    assert exit_code == ExitCode.IO
    assert "\n" not in told.message
    return told


JVM = """An error occurred while calling o96.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, \
most recent failure: Lost task 0.0 in stage 1.0 (TID 2) (192.0.2.2 executor driver): {}
\tat org.apache.spark.api.python.BasePythonRunner.applyOrElse(PythonRunner.scala:704)
"""
WORKER = """
  An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "{}/spark_jobs/execute/tasks/task.py", line 12, in read
    found = known[name]
            ~~~~~^^^^^^
{}
"""


@pytest.mark.parametrize(
    ("cause", "says"),
    [
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider", "worker was killed"),
        ("java.lang.OutOfMemoryError: Java heap space", "ran out of memory: java.lang.OutOfMemoryError: Java heap"),
        ("java.io.IOException: Input/output error", "a job: java.io.IOException: Input/output error"),
    ],
)
def test_what_lost_a_task(cause: str, says: str) -> None:
    told = explained(FromJvm(JVM.format(cause)))
    assert told.code == "E904"
    assert says in told.message


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.IOException: No space left on device",
        "java.nio.file.FileSystemException: /spill/blockmgr-1/0c: Disk quota exceeded",
        "org.apache.spark.SparkException: Task failed\n\tat a\nCaused by: java.io.IOException: No space left on device",
    ],
)
def test_a_volume_that_spark_filled_is_the_spill_volume(cause: str) -> None:
    told = explained(FromJvm(JVM.format(cause)))
    assert (told.code, told.message) == ("E321", spill.volume_full("/spill"))


@pytest.mark.parametrize(
    "cause",
    [
        "java.nio.file.NoSuchFileException: /spill/own/blockmgr-1/03",
        "java.nio.file.FileSystemException: /spill/own/blockmgr-1/03: Read-only file system",
        "java.io.FileNotFoundException: /spill/own/blockmgr-1/03/shuffle_0_1_2.data (Permission denied)",
    ],
)
def test_a_folder_of_spark_that_is_gone_is_a_spill_folder(cause: str) -> None:
    told = explained(FromJvm(JVM.format(cause)))
    assert (told.code, told.message) == ("E900", spill.folder_gone("/spill/own", cause))


def test_too_many_open_files_are_no_folder_that_is_gone() -> None:
    cause = "java.io.FileNotFoundException: /spill/own/blockmgr-1/03/shuffle_0_1_2.data (Too many open files)"
    told = explained(FromJvm(JVM.format(cause)))
    assert told.code == "E904"
    assert "ulimit -n" in told.message


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "/spill"),
        ({"master": "local[2]"}, "/spill"),
        ({"spark_conf": {"spark.local.dir": "/other"}}, "/other"),
        ({"master": "spark://h:7077"}, "a folder of spark.local.dir"),
        ({"remote": "sc://h"}, "a folder of spark.local.dir"),
    ],
    ids=str,
)
def test_the_volume_is_the_one_that_spark_has(
    options: dict[str, Any], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert session.local_dir(RunOptions(**options), "/spill") == names
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert session.local_dir(RunOptions(**options), "/spill") == "a folder of spark.local.dir"


def test_without_a_lost_task_the_innermost_cause_is_told() -> None:
    text = (
        "An error occurred while calling o1.x.\n: java.lang.A: outer\n\tat b\nCaused by: java.lang.C: inner\n\tat d\n"
    )
    assert explained(FromJvm(text)).message.startswith("Spark could not finish a job: java.lang.C: inner; ")


@pytest.mark.parametrize("folder", ["/usr/lib/python3.11/site-packages", "/tmp/spark-1/userFiles-2/spark_jobs.zip"])
def test_a_bug_in_a_task_has_its_place(folder: str) -> None:
    told = explained(FromSpark(WORKER.format(folder, "KeyError: 'x'")))
    assert told.code == "E905"
    assert "internal error in a task: KeyError: 'x' (spark_jobs/execute/tasks/task.py:12 in read)" in told.message
    assert "--log-level debug" in told.message


def test_what_the_system_refuses_a_task_is_no_bug() -> None:
    told = explained(FromSpark(WORKER.format("/lib", "OSError: [Errno 28] No space left on device")))
    assert (told.code, "No space left" in told.message) == ("E900", True)


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        ("OSError: [Errno 24] Too many open files: '/in/a.csv'", "'/in/a.csv'; the limit of open files is too low"),
        ("spark_jobs.disk.locks.NoLocksError: [Errno 37] cannot be locked: use: '/x'", "cannot be locked: use: '/x'"),
        ("TimeoutError: [Errno 110] Connection timed out: '/nfs/a'", "'/nfs/a'"),
        ("OSError: a file of Arrow's is cut", "is cut"),
    ],
)
def test_what_the_system_refuses_is_told_with_its_path_and_what_to_do(raised: str, says: str) -> None:
    told = explained(FromSpark(WORKER.format("/lib", raised)))
    assert told.code == "E900"
    assert says in told.message


#: What Spark says of a Python that cannot start the process of the workers.
NO_MODULE = """An error occurred while calling o96.getResult.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, \
most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (192.0.2.2 executor 0): org.apache.spark.SparkException:
Error from python worker:
  Traceback (most recent call last):
    File "<frozen runpy>", line 198, in _run_module_as_main
    File "spark_jobs/execute/tasks/task.py", line 12, in <module>
  ModuleNotFoundError: No module named 'pyarrow'
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip:/opt/spark_jobs.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from the daemon's stdout.
"""


@pytest.mark.parametrize(
    "error",
    [
        FromJvm(NO_MODULE),
        FromSpark(WORKER.format("/lib", "ModuleNotFoundError: No module named 'pyarrow'").replace("spark_j", "pysp")),
    ],
    ids=["before the first task", "in a task"],
)
def test_a_worker_without_its_packages_is_told(error: Exception) -> None:
    told = explained(error)
    assert told.code == "E904"
    assert "the Python of a worker has no module 'pyarrow'; install " in told.message
    assert "spark.pyspark.python" in told.message


@pytest.mark.parametrize(
    "cause",
    [
        "org.apache.spark.SparkException: Job 0 cancelled because SparkContext was shut down",
        "org.apache.spark.SparkException: Job aborted due to stage failure: Master removed our application: FAILED",
    ],
)
def test_an_application_that_the_cluster_ended(cause: str) -> None:
    told = explained(FromJvm(f"An error occurred while calling o1.x.\n: {cause}\n\tat a\n"))
    assert told.code == "E904"
    assert told.message.startswith(f"the application was ended: {cause}; ")
    assert "master" in told.message


@pytest.mark.parametrize("memory", ["MemoryError", "pyarrow.lib.ArrowMemoryError: malloc of size 1 failed"])
def test_a_task_without_memory(memory: str) -> None:
    told = explained(FromSpark(WORKER.format("/lib", memory)))
    assert told.code == "E904"
    assert "a task ran out of memory" in told.message
    assert "memory.limit" in told.message


class Py4JError(Exception):
    """What py4j raises where a call that was sent has no outcome."""

    __module__ = "py4j.protocol"


@pytest.mark.parametrize(
    "lost",
    [ConnectionRefusedError(111, "Connection refused"), Py4JError("An error occurred while calling o105.getResult")],
)
def test_a_jvm_that_is_gone(lost: Exception) -> None:
    told = explained(lost)
    assert told.code == "E904"
    assert "its JVM has ended" in told.message
    assert "spark.driver.memory" in told.message


def test_a_call_that_the_jvm_refuses_is_no_lost_connection() -> None:
    told = explained(Py4JError("An error occurred while calling o9.x. Trace:\npy4j.Py4JException: no method x\n"))
    assert "its JVM has ended" not in told.message


def test_what_py4j_says_of_its_connections_is_a_detail(caplog: pytest.LogCaptureFixture) -> None:
    root, others = logging.getLogger(), logging.getLogger("others")
    before = root.filters[:]
    logs.quiet_gateway()
    place = (str(Path("/lib/py4j/java_gateway.py")), 1059)
    try:
        with caplog.at_level(logging.INFO):
            root.handle(logging.LogRecord("root", logging.ERROR, *place, "lost", None, None))
            others.error("kept")
        assert [record.getMessage() for record in caplog.records] == ["kept"]
        with caplog.at_level(logging.DEBUG, logger="clinker.run"):
            root.handle(logging.LogRecord("root", logging.ERROR, *place, "lost again", None, None))
        assert [record.getMessage() for record in caplog.records] == ["kept", "lost again"]
    finally:
        root.filters[:] = before


def test_so_is_the_end_of_the_jvm_that_pyspark_hears(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accumulators are told by a connection of their own, which ends where a number should come."""
    from pyspark import accumulators

    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        monkeypatch.setattr(server, "handle_error", server.handle_error)
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    logs.quiet_gateway()
    listening = accumulators._start_update_server("secret", False)
    try:
        with caplog.at_level(logging.DEBUG, logger="clinker.run"):
            with socket.create_connection(listening.server_address) as jvm:
                jvm.sendall(b"secret")
            (told,) = until(lambda: caplog.records)
        assert told.exc_info is not None
        assert told.exc_info[0] is EOFError
        assert capfd.readouterr().err == ""
    finally:
        listening.shutdown()


def test_a_bug_on_the_driver_has_its_place() -> None:
    def divide() -> None:
        joining.join(Content(), Path("/"))

    with pytest.raises(IsADirectoryError) as caught:
        divide()
    told = explained(TypeError("two\nlines").with_traceback(caught.value.__traceback__))
    assert told.code == "E905"
    assert told.message.startswith("internal error: TypeError: two (spark_jobs/execute/delivery/local/joining.py:")


# ---- with Spark --------------------------------------------------------------------------------------------------

PIPELINE = """
pipeline: {name: crash}
nodes:
  - type: source
    name: rows
    config: {name: rows, type: csv, path: rows.csv, schema: [{name: a, type: int}, {name: b, type: string}]}
  - {type: aggregate, name: sums, input: rows, config: {group_by: [b], cxl: "emit n = sum(a)"}}
  - {type: output, name: o1, input: rows, config: {name: o1, type: csv, path: out/rows.csv}}
  - {type: output, name: o2, input: sums, config: {name: o2, type: csv, path: out/sums.csv}}
"""
#: Imported by every Python process of the run. A task that opens a part file kills its worker; with a mark in place
#: only the first one does.
SITE = """
import builtins, os
real = builtins.open
def crash(path, mode="r", *others, **options):
    file = real(path, mode, *others, **options)
    if mode == "wb" and str(path).endswith(".part"):
        file.write(b"half")
        file.flush()
        try:
            if os.environ["CRASH"] != "always":
                os.close(os.open(os.environ["CRASH"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            file.seek(0)
            file.truncate()
            return file
        os.kill(os.getpid(), 9)
    return file
if os.environ.get("CRASH"):
    builtins.open = crash
"""


def crashing(folder: Path, crash: str, *options: str) -> subprocess.CompletedProcess[str]:
    rows = "a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(5000))
    pipelines.write(folder, {"pipeline.yaml": PIPELINE, "rows.csv": rows, "site/sitecustomize.py": SITE})
    environ = {
        **os.environ, "PYTHONPATH": f"{folder / 'site'}:{ROOT}", "CRASH": crash, "CLINKER_SPLIT_BYTES": "10000",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "spark_jobs", "run", "pipeline.yaml", *options],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
def test_a_killed_worker_ends_the_run_in_words(tmp_path: Path) -> None:
    ended = crashing(tmp_path, "always", "--master", "local[2]")
    assert ended.returncode == 4, ended.stderr
    assert "error[E904]: a Python worker was killed" in ended.stderr
    assert "ERROR Executor" not in ended.stderr, "what Spark logs is a detail"
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_a_killed_worker_is_replaced_where_spark_may_try_again(tmp_path: Path) -> None:
    """The part files that the killed one left are neither used nor kept."""
    mark = tmp_path / "killed"
    ended = crashing(tmp_path, str(mark), "--master", "local[2,4]")
    assert mark.exists(), "no worker was killed"
    assert ended.returncode == 0, ended.stderr
    published = pipelines.outputs(tmp_path)
    assert set(published) == {"rows.csv", "sums.csv"}
    assert published["rows.csv"] == (tmp_path / "rows.csv").read_bytes()
    expected = {str(group): sum(i for i in range(5000) if i % 7 == group) for group in range(7)}
    assert published["sums.csv"].decode() == "b,n\n" + "".join(f"{b},{n}\n" for b, n in expected.items())
