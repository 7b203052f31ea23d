"""How an embedded session's JVM is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.execute import java

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_logging_configuration_of_the_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    option = "-Dlog4j2.configurationFile="
    assert option in java.settings()["spark.driver.extraJavaOptions"]
    (tmp_path / "log4j2.properties").touch()
    assert option not in java.settings()["spark.driver.extraJavaOptions"]
