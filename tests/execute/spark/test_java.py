"""How an embedded session's JVM is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.execute.spark.embedded import jvm

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
    assert option in jvm.settings(logs_errors=True)["spark.driver.extraJavaOptions"]
    configuration = Path(jvm.__file__).with_name("log4j2.properties").read_text()
    assert "rootLogger.level = ${sys:clinker.spark.level:-off}\n" in configuration
