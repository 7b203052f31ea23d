"""How an embedded session's JVM is started."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.execute.spark import jvm

if TYPE_CHECKING:
    import pytest


def test_a_logging_configuration_of_the_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    option = "-Dlog4j2.configurationFile="
    assert option in jvm.settings()["spark.driver.extraJavaOptions"]
    (tmp_path / "log4j2.properties").touch()
    assert option not in jvm.settings()["spark.driver.extraJavaOptions"]


def test_what_spark_logs_is_shown_where_it_is_asked_for() -> None:
    option = "-Dclinker.spark.level=error"
    assert option not in jvm.settings()["spark.driver.extraJavaOptions"]
    assert option in jvm.settings(tells_errors=True)["spark.driver.extraJavaOptions"]
    configuration = Path(jvm.__file__).with_name("log4j2.properties").read_text()
    assert "rootLogger.level = ${sys:clinker.spark.level:-off}\n" in configuration


def launch_gateway(proc: subprocess.Popen[bytes], conn_info_dir: str, begun: threading.Event) -> None:
    """What PySpark's function of this name does while a JVM starts."""
    begun.set()
    try:
        while not proc.poll():
            time.sleep(0.01)
    finally:
        shutil.rmtree(conn_info_dir)


def test_a_jvm_that_starts_while_the_process_ends_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "words"
    folder.mkdir()
    begun = threading.Event()
    with subprocess.Popen(["sleep", "60"]) as process:
        waiting = threading.Thread(target=launch_gateway, args=(process, str(folder), begun), daemon=True)
        waiting.start()
        assert begun.wait(10)
        jvm.end_start()
        waiting.join(timeout=10)
        assert process.wait(timeout=10) == -signal.SIGKILL
    assert not folder.exists()


def test_nothing_is_ended_where_no_jvm_starts(tmp_path: Path) -> None:
    began = time.monotonic()
    with subprocess.Popen(["sleep", "60"]) as process:
        jvm.end_start()
        assert process.poll() is None
        process.kill()
    assert time.monotonic() - began < 1
